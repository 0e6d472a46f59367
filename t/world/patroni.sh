#!/bin/bash
#
# Patroni with etcd and two members: the primary is killed under load again and again,
# and the clients keep the ids that they see.  With one worker id for both members, with
# one for each, and with leased ones.
#
# usage: t/world/patroni.sh [ROUNDS]

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

rounds=${1:-3}
need_packages patroni etcd-server iproute2 tini curl
# a network of our own, and a process that reaps the servers that we kill
[ -n "${SNOWFLAKE_NETWORK-}" ] ||
	exec env SNOWFLAKE_NETWORK=1 unshare --net tini -s -- "$0" "$@"

ip link set lo up
umask 022
start_throwaway_server </dev/null
registry="host=$throwaway user=postgres dbname=postgres"
psql --no-psqlrc --quiet --command='CREATE EXTENSION snowflake_registry'
status=0
trap 'stop_cluster || true; stop_throwaway_server' EXIT

rest_port() { echo "2100$1"; }
server_port() { echo "2103$1"; }
etcd=21079
either_member="host=127.0.0.1,127.0.0.1 port=$(server_port 1),$(server_port 2) user=postgres dbname=postgres"
primary="$either_member target_session_attrs=read-write connect_timeout=2"

# Become a program of the server's user, without this machine's environment.  For the
# background.
become()
{
	exec setpriv --reuid=postgres --regid=postgres --init-groups \
		env -i PATH=/usr/bin:/bin LANG=C.UTF-8 HOME="$lab" "$@"
}

# Start a member's Patroni.
start_member()
{
	become patroni "$lab/$1.yml" >>"$lab/$1.log" 2>&1 </dev/null &
	echo "$!" >"$lab/$1.pid"
}

# Print the state of a member's Patroni, for example "running replica 2".
member_state()
{
	curl --silent --fail --max-time 2 "http://127.0.0.1:$(rest_port "$1")/patroni" |
		/usr/bin/python3 -c 'import json, sys
state = json.load(sys.stdin)
print(state["state"], state["role"], state.get("timeline"))' 2>/dev/null || true
}

# Wait until a command succeeds.
wait_until()
{
	local tries

	for tries in {1..900}; do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.1
	done
	tail -n 30 "$lab"/*.log
	die "not after $tries tries: $*"
}

is_primary() { [[ $(member_state "$1") =~ ^running\ (master|primary) ]]; }
makes_ids() { psql --no-psqlrc --quiet --dbname="$primary" --command='SELECT snowflake_nextval()'; }

# Check that both members are on one timeline, and one follows the other.
is_healthy()
{
	local one two

	one=$(member_state 1)
	two=$(member_state 2)
	[[ $one$two == *running*running* && $one$two == *replica* && ${one##* } == "${two##* }" ]] &&
		[ "$(psql --no-psqlrc --quiet --tuples-only --no-align --dbname="$primary" \
			--command="SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'")" = 1 ]
}

# Write a member's configuration.  Its own settings are on stdin, as YAML.
write_member()
{
	cat >"$lab/$1.yml" <<END
scope: lab
name: member$1
restapi: {listen: '127.0.0.1:$(rest_port "$1")', connect_address: '127.0.0.1:$(rest_port "$1")'}
etcd3: {host: '127.0.0.1:$etcd'}
bootstrap:
  dcs:
    ttl: 3
    loop_wait: 1
    retry_timeout: 2
    maximum_lag_on_failover: 1073741824
    primary_start_timeout: 0
    postgresql:
      use_pg_rewind: true
      remove_data_directory_on_rewind_failure: true
      remove_data_directory_on_diverged_timelines: true
      parameters: {wal_log_hints: 'on', wal_keep_size: 256MB, max_connections: 60}
  initdb: [{encoding: UTF8}, {locale: C.UTF-8}, no-sync, {auth: trust}]
postgresql:
  listen: '127.0.0.1:$(server_port "$1")'
  connect_address: '127.0.0.1:$(server_port "$1")'
  data_dir: $lab/data$1
  bin_dir: $bindir
  pgpass: $lab/pgpass$1
  pg_hba: ['local all all trust', 'host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust']
  basebackup: [{checkpoint: fast}]
  authentication: {superuser: {username: postgres}, replication: {username: replicator}}
  parameters:
    unix_socket_directories: $lab
    shared_preload_libraries: snowflake
$(sed 's/^/    /; s/ = /: /' "$throwaway/staged.conf")
$(sed 's/^/    /')
watchdog: {mode: 'off'}
END
}

start_cluster()
{
	become etcd --data-dir "$lab/etcd" --log-level error \
		--listen-client-urls "http://127.0.0.1:$etcd" --advertise-client-urls "http://127.0.0.1:$etcd" \
		--listen-peer-urls http://127.0.0.1:21080 >"$lab/etcd.log" 2>&1 </dev/null &
	echo "$!" >"$lab/etcd.pid"
	wait_until curl --silent --fail "http://127.0.0.1:$etcd/health"
	start_member 1
	wait_until is_primary 1
	start_member 2
	wait_until is_healthy
	psql --no-psqlrc --quiet --dbname="$primary" --command='CREATE EXTENSION snowflake' \
		--command='CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval())'
}

stop_cluster()
{
	local name pid

	for name in 1 2 etcd; do
		pid=$(cat "$lab/$name.pid" 2>/dev/null) || continue
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
}

# Kill the server of a member or, in every other round, its Patroni as well.
kill_member()
{
	local postmaster patroni

	patroni=$(cat "$lab/$1.pid")
	postmaster=$(head -n 1 "$lab/data$1/postmaster.pid")
	if [ $(($2 % 2)) -eq 1 ]; then
		kill -9 "$postmaster"
	else
		kill -9 "$patroni"
		wait "$patroni" 2>/dev/null || true
		# while stopped, it cannot start children that would outlive it
		kill -STOP "$postmaster"
		# shellcheck disable=SC2046
		kill -9 $(grep -lE "^[0-9]+ \(.*\) \S $postmaster " /proc/[0-9]*/stat 2>/dev/null |
			cut -d/ -f3) "$postmaster"
	fi
}

