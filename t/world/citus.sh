#!/bin/bash
#
# Run citus.pl, or another test, on a server that has Citus: SNOWFLAKE_CITUS is its pg_config.
#
# usage: t/world/citus.sh [TEST]

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

if [ -z "${SNOWFLAKE_CITUS-}" ]; then
	echo "# skipped: Citus, because SNOWFLAKE_CITUS does not name the pg_config of a server that has it"
	exit 0
fi
work=$(mktemp --directory --tmpdir snowflake-citus.XXXXXX)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
copy_sources "$work/source"
export PG_CONFIG=$SNOWFLAKE_CITUS
version=$("$PG_CONFIG" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
as_user "$work/source/script/check" "$version" "${1:-t/world/citus.pl}"
