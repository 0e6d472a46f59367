#!/bin/bash
#
# Test the generators of clients/ that hand out ids from blocks in servers that fork or have
# worker threads, and in SQLAlchemy.
#
# usage: t/world/blocks.sh [sqlalchemy]

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

only=${1-}
need_packages python3-psycopg2 python3-psycopg python3-sqlalchemy uwsgi-core uwsgi-plugin-python3 curl
umask 022
start_throwaway_server </dev/null
clients=$PWD/source/clients
programs=$PWD/source/t/world/blocks
background=()
# timeout passes the signal on to its command
trap 'kill "${background[@]}" 2>/dev/null || true; stop_throwaway_server' EXIT
[ "$only" = sqlalchemy ] || need_node_pg
status=0

query()
{
	psql --no-psqlrc --tuples-only --no-align --set=ON_ERROR_STOP=1 --command="$1"
}

make_ids()
{
	query "SELECT snowflake_id() FROM generate_series(1, $1)"
}

# Print the ids in the files that begin with a name.  A killed process may leave an
# incomplete line.
ids_of()
{
	perl -ne 'print if /\n\z/' "$1".*
}

count_twice()
{
	ids_of "$1" | sort | uniq --repeated | wc -l
}

# Run two processes with four threads each, one of which has two children with four
# threads each, and psql.
check_together()
{
	local name=$1 expected=$2 failed=0
	shift 2

	rm -f together.*
	timeout 300 "$@" together.one 4 2 2500 2>one.log &
	background=("$!")
	timeout 300 "$@" together.two 4 0 2500 2>two.log &
	background+=("$!")
	make_ids 50000 >together.psql
	wait "${background[0]}" || { failed=1; cat one.log; }
	wait "${background[1]}" || { failed=1; cat two.log; }
	background=()
	check "$name: all processes succeed" "$failed" -eq 0
	check "$name: $expected ids" "$(ids_of together | wc -l)" -eq "$expected"
	check "$name: no id comes twice" "$(count_twice together)" -eq 0
	check "$name: no id is 0" "$(ids_of together | grep -cx 0)" -eq 0
}

# Run a program that prints its checks, and "done" at the end.
check_program()
{
	local name=$1
	shift

	"$@" >program.out 2>program.log || cat program.log
	sed --quiet "s/^\(\(not \)\?ok - \)/\1blocks: $name: /p" program.out
	! grep -q '^not ok' program.out || status=1
	check "$name: all checks were made" "$(tail -n 1 program.out)" = 'done'
}

# Make ids in the workers of uWSGI.  Its last arguments are options.
serve_ids()
{
	local port=$((20000 + RANDOM % 10000))

	rm -rf served
	mkdir served
	env CLIENTS="$1" uwsgi --plugin python3 --http-socket "localhost:$port" --wsgi-file "$programs/uwsgi.py" \
		--master --processes 4 --die-on-term "${@:2}" 2>uwsgi.log &
	background=("$!")
	seq 200 | xargs --max-procs=8 -I{} curl --silent --fail --retry 10 --retry-connrefused --retry-max-time 60 \
		--dump-header served/header.{} --output served/ids.{} "http://localhost:$port/" || cat uwsgi.log
	kill "${background[0]}"
	wait "${background[0]}" || true
	background=()
}

check_uwsgi()
{
	local options

	for options in "" "--threads 4"; do
		# shellcheck disable=SC2086 # options are words
		serve_ids "$clients/python" $options
		check "uWSGI${options:+, $options}: several workers answered" "$(grep --no-filename '^Worker' served/header.* | sort --unique | wc -l)" -gt 1
		check "uWSGI${options:+, $options}: of $(ids_of served/ids | wc -l) ids none comes twice" "$(ids_of served/ids | sort --unique | wc -l)" -eq 20000
	done
	serve_ids mutant
	check "uWSGI: mutant that ignores forks is found" "$(count_twice served/ids)" -gt 0
}

check_sqlalchemy()
{
	local driver=$1 name
	name="SQLAlchemy $(/usr/bin/python3 -c 'import sqlalchemy; print(sqlalchemy.__version__)'), $driver"

	check_program "$name" /usr/bin/python3 "$programs/fork.py" "$clients/python" "postgresql+$driver://"
	check_program "$name" /usr/bin/python3 "$programs/signals.py" "$clients/python" "postgresql+$driver://"
	rm -rf mutant
	cp -R "$clients/python" mutant
	sed --in-place 's/os.getpid()/0/; /register_at_fork/d' mutant/snowflake_ids/*.py
	/usr/bin/python3 "$programs/fork.py" mutant "postgresql+$driver://" >mutant.out 2>&1 || true
	check "$name: mutant that ignores forks is found" "$(grep -c '^not ok' mutant.out)" -eq 4

	check_program "$name" /usr/bin/python3 "$programs/orders.py" "$clients/python" "postgresql+$driver://"
}

query 'CREATE EXTENSION snowflake; CREATE EXTENSION snowflake_registry' >/dev/null
[ "$only" = sqlalchemy ] || check_together "Node.js" 90000 node "$programs/hand_out.js" "$clients/node"
check_sqlalchemy psycopg2
# SQLAlchemy supports psycopg 3 from 2.0 on
! /usr/bin/python3 -c 'import sqlalchemy.dialects.postgresql.psycopg' 2>/dev/null || check_sqlalchemy psycopg
check_uwsgi
exit "$status"
