#!/bin/bash
#
# Run the extension on PostgreSQL 18 with TimescaleDB, two-phase commit, databases made of
# templates and random queries, while clients make ids, none of which may be made twice.
#
# usage: t/world/beside.sh, in the directory with the release that has 18
#
# script/test-world runs this, and installs what it needs.  SNOWFLAKE_SECONDS sets how long
# sqlsmith runs (default 120).

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

umask 022
start_throwaway_server <<END
shared_preload_libraries = 'timescaledb, snowflake, pg_stat_statements'
max_connections = 100
max_prepared_transactions = 10
fsync = off
timescaledb.telemetry_level = off
END
export HOME=$throwaway
here=$throwaway/source/t/world/beside
status=0
clients=()
trap 'end_clients; stop_throwaway_server' EXIT

# Run SQL, in the part's database unless other parameters of psql say otherwise.
query()
{
	local sql=$1
	shift

	psql --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 --command="$sql" "$@"
}

# Run SQL files whose checks print lines that begin with "ok" or "not ok".
run_files()
{
	local failed=

	psql --no-psqlrc --quiet --file="$here/check.sql" "${@/#/--file=}" >"$throwaway/out" 2>&1 || failed=yes
	grep -E '^(not )?ok - ' "$throwaway/out" || failed=yes
	if [ -n "$failed" ] || grep -q '^not ok - ' "$throwaway/out"; then
		grep -v '^ok - ' "$throwaway/out" | sed 's/^/# /' || true
		[ -z "$failed" ] || echo "not ok - beside: $PGDATABASE broke off"
		status=1
	fi
	[ -z "$failed" ]
}

# Run a client that repeats statements, wherever the server is, and keeps their output.
# Lines are long, so that few of them are left in the pipe when it ends.
run_client()
{
	while [ ! -e "$throwaway/stop" ]; do
		while [ ! -e "$throwaway/stop" ]; do
			printf '%-2000s\n' "$2" || break
		done 2>/dev/null |
			psql --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 "$1" || sleep 0.1
	done
}

# Run four clients that insert rows and keep the ids that they see.  Returns when they
# have made some.
start_clients()
{
	local client
	local place=${1:-dbname=$PGDATABASE}
	local sql=${2:-INSERT INTO orders SELECT FROM generate_series(1, 20) RETURNING id; SELECT FROM pg_sleep(0.002);}

	rm -f "$throwaway/stop" "$throwaway"/ids.* "$throwaway"/errors.*
	touch "$throwaway"/{ids,errors}.{1..4}
	for client in 1 2 3 4; do
		run_client "$place" "$sql" >"$throwaway/ids.$client" 2>"$throwaway/errors.$client" &
		clients+=($!)
	done
	wait_for_ids 2000
}

# Wait until the clients have made a number of further ids.
wait_for_ids()
{
	local tries before

	before=$(cat "$throwaway"/ids.* | wc -l)
	for tries in {1..1200}; do
		[ "$(cat "$throwaway"/ids.* | wc -l)" -lt $((before + $1)) ] || return 0
		sleep 0.1
	done
	sort --unique "$throwaway"/errors.* | head -n 20
	die "clients have not made $1 ids after $tries tries"
}

