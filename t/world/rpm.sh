#!/bin/bash
#
# The RPM packages of packaging/snowflake.spec: build them from what "make dist" makes, compare
# their files with those of "make install", install them below a directory, and make
# ids with a server of PostgreSQL 18 that finds the extension there.
#
# Debian has rpmbuild, and no servers in RPM packages: so the files are for the places of
# Debian's server, and the packages that they require are not looked for.  All of it is done in
# the directory with the release that has 18, under an overlay, which takes what is
# installed, and is gone at the end.
#
# usage: t/world/rpm.sh, as root

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

if [ -z "${SNOWFLAKE_RELEASE-}" ]; then
	[ "$(id -u)" -eq 0 ] || die "needs root"
	need_packages debootstrap
	make_release 18
	release=$(release_dir 18)
	overlay=$(mktemp --directory "$release-rpm.XXXXXX")
	trap 'rm -rf "$overlay"' EXIT
	mkdir "$overlay/upper" "$overlay/work"
	# shellcheck disable=SC2016
	unshare --mount bash -euo pipefail -c '
		. script/lib.sh
		mount -t overlay -o "lowerdir=$0,upperdir=$1/upper,workdir=$1/work" overlay "$0"
		run_in_release root 18 t/world/rpm.sh' "$release" "$overlay"
	exit
fi

version=$(native_version)
pg_config=$(native_pg_config)
bindir=$("$pg_config" --bindir)
libdir=$("$pg_config" --pkglibdir)
sharedir=$("$pg_config" --sharedir)
need_build_packages git rpm unzip
umask 022
work=$(mktemp --directory --tmpdir snowflake-rpm.XXXXXX)
chown postgres "$work"
chmod 755 "$work"
trap 'stop_server "$work"; rm -rf "$work"' EXIT
status=0

# What "make dist" takes is committed.
make_dist()
{
	copy_sources "$work/tree"
	cd "$work/tree"
	as_user git init --quiet
	as_user git add --all
	as_user git -c user.name=test -c user.email=test@packages.invalid commit --quiet --message=test
	as_user make --silent PG_CONFIG="$pg_config" dist
	cp snowflake-*.zip "$work/rpm/SOURCES"
}

build()
{
	local object

	as_user mkdir -p "$work/rpm/SOURCES"
	(make_dist)
	as_user "${rpmbuild[@]}" -ba --nodeps --noclean packaging/snowflake.spec
	# from what is built already
	object=$(find "$work/rpm/BUILD" -name snowflake.o)
	as_user make -C "${object%/*}" PG_CONFIG="$pg_config" install DESTDIR="$work/expected"
}

rpmbuild=(rpmbuild --define "_topdir $work/rpm" --define "pgmajorversion $version" --define "pgconfig $pg_config"
	--define "pglibdir $libdir" --define "pgsharedir $sharedir")
attempt build >"$work/build.log" 2>&1
[ "$failed" -eq 0 ] || { tail -n 30 "$work/build.log"; die "could not build the packages"; }
grep -E '(^|: )warning: ' "$work/build.log" | grep -v 'canonicalize hostname' | sed 's/^/# /' || true

# without those with debugging symbols, which rpmbuild adds
packages=("$work/rpm/RPMS"/*/"snowflake_$version"-{[0-9],llvmjit}*.rpm)
check "there are two packages, and the source" \
	"$(basename --multiple "${packages[@]}" "$work"/rpm/SRPMS/*.rpm | sed 's/-[0-9].*//' | tr '\n' ' ')" = \
	"snowflake_$version snowflake_$version-llvmjit snowflake_$version "
check "they have the version of META.json" \
	"$(rpm --query --queryformat '%{version} ' --package "${packages[@]}")" = \
	"$(make --silent PG_CONFIG="$pg_config" print-DISTVERSION | sed 's/.*/& & /')"
check "by default the files are for PGDG's server" \
	"$(rpmspec --query --queryformat '%{name} ' --define 'pgmajorversion 17' packaging/snowflake.spec) $(
		rpmspec --parse --define 'pgmajorversion 17' packaging/snowflake.spec | grep '^/.*snowflake\.so$')" = \
	"snowflake_17 snowflake_17-llvmjit  /usr/pgsql-17/lib/snowflake.so"
