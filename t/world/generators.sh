#!/bin/bash
#
# Test the generators of clients/ in Java, Go, Node.js and Python against their contract,
# see generators.py: 16 threads, the database away, a registry that restarts, clocks that are
# stepped, and processes that sleep.
#
# usage: t/world/generators.sh [LANGUAGE ...]

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

all=(java go node python)
[ $# -gt 0 ] || set -- "${all[@]}"
# of each of 16 threads; 100 million in Java
declare -A ids=([java]=6250000 [go]=6250000 [node]=60000 [python]=30000)
declare -A packages=(
	[java]='default-jdk-headless libpostgresql-jdbc-java libhibernate3-java'
	[go]='golang-go golang-github-lib-pq-dev'
	[python]='python3-psycopg python3-gevent python3-pip python3-setuptools python3-wheel mypy'
)
for language in "$@"; do
	# shellcheck disable=SC2086 # names
	need_packages python3-numpy ${packages[$language]-}
done
umask 022
# JDBC does not connect to a socket
export PGPORT=$((20000 + RANDOM % 10000))
port=$PGPORT
start_throwaway_server <<CONF
listen_addresses = 'localhost'
port = $port
CONF
export PGPORT=$port
[[ " $* " != *" node "* ]] || need_node_pg
psql --no-psqlrc --quiet --command="CREATE EXTENSION snowflake"
clients=$PWD/source/clients
programs=$PWD/source/t/world/generators
as_user mkdir work
cd work
status=0

# Test a generator: its language, how many ids each thread makes, and the command.
test_generator()
{
	# stop and start as the user that runs the server
	as_user env PATH="$PATH" python3 -B "$programs/../generators.py" ../data "$2" "$1" "${@:3}"
}

# Check the package of a language as its tools do.
check_package()
{
	local passed=0

	("check_${1}_package") >package.out 2>&1 && passed=1 || sed 's/^/# /' package.out
	check "$1: the package is sound" "$passed" -eq 1
}

check_java_package()
{
	javac -Xlint:all -Werror -d ../jar "$clients"/java/src/main/java/snowflake/*.java &&
		jar --create --file snowflake-ids.jar --manifest "$clients/java/MANIFEST.MF" -C ../jar . &&
		jar --list --file snowflake-ids.jar | grep -x snowflake/SnowflakeLease.class
}

check_go_package()
{
	cd "$clients/go" && test -z "$(gofmt -l .)" && env GOCACHE="$throwaway/cache" go vet ./...
}

# TypeScript reads the declarations as a program would.
check_node_package()
{
	mkdir --parents ../typed/node_modules && cd ../typed && npm pack --silent "$clients/node" &&
		npm install --silent --no-audit --no-fund ./snowflake-ids-*.tgz pg typescript@5 @types/pg @types/node@20 &&
		cp "$programs/typed.ts" . && npx tsc --strict --noEmit --module commonjs --esModuleInterop --target es2022 typed.ts
}

check_python_package()
{
	/usr/bin/python3 -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir ../wheel "$clients/python" &&
		/usr/bin/python3 -m zipfile --list ../wheel/snowflake_ids-*.whl | grep -F snowflake_ids/py.typed && /usr/bin/python3 -m mypy --strict "$clients/python/snowflake_ids"
}

# Check that a test finds a mutant in Python: what it does wrong, and a script for sed.
check_mutant()
{
	rm -rf ../mutant
	cp -R "$clients/python" ../mutant
	sed --in-place "$2" ../mutant/snowflake_ids/*.py
	test_generator python 500 env PYTHONPATH="$throwaway/mutant" python3 -B "$programs/contract.py" >mutant.out 2>&1 || true
	check "mutant that $1 is found" "$(diff -r "$clients/python" ../mutant >/dev/null || grep -c '^not ok' mutant.out)" -gt 0
}

for language in "$@"; do
	case $language in
		java)
			javac -Xlint:all -Werror -cp /usr/share/java/postgresql.jar -d ../java "$clients"/java/src/main/java/snowflake/*.java "$programs/Contract.java"
			command=(java -cp ../java:/usr/share/java/postgresql.jar Contract)
			;;
		go)
			mkdir --parents ../go/src/contract ../go/src/snowflake
			cp "$programs/contract.go" ../go/src/contract
			cp "$clients"/go/*.go ../go/src/snowflake
			(cd ../go/src/contract && env GO111MODULE=off GOPATH="$throwaway/go:/usr/share/gocode" GOCACHE="$throwaway/cache" go build -o "$throwaway/contract_go")
			command=(../contract_go)
			;;
		node) command=(env "CLIENTS=$clients/node" node "$programs/contract.js") ;;
		python) command=(env "PYTHONPATH=$clients/python" python3 -B "$programs/contract.py") ;;
		*) die "language $language is none of ${all[*]}" ;;
	esac
	test_generator "$language" "${ids[$language]}" "${command[@]}" || status=1
	check_package "$language"
	case $language in
		java) check "java: the generator of doc/clients for Hibernate can be compiled" "$(javac -cp "../java:/usr/share/java/hibernate3.jar" \
			-d ../java "$clients/../doc/clients/SnowflakeIdGenerator.java" 2>&1)" = "" ;;
		python)
			test_generator python-gevent 2000 env "PYTHONPATH=$clients/python" /usr/bin/python3 -B -m gevent.monkey --sys "$programs/contract.py" || status=1
			check_mutant "goes on after its lease" 's/if tick >= lease.end:/if False:/'
			check_mutant "uses old blocks" 's/< self.max_age/< 1000/'
			;;
	esac
done

# The ways to read the time of an id that the guide shows
decoded=$(psql --no-psqlrc --tuples-only --no-align --command="SELECT (extract(epoch FROM snowflake_timestamp(117426025905842031)) * 1000)::bigint")
expression=$(sed -n 's/^| JavaScript | `\(.*\)` |$/\1/p' "$clients/../doc/guide.md")
command -v node >/dev/null || need_packages nodejs
check "JavaScript reads the time of an id" "$(node -e "const id = '117426025905842031'; console.log(($expression).getTime())")" = "$decoded"
expression=$(sed -n 's/^| Python | `\(.*\)` |$/\1/p' "$clients/../doc/guide.md")
check "Python reads the time of an id" "$(/usr/bin/python3 -c "from datetime import datetime, timezone; id = 117426025905842031; print(round(($expression).timestamp() * 1000))")" = "$decoded"

exit "$status"
