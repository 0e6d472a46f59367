#!/usr/bin/python3
"""The manifests in doc/kubernetes.md.

check [DIRECTORY]: they are YAML, what they refer to is there, and, with the directory of
CloudNativePG's definitions, they have only fields that are known, with values of the right
kind.  settings: the settings of the cluster that makes ids, as lines of postgresql.conf.
"""
import glob
import re
import sys

import yaml

text = open('doc/kubernetes.md').read()
manifests = [manifest for block in re.findall(r'^```yaml\n(.*?)^```', text, re.M | re.S)
             for manifest in yaml.safe_load_all(block)]
clusters = {m['metadata']['name']: m['spec'] for m in manifests if m['kind'] == 'Cluster'}
orders = clusters['orders']
failed = False


def check(name, condition):
    global failed
    failed |= not condition
    print(f"{'ok' if condition else 'not ok'} - manifests: {name}")


def unknown_fields(value, schema, path):
    """Fields that a schema does not know, which a JSON schema lets pass."""
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from unknown_fields(item, schema.get('items', {}), f'{path}[{i}]')
    elif isinstance(value, dict) and 'properties' in schema:
        for key, item in value.items():
            if key in schema['properties']:
                yield from unknown_fields(item, schema['properties'][key], f'{path}.{key}')
            else:
                yield f'{path}.{key}'


def check_by_definitions(directory):
    import jsonschema

    schemas = {}
    for name in glob.glob(directory + '/*.yaml'):
        for crd in yaml.safe_load_all(open(name)):
            for version in crd['spec']['versions']:
                key = (f"{crd['spec']['group']}/{version['name']}", crd['spec']['names']['kind'])
                schemas[key] = version['schema']['openAPIV3Schema']
    check('definitions are there', bool(schemas))
    for manifest in manifests:
        name = f"{manifest['kind']} {manifest['metadata']['name']}"
        schema = schemas.get((manifest['apiVersion'], manifest['kind']))
        if schema is None:
            check(f'{name} is defined', False)
            continue
        faults = [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(manifest)]
        schema['properties']['metadata'] = {}
        faults += unknown_fields(manifest, schema, name)
        for fault in faults:
            print('# ' + fault)
        check(f'{name} is as it is defined', not faults)


if sys.argv[1] == 'settings':
    postgresql = orders['postgresql']
    print("shared_preload_libraries = '%s'" % ', '.join(postgresql['shared_preload_libraries']))
    for name, value in postgresql['parameters'].items():
        print("%s = '%s'" % (name, value.replace("'", "''")))
    sys.exit()

check('all of them are', len(manifests) >= 4 and all(m['apiVersion'] and m['metadata']['name'] for m in manifests))
check('a value of a parameter is a text',
      all(isinstance(value, str) for c in clusters.values() for value in c['postgresql'].get('parameters', {}).values()))
check('databases are of a cluster',
      all(m['spec']['cluster']['name'] in clusters for m in manifests if m['kind'] == 'Database'))
# the connection string, the service, the database, the role and the files that it names
connection = dict(re.findall(r'(\w+)=(\S+)', orders['postgresql']['parameters']['snowflake.registry']))
registry = clusters[connection['host'].removesuffix('-rw')]
check('the registry has the database', any(
    m['kind'] == 'Database' and m['spec']['name'] == connection['dbname'] and
    'snowflake_registry' in [e['name'] for e in m['spec']['extensions']] for m in manifests))
check('and lets the role in', any(
    rule.split()[:3] == ['hostssl', connection['dbname'], connection['user']] for rule in registry['postgresql']['pg_hba']))
projected = {'/projected/' + item['path'] for source in orders['projectedVolumeTemplate']['sources']
             for item in source['secret']['items']}
check('files of the connection are mounted', {connection[k] for k in ('sslkey', 'sslcert', 'sslrootcert')} == projected)
# libpq wants the key of root to be readable by its group at most
check('and readable by the server only', orders['projectedVolumeTemplate']['defaultMode'] & 0o037 == 0)
if len(sys.argv) > 2 and sys.argv[2]:
    check_by_definitions(sys.argv[2])
sys.exit(failed)
