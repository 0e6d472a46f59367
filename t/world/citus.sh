#!/bin/bash
#
# Citus, built from its source, and run by citus.pl, or by another test.
#
# Citus wants to be where the server's own extensions are.  So, for the time that the test
# runs, and in its own mount namespace only, these directories are copies.
#
# The source is the directory or the archive that SNOWFLAKE_CITUS names, or an archive
# citus-*.tar.* in the directory "shared" beside this one, or the release of Citus, where
# there is a network to fetch it from.
#
# usage: t/world/citus.sh [TEST], as root

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

release=13.0.5
test=${1:-t/world/citus.pl}
version=$(native_version)
pg_config=$(native_pg_config)
places=("$("$pg_config" --pkglibdir)" "$("$pg_config" --sharedir)")
[ "$(id -u)" -eq 0 ] || die "needs root"
need_build_packages autoconf bison bzip2 ca-certificates curl flex libkrb5-dev liblz4-dev libpam0g-dev \
	libselinux1-dev libssl-dev libxml2-dev libzstd-dev xz-utils
work=$(mktemp --directory --tmpdir snowflake-citus.XXXXXX)
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# Where the source is; one that was fetched is kept until the test is over.
find_source()
{
	local found

	[ -z "${SNOWFLAKE_CITUS-}" ] || { realpath "$SNOWFLAKE_CITUS"; return; }
	found=$(compgen -G "$root/../shared/citus-*.tar.*" | sort --version-sort | tail -n 1)
	[ -z "$found" ] || { realpath "$found"; return; }
	echo "# fetching Citus $release" >&2
	curl --fail --silent --show-error --location --output "$work/citus.tar.gz" \
		"https://github.com/citusdata/citus/archive/refs/tags/v$release.tar.gz" &&
		echo "$work/citus.tar.gz"
}

build()
{
	local place

	mkdir "$work/citus"
	if [ -d "$source" ]; then
		tar --create --directory="$source" --exclude=.git . | tar --extract --directory="$work/citus"
	else
		tar --extract --file="$source" --directory="$work/citus" --strip-components=1
	fi
	chown -R postgres "$work/citus"
	cd "$work/citus"
	as_user ./configure PG_CONFIG="$pg_config" --without-libcurl
	as_user make --jobs="$(nproc)" --silent with_llvm=no extension
	for place in "${places[@]}"; do
		mkdir -p "$work/stage$place"
		cp -R "$place/." "$work/stage$place"
	done
	make --silent with_llvm=no install-extension DESTDIR="$work/stage"
}

source=$(find_source) || {
	echo "# Citus is not tested: no SNOWFLAKE_CITUS, and its release $release cannot be fetched"
	exit 0
}
copy_sources "$work/source"
attempt build >"$work/build.log" 2>&1
[ "$failed" -eq 0 ] || { tail -n 30 "$work/build.log"; die "could not build Citus"; }
# shellcheck disable=SC2016
unshare --mount bash -c '
	. script/lib.sh
	for place in "${@:5}"; do mount --bind "$1/stage$place" "$place" || exit; done
	PG_CONFIG=$2 as_user "$1/source/script/check" "$3" "$4"' \
	"$0" "$work" "$pg_config" "$version" "$test" "${places[@]}"
