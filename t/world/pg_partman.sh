#!/bin/bash
#
# Run pg_partman.sql with the PostgreSQL and pg_partman of this release.
#
# usage: t/world/pg_partman.sh

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

need_packages "postgresql-$(native_version)-partman"
start_throwaway_server </dev/null
psql --no-psqlrc --quiet --file=source/t/world/pg_partman.sql >out 2>&1 && status=0 || status=$?
if [ "$status" -ne 0 ] || grep -vq '^ok' out; then
	cat out
	echo "not ok - pg_partman on PostgreSQL $version"
	exit 1
fi
cat out
