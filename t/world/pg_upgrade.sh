#!/bin/bash
#
# Upgrade a server from one version of PostgreSQL to a later one with pg_upgrade, in
# each of its ways, see pg_upgrade.pl.
#
# The programs of both versions must run in one place, which is the directory with the
# release of the new version.  While the test runs, and only in its mount namespace,
# /usr/lib/postgresql and /usr/share/postgresql there are copies, with the old version
# next to the new one.
#
# usage: t/world/pg_upgrade.sh OLD NEW, as root

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

[ $# -eq 2 ] || die "which versions: OLD NEW?"
old=$1
new=$2
[ "$(id -u)" -eq 0 ] || die "needs root"
need_build_packages debootstrap
# Do not use the machine's own server: the new one may not know what a dump of the
# latest minor release contains.
make_release "$old"
make_release "$new"
old_release=$(release_dir "$old")

bindir=/usr/lib/postgresql/$old/bin
release=$(release_dir "$new")
work=$(mktemp --directory "$release/var/tmp/snowflake-upgrade.XXXXXX")
place=${work#"$release"}
trap 'rm -rf "$work"' EXIT
# let running commands end before the directory is removed
trap 'exit 1' INT TERM
chmod 755 "$work"

# Build the extension for the old version, in its release.
build_old()
{
	local place

	place=$(mktemp --directory "$old_release/var/tmp/snowflake-old.XXXXXX")
	copy_sources "$place"
	chroot "$old_release" make --silent -C "${place#"$old_release"}" PG_CONFIG="$bindir/pg_config" with_llvm=no \
		install DESTDIR="${place#"$old_release"}/stage"
	cp -r "$place/stage/." "$work"
	rm -rf "$place"
}

# Copy the old version, with the extension and with libraries of its release that the
# new one lacks.
copy_old()
{
	local library

	build_old
	cp -r "$old_release/usr/lib/postgresql/$old" "$work/usr/lib/postgresql"
	cp -r "$old_release/usr/share/postgresql/$old" "$work/usr/share/postgresql"
	# other packages install scripts there, at which ldd fails
	{ chroot "$old_release" bash -c "ldd $bindir/*" || true; } | awk '$2 == "=>" { print $3 }' | sort -u |
		while read -r library; do
			[ -e "$release$library" ] || cp "$old_release$library" "$work/usr/lib/postgresql/$old/lib"
		done
}

copy_all()
{
	copy_old
	cp -r "$release/usr/lib/postgresql/$new" "$work/usr/lib/postgresql"
	cp -r "$release/usr/share/postgresql/$new" "$work/usr/share/postgresql"
	copy_sources "$work/new"
	chroot "$release" chown -R postgres "$place/new"
}

attempt copy_all >"$work/log" 2>&1
[ "$failed" -eq 0 ] || { cat "$work/log"; die "could not prepare the upgrade"; }

# shellcheck disable=SC2016
unshare --mount bash -c '
	. script/lib.sh
	mount --bind "$1/usr/lib/postgresql" "$0/usr/lib/postgresql" &&
	mount --bind "$1/usr/share/postgresql" "$0/usr/share/postgresql" &&
	in_release "$3" postgres env SNOWFLAKE_OLD_INSTALL="/usr/lib/postgresql/$2" \
		"${1#"$0"}/new/script/check" "$3" t/world/pg_upgrade.pl' \
	"$release" "$work" "$old" "$new"
