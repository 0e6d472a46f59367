#!/bin/bash
#
# Adopt the keys of schemas that others wrote: those of Debian's packages, of applications
# made with Django, of a package from npm, and PostgreSQL's own regression
# database.  Each gets a row in every table before and after the adoption, by an owner who
# is no superuser, with references to the newest keys.  Rows and constraints have to stay
# as they were, and to survive a dump.
#
# usage: t/world/schemas.sh [NAME ...]

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh
. t/world/schemas/convert.sh

# Name, packages, and files to load in this order, below /usr/share unless they are
# absolute.  Of the versions that a * matches, the newest is loaded.
sql_schemas='
bacula bacula-director-pgsql dbconfig-common/data/bacula-director-pgsql/install/pgsql
davical libawl-php,davical awl/dba/awl-tables.sql awl/dba/schema-management.sql davical/dba/davical.sql
freeradius freeradius-config /etc/freeradius/3.0/mods-config/sql/main/postgresql/schema.sql
icinga icinga2-ido-pgsql icinga2-ido-pgsql/schema/pgsql.sql
icinga_director icingaweb2-module-director icingaweb2/modules/director/schema/pgsql.sql
kamailio kamailio-postgres-modules kamailio/postgres/standard-create.sql kamailio/postgres/dialog-create.sql kamailio/postgres/presence-create.sql
kea kea-admin kea/scripts/pgsql/dhcpdb_create.pgsql
ledgersmb ledgersmb ledgersmb/sql/Pg-database.sql
mediawiki mediawiki mediawiki/maintenance/postgres/tables-generated.sql mediawiki/maintenance/postgres/tables.sql
oar oar-server /usr/lib/oar/database/pg_structure.sql
openqa openqa openqa/dbicdh/PostgreSQL/deploy/*/001-auto.sql
powerdns pdns-backend-pgsql pdns-backend-pgsql/schema/schema.pgsql.sql
request_tracker request-tracker5 request-tracker5/etc/schema.Pg
roundcube roundcube-core dbconfig-common/data/roundcube/install/pgsql
sql_ledger sql-ledger sql-ledger/sql/Pg-tables.sql sql-ledger/sql/Pg-functions.sql sql-ledger/sql/Pg-indices.sql
tiny_tiny_rss tt-rss dbconfig-common/data/tt-rss/install/pgsql
'
all=(django graphile_worker regression)
mapfile -t -O ${#all[@]} all < <(awk 'NF { print $1 }' <<<"$sql_schemas")
[ $# -gt 0 ] || set -- "${all[@]}"

# What cannot be adopted: keys that refer to another table, too.
declare -A excluding=(
	[icinga_director]='icinga_scheduled_downtime_range, icinga_timeperiod_range, import_row_modifier_setting'
	[ledgersmb]='ap, ar, gl'
)

[ "$(id -u)" -eq 0 ] || die "needs root"
start_throwaway_server <<'END'
fsync = off
END
files=$throwaway/files
schemas=$throwaway/source/t/world/schemas
pg_config=$(native_pg_config)
mkdir "$files"
chmod 755 "$files"
status=0

# Unpack Debian's packages, without what they need.
unpack()
{
	local package

	for package in "$@"; do
		(cd "$files" && apt-get -q download "$package" && dpkg-deb --extract "$package"_*.deb .) || return
	done
}

load_sql()
{
	local packages=() file place

	IFS=, read -ra packages <<<"$1"
	shift
	unpack "${packages[@]}"
	for file in "$@"; do
		[[ $file = /* ]] || file=/usr/share/$file
		# shellcheck disable=SC2086
		place=$(ls $files$file | sort --version-sort | tail -n 1)
		query <"$place" >/dev/null
	done
}

# Applications are migrated as they are meant to be.
load_django()
{
	need_packages python3-django python3-psycopg2 python3-django-guardian python3-django-reversion \
		python3-django-allauth python3-django-oauth-toolkit python3-django-celery-beat \
		python3-django-celery-results python3-django-taggit python3-django-axes python3-djangorestframework
	/usr/bin/python3 -W ignore "$schemas/django_apps.py"
}

load_graphile_worker()
{
	need_node_pg graphile-worker
	"$throwaway/node/node_modules/.bin/graphile-worker" --schema-only --connection "postgres:///$name"
}

# The tests of PostgreSQL, not all of which pass here, as they know no other locale, role
# or directory.  What they leave behind is what matters.
load_regression()
{
	local dir=$throwaway/regress

	mkdir --parents "$dir/lists/partial"
	cp -r /etc/apt/sources.list* "$dir"
	touch "$dir/sources.list"
	find "$dir" -type f -exec sed -i 's/^Types: .*/Types: deb-src/; s/^deb /deb-src /' {} +
	(
		cd "$dir"
		options=(-q -o "Dir::Etc::SourceList=$dir/sources.list" -o "Dir::Etc::SourceParts=$dir/sources.list.d"
			-o "Dir::State::Lists=$dir/lists")
		apt-get "${options[@]}" update
		apt-get "${options[@]}" source --download-only "postgresql-$version/$(. /etc/os-release && echo "$VERSION_CODENAME")"
		tar --extract --file="$(echo ./*.orig.tar.*)" --strip-components=4 --wildcards '*/src/test/regress/*'
		gcc -shared -fPIC -I"$("$pg_config" --includedir-server)" -o regress.so regress.c
	)
	chown -R postgres "$dir"
	(
		cd "$dir"
		as_user "$("$pg_config" --pkglibdir)/pgxs/src/test/regress/pg_regress" --bindir="$bindir" --host="$PGHOST" \
			--user=postgres --dlpath="$dir" --inputdir="$dir" --outputdir="$dir" --use-existing \
			--dbname="$PGDATABASE" --max-concurrent-tests=20 --schedule="$dir/parallel_schedule" || true
	)
}

