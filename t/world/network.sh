#!/bin/bash
#
# Two servers lease the only worker id from a registry.  Each is a host of its own, and
# the one that holds the lease is cut off from the network again and again, without a
# sign to either side.
#
# usage: t/world/network.sh

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

need_packages iproute2
# a network of our own, which disappears with this process
[ -n "${SNOWFLAKE_NETWORK-}" ] || exec env SNOWFLAKE_NETWORK=1 unshare --net "$0"

address=10.199.7
umask 022
ip link set lo up
ip link add switch type bridge
ip address add "$address.1/24" dev switch
ip link set switch up
start_throwaway_server <<END
listen_addresses = '$address.1'
END
echo "host all all $address.0/24 trust" >>"$throwaway/data/pg_hba.conf"
psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 >/dev/null <<END
SELECT pg_reload_conf();
CREATE EXTENSION snowflake_registry;
SELECT snowflake_registry.reserve(1, 'for the test');
END
status=0
hosts=()
trap 'stop_nodes; kill "${hosts[@]}" || true; stop_throwaway_server' EXIT

stop_nodes()
{
	local name

	for name in north south; do
		[ ! -e "$throwaway/$name/postmaster.pid" ] ||
			as_user pg_ctl --pgdata="$throwaway/$name" --silent --mode=immediate stop || true
	done
}

# Run SQL in a node, whose socket is in its data directory.
in_node()
{
	PGHOST=$throwaway/$1 psql --no-psqlrc --no-align --tuples-only --quiet --set=VERBOSITY=verbose --command="$2"
}

# Create a host, connected to the switch by a cable of the same name, with a server.
create_node()
{
	local name=$1 host

	unshare --net sleep infinity &
	host=$!
	hosts+=("$host")
	# wait until it has left our network
	while [ "$(readlink "/proc/$host/ns/net")" = "$(readlink /proc/self/ns/net)" ]; do
		sleep 0.01
	done
	ip link add "$name" type veth peer name eth0 netns "$host"
	ip link set "$name" master switch up
	nsenter --target "$host" --net sh -c "
		ip link set lo up
		ip address add $address.$((10 + ${#hosts[@]}))/24 dev eth0
		ip link set eth0 up"

	as_user initdb --pgdata="$throwaway/$name" --username=postgres --auth=trust --no-sync >/dev/null
	{
		cat "$throwaway/staged.conf"
		cat <<END
listen_addresses = ''
unix_socket_directories = '$throwaway/$name'
shared_preload_libraries = 'snowflake'
snowflake.registry = 'host=$address.1 user=postgres dbname=postgres'
snowflake.registry_lease = 2s
snowflake.node_name = '$name'
snowflake.layout = 'snowflake worker:1 lane:1'
snowflake.sequence_start = zero
snowflake.max_ahead = 1s
snowflake.max_wait = 0
END
	} >>"$throwaway/$name/postgresql.conf"
	start_node "$name" "$host"
	in_node "$name" 'CREATE EXTENSION snowflake'
}

start_node()
{
	nsenter --target "$2" --net "$(command -v runuser)" -u postgres -- \
		"$bindir/pg_ctl" --pgdata="$throwaway/$1" --log="$throwaway/$1.log" --silent --wait start ||
		{ cat "$throwaway/$1.log"; die "could not start $1"; }
}

# Print the seconds until a node makes ids.
wait_for_ids()
{
	local start=$EPOCHREALTIME tries

	for tries in {1..300}; do
		if in_node "$1" 'SELECT snowflake_nextval()' >/dev/null 2>&1; then
			awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $start }"
			return
		fi
		sleep 0.1
	done
	die "$1 makes no ids after $tries tries"
}

# Cut the nodes off in turn, a number of times, while clients of both make ids.  Counts
# the ids and the duplicates among them.
hunt()
{
	local holder=north other=south round clients=() name waited swap

	wait_for_ids "$holder" >/dev/null
	rm -f ids.*
	for name in north south; do
		for client in 1 2; do
			yes 'SELECT snowflake_nextval() FROM generate_series(1, 20);' |
				PGHOST=$throwaway/$name psql --no-psqlrc --no-align --tuples-only --quiet \
					>"ids.$name.$client" 2>/dev/null &
			clients+=($!)
		done
	done
	for ((round = 1; round <= $1; round++)); do
		sleep 0.5
		ip link set "$holder" down
		waited=$(wait_for_ids "$other")
		in_node "$holder" 'SELECT snowflake_nextval()' >answer 2>&1 || true
		echo "# $other makes ids $waited s after $holder was cut off, whose answer then is: $(head -n 1 answer)"
		refused=$(grep -c '^ERROR:  SF004:' answer || true)
		sleep 0.5
		ip link set "$holder" up
		# by then the lease worker has asked again, and learned which server has the
		# lease
		sleep 3
		swap=$holder holder=$other other=$swap
	done
	kill "${clients[@]}" 2>/dev/null || true
	wait "${clients[@]}" 2>/dev/null || true
	ids=$(cat ids.* | wc -l)
	duplicates=$((ids - $(sort --unique ids.* | wc -l)))
	echo "# $ids ids, $duplicates duplicates"
}

create_node north
wait_for_ids north >/dev/null
create_node south

hunt 4
check "no id is made twice" "$duplicates" -eq 0
check "many ids were made" "$ids" -gt 20000
check "a server that is cut off makes no ids after its lease" "$refused" -eq 1

# the other server takes over by itself when the lease is released
as_user pg_ctl --pgdata="$throwaway/north" --silent --mode=fast stop
waited=$(wait_for_ids south)
check "ids are made $waited s after the other server was stopped" "${waited%.*}" -lt 5

# the same without the end of the lease as a bound
apply_mutant 'goes on after its lease' "$throwaway/source"
as_user make --silent -C "$throwaway/source" PG_CONFIG="$bindir/pg_config" \
	with_llvm=no install DESTDIR="$throwaway/stage" >"$throwaway/build.log" 2>&1
as_user pg_ctl --pgdata="$throwaway/south" --silent --mode=fast stop
start_node north "${hosts[0]}"
wait_for_ids north >/dev/null
start_node south "${hosts[1]}"
hunt 1
check "mutant that goes on after its lease: $duplicates duplicates are found" "$duplicates" -gt 0

exit "$status"
