#!/bin/bash
#
# Run the examples in doc/clients for the tools of Node.js on npm: TypeORM, Drizzle,
# Sequelize, Prisma, MikroORM, Kysely, Postgres.js and node-postgres.  Each has a
# database of its own, which belongs to an ordinary role, and is tested for:
#
#	- ids that come back exactly in a row, nested in another one, and in JSON
#	- many rows inserted by one statement
#	- no difference between the model and the database, and a difference if the
#	  default is missing
#	- without a precaution of doc/clients/README.md, ids that lose digits
#	- a table that is adopted before its model is changed (TypeORM)
#	- masks that a program computes
#
# Prisma's own "migrate" and "db push" need a download from elsewhere; the same engine
# is run in its build for WebAssembly.
#
# usage: t/world/clients_npm.sh

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

command -v npm >/dev/null || need_packages npm
port=$((20000 + RANDOM % 10000))
umask 022
# All ids are odd and greater than 2^62, so that no JavaScript number can hold one.
start_throwaway_server <<END
listen_addresses = 'localhost'
port = $port
client_min_messages = warning
shared_preload_libraries = 'pg_stat_statements, snowflake'
snowflake.layout = 'time:41 sequence:12 worker:10 epoch:1990-01-01T00:00:00Z'
snowflake.worker_id = 1
END
export PGHOST=localhost PGPORT=$port
work=$throwaway/work
log=$throwaway/tool.log
status=0

# Versions are exact, as the file layout of some of these tools changes often.  Scripts
# of packages would download things; only that of "node" is needed.
install()
{
	npm install --loglevel=error --no-audit --no-fund --cache "$throwaway/npm" "$@" >"$throwaway/npm.log" 2>&1 ||
		{ cat "$throwaway/npm.log"; die "could not install ${*: -1}"; }
}

cp -R "$throwaway/source/doc/clients" "$work"
cp "$throwaway/source/t/world/prisma_engine.mjs" "$work/prisma"
install --prefix "$throwaway/node" node@22.23.3
install --prefix "$work" --ignore-scripts pg@8.23.1 typeorm@1.1.1 drizzle-orm@0.45.4 drizzle-kit@0.31.11 \
	sequelize@6.37.8 prisma@7.10.0 @prisma/client@7.10.0 @prisma/adapter-pg@7.10.0 \
	@prisma/schema-engine-wasm@7.10.0-4.0edf323efd1d98336f3f0a68684b56f689b900d3 \
	@mikro-orm/core@7.2.1 @mikro-orm/sql@7.2.1 @mikro-orm/postgresql@7.2.1 kysely@0.29.9 postgres@3.4.9 \
	@noble/ciphers@2.4.0
PATH=$throwaway/node/node_modules/.bin:$work/node_modules/.bin:$PATH
# "generate" asks for an engine that it does not run; and no update checks
export PRISMA_SCHEMA_ENGINE_BINARY=/bin/true PRISMA_HIDE_UPDATE_MESSAGE=1 CHECKPOINT_DISABLE=1

query()
{
	psql --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 --command="$1"
}

# Create a tool's database, and change to its examples.
begin()
{
	tool=$1 database=$2
	PGDATABASE=postgres query "CREATE DATABASE $database"
	export PGDATABASE=$database DATABASE_URL=postgresql://$PGUSER@$PGHOST:$port/$database
	query 'CREATE EXTENSION snowflake'
	cd "$work/${3-$database}"
}

# Run a tool.  Prints its output if it fails.
run()
{
	"$@" >"$log" 2>&1 </dev/null || { sed 's/^/# /' "$log"; return 1; }
}