# Run a client that inserts, wherever the primary is, and keeps the ids that it sees.
run_client()
{
	while [ ! -e "$lab/stop" ]; do
		yes "INSERT INTO orders SELECT FROM generate_series(1, 20) RETURNING id;
			DO 'BEGIN PERFORM pg_sleep(0.005); END'; \\! [ ! -e $lab/stop ] || kill \$PPID" |
			psql --no-psqlrc --quiet --tuples-only --no-align --dbname="$primary" || true
		sleep 0.1
	done 2>/dev/null
}

# Run a cluster through failovers.  The members have the settings in the two files.
hunt()
{
	local name=$1 rounds=$2 round member start client clients=()

	lab=$throwaway/$name
	mkdir "$lab"
	chown postgres "$lab"
	write_member 1 <"$3"
	write_member 2 <"$4"
	chown postgres "$lab"/*.yml
	start_cluster
	for client in 1 2 3 4; do
		run_client >"$lab/ids.$client" &
		clients+=($!)
	done
	for ((round = 1; round <= rounds; round++)); do
		sleep 1
		is_primary 1 && member=1 || member=2
		start=$EPOCHREALTIME
		kill_member "$member" "$round"
		wait_until is_primary $((3 - member))
		promoted=$EPOCHREALTIME
		wait_until makes_ids
		awk "BEGIN { printf \"# $name: %.1f s after the kill the other member is primary, and makes ids after another %.1f s\n\",
			$promoted - $start, $EPOCHREALTIME - $promoted }"
		kill -0 "$(cat "$lab/$member.pid")" 2>/dev/null || start_member "$member"
		wait_until is_healthy
	done
	sleep 1
	touch "$lab/stop"
	wait "${clients[@]}"
	stop_cluster

	cat "$lab"/ids.* | grep -E '^[0-9]+$' >"$lab/all"
	ids=$(wc -l <"$lab/all")
	duplicates=$((ids - $(sort --unique "$lab/all" | wc -l)))
	# worker id and timeline, in the default layout
	kinds=$(awk '{ kinds[int($1 / 2^15) % 2^7]++ } END { print length(kinds) }' "$lab/all")
	echo "# $name: $ids ids, $duplicates duplicates, from $kinds pairs of worker id and timeline"
	check "$name: no id is made twice" "$duplicates" -eq 0
	check "$name: many ids were made" "$ids" -gt $((2000 * rounds))
	check "$name: all primaries made ids" "$kinds" -gt "$rounds"
}

cd "$throwaway"
for member in 1 2; do
	echo 'snowflake.worker_id: 3' >"shared.$member"
	echo "snowflake.worker_id: $member" >"own.$member"
	cat >"leased.$member" <<END
snowflake.registry: $registry
snowflake.registry_lease: 6s
snowflake.node_name: member$member
END
done
hunt shared "$rounds" shared.1 shared.2
hunt own 2 own.1 own.2
hunt leased "$rounds" leased.1 leased.2

exit "$status"
