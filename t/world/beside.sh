#!/bin/bash
#
# Test other software for PostgreSQL 18 along with the extension: that it works, and,
# where ids are made meanwhile, that none is made twice.  All of it comes from Debian,
# and is installed in the directory with the release that has 18.
#
# The parts run on one server, which preloads all libraries that can be, each in a
# database of its own; except promotions, recoveries, copies and backups, which are Perl
# tests with servers of their own.  PARTS are some of the names below, by default all of
# them.
#
# usage: t/world/beside.sh [PART ...], as root
#
# SNOWFLAKE_SECONDS sets how long sqlsmith runs (default 60).

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

all=(core timescaledb decoding repack squeeze rewrite ivm pgtt plproxy cron extwlist partman
	pgcopydb prepared templates pgpool pgbackrest failover sqlsmith)
perl_tests=(promotions recoveries copies backups)

if [ -z "${SNOWFLAKE_RELEASE-}" ]; then
	[ "$(id -u)" -eq 0 ] || die "needs root"
	[ $# -gt 0 ] || set -- "${all[@]}" "${perl_tests[@]}"
	parts=() tests=() status=0
	for part in "$@"; do
		if [[ " ${perl_tests[*]} " == *" $part "* ]]; then
			tests+=("t/world/$part.pl")
		elif [[ " ${all[*]} " == *" $part "* ]]; then
			parts+=("$part")
		else
			die "part $part is none of ${all[*]} ${perl_tests[*]}"
		fi
	done
	need_packages debootstrap
	make_release 18
	if [ ${#tests[@]} -gt 0 ]; then
		SNOWFLAKE_JOBS=1 stage run_in_release 18 script/check 18 "${tests[@]}"
	fi
	[ ${#parts[@]} -gt 0 ] || exit "$status"

	packages=(auto-failover credcheck cron decoderbufs partman pg-failover-slots pg-hint-plan pg-ivm
		pg-qualstats pg-rewrite pg-stat-kcache pg-wait-sampling pgaudit pgextwlist pglogical pgsentinel
		pgtt plpgsql-check plprofiler plproxy repack set-user squeeze timescaledb wal2json)
	log=$(mktemp)
	trap 'rm -f "$log"' EXIT
	# TCP ports of our own
	need_packages iproute2
	{
		chroot "$(release_dir 18)" apt-get -q update &&
			chroot "$(release_dir 18)" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
				apt-get -q -y --no-install-recommends install "${packages[@]/#/postgresql-18-}" \
				pg-auto-failover-cli pgbackrest pgcopydb pgpool2 sqlsmith
	} >"$log" 2>&1 || { cat "$log"; die "could not install the packages to be tested"; }
	# pgextwlist looks for extensions only in the directory of installed ones
	place=$(mktemp --directory "$(release_dir 18)/var/tmp/snowflake-beside.XXXXXX")
	trap 'rm -rf "$log" "$place"' EXIT
	cp snowflake.control snowflake--*.sql registry/*.control registry/*.sql "$place"
	chmod -R go=rX "$place"
	# shellcheck disable=SC2016
	unshare --net --mount bash -euo pipefail -c '
		. script/lib.sh
		ip link set lo up
		installed=$(release_dir 18)/usr/share/postgresql/18/extension
		mount -t overlay -o lowerdir="$0:$installed" overlay "$installed"
		run_in_release 18 t/world/beside.sh "$@"' "$place" "${parts[@]}" || status=1
	exit "$status"
fi

# without pg_show_plans, which crashes together with TimescaleDB, even without the
# extension
libraries=(timescaledb snowflake pg_stat_statements pg_stat_kcache pg_wait_sampling pg_qualstats
	pg_hint_plan pgaudit pgsentinel credcheck set_user plprofiler plpgsql_check
	pg_failover_slots pglogical pg_cron pg_squeeze pg_rewrite auto_explain auth_delay pg_prewarm
	pgautofailover)
umask 022
start_throwaway_server <<END
shared_preload_libraries = '$(IFS=,; echo "${libraries[*]}")'
output_plugin_libraries = 'pgoutput, test_decoding, wal2json, decoderbufs, pglogical_output, pg_squeeze, pg_rewrite'
max_connections = 100
max_prepared_transactions = 10
max_replication_slots = 20
max_wal_senders = 20
max_worker_processes = 40
wal_level = logical
wal_log_hints = on
archive_mode = on
archive_command = 'true'
fsync = off
cron.database_name = 'cron'
cron.use_background_workers = on
timescaledb.telemetry_level = off
END
export HOME=$throwaway
here=$throwaway/source/t/world/beside
status=0
clients=()
trap 'end_clients; stop_others; stop_throwaway_server' EXIT

# Stop the servers that a part has started, and its other background processes.
stop_others()
{
	local data pid

	for data in "$throwaway"/*/postmaster.pid; do
		[ ! -e "$data" ] || [ "$data" = "$throwaway/data/postmaster.pid" ] ||
			pg_ctl --pgdata="$(dirname "$data")" --silent --mode=immediate stop || true
	done
	for pid in "$throwaway"/*.pid; do
		[ ! -e "$pid" ] || kill "$(head -n 1 "$pid")" 2>/dev/null || true
	done
}

# Run SQL, in the part's database unless other parameters of psql say otherwise.
query()
{
	local sql=$1
	shift

	psql --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 --command="$sql" "$@"
}

# Run a command, showing what it says only if it fails.
quietly()
{
	"$@" >"$throwaway/quiet.log" 2>&1 || { sed 's/^/# /' "$throwaway/quiet.log"; return 1; }
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

# Wait until a statement returns true.
wait_for()
{
	local tries

	for tries in {1..1200}; do
		[ "$(query "$@" 2>/dev/null)" != t ] || return 0
		sleep 0.1
	done
	die "not after $tries tries: $1"
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

# Output plugins must send the ids of the rows.
part_decoding()
{
	local plugin options

	run_files "$here/decoding.sql" || return 1
	for plugin in test_decoding wal2json decoderbufs; do
		query "SELECT FROM pg_create_logical_replication_slot('$plugin', '$plugin')"
	done
	start_clients
	wait_for_ids 5000
	check_rows decoding
	for plugin in test_decoding wal2json decoderbufs; do
		case $plugin in
			wal2json) options=", 'format-version', '2', 'include-transaction', 'off'" ;;
			decoderbufs) options=", 'debug-mode', '1'" ;;
			*) options=", 'skip-empty-xacts', '1'" ;;
		esac
		# no other numbers are as long as an id
		query "COPY (SELECT data FROM pg_logical_slot_get_changes('$plugin', NULL, NULL$options)) TO STDOUT" |
			grep -oE '\b[0-9]{17,19}\b' | sort --unique >"$plugin" || true
		check "$plugin sends all ids" -z "$(comm -23 seen "$plugin")" -a -s "$plugin"
		query "SELECT FROM pg_drop_replication_slot('$plugin')"
	done
}

# Fill a table, half of it with dead rows, so that there is work to do.
fill_orders()
{
	query "INSERT INTO orders (item) SELECT 'tea' FROM generate_series(1, 100000)"
	query "DELETE FROM orders WHERE snowflake_sequence(id) % 2 = 0"
}

part_repack()
{
	local file

	fill_orders
	query 'CREATE EXTENSION pg_repack'
	file=$(query "SELECT pg_relation_filenode('orders')")
	start_clients
	quietly pg_repack --dbname=repack --table=orders --no-superuser-check
	wait_for_ids 1000
	check "pg_repack has rewritten the table" "$(query "SELECT pg_relation_filenode('orders')")" != "$file"
	check_rows pg_repack
}

part_squeeze()
{
	local file

	fill_orders
	query 'CREATE EXTENSION pg_squeeze'
	file=$(query "SELECT pg_relation_filenode('orders')")
	start_clients
	query "SELECT squeeze.squeeze_table('public', 'orders')" >/dev/null
	wait_for_ids 1000
	check "pg_squeeze has rewritten the table" "$(query "SELECT pg_relation_filenode('orders')")" != "$file"
	check_rows pg_squeeze
}

# A plain table becomes partitioned.
part_rewrite()
{
	fill_orders
	query 'CREATE EXTENSION pg_rewrite'
	query 'CREATE TABLE orders_new (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text) PARTITION BY RANGE (id)'
	query "SELECT FROM snowflake_create_partitions('orders_new', '1 day', now() - interval '1 day', now() + interval '2 days')"
	start_clients
	query "SELECT rewrite_table('orders', 'orders_new', 'orders_old')" >/dev/null
	wait_for_ids 1000
	check "pg_rewrite has rewritten the table" "$(query "SELECT relkind FROM pg_class WHERE relname = 'orders'")" = p
	check_rows pg_rewrite
}

part_ivm()
{
	run_files "$here/ivm.sql" || return 1
	start_clients "" "INSERT INTO orders (item) SELECT 'tea' FROM generate_series(1, 20) RETURNING id;"
	check_rows pg_ivm
	check "pg_ivm: the view counts the rows" "$(query "SELECT count FROM items WHERE item = 'tea'")" = \
		"$(query "SELECT count(*) FROM orders WHERE item = 'tea'")"
}

part_pgtt()
{
	run_files "$here/pgtt.sql" || return 1
	start_clients "options='-c session_preload_libraries=pgtt' dbname=pgtt" \
		"INSERT INTO baskets SELECT FROM generate_series(1, 20) RETURNING id;"
	check_clients pgtt
	check "pgtt: clients see no errors" -z "$(cat "$throwaway"/errors.*)"
}

# Two shards behind a third database, with functions that run in either
part_plproxy()
{
	local shard

	for shard in shard_0 shard_1; do
		new_database $shard
		query "CREATE FUNCTION add_order(item text) RETURNS SETOF bigint LANGUAGE sql
			AS 'INSERT INTO orders (item) VALUES (item) RETURNING id'"
	done
	export PGDATABASE=plproxy
	sed "s,HOST,$throwaway,g" "$here/plproxy.sql" >plproxy.sql
	run_files plproxy.sql || return 1
	start_clients "" "SELECT add_order(i::text) FROM generate_series(1, 20) AS i;"
	check_clients plproxy
	check "plproxy: clients see no errors" -z "$(cat "$throwaway"/errors.*)"
	for shard in shard_0 shard_1; do
		query "COPY (SELECT id FROM orders) TO STDOUT" --dbname=$shard
	done | sort >rows
	check "plproxy: all rows are in the shards" -z "$(comm -23 seen rows)" -a -z "$(uniq --repeated rows)"
}

# A job that creates partitions in advance
part_cron()
{
	query 'CREATE EXTENSION pg_cron'
	query 'CREATE TABLE events (id bigint PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id)'
	query "SELECT cron.schedule('partitions', '1 second',
		\$\$SELECT * FROM snowflake_create_partitions('events', '1 day', now(), now() + interval '7 days')\$\$)" >/dev/null
	query "SELECT cron.schedule('orders', '1 second', 'INSERT INTO orders DEFAULT VALUES')" >/dev/null
	wait_for "SELECT count(*) > 1 FROM orders"
	wait_for "SELECT count(*) >= 7 FROM snowflake_partitions('events')"
	query 'INSERT INTO events DEFAULT VALUES'
	check "pg_cron: no job fails" "$(query "SELECT count(*) FROM cron.job_run_details WHERE status = 'failed'")" -eq 0
	query "SELECT cron.unschedule(jobid) FROM cron.job" >/dev/null
}

# A role that owns nothing installs extensions on the list, even untrusted ones.
part_extwlist()
{
	query 'DROP EXTENSION snowflake CASCADE' 2>/dev/null
	query 'CREATE ROLE tenant LOGIN'
	query "ALTER DATABASE extwlist SET session_preload_libraries = pgextwlist"
	query "ALTER ROLE tenant SET extwlist.extensions = 'snowflake,snowflake_registry'"
	query 'GRANT CREATE ON SCHEMA public TO tenant'
	query 'CREATE EXTENSION snowflake; CREATE EXTENSION snowflake_registry' --username=tenant
	check "pgextwlist: an ordinary role makes ids" "$(query \
		"SELECT count(DISTINCT snowflake_nextval()) FROM generate_series(1, 1000)" --username=tenant)" = 1000
	check "pgextwlist: both extensions are installed" "$(query \
		"SELECT count(*) FROM pg_extension WHERE extname LIKE 'snowflake%'")" = 2
	query 'DROP EXTENSION snowflake' --username=tenant
	query 'CREATE EXTENSION pg_trgm' --username=tenant 2>error || true
	check "pgextwlist: other extensions are refused" "$(grep -c 'whitelisted\|permission denied' error)" -ge 1
}

part_partman()
{
	run_files "$here/partman.sql"
	query 'CREATE DATABASE partman_5' --dbname=postgres
	export PGDATABASE=partman_5
	psql --no-psqlrc --quiet --file=source/t/world/pg_partman.sql >out 2>&1 || status=1
	! grep -qv '^ok - ' out || status=1
	cat out
}

# A copy of a database, with and without its mark
part_pgcopydb()
{
	local target mark

	query "INSERT INTO orders (item) SELECT 'tea' FROM generate_series(1, 1000)"
	query "SELECT snowflake_advance(snowflake_first_from(now() + interval '2 seconds'))" >/dev/null
	mark=$(query 'SELECT last_value FROM snowflake_internal.mark')
	for target in whole skipped; do
		query "CREATE DATABASE $target" --dbname=postgres
	done
	query 'CREATE EXTENSION snowflake' --dbname=skipped
	export PGCOPYDB_SOURCE_PGURI="host=$throwaway dbname=pgcopydb" TMPDIR=$throwaway
	PGCOPYDB_TARGET_PGURI="host=$throwaway dbname=whole" quietly pgcopydb clone --dir "$throwaway/copydb_whole"
	PGCOPYDB_TARGET_PGURI="host=$throwaway dbname=skipped" quietly pgcopydb clone --skip-extensions \
		--dir "$throwaway/copydb_skipped"
	unset TMPDIR
	for target in whole skipped; do
		check "pgcopydb: all rows are in $target" "$(query 'SELECT count(*) FROM orders' --dbname=$target)" = 1000
	done
	check "pgcopydb copies the mark" "$(query 'SELECT last_value FROM snowflake_internal.mark' --dbname=whole)" -ge "$mark"
	check "pgcopydb --skip-extensions does not" \
		"$(query 'SELECT last_value FROM snowflake_internal.mark' --dbname=skipped)" -lt "$mark"
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

# pgpool in front of a primary and its standby, to which it distributes reads, and in
# front of two servers to which it sends each statement
part_pgpool()
{
	local mode

	query 'CREATE VIEW new_id AS SELECT snowflake_nextval() AS id'
	query 'CREATE FUNCTION stable_id() RETURNS bigint STABLE LANGUAGE sql AS $$SELECT snowflake_nextval()$$'
	pg_basebackup --pgdata="$throwaway/standby" --checkpoint=fast --write-recovery-conf --no-sync
	echo 'port = 5433' >>"$throwaway/standby/postgresql.conf"
	pg_ctl --pgdata="$throwaway/standby" --log="$throwaway/standby.log" --silent --wait start
	wait_for "SELECT count(*) = 1 FROM pg_class WHERE relname = 'new_id'" --port=5433

	# all statements that pgpool considers reads go to the standby
	start_pgpool streaming_replication 5433 "backend_weight0 = 0
backend_weight1 = 1
write_function_list = 'currval,lastval,nextval,setval'"
	check "pgpool with the list in older examples sends a call for an id to the standby" \
		"$(sqlstate_of 'SELECT snowflake_nextval()')" = 25006
	stop_pgpool
	start_pgpool streaming_replication 5433 'backend_weight0 = 0
backend_weight1 = 1'
	check "pgpool: reads are sent to the standby" "$(query "SELECT current_setting('port')" --port=5434)" = 5433
	check "pgpool with empty lists considers the volatility" "$(sqlstate_of 'SELECT snowflake_nextval()')" = 00000
	check "pgpool: but not in a view" "$(sqlstate_of 'SELECT id FROM new_id')" = 25006
	check "pgpool: nor in a function that is declared stable" "$(sqlstate_of 'SELECT stable_id()')" = 25006
	stop_pgpool
	start_pgpool streaming_replication 5433 "backend_weight0 = 0
backend_weight1 = 1
$(sed -n '/^ *```pgpool.conf$/,/^ *```$/p' source/doc/guide.md | grep -v '```')"
	check "pgpool with the guide's settings: the function works" "$(sqlstate_of 'SELECT snowflake_nextval()')" = 00000
	check "pgpool with the guide's settings: the view works" "$(sqlstate_of 'SELECT id FROM new_id')" = 00000
	check "pgpool with the guide's settings: the stable function works" "$(sqlstate_of 'SELECT stable_id()')" = 00000
	check "pgpool with the guide's settings: reads are sent to the standby" \
		"$(query "SELECT current_setting('port')" --port=5434)" = 5433
	start_clients "host=$throwaway port=5434 dbname=pgpool"
	check_rows pgpool
	stop_pgpool
	pg_ctl --pgdata="$throwaway/standby" --silent --mode=immediate stop

	# the standby becomes a server of its own
	rm -f "$throwaway/standby/standby.signal"
	pg_ctl --pgdata="$throwaway/standby" --log="$throwaway/standby.log" --silent --wait start
	start_pgpool native_replication 5433 ''
	query "INSERT INTO orders (item) VALUES ('copied')" --port=5434
	check "pgpool: a statement sent to both servers makes different ids" \
		"$(query "SELECT id FROM orders WHERE item = 'copied'")" != \
		"$(query "SELECT id FROM orders WHERE item = 'copied'" --port=5433)"
	stop_pgpool
	pg_ctl --pgdata="$throwaway/standby" --silent --mode=immediate stop
}

# Print the SQLSTATE of a statement that is run through pgpool.
sqlstate_of()
{
	local sqlstate

	sqlstate=$(psql --no-psqlrc --quiet --port=5434 --set=VERBOSITY=verbose --command="$1" 2>&1 >/dev/null |
		sed -n -E 's/^ERROR:  ([0-9A-Z]{5}):.*/\1/p')
	echo "${sqlstate:-00000}"
}

# Start pgpool on port 5434, with the port of the other server and further settings.
start_pgpool()
{
	local mode=$1 other=$2

	cat >"$throwaway/pgpool.conf" <<END
backend_clustering_mode = $mode
listen_addresses = ''
unix_socket_directories = '$throwaway'
pcp_socket_dir = '$throwaway'
wd_ipc_socket_dir = '$throwaway'
port = 5434
backend_hostname0 = '$throwaway'
backend_port0 = 5432
backend_flag0 = 'DISALLOW_TO_FAILOVER'
backend_hostname1 = '$throwaway'
backend_port1 = $other
backend_flag1 = 'DISALLOW_TO_FAILOVER'
num_init_children = 8
enable_pool_hba = off
sr_check_user = 'postgres'
sr_check_database = 'postgres'
logdir = '$throwaway'
work_dir = '$throwaway'
pid_file_name = '$throwaway/pgpool.pid'
$3
END
	PGPOOLKEYFILE=$throwaway/none pgpool --config-file="$throwaway/pgpool.conf" \
		--hba-file=/dev/null --pcp-file=/dev/null -n >>"$throwaway/pgpool.log" 2>&1 &
	wait_for 'SELECT true' --port=5434
}

stop_pgpool()
{
	pgpool --config-file="$throwaway/pgpool.conf" --pcp-file=/dev/null --mode=fast stop >>"$throwaway/pgpool.log" 2>&1
	wait "$!" || true
}

# A full and an incremental backup, taken under load, and a server restored from them
part_pgbackrest()
{
	local backrest

	mkdir "$throwaway/repository"
	cat >pgbackrest.conf <<END
[main]
pg1-path=$throwaway/data
pg1-socket-path=$throwaway
[global]
repo1-path=$throwaway/repository
repo1-retention-full=1
log-level-file=off
log-level-console=warn
lock-path=$throwaway
spool-path=$throwaway
start-fast=y
END
	backrest=(pgbackrest --config="$throwaway/pgbackrest.conf" --stanza=main)
	query "ALTER SYSTEM SET archive_command = '${backrest[*]} archive-push %p'"
	query 'SELECT FROM pg_reload_conf()'
	"${backrest[@]}" stanza-create
	start_clients
	"${backrest[@]}" --type=full backup
	wait_for_ids 1000
	"${backrest[@]}" --type=incr backup
	wait_for_ids 1000
	query 'SELECT FROM pg_switch_wal()'
	"${backrest[@]}" check
	check "pgBackRest: there is a full and an incremental backup" \
		"$("${backrest[@]}" info | grep -oE '(full|diff|incr) backup:' | tr '\n' ' ')" = 'full backup: incr backup: '
	"${backrest[@]}" --output=text --verbose verify >verified
	sed 's/^/# /' verified
	check "pgBackRest: the repository is sound" "$(grep -cx ' *status: ok' verified)" -eq 1

	# restore this backup to another server, while the first one continues
	"${backrest[@]}" --pg1-path="$throwaway/restored" --type=immediate --target-action=promote restore
	printf '%s\n' 'port = 5433' 'archive_mode = off' >>"$throwaway/restored/postgresql.conf"
	pg_ctl --pgdata="$throwaway/restored" --log="$throwaway/restored.log" --silent --wait start
	wait_for 'SELECT NOT pg_is_in_recovery()' --port=5433
	query 'SELECT snowflake_nextval() FROM generate_series(1, 100000)' --port=5433 >"$throwaway/ids.restored"
	check "pgBackRest: the restored server makes ids on a timeline of its own" \
		"$(query 'SELECT snowflake_timeline(snowflake_nextval())' --port=5433)" -ne \
		"$(query 'SELECT snowflake_timeline(snowflake_nextval())')"
	pg_ctl --pgdata="$throwaway/restored" --silent --mode=immediate stop
	check_clients pgBackRest
	query 'ALTER SYSTEM RESET archive_command'
	query 'SELECT FROM pg_reload_conf()'
}

# Two nodes of pg_auto_failover with its monitor, and two failovers under load.
part_failover()
{
	local node timeline monitor=5441
	local lab=$throwaway/failover
	local nodes="host=127.0.0.1,127.0.0.1 port=$((monitor + 1)),$((monitor + 2)) user=postgres dbname=postgres"
	local primary="$nodes target_session_attrs=read-write connect_timeout=2"

	export XDG_CONFIG_HOME=$throwaway/config XDG_DATA_HOME=$throwaway/share XDG_RUNTIME_DIR=$throwaway/run
	mkdir -p "$XDG_CONFIG_HOME" "$XDG_DATA_HOME" "$XDG_RUNTIME_DIR"
	autoctl create monitor --pgdata "$lab.monitor" --pgport $monitor --hostname 127.0.0.1 --auth trust --no-ssl
	start_autoctl "$lab.monitor"
	echo "$!" >"$lab.0.pid"
	for node in 1 2; do
		autoctl create postgres --pgdata "$lab.$node" --pgport $((monitor + node)) --hostname 127.0.0.1 \
			--name "node$node" --auth trust --no-ssl \
			--monitor "postgres://autoctl_node@127.0.0.1:$monitor/pg_auto_failover?sslmode=prefer"
		[ "$node" = 2 ] || {
			cat "$throwaway/staged.conf"
			echo "shared_preload_libraries = 'snowflake'"
			echo 'fsync = off'
		} >>"$lab.$node/postgresql.conf"
		start_autoctl "$lab.$node"
		echo "$!" >"$lab.$node.pid"
		[ "$node" = 2 ] || {
			wait_for "SELECT NOT pg_is_in_recovery()" "$primary"
			query 'CREATE EXTENSION snowflake' "$primary"
			query 'CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval())' "$primary"
		}
	done
	wait_for_secondary
	start_clients "$primary"
	for timeline in 2 3; do
		autoctl perform failover --pgdata "$lab.monitor"
		wait_for_secondary
		wait_for_ids 2000
		check "pg_auto_failover: ids have timeline $timeline" \
			"$(query 'SELECT snowflake_timeline(snowflake_nextval())' "$primary")" = "$timeline"
	done
	check_clients pg_auto_failover
	# the nodes stop their servers
	for node in 2 1 0; do
		kill "$(<"$lab.$node.pid")"
		wait "$(<"$lab.$node.pid")" || true
		rm "$lab.$node.pid"
	done
}

autoctl()
{
	env --unset=PGHOST --unset=PGUSER --unset=PGDATABASE pg_autoctl "$@" >>"$throwaway/failover.log" 2>&1 ||
		{ tail -n 30 "$throwaway/failover.log" | sed 's/^/# /'; return 1; }
}

start_autoctl()
{
	env --unset=PGHOST --unset=PGUSER --unset=PGDATABASE pg_autoctl run --pgdata "$1" \
		>>"$throwaway/failover.log" 2>&1 &
}

# Wait until the monitor of pg_auto_failover sees a primary, and a secondary that
# follows it.
wait_for_secondary()
{
	wait_for "SELECT array_agg(reportedstate::text ORDER BY reportedstate::text) = '{primary,secondary}'
		AND bool_and(reportedstate = goalstate) FROM pgautofailover.node" \
		'host=127.0.0.1 port=5441 user=autoctl_node dbname=pg_auto_failover'
}

# Random queries, by a role that owns the database
part_sqlsmith()
{
	local seconds=${SNOWFLAKE_SECONDS:-60} before crashes internal run

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
	trap 'end_clients; stop_others' EXIT
	new_database "$1"
	"part_$1"
	exit "$status"
)

for part in "$@"; do
	stage run_part "$part"
done
check "${#libraries[@]} libraries can be preloaded together" "$(query \
	"SELECT array_length(string_to_array(current_setting('shared_preload_libraries'), ','), 1)")" = ${#libraries[@]}
check "no server process crashes" "$(grep -cE 'terminated by signal|PANIC|TRAP' "$throwaway/log")" -eq 0
exit "$status"