# Run an example, which prints an id from a row, a nested id, and JSON.
check_example()
{
	local lines given

	run "$@" || true
	mapfile -t lines <"$log"
	given=$(query "SELECT id FROM orders WHERE item = 'tea' AND id > 2 ^ 62 AND id % 2 = 1") || given=
	check "$tool: an id in a row is exact" -n "$given" -a "${lines[0]-}" = "$given"
	check "$tool: a nested id is exact" -n "$given" -a "${lines[1]-}" = "$given"
	check "$tool: an id in JSON is exact" -n "$given" -a \
		"$(sed 's/.*"id":\("[0-9]*"\).*/\1/' <<<"${lines[2]-}")" = "\"$given\""
}

check_one_insert()
{
	check "$tool: three rows are inserted by one statement" "$(PGDATABASE=postgres PGUSER=postgres query "
			SELECT string_agg(calls || ' for ' || rows, ', ')
			FROM pg_stat_statements JOIN pg_database ON pg_database.oid = dbid
			WHERE datname = '$database'
				AND query ~* '^insert into (\"?public\"?\.)?\"?orders\"? ?\('")" = '1 for 3'
}

# Run an example without its precaution, and check that ids lose digits.
check_trap()
{
	local name=$1 lines
	shift

	run "$@" || true
	mapfile -t lines <"$log"
	check "$tool: $name" -n "${lines[1]-}" -a "${lines[0]-}" != "${lines[1]-}"
}

# Check the difference that the tool reports, with and without a default.
check_diff()
{
	local nothing=$1 found=no
	shift

	! run "$@" || ! grep -qxF -e "$nothing" "$log" || found=nothing
	[ $found = nothing ] || sed 's/^/# /' "$log"
	check "$tool: the database matches the model" $found = nothing
	query 'ALTER TABLE orders ALTER id DROP DEFAULT' || { status=1; return; }
	found=no
	! run "$@" || ! grep -qi '^alter table "orders" alter column "id" set default snowflake_id()' "$log" ||
		found=default
	check "$tool: a missing default is found" $found = default
	query 'ALTER TABLE orders ALTER id SET DEFAULT snowflake_id()'
}

query 'CREATE EXTENSION pg_stat_statements; CREATE ROLE shop LOGIN CREATEDB'
export PGUSER=shop
check "Node.js 22" "$(node --version | cut -d . -f 1)" = v22

begin TypeORM typeorm
run typeorm schema:sync --dataSource data-source.js || status=1
check_example node example.js
check_one_insert
check_diff 'Your schema is up to date - there are no queries to be executed by schema synchronization.' \
	typeorm schema:log --dataSource data-source.js
# Convert a table: the old model, the table, then the new model.
run typeorm schema:drop --dataSource data-source.js || status=1
sed "s/type: 'bigint', primary: true, default.*snowflake_id()'/type: 'int', primary: true, generated: true/" \
	data-source.js >old.js
run typeorm schema:sync --dataSource old.js || status=1
check "$tool: generated: true makes a serial" "$(query "SELECT pg_get_serial_sequence('orders', 'id')")" = public.orders_id_seq
query "INSERT INTO customers (name) VALUES ('Ada'); INSERT INTO orders (item, \"customerId\") VALUES ('milk', 1)" || status=1
run typeorm schema:log --dataSource data-source.js || status=1
check "$tool: changing the model first would drop the ids" "$(grep -cxF 'ALTER TABLE "orders" DROP COLUMN "id";' "$log")" = 1
query 'CREATE EXTENSION snowflake_adopt' || status=1
query "CALL snowflake_adopt_all('public', drop_sequence => true)" || status=1
run typeorm schema:log --dataSource old.js || status=1
check "$tool: so would the old model with an adopted table" "$(grep -cxF 'ALTER TABLE "orders" DROP COLUMN "id";' "$log")" = 1
check_diff 'Your schema is up to date - there are no queries to be executed by schema synchronization.' \
	typeorm schema:log --dataSource data-source.js
run typeorm schema:sync --dataSource data-source.js || status=1
check_example node example.js
check "$tool: old ids are kept" "$(query "SELECT id, \"customerId\" FROM orders WHERE item = 'milk'")" = '1|1'