end_clients()
{
	touch "$throwaway/stop"
	[ ${#clients[@]} -eq 0 ] || wait "${clients[@]}" || true
	clients=()
}

# End the clients, and check the ids that they have seen.
check_clients()
{
	local ids duplicates

	end_clients
	sed -n -E '/^[0-9]+$/p' "$throwaway"/ids.* | sort >"$throwaway/seen"
	ids=$(wc -l <"$throwaway/seen")
	duplicates=$((ids - $(sort --unique "$throwaway/seen" | wc -l)))
	echo "# $1: $ids ids, $duplicates duplicates"
	check "$1: no id is made twice" "$duplicates" -eq 0
}

# Do the same, and check that there were no errors, and that all rows are in a table of
# the part's database.
check_rows()
{
	check_clients "$1"
	cat "$throwaway"/errors.* | sed 's/^/# /'
	check "$1: clients see no errors" -z "$(cat "$throwaway"/errors.*)"
	query "COPY (SELECT id FROM ${2:-orders}) TO STDOUT" | sort >"$throwaway/rows"
	check "$1: all rows are in the table" -z "$(comm -23 "$throwaway/seen" "$throwaway/rows")"
	check "$1: all rows have different ids" -z "$(uniq --repeated "$throwaway/rows")"
}

# Create a database for a part, with the extension and a table.
new_database()
{
	query "CREATE DATABASE $1" --dbname=postgres
	export PGDATABASE=$1
	query "CREATE EXTENSION snowflake"
	query "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text)"
}


# The guide's statements about PostgreSQL itself, and 18
part_core()
{
	run_files "$here/core.sql"
}

# The guide's recipe, then all clients at once
part_timescaledb()
{
	sed -n '/^```sql with TimescaleDB$/,/^```$/p' source/doc/guide.md | grep -v '^```' >recipe.sql
	query 'DROP TABLE orders'
	run_files recipe.sql "$here/timescaledb.sql" || return 1
	start_clients "" "INSERT INTO measurements SELECT FROM generate_series(1, 20) RETURNING id;"
	for _ in {1..20}; do
		seq 1 1000 | query 'COPY measurements (value) FROM stdin'
		query "MERGE INTO measurements AS m USING generate_series(1, 1000) AS g ON m.id = g
			WHEN NOT MATCHED THEN INSERT (value) VALUES (g)"
		query "SELECT drop_chunks('measurements', older_than => snowflake_first_from(now() - interval '3 days'))" >/dev/null
	done
	check_rows "TimescaleDB" measurements
	check "COPY and MERGE have made their rows" "$(query 'SELECT count(*) FROM measurements WHERE value > 0')" -ge 40000
}

# Two-phase commit, across a crash.
part_prepared()
{
	local before

	query "BEGIN; INSERT INTO orders (item) SELECT 'prepared' FROM generate_series(1, 1000); PREPARE TRANSACTION 'first'"
	query "BEGIN; INSERT INTO orders (item) SELECT 'rolled back' FROM generate_series(1, 1000); PREPARE TRANSACTION 'second'"
	start_clients "" "BEGIN;
		INSERT INTO orders SELECT FROM generate_series(1, 20) RETURNING id;
		SELECT format('PREPARE TRANSACTION %L', pg_backend_pid()) \\gexec
		SELECT format('COMMIT PREPARED %L', pg_backend_pid()) \\gexec"
	wait_for_ids 5000
	check_rows "two-phase commit"
	before=$(query 'SELECT max(id) FROM orders')
	pg_ctl --pgdata="$throwaway/data" --silent --mode=immediate stop
	pg_ctl --pgdata="$throwaway/data" --log="$throwaway/log" --silent --wait start
	check "two-phase commit: ids after a crash are greater" "$(query 'SELECT snowflake_nextval()')" -gt "$before"
	query "COMMIT PREPARED 'first'"
	query "ROLLBACK PREPARED 'second'"
	check "two-phase commit: prepared rows are in the table" "$(query "SELECT count(*) FROM orders WHERE item = 'prepared'")" = 1000
	check "two-phase commit: all ids differ" "$(query 'SELECT count(*) - count(DISTINCT id) FROM orders')" -eq 0
}

# Copies of a template with the extension, by either strategy; the template was used
# before.
part_templates()
{
	local name database tries

	query "INSERT INTO orders SELECT FROM generate_series(1, 1000)"
	query "ALTER DATABASE templates IS_TEMPLATE true" --dbname=postgres
	for name in wal_log file_copy; do
		# Background workers of preloaded libraries look into each database now and
		# then, but a database that is copied must have no sessions.  Each try waits for
		# five seconds.
		for tries in {1..12}; do
			! query "CREATE DATABASE from_$name TEMPLATE templates STRATEGY $name" --dbname=postgres || break
		done
		[ "$tries" -eq 1 ] || echo "# from_$name: $tries tries"
	done
	query "ALTER DATABASE templates IS_TEMPLATE false" --dbname=postgres
	for database in templates from_wal_log from_file_copy; do
		query 'INSERT INTO orders SELECT FROM generate_series(1, 100000)' --dbname=$database &
		clients+=($!)
	done
	wait "${clients[@]}"
	clients=()
	for database in templates from_wal_log from_file_copy; do
		query "COPY (SELECT id FROM orders WHERE id > (SELECT id FROM orders ORDER BY id OFFSET 999 LIMIT 1)) TO STDOUT" --dbname=$database
	done >rows
	check "templates: databases from one template make different ids" "$(sort --unique rows | wc -l)" = 300000
}

# Random queries, by a role that owns the database
part_sqlsmith()
{
	local seconds=${SNOWFLAKE_SECONDS:-120} before crashes internal run

	query "CREATE ROLE smith LOGIN; ALTER ROLE smith SET statement_timeout = '1s'; ALTER DATABASE sqlsmith OWNER TO smith"
	query 'ALTER TABLE orders OWNER TO smith; INSERT INTO orders SELECT FROM generate_series(1, 100)'
	query 'ALTER DATABASE sqlsmith SET log_error_verbosity = verbose'
	query 'CREATE TABLE kept AS SELECT max(id) AS id FROM orders'
	# a lock for each row of a query can take all room for locks from the clients
	query "DO \$\$DECLARE f regprocedure; BEGIN
		FOR f IN SELECT oid FROM pg_proc WHERE proname ~ '^pg_(try_)?advisory_|^lo_' LOOP
			EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
		END LOOP; END\$\$"
	start_clients
	query 'CREATE EXTENSION pg_stat_statements'
	before=$(wc -l <"$throwaway/log")
	timeout "$seconds" sqlsmith --target="host=$throwaway dbname=sqlsmith user=smith" --exclude-catalog \
		--verbose >sqlsmith.log 2>&1 || true
	run=$(query "SELECT sum(calls) FROM pg_stat_statements JOIN pg_roles ON pg_roles.oid = userid WHERE rolname = 'smith'")
	echo "# sqlsmith: $run of its queries had no errors"
	wait_for_ids 1000
	crashes=$(tail -n "+$before" "$throwaway/log" | grep -cE 'terminated by signal|PANIC' || true)
	internal=$(tail -n "+$before" "$throwaway/log" | grep -A 4 'ERROR:  XX000' | grep -c 'LOCATION:.*\(snowflake\|\.\./src\)' || true)
	check "sqlsmith: many queries were run" "${run:-0}" -gt 100
	check "sqlsmith: no backend crashes" "$crashes" -eq 0
	check "sqlsmith: no internal error comes from the extension" "$internal" -eq 0
	check_rows sqlsmith
}

# Run a part in a subshell, so that it does not affect others if it breaks off.
run_part()
(
	status=0
	clients=()
	trap end_clients EXIT
	new_database "$1"
	"part_$1"
	exit "$status"
)

for part in core timescaledb prepared templates sqlsmith; do
	stage run_part "$part"
done
check "no server process crashes" "$(grep -cE 'terminated by signal|PANIC|TRAP' "$throwaway/log")" -eq 0
exit "$status"
