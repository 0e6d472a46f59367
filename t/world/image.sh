#!/bin/bash
#
# Test doc/kubernetes.md and packaging/Dockerfile: the image of packaging/image, unpacked, with a
# server that finds the extension in it by only two settings, the SQL tests, the entry point, and
# the settings of the manifests; and the steps of Dockerfile.  Runs on each version of
# PostgreSQL from 18 on, in the directory with the release that has it.
#
# usage: t/world/image.sh, as root

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

# buildah needs its root directory to be a mount point
check_in_release()
{
	make_release "$1"
	# shellcheck disable=SC2016
	unshare --mount bash -euo pipefail -c '
		. script/lib.sh
		dir=$(release_dir "$0")
		mount --bind "$dir" "$dir"
		run_in_release root "$0" t/world/image.sh' "$1"
}

if [ -z "${SNOWFLAKE_RELEASE-}" ]; then
	[ "$(id -u)" -eq 0 ] || die "needs root"
	need_packages debootstrap python3-yaml
	/usr/bin/python3 t/world/manifests.py check && status=0 || status=1
	entry_point=$(mktemp --directory --tmpdir snowflake-entry-point.XXXXXX)
	printf '#!/bin/sh\necho "$*"\n' >"$entry_point/docker-entrypoint.sh"
	chmod 755 "$entry_point/docker-entrypoint.sh"
	check "the worker id is the number of the pod" "$(HOSTNAME=orders-3 PATH=$entry_point:$PATH \
		sh doc/servers/statefulset.sh -p 5432)" = "postgres -c snowflake.worker_id=3 -p 5432"
	check "a host name without a number fails" "$(HOSTNAME=orders sh doc/servers/statefulset.sh 2>&1)" = \
		'host name does not end with a number: "orders"'
	rm -r "$entry_point"
	for version in "${!debian_release[@]}"; do
		[ "$version" -ge 18 ] || continue
		stage check_in_release "$version"
	done
	exit "$status"
fi

version=$(native_version)
bindir=/usr/lib/postgresql/$version/bin
need_packages buildah netavark umoci python3-yaml
umask 022
work=$(mktemp --directory --tmpdir snowflake-image-test.XXXXXX)
chmod 755 "$work"
trap 'end; rm -rf "$work"' EXIT
status=0

end()
{
	stop_server "$work"
	[ ! -e "$work/storage" ] || "${buildah[@]}" rm --all >/dev/null 2>&1 || true
}

query()
{
	psql --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 --command="$1"
}

restart()
{
	as_user "$bindir/pg_ctl" --pgdata="$work/data" --log="$work/log" --silent --wait --mode=fast restart ||
		{ tail -n 20 "$work/log"; exit 1; }
}

# The image, read by a program other than the one that wrote it
packaging/image "$work/first.tar" "$bindir/pg_config"
packaging/image "$work/second.tar" "$bindir/pg_config" >/dev/null
manifest_of() { tar --extract --to-stdout --file="$1" index.json | grep -o 'sha256:[0-9a-f]*'; }
check "the image can be reproduced" "$(manifest_of "$work/first.tar")" = "$(manifest_of "$work/second.tar")"
mkdir "$work/oci"
tar --extract --file="$work/first.tar" --directory="$work/oci"
umoci raw unpack --image "$work/oci:1.0" "$work/extension" >"$work/umoci.log" 2>&1 || cat "$work/umoci.log"
check "the image holds nothing but the extension" "$(cd "$work/extension" && find . -type f | LC_ALL=C sort | tr '\n' ' ')" = \
	"./LICENSE ./lib/snowflake.so ./lib/snowflake_lease.so ./share/extension/snowflake--1.0.sql ./share/extension/snowflake.control ./share/extension/snowflake_adopt--1.0.sql ./share/extension/snowflake_adopt.control ./share/extension/snowflake_registry--1.0.sql ./share/extension/snowflake_registry.control ./share/extension/snowflake_sql--1.0.sql ./share/extension/snowflake_sql.control "
check "its files are readable by all" -z "$(find "$work/extension" ! -perm -go=r)"
check "the machine has no other copy of it" -z "$(find /usr/lib/postgresql /usr/share/postgresql -name 'snowflake*' -print -quit)"

# The SQL tests, with a server that finds the extension by two settings
chown postgres "$work"
start_server "$work" <<END
extension_control_path = '\$system:$work/extension/share'
dynamic_library_path = '\$libdir:$work/extension/lib'
fsync = off
END
copy_sources "$work/source"
as_user make -C "$work/source" PG_CONFIG="$bindir/pg_config" TAP_TESTS= installcheck >"$work/tests.log" 2>&1 &&
	passed=yes || passed=no
