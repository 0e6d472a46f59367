#!/bin/bash
#
# Run the examples in doc/clients/: real drivers with a real server, directly and
# through pgbouncer in transaction mode.  Each prints the id that it was given.
#
# usage: t/world/clients.sh

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

need_packages python3-psycopg python3-psycopg2 python3-sqlalchemy python3-django \
	default-jdk-headless libpostgresql-jdbc-java pgbouncer

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
	local name=$1 id found
	shift

	if id=$("$@" 2>error.log | sed -n 1p) && [[ $id =~ ^[0-9]+$ ]] &&
		found=$(PGPORT=$port query "SELECT count(*) FROM orders WHERE item = 'tea' AND id = $id
			AND abs(extract(epoch FROM snowflake_timestamp(id) - clock_timestamp())) < 60") &&
		[ "$found" = 1 ]; then
		echo "ok - $name"
	else
		echo "not ok - $name: ${id-}"
		cat error.log
		status=1
	fi
}

# Run the clients that need an existing table.
check_all()
{
	local how=$1

	check_client "psql$how" psql --no-psqlrc --quiet --tuples-only --no-align --file="$clients/psql.sql"
	check_client "psycopg$how" /usr/bin/python3 "$clients/psycopg3.py"
	check_client "Node.js$how" node "$clients/node.js"
	check_client "JDBC$how" java -cp /usr/share/java/postgresql.jar "$clients/Jdbc.java"
}

# Run a client that creates the table, and check that it has the default.
check_model()
{
	query 'DROP TABLE IF EXISTS orders' >/dev/null 2>&1
	check_client "$1" /usr/bin/python3 "$2"
	if [ "$(query "SELECT format_type(atttypid, atttypmod), pg_get_expr(adbin, adrelid)
			FROM pg_attribute JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
			WHERE attrelid = 'orders'::regclass AND attname = 'id'")" = 'bigint|snowflake_id()' ]; then
		echo "ok - $1: the key is a bigint that the server makes"
	else
		echo "not ok - $1: the key is a bigint that the server makes"
		status=1
	fi
}

query 'CREATE EXTENSION snowflake' >/dev/null
check_model SQLAlchemy "$clients/sqlalchemy_model.py"
check_model Django "$clients/django_model.py"

# A model that does not define its key
cat >default_auto_field.py <<END
import django_model
from django.conf import settings
settings.DEFAULT_AUTO_FIELD = "django_model.SnowflakeField"
from django.db import connection, models
class Parcel(models.Model):
    order = models.ForeignKey(django_model.Order, models.CASCADE)
    class Meta: app_label, db_table = "shop", "parcels"
with connection.schema_editor() as editor:
    editor.create_model(Parcel)
print(Parcel.objects.create(order=django_model.Order.objects.get()).id)
END
query 'DROP TABLE orders' >/dev/null
id=$(PYTHONPATH=$clients /usr/bin/python3 default_auto_field.py 2>error.log | sed -n 2p) || cat error.log
found=$(query "SELECT string_agg(format('%s %s %s', attname, format_type(atttypid, atttypmod), pg_get_expr(adbin, adrelid)), ', ' ORDER BY attnum)
	FROM parcels, pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
	WHERE attrelid = 'parcels'::regclass AND attnum > 0 AND id = ${id:-0}") || true
if [ "$found" = 'id bigint snowflake_id(), order_id bigint ' ]; then
	echo "ok - Django, DEFAULT_AUTO_FIELD"
else
	echo "not ok - Django, DEFAULT_AUTO_FIELD: $id"
	status=1
fi
query 'DROP TABLE parcels' >/dev/null

query "DROP TABLE orders; CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text)" >/dev/null
check_all ""

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
PGPORT=$bouncer_port check_all ", through pgbouncer"

# Blocks: several callers at once, in two processes, while psql makes ids
node source/t/world/blocks/hand_out.js "$clients" blocks 1 0 50000 &
one=$!
PGPORT=$bouncer_port node source/t/world/blocks/hand_out.js "$clients" blocks 1 0 50000 &
two=$!
query 'SELECT snowflake_nextval() FROM generate_series(1, 50000)' >blocks.psql
wait "$one" "$two"
ids=$(cat blocks.* | wc -l)
different=$(sort -u blocks.* | wc -l)
if [ "$ids" -eq 150000 ] && [ "$different" -eq 150000 ]; then
	echo "ok - Node.js, blocks, through pgbouncer, too: $ids ids, all different"
else
	echo "not ok - Node.js, blocks, through pgbouncer, too: $ids ids, $different different"
	status=1
fi

echo "snowflake.layout = 'js53'" >>"$throwaway/data/postgresql.conf"
query 'DROP EXTENSION snowflake CASCADE' >/dev/null 2>&1
as_user pg_ctl --pgdata="$throwaway/data" --log="$throwaway/log" --silent --wait --mode=fast restart
query 'DROP TABLE orders; CREATE EXTENSION snowflake; CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text)' >/dev/null
check_client "Node.js, js53" node "$clients/node_js53.js"

exit "$status"
