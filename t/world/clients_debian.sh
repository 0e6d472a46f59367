#!/bin/bash
#
# Run the examples in doc/clients/ for the ORMs and drivers that Debian packages, each
# in a database of its own with an ordinary owner.  Packages and server are those of the
# release with PostgreSQL 18; those of Diesel, of the release with 17.
#
# An example prints the id of a row, the same id from a row that refers to it, and JSON;
# most then insert 100 more rows.  The server's log shows the number of statements.  The
# layout makes ids that need 63 bits.  The programs in t/world/clients/ continue from
# there, with schemas that are dumped, compared, loaded and dropped.
#
# usage: t/world/clients_debian.sh [TOOL ...], as root

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

declare -A packages=(
	[psycopg]='python3-psycopg python3-pandas'
	[sqlalchemy]='python3-sqlalchemy python3-alembic python3-psycopg2'
	[django]='python3-django python3-psycopg'
	[jdbc]='default-jdk-headless libpostgresql-jdbc-java'
	[rails]='ruby-activerecord ruby-pg'
	[eloquent]='php-cli php-pgsql php-illuminate-database php-illuminate-events'
	[doctrine]='php-cli php-pgsql php-doctrine-orm php-symfony-cache'
	[sequel]='ruby-sequel ruby-pg'
	[gorm]='golang-go golang-gorm-gorm-dev golang-gorm-driver-postgres-dev'
	[pgx]='golang-go golang-github-jackc-pgx-v5-dev'
	[diesel]='cargo librust-diesel-dev librust-serde-dev librust-serde-json-dev libpq-dev'
	[peewee]='python3-peewee python3-psycopg2'
	[dbix_class]='libdbix-class-perl libdbix-class-schema-loader-perl libsql-translator-perl libdbd-pg-perl'
)
# In the release with 18, Diesel does not compile with the other crates.
declare -A in_release=([diesel]=17)
all=(psycopg sqlalchemy django jdbc rails eloquent doctrine sequel gorm pgx diesel peewee dbix_class)
[ $# -gt 0 ] || set -- "${all[@]}"
for tool in "$@"; do
	[ -n "${packages[$tool]-}" ] || die "tool $tool is none of ${all[*]}"
done

# Install the packages of tools in a release, and run the tools there.
run_tools()
{
	local version=$1 tool wanted=() names
	shift

	for tool in "$@"; do
		read -ra names <<<"${packages[$tool]}"
		wanted+=("${names[@]}")
	done
	make_release "$version"
	{
		in_release "$version" root apt-get -q update &&
			in_release "$version" root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
				apt-get -q -y --no-install-recommends install "${wanted[@]}"
	} >"$log" 2>&1 || { cat "$log"; echo "could not install the packages to be tested"; return 1; }
	run_in_release postgres "$version" t/world/clients_debian.sh "$@"
}

if [ -z "${SNOWFLAKE_RELEASE-}" ]; then
	[ "$(id -u)" -eq 0 ] || die "needs root"
	need_packages debootstrap
	log=$(mktemp)
	trap 'rm -f "$log"' EXIT
	status=0
	for version in 18 17; do
		tools=()
		for tool in "$@"; do
			[ "${in_release[$tool]:-18}" -ne "$version" ] || tools+=("$tool")
		done
		[ ${#tools[@]} -eq 0 ] || stage run_tools "$version" "${tools[@]}"
	done
	exit "$status"
fi

umask 022
port=$((20000 + RANDOM % 10000))
# JDBC does not connect to a socket.  max_ahead is for run_more.
start_throwaway_server <<END
listen_addresses = 'localhost'
port = $port
snowflake.max_ahead = 10min
snowflake.layout = 'snowflake epoch:1970-01-01T00:00:00Z'
log_statement = all
END
export HOME=$throwaway PGPORT=$port
clients=$throwaway/source/doc/clients
tests=$throwaway/source/t/world/clients
status=0

# Run SQL as a superuser, even if the tools run as another role.
query()
{
	PGUSER=postgres psql --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 "${@:2}" --command="$1"
}

# Count the statements in the log, from an offset, that begin with a regular expression.
count_statements()
{
	tail --bytes="+$(($1 + 1))" "$throwaway/log" |
		grep --count --ignore-case -E "LOG:  (statement|execute [^:]*): *($2)" || true
}

# Print the columns that have a default.
defaults()
{
	query "SELECT string_agg(adrelid::regclass || '.' || attname || ' ' || format_type(atttypid, atttypmod) || ' '
			|| pg_get_expr(adbin, adrelid), ', ' ORDER BY adrelid::regclass::text, attnum)
		FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
		WHERE attrelid IN ('orders'::regclass, 'parcels'::regclass)"
}

drop_tables()
{
	query 'SET client_min_messages = warning; DROP TABLE IF EXISTS parcels, orders CASCADE'
}

# Run an example that inserts a row, then 100 more with a number of statements; none if
# that is 0.
run_example()
{
	local statements=$1 size lines=() ids
	shift

	size=$(stat --format=%s "$throwaway/log")
	if ! "$@" >out 2>errors || ! [[ $(sed -n 1p out) =~ ^[0-9]+$ ]]; then
		sed 's/^/# /' out errors
		check "$tool: the example runs" ""
		return
	fi
	mapfile -t lines <out
	echo "# $tool: JSON: ${lines[2]-}"
	check "$tool: the example prints the id of its row" "$(query "SELECT count(*) FROM orders
		WHERE item = 'tea' AND id = '${lines[0]}' AND id > 2 ^ 62
			AND abs(extract(epoch FROM snowflake_timestamp(id) - clock_timestamp())) < 300")" = 1
	check "$tool: the id is the same in a row that refers to it" "${lines[1]-}" = "${lines[0]}"
	check "$tool: the id is the same in JSON" "$(query "SELECT count(*)
		FROM jsonb_path_query('${lines[2]:-null}', 'lax $.**.id') AS found
		WHERE found #>> '{}' = '${lines[0]}'")" -gt 0
	check "$tool: the server makes the keys, and no other column has the default" "$(defaults)" \
		= 'orders.id bigint snowflake_id(), parcels.id bigint snowflake_id()'
	[ "$statements" -gt 0 ] || return 0
	ids=$(query "SELECT count(*) FROM orders WHERE item = 'coffee' AND id > 2 ^ 62")
	check "$tool: 100 rows have ids" "$ids" -eq 100
	check "$tool: 100 rows are inserted by $statements statements" \
		"$(count_statements "$size" '(INSERT INTO|COPY) ("?public"?\.)?"?orders')" -eq $((1 + statements))
}

# Run the example once more, and continue from there in the language of the tool.  Ids
# are ahead of the clock, so that those after a DROP EXTENSION are above AHEAD only if the
# server remembers.
run_more()
{
	local failed=

	drop_tables
	AHEAD=$(query "SELECT ahead FROM snowflake_first_from(now() + interval '4min') AS ahead, snowflake_advance(ahead)")
	export AHEAD
	"$@" >out 2>errors || failed=yes
	grep -E '^(not )?ok - ' out | sed 's/ - / - clients_debian: '"$tool"': /' || failed=yes
	if [ -n "$failed" ] || grep -q '^not ok - ' out; then
		grep -hv '^ok - ' out errors | head -n 20 | sed 's/^/# /' || true
		[ -z "$failed" ] || echo "not ok - clients_debian: $tool broke off"
		status=1
	fi
}

check_psycopg()
{
	run_example 1 /usr/bin/python3 "$clients/psycopg3.py"
}

check_sqlalchemy()
{
	run_example 1 /usr/bin/python3 "$clients/sqlalchemy_model.py"
}

check_django()
{
	run_example 1 /usr/bin/python3 "$clients/django_model.py"
	run_more /usr/bin/python3 "$tests/django_migrations.py"
}

check_jdbc()
{
	PGHOST=localhost run_example 1 java -cp /usr/share/java/postgresql.jar "$clients/Jdbc.java"
}

check_rails()
{
	run_example 1 ruby "$clients/rails.rb"
	run_more ruby "$tests/rails.rb"
}

check_eloquent()
{
	run_example 1 php "$clients/eloquent.php"
}

check_doctrine()
{
	run_example 0 php "$clients/doctrine.php"
}

check_sequel()
{
	run_example 1 ruby "$clients/sequel.rb"
}

# Debian packages Go sources as a tree, without modules.
build_go()
{
	GO111MODULE=off CGO_ENABLED=0 GOPATH=/usr/share/gocode GOCACHE=$throwaway/go GOFLAGS=-p=2 go build -o "$throwaway/$tool" "$1"
}

run_go()
{
	build_go "$1" && "$throwaway/$tool"
}

check_gorm()
{
	local size

	run_example 1 run_go "$clients/gorm.go"
	size=$(stat --format=%s "$throwaway/log")
	"$throwaway/gorm" >out || true
	check "gorm: the example runs again" "$(sed -n 2p out)" = "$(sed -n 1p out)"
	check "gorm: AutoMigrate finds nothing to change" "$(count_statements "$size" 'CREATE|ALTER|DROP')" -eq 0
}

check_pgx()
{
	run_example 1 run_go "$clients/pgx.go"
}

# Debian's crates are a local registry.
check_diesel()
{
	mkdir -p crate/src crate/.cargo
	cp "$clients/diesel.rs" crate/src/main.rs
	cat >crate/Cargo.toml <<-'END'
		[package]
		name = "example"
		version = "0.0.0"
		edition = "2021"
		[dependencies]
		diesel = { version = "2", default-features = false, features = ["postgres", "32-column-tables", "with-deprecated"] }
		serde = { version = "1", features = ["derive"] }
		serde_json = "1"
	END
	cat >crate/.cargo/config.toml <<-'END'
		[source.crates-io]
		replace-with = "debian"
		[source.debian]
		directory = "/usr/share/cargo/registry"
	END
	(cd crate && cargo build --quiet --offline) || true
	run_example 1 crate/target/debug/example
}

check_peewee()
{
	run_example 1 /usr/bin/python3 "$clients/peewee_model.py"
}

check_dbix_class()
{
	run_example 100 perl "$clients/dbix_class.pl"
}

query 'CREATE ROLE shop LOGIN CREATEDB'
for tool in "$@"; do
	PGDATABASE=postgres query "CREATE DATABASE $tool OWNER shop"
	export PGDATABASE=$tool PGUSER=shop
	psql --no-psqlrc --quiet --command='CREATE EXTENSION snowflake'
	"check_$tool"
done
exit "$status"
