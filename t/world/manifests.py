#!/usr/bin/python3
"""Check the manifests in doc/servers, or print their settings.

check [DIRECTORY]: they are valid YAML, all references resolve, and, given the directory of
CloudNativePG's definitions, they have only known fields, with values of the right type.
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
    check('there are definitions', bool(schemas))
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
        check(f'{name} matches its definition', not faults)


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
if len(sys.argv) > 2 and sys.argv[2]:
    check_by_definitions(sys.argv[2])
sys.exit(failed)