check "and without JIT there is one package" \
	"$(rpmspec --query --queryformat '%{name} ' --define 'llvm 0' packaging/snowflake.spec)" = "snowflake_18 "
# but for directories
rpm --query --list --package "${packages[@]}" | sort >"$work/files"
(cd "$work/expected" && find . -type f | sed 's/^.//' | sort) >"$work/expected_files"
comm -13 "$work/files" "$work/expected_files" >"$work/lacking"
sed 's/^/# lacking: /' "$work/lacking"
check "they have all $(wc -l <"$work/expected_files") files that are installed" ! -s "$work/lacking" -a -s "$work/expected_files"
comm -23 "$work/files" "$work/expected_files" | grep -vE "^/usr/(share/(doc|licenses)|lib/\.build-id)(/|$)|^$libdir/bitcode(/|$)" >"$work/others" || true
sed 's/^/# not expected: /' "$work/others"
check "and no others but documents" ! -s "$work/others"
check "documents and license" "$(grep -cE \
	"/snowflake_${version}[^/]*/(README\.md|CHANGELOG\.md|LICENSE|doc/guide\.md|doc/convert/large_table\.sql)$" "$work/files")" -eq 5
rpm --query --requires --package "${packages[@]}" | grep -v '^rpmlib(' | sort -u >"$work/requires"
check "nothing but the server and libraries is required" -z "$(grep -vE \
	"^(postgresql$version-(server|llvmjit)|lib[a-z0-9]+\.so\..*|ld-linux.*|rtld\(GNU_HASH\)|snowflake_$version.* = 1\.0\.0-1.*)$" "$work/requires")"

# Installed, verified and removed again
rpm=(rpm --root "$work/root" --nodeps)
mkdir -p "$work/root"
"${rpm[@]}" --install "${packages[@]}" >"$work/install.log" 2>&1 && installed=yes || installed=no
grep -v '^warning: private mounts' "$work/install.log" | sed 's/^/# /' || true
check "they are installed" "$installed" = yes -a -z "$(rpm --root "$work/root" --verify --nodeps "snowflake_$version" "snowflake_$version-llvmjit" 2>&1)"

start_server "$work" <<END
extension_control_path = '$work/root$sharedir:\$system'
dynamic_library_path = '$work/root$libdir:\$libdir'
END

query()
{
	psql --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 --command="$1"
}

query 'CREATE EXTENSION snowflake; CREATE EXTENSION snowflake_registry'
check "a server finds the extension there, and makes ids" \
	"$(query 'SELECT count(DISTINCT snowflake_nextval()) FROM generate_series(1, 100000)')" = 100000
query 'CREATE DATABASE managed'
export PGDATABASE=managed
query "CREATE EXTENSION snowflake_sql; SELECT snowflake_configure('snowflake', worker_id => 1)" >/dev/null
check "and ids in SQL without it" \
	"$(query 'SELECT count(DISTINCT snowflake_nextval()) FROM generate_series(1, 1000)')" = 1000
export PGDATABASE=postgres
query "ALTER SYSTEM SET shared_preload_libraries = 'snowflake'"
query "ALTER SYSTEM SET snowflake.registry = 'host=$work dbname=postgres'"
as_user "$bindir/pg_ctl" --pgdata="$work/data" --log="$work/log" --silent --wait restart
wait_for_lease && leased=yes || leased=no
check "the lease library is found, too" "$leased" = yes
as_user "$bindir/pg_ctl" --pgdata="$work/data" --silent --mode=fast stop

"${rpm[@]}" --erase "snowflake_$version" "snowflake_$version-llvmjit" 2>&1 | grep -v '^warning: private mounts' | sed 's/^/# /' || true
find "$work/root" -name '*snowflake*' >"$work/left"
sed 's/^/# left: /' "$work/left"
check "nothing is left when they are removed" ! -s "$work/left"
exit "$status"
