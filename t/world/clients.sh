#!/bin/bash
#
# Run examples in doc/clients/ through pgbouncer in transaction mode, and Node.js with the
# layout js53.  Each prints the id that it was given first.
#
# usage: t/world/clients.sh

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

need_packages python3-psycopg default-jdk-headless libpostgresql-jdbc-java pgbouncer

port=$((20000 + RANDOM % 10000))
bouncer_port=$((port + 1))
umask 022
start_throwaway_server <<END
listen_addresses = 'localhost'
port = $port
END
clients=$PWD/source/doc/clients
need_node_pg
export PGHOST=localhost PGPORT=$port
status=0

query()
{
	psql --no-psqlrc --tuples-only --no-align --set=ON_ERROR_STOP=1 --command="$1"
}

# Run a client, and check whether it prints the id of its row.
check_client()
{
	local name=$1 id
	shift

	PGPORT=$port query 'SET client_min_messages = error; DROP TABLE IF EXISTS parcels, orders' >/dev/null
	"$@" >client.log 2>&1 || sed 's/^/# /' client.log
	id=$(sed -n 1p client.log)
	[[ $id =~ ^[0-9]+$ ]] || id=0
	check "$name" "$(PGPORT=$port query "SELECT count(*) FROM orders WHERE item = 'tea' AND id = $id
		AND abs(extract(epoch FROM snowflake_timestamp(id) - clock_timestamp())) < 60")" = 1
}

query 'CREATE EXTENSION snowflake' >/dev/null
sed "s/host=localhost/host=localhost port=$port/; s/^listen_port.*/listen_port = $bouncer_port/" \
	"$clients/pgbouncer.ini" >pgbouncer.ini
printf '%s\n' "pidfile = $PWD/pgbouncer.pid" "logfile = $PWD/pgbouncer.log" >>pgbouncer.ini
chmod 644 pgbouncer.ini
# it runs in the background, and must not outlive this script
as_user pgbouncer --daemon --quiet pgbouncer.ini
trap 'kill "$(cat "$throwaway/pgbouncer.pid")" || true; stop_throwaway_server' EXIT
for ((i = 0; i < 100; i++)); do
	! PGPORT=$bouncer_port query 'SELECT 1' >/dev/null 2>&1 || break
	sleep 0.1
done
export PGPORT=$bouncer_port
check_client psql psql --no-psqlrc --quiet --tuples-only --no-align --file="$clients/psql.sql"
check_client psycopg /usr/bin/python3 "$clients/psycopg3.py"
check_client Node.js node "$clients/node.js"
check_client JDBC java -cp /usr/share/java/postgresql.jar "$clients/Jdbc.java"
export PGPORT=$port

# Blocks: several callers at once, in two processes, while psql makes ids
node source/t/world/blocks/hand_out.js "$PWD/source/clients/node" blocks 1 0 50000 &
one=$!
PGPORT=$bouncer_port node source/t/world/blocks/hand_out.js "$PWD/source/clients/node" blocks 1 0 50000 &
two=$!
query 'SELECT snowflake_nextval() FROM generate_series(1, 50000)' >blocks.psql
wait "$one" "$two"
ids=$(cat blocks.* | wc -l)
different=$(sort -u blocks.* | wc -l)
check "Node.js, blocks, through pgbouncer, too: of $ids ids, $different are different" "$ids $different" = '150000 150000'

echo "snowflake.layout = 'js53'" >>"$throwaway/data/postgresql.conf"
query 'DROP EXTENSION snowflake CASCADE' >/dev/null 2>&1
as_user pg_ctl --pgdata="$throwaway/data" --log="$throwaway/log" --silent --wait --mode=fast restart
query 'CREATE EXTENSION snowflake' >/dev/null
check_client "Node.js, js53" node "$clients/node_js53.js"

exit "$status"
