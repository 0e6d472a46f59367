#!/bin/bash
#
# The first process of the machine whose power t/world/power.sh cuts.  It starts the
# server, and sends what clients see to the second serial port.  The kernel's command
# line determines what the clients do:
#
#	power_task		ids			make ids in the database postgres, which has the extension
#					create		create the extension in the database empty, without a commit
#					commit		create it there, and make ids
#					go_on		make ids there
#	power_setting	a setting of the server
#	power_clock		the time that the clock is set to when the server is ready

# shellcheck disable=SC2154

set -euo pipefail
bindir=$(echo /usr/lib/postgresql/*/bin)
export PATH=$bindir:/usr/sbin:/usr/bin:/sbin:/bin PGHOST=/tmp PGUSER=postgres LC_ALL=C HOME=/tmp

mkdir -p /dev/shm
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=1777 tmpfs /tmp
# write nothing to the disk that is not synced
mount -o remount,commit=86400 /
echo 0 >/proc/sys/vm/dirty_writeback_centisecs
stty -F /dev/ttyS1 raw
exec 3>/dev/ttyS1

as_server() { setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }
run_sql() { as_server psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --dbname="$1" --command="$2"; }

# Run clients that make ids as long as there is power.  Each line is one write, so that
# lines of different clients do not mix.
make_ids()
{
	local _

	# Clients of different lives do not start at the same time.  With this, a server that
	# has lost its mark nevertheless makes the same ids again, and another one changes
	# nothing.
	run_sql "$1" "
		SELECT FROM snowflake_advance(snowflake_first_from(
			'$power_clock'::timestamptz + interval '1 min'))" >/dev/null
	for _ in 1 2 3 4; do
		while :; do
			as_server stdbuf --output=L psql --no-psqlrc --quiet --dbname="$1" --command='
				COPY (SELECT snowflake_nextval() FROM generate_series(1, 1000000)) TO STDOUT' >&3 || sleep 0.5
		done &
	done
	wait
}

# a process of this life may have the PID of an earlier server
rm -f /var/lib/postgresql/power/postmaster.pid
as_server pg_ctl --silent --wait --timeout=3600 --pgdata=/var/lib/postgresql/power --log=/tmp/log \
	--options="-c $power_setting" start || cat /tmp/log
# boots take different times
date --set="$power_clock" >/dev/null
echo "+ ready at $(date --utc +%FT%H:%M)" >&3

case $power_task in
	ids | go_on) ;;
	commit) run_sql empty 'CREATE EXTENSION snowflake' ;;
	create)
		as_server psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --dbname=empty >&3 <<-'END'
			BEGIN;
			\echo + creating
			CREATE EXTENSION snowflake;
			SELECT snowflake_nextval() IS NOT NULL AS made \gset
			\echo + created
			SELECT pg_sleep(86400);
		END
		;;
esac
if [ "$power_task" = ids ]; then
	make_ids postgres
else
	make_ids empty
fi
