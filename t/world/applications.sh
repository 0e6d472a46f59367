#!/bin/bash
#
# Complete applications: those of Debian and npm are installed, used through their own
# interfaces, converted, and used again.
#
# usage: t/world/applications.sh [NAME ...]

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh
. t/world/schemas/convert.sh

[ $# -gt 0 ] || set -- django redmine unleash directus
[ "$(id -u)" -eq 0 ] || die "needs root"
# JavaScript holds the ids of this layout
start_throwaway_server <<'END'
fsync = off
snowflake.layout = 'js53'
END
programs=$throwaway/source/t/world/applications
redmine=$throwaway/files/usr/share/redmine
export PORT=$((20000 + RANDOM % 10000)) RAILS_ENV=production SECRET_KEY_BASE=none REDMINE_LANG=en
status=0

install_django()
{
	need_packages python3-django python3-psycopg2
}

# Use an application, for the first or second time.
use_django()
{
	/usr/bin/python3 -W ignore "$programs/django_site.py" "$1"
}

install_redmine()
{
	local needed

	mkdir "$throwaway/files"
	(cd "$throwaway/files" && apt-get -q download redmine && dpkg-deb --extract redmine_*.deb .)
	# but for what configures its database
	needed=$(dpkg-deb --field "$throwaway"/files/redmine_*.deb Depends | tr , '\n' | grep -vE 'redmine|dbconfig|debconf' | paste -sd ,)
	DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends satisfy "$needed, ruby-pg"
	# these are links to what an installation has; the driver is named there, too
	rm "$redmine/instances" "$redmine/Gemfile.lock"
	mkdir -p "$redmine/instances/default/config" "$redmine/instances/default/log" "$redmine/instances/default/files" "$redmine/instances/default/tmp"
	echo 'production: {adapter: postgresql}' >"$redmine/instances/default/config/database.yml"
	echo "gem 'pg'" >"$redmine/Gemfile.local"
	(cd "$redmine" && bundle exec rake db:migrate && bundle exec rake redmine:load_default_data)
}

use_redmine()
{
	(cd "$redmine" && ROUND=$1 bundle exec rails runner "$programs/redmine.rb")
}

install_unleash()
{
	need_node_pg unleash-server@8
}

use_unleash()
{
	node "$programs/unleash.mjs" "$throwaway/node/node_modules" "$1"
}

# Native modules come built, but for one that runs scripts of users, which nobody calls here.
install_directus()
{
	local isolated=$throwaway/node/node_modules/isolated-vm/out

	need_node_pg --ignore-scripts directus@10
	mkdir "$isolated"
	echo 'module.exports = {}' >"$isolated/isolated_vm.js"
	node "$throwaway/node/node_modules/directus/cli.js" bootstrap
}

use_directus()
{
	node "$programs/directus.mjs" "$throwaway/node/node_modules" "$1"
}

# What each prints after it was used once, and twice; and keys that stay.
declare -A once=(
	[django]='11 users, 1 groups, 10 members'
	[redmine]='10 issues, 2 projects, 2 comments, 1 relations'
	[unleash]='5 features, 5 with strategies'
	[directus]='10 articles, 10 comments'
) twice=(
	[django]='21 users, 2 groups, 20 members'
	[redmine]='20 issues, 4 projects, 2 comments, 1 relations'
	[unleash]='10 features, 10 with strategies'
	[directus]='20 articles, 20 comments'
) excluding=([unleash]=users)

check_application()
{
	local name=$1 out
	local -x PGDATABASE=$1 PGUSER=keeper
	# those of Directus
	local -x DB_CLIENT=pg DB_HOST=$PGHOST DB_PORT=${PGPORT:-5432} DB_DATABASE=$1 DB_USER=keeper DB_PASSWORD=none
	local -x KEY=none SECRET=none ADMIN_EMAIL=keeper@example.com ADMIN_PASSWORD=none TELEMETRY=false

	PGUSER=postgres createdb --maintenance-db=postgres --owner=keeper "$name"
	attempt "install_$name" >"$name.log" 2>&1
	if [ "$failed" -ne 0 ]; then
		tail -n 20 "$name.log" | sed 's/^/# /'
		check "$name: it can be installed" ""
		return
	fi
	out=$("use_$name" 1 2>"$name.log" | tail -n 1) || sed 's/^/# /' "$name.log"
	check "$name: before the conversion, it has ${out:-nothing}" "$out" = "${once[$name]}"
	convert public "${excluding[$name]-}" || return 0
	out=$("use_$name" 2 2>"$name.log" | tail -n 1) || sed 's/^/# /' "$name.log"
	check "$name: after the conversion, it has ${out:-nothing}" "$out" = "${twice[$name]}"
}

query --command='CREATE ROLE keeper LOGIN'
for name in "$@"; do
	check_application "$name"
done
exit "$status"
