#!/bin/bash
#
# Test the Debian package for a version of PostgreSQL: build it twice, install it, make
# ids with it, with JIT, too, run its own tests, and remove it.  All of that happens in
# the directory with the release that has the version, so that the machine is left
# alone.
#
# usage: t/world/packages.sh VERSION, as root

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

if [ -z "${SNOWFLAKE_RELEASE-}" ]; then
	[ "$(id -u)" -eq 0 ] || die "needs root"
	[ -n "${debian_release[${1-}]-}" ] || die "which version: ${!debian_release[*]}?"
	need_packages debootstrap
	make_release "$1"
	run_in_release root "$1" t/world/packages.sh
	exit
fi

version=$(native_version)
need_build_packages build-essential debhelper dpkg-dev fakeroot postgresql-server-dev-all \
	python3 autopkgtest lintian
# from 18 on, JIT has a package of its own
[ "$version" -lt 18 ] || need_packages "postgresql-$version-jit"
package=postgresql-$version-snowflake
work=$(mktemp --directory --tmpdir snowflake-package.XXXXXX)
chmod 755 "$work"
trap 'dpkg --purge "$package" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
status=0

# With the same time, from the changelog, nothing differs, wherever it is built: build DIRECTORY
build()
{
	copy_sources "$work/$1/source"
	chown -R root: "$work/$1"
	(
		cd "$work/$1/source"
		pg_buildext updatecontrol
		dpkg-buildpackage --unsigned-source --unsigned-changes --build=binary
	) >"$work/build.log" 2>&1 || { tail -n 30 "$work/build.log"; return 1; }
}

build here
build somewhere_else
deb=${package}_1.0.0_$(dpkg --print-architecture).deb
check "the package can be reproduced" "$(sha256sum <"$work/here/$deb")" = "$(sha256sum <"$work/somewhere_else/$deb")"
lintian --allow-root --fail-on none "$work/here/$deb" >"$work/lintian.log" 2>&1 || true
sed 's/^/# /' "$work/lintian.log"
check "lintian finds no fault" "$(grep -c '^[EW]: ' "$work/lintian.log")" = 0
! grep -q 'W: \|warning: ' "$work/build.log" || grep 'W: \|warning: ' "$work/build.log" | sed 's/^/# /'

dpkg --install "$work/here/$deb" >"$work/install.log" 2>&1 || cat "$work/install.log"
check "the package can be installed" "$(dpkg-query --show --showformat='${db:Status-Status}' "$package")" = installed
check "it has bitcode for JIT" -e "/usr/lib/postgresql/$version/lib/bitcode/snowflake/snowflake.bc"
check "it has the guides" -e "/usr/share/doc/$package/doc/guide.md"

cat >"$work/use.sql" <<'END'
\set ON_ERROR_STOP 1
CREATE EXTENSION snowflake;
CREATE EXTENSION snowflake_registry;
SET jit = on;
SET jit_above_cost = 0;
SET jit_inline_above_cost = 0;
SET jit_optimize_above_cost = 0;
SELECT 'ids ' || count(DISTINCT snowflake_nextval()) FROM generate_series(1, 100000);
SELECT 'worker ' || snowflake_worker_id(snowflake_nextval());
SELECT 'jit ' || pg_jit_available();
EXPLAIN (ANALYZE) SELECT sum(snowflake_worker_id(snowflake_nextval())) FROM generate_series(1, 1000) AS i WHERE i > 0;
END
chmod 644 "$work/use.sql"
pg_virtualenv -v "$version" psql --no-psqlrc --tuples-only --no-align --file="$work/use.sql" >"$work/used" 2>&1 ||
	sed 's/^/# /' "$work/used"
check "ids are made" "$(grep '^ids ' "$work/used")" = 'ids 100000'
check "with worker id 0" "$(grep '^worker ' "$work/used")" = 'worker 0'
check "JIT is available" "$(grep '^jit ' "$work/used")" = 'jit true'
check "JIT is used" "$(grep -c 'Inlining true' "$work/used")" -eq 1

# the keys that PGXN's specification of META.json requires, and files that must exist
lacking=$(/usr/bin/python3 -c '
import json, os
meta = json.load(open("META.json"))
for key in "abstract", "maintainer", "license", "provides", "name", "version", "meta-spec":
    if not meta.get(key):
        print(key)
for extension in meta["provides"].values():
    for key in "file", "docfile":
        if not os.path.exists(extension[key]):
            print(extension[key])
    if extension["version"].count(".") != 2:
        print(extension["version"])')
check "META.json has all that PGXN requires" -z "$lacking"
copy_sources "$work/tested"
(
	cd "$work/tested"
	pg_buildext updatecontrol
	autopkgtest --no-built-binaries . -- null
) >"$work/tests.log" 2>&1 && passed=yes || passed=no
[ "$passed" = yes ] || tail -n 40 "$work/tests.log" | sed 's/^/# /'
check "its own tests pass" "$passed" = yes

dpkg --purge "$package" >/dev/null 2>&1
check "nothing is left after it is removed" -z "$(find /usr/lib/postgresql /usr/share/postgresql /usr/share/doc -name '*snowflake*' -print -quit)"
exit "$status"