check_schema()
{
	local name=$1 schema=public words failed tables made left
	local -x PGDATABASE=$1 PGUSER=keeper

	PGUSER=postgres createdb --maintenance-db=postgres --owner=keeper "$name"
	read -ra words <<<"$(grep "^$name " <<<"$sql_schemas" || echo "$name")"
	if [ ${#words[@]} -gt 1 ]; then
		words[0]=sql
	fi
	attempt "load_${words[0]}" "${words[@]:1}" >"$name.log" 2>&1
	if [ "$failed" -ne 0 ]; then
		tail -n 20 "$name.log" | sed 's/^/# /'
		check "$name: the schema can be made" ""
		return
	fi
	[ "$name" != graphile_worker ] || schema=$name
	# the objects of the superuser that initdb made cannot be given to another role
	[ "$name" != regression ] || PGUSER=postgres

	query --file="$schemas/rows.sql"
	query --command='CALL made.round(1)' --command='CALL made.round(2)'
	tables=$(query --command='SELECT count(*) FROM made.tables')
	made=$(query --command='SELECT count(*) FROM made.rows WHERE round = 1 AND way IS NOT NULL')
	check "$name: rows are made in $made of $tables tables" "$tables" -gt 0 -a "$((made * 10))" -ge "$((tables * 8))"
	query --command='SELECT * FROM made.state()' >"$name.before"
	convert "$schema" "${excluding[$name]-}" 'drop_sequence => true' || return 0
	query --command='SELECT * FROM made.state()' >"$name.after"
	check "$name: rows and constraints are as they were" "$(diff "$name.before" "$name.after")" = ""

	query --command='CALL made.round(3)'
	# but where a function that the procedure lists has to be changed
	left=$(query --command="SELECT relation || ': ' || reason FROM made.rows AS last
		WHERE round = 3 AND way IS NULL AND NOT EXISTS (SELECT FROM made.rows WHERE relation = last.relation AND round < 3 AND way IS NULL)
			AND coalesce(position('.' || substring(reason FROM 'function (\w+\()') IN \$log\$$(<"$name.log")\$log\$), 0) = 0")
	[ -z "$left" ] || sed 's/^/# /' <<<"$left"
	check "$name: those that took two rows take another" "$left" = ""

	query --command='SELECT * FROM made.state()' >"$name.before"
	PGUSER=postgres createdb --maintenance-db=postgres --owner=keeper "$name.copy"
	pg_dump --format=custom --file="$name.dump" "$name"
	pg_restore --dbname="$name.copy" "$name.dump" >"$name.log" 2>&1 || sed 's/^/# /' "$name.log"
	query --dbname="$name.copy" --command='SELECT * FROM made.state()' >"$name.after"
	check "$name: and so are they in a dump that is restored" "$(diff "$name.before" "$name.after")" = ""
}

query --command='CREATE ROLE keeper LOGIN; GRANT SET ON PARAMETER session_replication_role TO keeper'
for name in "$@"; do
	check_schema "$name"
done
exit "$status"
