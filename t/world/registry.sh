#!/bin/bash
#
# Lease worker ids from a real registry: by 200 simulated servers, see
# registry_nodes.py; and measure the cost
# of a lease among up to 100,000 others.
#
# usage: t/world/registry.sh

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

need_packages python3-psycopg
umask 022
# a slow disk would leave the servers with little to do
start_throwaway_server <<END
max_connections = 250
fsync = off
END
script=$throwaway/stage/usr/share/postgresql/$version/extension/snowflake_registry--1.0.sql
status=0

# Create a registry in a database of its own.
create_registry()
{
	local database=$1

	createdb "$database"
	PGDATABASE=$database psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 \
		--command="CREATE EXTENSION snowflake_registry" \
		--command="UPDATE snowflake_registry.registry SET max_clock_lead = '3 s'"
}

# Create a registry of a mutant.
create_mutant()
{
	local database=$1 mutant=$2

	apply_mutant "$mutant" source
	cp source/registry/snowflake_registry--1.0.sql "$script"
	create_registry "$database"
	restore_sources source
	cp source/registry/snowflake_registry--1.0.sql "$script"
}

# Run the simulation.  Its result has overlaps, leases, worker ids, leases acquired and
# the median time for that in ms, renewals and their median time, and refusals.
simulate()
{
	PGDATABASE=$1 /usr/bin/python3 source/t/world/registry_nodes.py 200 128 "$2" >result || die "simulation broke off"
	read -r overlaps leases _ _ assign _ renew _ <result
	echo "# $(cat result)"
}

create_registry product
simulate product 30
check "none of $leases leases overlaps with another one ($assign ms to lease, $renew ms to renew)" "$overlaps" -eq 0
check "there were many leases" "$leases" -gt 500
held=$(PGDATABASE=product psql --no-psqlrc --tuples-only --no-align \
	--command="SELECT count(*) - count(DISTINCT instance) FROM snowflake_registry.lease WHERE instance IS NOT NULL")
check "no server holds two leases" "$held" -eq 0

# mutants: where a lease begins, and what its holder must know
create_mutant mutant_1 'begins anywhere'
simulate mutant_1 10
check "mutant that begins anywhere: $overlaps overlaps are found" "$overlaps" -gt 0
create_mutant mutant_2 'renews for anybody'
simulate mutant_2 10
check "mutant that renews for anybody: $overlaps overlaps are found" "$overlaps" -gt 0

# Measure the cost of a lease among many others: the time to acquire one, and to renew
# some of them, with 4 clients.
psql --no-psqlrc --quiet --command="ALTER SYSTEM SET fsync = on" --command="SELECT pg_reload_conf()" >/dev/null
create_registry cost
cat >renew.sql <<'END'
\set id random(0, :nodes - 1)
SELECT snowflake_registry.renew(worker_id, instance, ends, clock_timestamp(), '60 s')
FROM snowflake_registry.lease WHERE worker_id = :id
END
measure()
{
	local nodes=$1

	PGDATABASE=cost psql --no-psqlrc --quiet --set=nodes="$nodes" >acquired <<'END'
INSERT INTO snowflake_registry.lease (worker_id, holder, instance, since, ends)
SELECT i, 'node ' || i, gen_random_uuid(), now(), clock_timestamp() + '1 hour'
FROM generate_series(0, :nodes - 1) AS i ON CONFLICT DO NOTHING;
VACUUM ANALYZE snowflake_registry.lease;
\timing on
SELECT * FROM snowflake_registry.acquire('1', gen_random_uuid(), 'time:41 worker:20 tick:1ms epoch:2026-01-01T00:00:00Z', 1048576, clock_timestamp(), '60 s');
SELECT * FROM snowflake_registry.acquire('2', gen_random_uuid(), 'time:41 worker:20 tick:1ms epoch:2026-01-01T00:00:00Z', 1048576, clock_timestamp(), '60 s');
SELECT * FROM snowflake_registry.acquire('3', gen_random_uuid(), 'time:41 worker:20 tick:1ms epoch:2026-01-01T00:00:00Z', 1048576, clock_timestamp(), '60 s');
END
	PGDATABASE=cost pgbench --no-vacuum --client=4 --time=3 --define=nodes="$nodes" \
		--file=renew.sql >renewed 2>&1
	echo "# $nodes nodes: $(sed -n 's/^Time: //p' acquired | tail -n 1) to lease," \
		"$(sed -n 's/latency average = //p' renewed) to renew with 4 clients," \
		"$(sed -n 's/^tps = \([0-9]*\).*/\1/p' renewed) renewals per second"
	check "$nodes nodes: worker ids are leased" "$(grep -c '(1 row)' acquired)" -eq 3
}
for nodes in 32 1000 100000; do
	measure "$nodes"
done

exit "$status"