begin Drizzle drizzle
run drizzle-kit push || status=1
check_example node example.mjs
check_one_insert
# without the import of the parsers
sed '/node_json/d' example.mjs >trap.mjs
check_trap 'without node_json.js, nested ids lose digits' node trap.mjs
run drizzle-kit pull --dialect postgresql --url "$DATABASE_URL" --out pulled || status=1
check "$tool: pull writes mode 'number'" "$(grep -c '^\s*id: bigint({ mode: "number" })' pulled/schema.ts)" = 2
check_diff '[i] No changes detected' drizzle-kit push --verbose --force

begin Sequelize sequelize
check_example node example.js
check_one_insert

begin Prisma prisma
run prisma generate || status=1
run node prisma_engine.mjs push || status=1
check_example node example.js
check_one_insert
sed 's/stringify(nested, .*/stringify(nested));/' example.js >trap.js
node trap.js >"$log" 2>&1 || true
check "$tool: JSON.stringify() of a BigInt fails" "$(grep -c '^TypeError: Do not know how to serialize a BigInt' "$log")" = 1
check_diff '-- This is an empty migration.' node prisma_engine.mjs diff

begin MikroORM mikroorm
cat >schema.mjs <<'END'
import { MikroORM } from '@mikro-orm/postgresql';
const { default: config } = await import(process.argv[2]);
const orm = await MikroORM.init(config);
console.log(await orm.schema[process.argv[3]](JSON.parse(process.argv[4] ?? '{}')) || 'nothing');
await orm.close();
END
run node schema.mjs ./mikro-orm.config.mjs update || status=1
check_example node example.mjs
check_one_insert
check_diff nothing node schema.mjs ./mikro-orm.config.mjs getUpdateSchemaSQL

begin Kysely kysely
check_example node example.mjs
check_one_insert
query 'DROP TABLE orders, customers' || status=1
# select the id without a cast
sed "s/cast('orders.id', 'text').as('id')/'orders.id'/" example.mjs >trap.mjs
check_trap 'without cast(), ids in jsonArrayFrom() lose digits' node trap.mjs

begin Postgres.js postgresjs
query 'CREATE TABLE customers (id bigint PRIMARY KEY DEFAULT snowflake_id(), name text);
	CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_id(), item text, customer_id bigint)'
check_example node example.mjs
check_one_insert
sed 's/id::text/id/' example.mjs >trap.mjs
check_trap 'without id::text, ids in JSON lose digits' node trap.mjs

begin node-postgres node .
check_example node node.js
check_one_insert

begin node_json.js node_json .
query 'CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_id(), item text)'
check_example node node_json_example.js
# without the parsers, which only this file requires
sed '/node_json/d' node_json_example.js >trap.js
query 'TRUNCATE orders'
check_trap 'without node_json.js, ids in JSON lose digits' node trap.js

# another implementation of FF1
psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --file="$throwaway/source/doc/mask.sql"
masked=$(query "SELECT string_agg(concat_ws(' ', id, mask_id(id, 'secret', 'orders'), mask_id(id, 'Schlüssel')), E'\n')
	FROM (SELECT (random() * 9e18)::bigint AS id FROM generate_series(1, 100)) AS s")
check "unmask.mjs: masks are those of @noble/ciphers" -n "$masked" -a "$masked" = "$(node --input-type=module --eval "
	import { readFileSync } from 'node:fs'
	const { mask, unmask } = await import('$work/unmask.mjs')
	for (const line of readFileSync(0, 'utf8').trim().split('\n')) {
		const [, first, second] = line.split(' ')
		const id = unmask(first, 'secret', 'orders')
		console.log(String(id), String(mask(id, 'secret', 'orders')), String(mask(unmask(second, 'Schlüssel'), 'Schlüssel')))
	}" <<<"$masked")"

exit "$status"
