#!/bin/bash
#
# Test the generators of doc/clients in Java, Go, Node.js and Python against their contract,
# see generators.py: 16 threads, the database away, a registry that restarts, clocks that are
# stepped, and processes that sleep.  Then Hibernate takes ids from blocks; and a web server
# serves blocks, as doc/coming-from.md shows.
#
# usage: t/world/generators.sh [LANGUAGE ...]

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

all=(java go node python)
[ $# -gt 0 ] || set -- "${all[@]}"
# of each of 16 threads; 100 million in Java
declare -A ids=([java]=6250000 [go]=6250000 [node]=60000 [python]=30000)
need_packages openjdk-17-jdk-headless libpostgresql-jdbc-java golang-go golang-github-lib-pq-dev \
	python3-psycopg python3-numpy libhibernate3-java libjavassist-java busybox curl
umask 022
# JDBC does not connect to a socket
export PGPORT=$((20000 + RANDOM % 10000))
port=$PGPORT
start_throwaway_server <<CONF
listen_addresses = 'localhost'
port = $port
CONF
export PGPORT=$port
need_node_pg
psql --no-psqlrc --quiet --command="CREATE EXTENSION snowflake"
clients=$PWD/source/doc/clients
programs=$PWD/source/t/world/generators
as_user mkdir work
cd work
status=0

check_hibernate()
{
	local jars=../java jar

	for jar in postgresql hibernate3 hibernate-commons-annotations geronimo-jpa_2.0_spec geronimo-jta-1.2-spec \
		slf4j-api dom4j commons-collections3 antlr javassist; do
		jars=$jars:/usr/share/java/$jar.jar
	done
	javac -cp "$jars" -d ../java "$clients/java/SnowflakeIdGenerator.java" "$programs/Hibernate.java" 2>&1 | sed 's/^/# /'
	java --add-opens java.base/java.lang=ALL-UNNAMED -cp "$jars" Hibernate >hibernate.out 2>hibernate.log || sed 's/^/# /' hibernate.log
	cat hibernate.out
	check "Hibernate: all checks were made and passed" "$(grep -c '^ok' hibernate.out)" -eq 2
}

# Test a generator: its language, how many ids each thread makes, and the command.
test_generator()
{
	# stop and start as the user that runs the server
	as_user env PATH="$PATH" python3 -B "$programs/../generators.py" ../data "$2" "$1" "${@:3}"
}

# Check that a test finds a mutant in Python: what it does wrong, and a script for sed.
check_mutant()
{
	mkdir --parents ../mutant
	sed "$2" "$clients/snowflake_ids.py" >../mutant/snowflake_ids.py
	test_generator python 500 env PYTHONPATH="$throwaway/mutant" python3 -B "$programs/contract.py" >mutant.out 2>&1 || true
	check "mutant that $1 is found" "$(cmp --silent "$clients/snowflake_ids.py" ../mutant/snowflake_ids.py || grep -c '^not ok' mutant.out)" -gt 0
}

for language in "$@"; do
	case $language in
		java)
			javac -Xlint:all -Werror -cp /usr/share/java/postgresql.jar -d ../java "$clients"/java/Snowflake{Ids,Lease}.java "$programs/Contract.java"
			command=(java -cp ../java:/usr/share/java/postgresql.jar Contract)
			;;
		go)
			mkdir --parents ../go/src/contract ../go/src/snowflake
			cp "$programs/contract.go" ../go/src/contract
			cp "$clients/go/snowflake.go" ../go/src/snowflake
			(cd ../go/src/contract && env GO111MODULE=off GOPATH="$throwaway/go:/usr/share/gocode" GOCACHE="$throwaway/cache" go build -o "$throwaway/contract_go")
			command=(../contract_go)
			;;
		node) command=(env "CLIENTS=$clients" node "$programs/contract.js") ;;
		python) command=(env "PYTHONPATH=$clients" python3 -B "$programs/contract.py") ;;
		*) die "language $language is none of ${all[*]}" ;;
	esac
	test_generator "$language" "${ids[$language]}" "${command[@]}" || status=1
	case $language in
		java) check_hibernate ;;
		python)
			check_mutant "goes on after its lease" 's/if tick >= self.end:/if False:/'
			check_mutant "uses old blocks" 's/< self.max_age/< 1000/'
			;;
	esac
done

# An id service over HTTP
mkdir --parents ../web/cgi-bin
sed -n '/^```sh cgi$/,/^```$/{/^```/!p}' "$clients/../coming-from.md" >../web/cgi-bin/reserve
chmod +x ../web/cgi-bin/reserve
busybox httpd -f -p 127.0.0.1:19189 -h ../web &
web=$!
trap 'kill "$web" || true; stop_throwaway_server' EXIT
curl --silent --fail --retry 20 --retry-delay 1 --retry-connrefused "http://127.0.0.1:19189/cgi-bin/reserve?5000" >reserved
total=0
while IFS='|' read -r first last; do
	total=$((total + last - first + 1))
done <reserved
check "http: 5000 ids are reserved" "$total" -eq 5000
check "http: the argument is not taken for SQL" \
	"$(curl --silent --output /dev/null --write-out '%{http_code}' "http://127.0.0.1:19189/cgi-bin/reserve?1);DROP+TABLE+x")" = 500
exit "$status"
