#!/usr/bin/python3
"""Check the manifests in doc/servers, or print their settings.

check: they are valid YAML, and all references resolve.
settings: print the settings of the cluster that makes ids, as lines of postgresql.conf.
"""
import glob
import re
import sys

import yaml

manifests = [manifest for name in glob.glob('doc/servers/*.yaml') for manifest in yaml.safe_load_all(open(name))]
clusters = {m['metadata']['name']: m['spec'] for m in manifests if m['kind'] == 'Cluster'}
orders = clusters['orders']
failed = False


def check(name, condition):
    global failed
    failed |= not condition
    print(f"{'ok' if condition else 'not ok'} - manifests: {name}")


if sys.argv[1] == 'settings':
    postgresql = orders['postgresql']
    print("shared_preload_libraries = '%s'" % ', '.join(postgresql['shared_preload_libraries']))
    for name, value in postgresql['parameters'].items():
        print("%s = '%s'" % (name, value.replace("'", "''")))
    sys.exit()

check('there are at least four, with versions and names', len(manifests) >= 4 and all(m['apiVersion'] and m['metadata']['name'] for m in manifests))
check('values of parameters are strings',
      all(isinstance(value, str) for c in clusters.values() for value in c['postgresql'].get('parameters', {}).values()))
check('each database belongs to a cluster',
      all(m['spec']['cluster']['name'] in clusters for m in manifests if m['kind'] == 'Database'))
# what the connection string names: service, database, role and files
connection = dict(re.findall(r'(\w+)=(\S+)', orders['postgresql']['parameters']['snowflake.registry']))
registry = clusters[connection['host'].removesuffix('-rw')]
check('the registry has the database', any(
    m['kind'] == 'Database' and m['spec']['name'] == connection['dbname'] and
    'snowflake_registry' in [e['name'] for e in m['spec']['extensions']] for m in manifests))
check('the registry admits the role', any(
    rule.split()[:3] == ['hostssl', connection['dbname'], connection['user']] for rule in registry['postgresql']['pg_hba']))
projected = {'/projected/' + item['path'] for source in orders['projectedVolumeTemplate']['sources']
             for item in source['secret']['items']}
check('files of the connection are mounted', {connection[k] for k in ('sslkey', 'sslcert', 'sslrootcert')} == projected)
# libpq requires that a key owned by root is readable by its group at most
check('only the server can read them', orders['projectedVolumeTemplate']['defaultMode'] & 0o037 == 0)
sys.exit(failed)