[ "$passed" = yes ] || { tail -n 20 "$work/tests.log"; head -n 60 "$work/source/regression.diffs"; } | sed 's/^/# /'
check "the SQL tests pass" "$passed" = yes
check "all of the SQL tests run" "$(grep -cE '^ok [0-9]+ ' "$work/tests.log")" -eq "$(make --silent PG_CONFIG="$bindir/pg_config" print-REGRESS print-ISOLATION | wc -w)"

echo 'snowflake.worker_id = 7' >>"$work/data/postgresql.conf"
restart
as_user make -C "$work/source" PG_CONFIG="$bindir/pg_config" usual-settings >"$work/usual.log" 2>&1 && usual=yes || usual=no
check "they need the default settings, and say so" "$usual $(grep -c 'this one has snowflake.worker_id = 7$' "$work/usual.log")" = "no 1"

# The settings of the manifests
query 'CREATE EXTENSION snowflake_registry; CREATE EXTENSION snowflake'
/usr/bin/python3 t/world/manifests.py settings | sed "s,host=[^ ']*,host=$work,; s,dbname=[^ ']*,dbname=postgres,; s,user=[^ ']*,user=postgres,; s,ssl[a-z]*=[^ ']*,,g" \
	>>"$work/data/postgresql.conf"
sed -n '/^snowflake/s/^/# /p; /^shared_preload/s/^/# /p' "$work/data/postgresql.conf"
restart
wait_for_lease && leased=yes || leased=no
check "with the library preloaded from the image, the server leases a worker id" \
	"$leased|$(query 'SELECT lease_state, preloaded FROM snowflake_status()')" = "yes|held|t"
check "the server makes ids" "$(query 'SELECT count(DISTINCT snowflake_nextval()) FROM generate_series(1, 1000)')" = 1000
as_user "$bindir/pg_ctl" --pgdata="$work/data" --silent --mode=immediate stop

# The steps of packaging/Dockerfile, with this release as the base image
buildah=(buildah --storage-driver vfs --root "$work/storage" --runroot "$work/run")
container=$("${buildah[@]}" from scratch)
tar --create --file="$work/base.tar" --one-file-system --directory=/ --exclude='./var/cache/*' --exclude='./var/tmp/*' \
	--exclude='./tmp/*' --exclude=./home --exclude=./usr/share/doc --exclude=./usr/share/locale --exclude=./usr/share/man .
"${buildah[@]}" add --quiet "$container" "$work/base.tar" / >/dev/null
rm "$work/base.tar"
"${buildah[@]}" commit --quiet --rm "$container" "docker.io/library/postgres:$version" >/dev/null
"${buildah[@]}" build --quiet --isolation chroot --network host --pull-never --build-arg PG_MAJOR="$version" \
	--ulimit nofile="$(ulimit -Sn):$(ulimit -Hn)" --ulimit nproc="$(ulimit -Su):$(ulimit -Hu)" --tag built \
	--file packaging/Dockerfile --ignorefile packaging/Dockerfile.dockerignore . >"$work/build.log" 2>&1 && built=yes || built=no
[ "$built" = yes ] || tail -n 30 "$work/build.log" | sed 's/^/# /'
check "Dockerfile can be built" "$built" = yes
if [ "$built" = yes ]; then
	container=$("${buildah[@]}" from --pull-never built)
	# shellcheck disable=SC2016
	chroot "$("${buildah[@]}" mount "$container")" runuser -u postgres -- env PATH="$bindir:$PATH" bash -c '
		initdb --pgdata=/tmp/data --auth=trust --no-sync
		pg_ctl --pgdata=/tmp/data --wait --options="-c unix_socket_directories=/tmp -c listen_addresses=" start >/tmp/log
		psql --host=/tmp --username=postgres --dbname=postgres --tuples-only --no-align --command="CREATE EXTENSION snowflake" \
			--command="SELECT count(DISTINCT snowflake_nextval()) FROM generate_series(1, 1000)"
		pg_ctl --pgdata=/tmp/data --mode=immediate stop' >"$work/used" 2>&1 || true
	check "the image that it builds makes ids" "$(grep -cx 1000 "$work/used")" -eq 1
	[ "$status" -eq 0 ] || sed 's/^/# /' "$work/used"
fi

exit "$status"
