#!/bin/bash
#
# Run timescaledb.sql with the PostgreSQL and TimescaleDB of this release.
#
# usage: t/world/timescaledb.sh

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

start_throwaway_server <<END
shared_preload_libraries = 'timescaledb, snowflake'
timescaledb.telemetry_level = off
END
psql --no-psqlrc --quiet --file=source/t/world/timescaledb.sql >out 2>&1 && status=0 || status=$?
cat out
if [ "$status" -ne 0 ] || grep -vq '^ok' out; then
	echo "not ok - TimescaleDB on PostgreSQL $version"
	exit 1
fi
