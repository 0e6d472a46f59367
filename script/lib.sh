# shellcheck shell=bash
# Functions that the scripts share.  To be sourced by bash.

root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")

# The Debian releases that have the supported versions of PostgreSQL.  "sid" takes
# packages that it lacks from experimental.  No release has 16.
declare -A debian_release=([15]=bookworm [17]=trixie [18]=forky [19]=sid)

die()
{
	echo "$0: $*" >&2
	exit 1
}

# Print the pg_config of the server to build for: PG_CONFIG, or that of the newest
# server installed, or that of the version in this release of Debian or Ubuntu, which
# may not be installed yet.
native_pg_config()
{
	local pg_config version

	[ -z "${PG_CONFIG-}" ] || { realpath "$(command -v "$PG_CONFIG")"; return; }
	# Debian and Ubuntu keep servers of several versions side by side
	while read -r pg_config; do
		[ ! -x "${pg_config%/*}/postgres" ] || { echo "$pg_config"; return; }
	done < <(printf '%s\n' /usr/lib/postgresql/*/bin/pg_config | sort --version-sort --reverse
		command -v pg_config)
	version=$(release_version) || return
	echo "/usr/lib/postgresql/$version/bin/pg_config"
}

# Print the major version in this release of Debian or Ubuntu.
release_version()
{
	local version

	command -v apt-get >/dev/null || die "found no PostgreSQL server: install one, or set PG_CONFIG"
	# a new machine has no list of packages yet
	version=$(server_package)
	[ -n "$version" ] || can_be_root ||
		die "install these packages first: postgresql postgresql-server-dev-all make gcc libipc-run-perl tini"
	[ -n "$version" ] || as_root apt-get update -q </dev/null >&2
	version=$(server_package)
	[ -n "$version" ] || die "this release has no package postgresql: set PG_CONFIG"
	echo "$version"
}

# Print the version that the package "postgresql" depends on.
server_package()
{
	apt-cache depends --important postgresql 2>/dev/null | sed -n 's/.*Depends: postgresql-\([0-9]*\)$/\1/p'
}

# Print the major version of the server to build for.
native_version()
{
	local pg_config version

	pg_config=$(native_pg_config) || return
	if [ -x "$pg_config" ]; then
		version=$("$pg_config" --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
	else
		version=$(sed 's,.*/postgresql/\([0-9]*\)/.*,\1,' <<<"$pg_config")
	fi
	[ "$version" -ge 15 ] || die "PostgreSQL $version is older than 15"
	echo "$version"
}

can_be_root()
{
	[ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null
}

as_root()
{
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		can_be_root || die "run this as root: $*"
		sudo "$@"
	fi
}

# Print the packages needed to build and test for a version.
packages_for()
{
	echo "postgresql-$1 postgresql-server-dev-$1 make gcc libipc-run-perl tini"
}

# Install the packages needed to build and test for the native version.  A server that
# did not come as a package is left as it is.
# shellcheck disable=SC2120
need_build_packages()
{
	local packages

	read -ra packages < <(packages_for "$(native_version)")
	if [[ $(native_pg_config) != /usr/lib/postgresql/* ]]; then
		packages=("${packages[@]:2}")
		[ -e "$("$(native_pg_config)" --sharedir)/extension/dblink.control" ] ||
			die "this server has no dblink: install PostgreSQL's contrib modules, too"
	fi
	need_packages "${packages[@]}" "$@"
}

# Install missing packages, which stay; what apt says goes to a log.  The package of a server
# makes a cluster "main": it is dropped again, unless there was a trace of it before.
# Without apt, only name what is missing.
need_packages()
{
	local package log version fresh="" missing=()

	command -v apt-get >/dev/null || {
		for package in make gcc prove tini; do
			command -v "$package" >/dev/null || missing+=("$package")
		done
		perl -e 'use IPC::Run' 2>/dev/null || missing+=("Perl's IPC::Run")
		[ ${#missing[@]} -eq 0 ] || die "install these first: ${missing[*]}"
		return 0
	}
	for package in "$@"; do
		dpkg-query --show --showformat='${db:Status-Status}\n' "$package" 2>/dev/null |
			grep -qx installed || missing+=("$package")
	done
	[ ${#missing[@]} -eq 0 ] && return

	can_be_root || die "install these packages first: ${missing[*]}"
	echo "Installing packages, which stay: ${missing[*]}" >&2
	for version in "${missing[@]}"; do
		[[ $version =~ ^postgresql-([0-9]+)$ ]] || continue
		version=${BASH_REMATCH[1]}
		[ -e "/etc/postgresql/$version" ] || [ -e "/var/lib/postgresql/$version" ] || fresh+=" $version"
	done
	log=$(mktemp --tmpdir snowflake-apt.XXXXXX)
	# one at a time; RUNLEVEL=1 keeps the package of a server from starting it
	{
		as_root flock /var/lib/apt apt-get update -q &&
			as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 flock /var/lib/apt \
				apt-get install -q -y --no-install-recommends "${missing[@]}"
	} </dev/null >"$log" 2>&1 || { tail -n 20 "$log" >&2; die "could not install the packages, see $log"; }
	rm "$log"
	for version in $fresh; do
		[ ! -e "/etc/postgresql/$version/main" ] || as_root pg_dropcluster --stop "$version" main </dev/null
	done
}

# Install Node.js, its driver pg, and any other npm packages given, in the directory of
# a throwaway server.
# shellcheck disable=SC2120
need_node_pg()
{
	# keep a Node.js that did not come from Debian
	command -v npm >/dev/null || need_packages nodejs npm
	npm install --loglevel=error --no-save --prefix "$throwaway/node" --cache "$throwaway/npm" pg@8 "$@" >"$throwaway/npm.log" 2>&1 ||
		{ cat "$throwaway/npm.log"; die "could not install ${*:-pg}"; }
	export NODE_PATH=$throwaway/node/node_modules
}

# Turn clang's warnings into errors, except those that come from PostgreSQL's headers, or
# from its flags for gcc.
# shellcheck disable=SC2034
clang_warnings='-Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare'
clang_warnings+=' -Wno-unknown-warning-option -Wno-ignored-optimization-argument -Wno-ignored-attributes'

# Build a library, with the given compiler, that must be preloaded along with
# AddressSanitizer's, since a server is not linked for it.  The sanitizer initializes
# itself at the first malloc().  If some library's constructor made that call by way of
# gettext, the sanitizer would wait forever for a lock that gettext holds.  So this library
# calls malloc() in a constructor that runs before all others.
make_early_library()
{
	"$1" -x c -shared -fPIC -Wl,-z,initfirst -o "$2" - <<-'END'
		#include <stdlib.h>
		static void __attribute__((constructor)) early(void) { free(malloc(1)); }
	END
}

# Run a command as an ordinary user: PostgreSQL refuses to run as root.
as_user()
{
	if [ "$(id -u)" -eq 0 ]; then
		runuser -u postgres -- "$@"
	else
		"$@"
	fi
}

# Whether this machine lets us mount; most containers do not.
can_mount()
{
	unshare --mount mount -t tmpfs tmpfs /tmp 2>/dev/null
}

# Print why this machine cannot hold other releases of Debian, if so.  Downloads nothing but
# debootstrap.
lacks_releases()
{
	local dir null

	[ "$(id -u)" -eq 0 ] || { echo "only root can test on another release of Debian"; return; }
	chroot / true 2>/dev/null || { echo "chroot is not permitted here"; return; }
	dir=$(dirname "$(release_dir 15)")
	mkdir -p "$dir"
	null=$(mktemp --dry-run "$dir/null.XXXXXX")
	{ mknod "$null" c 1 3 && : >"$null"; } 2>/dev/null || { rm -f "$null"; echo "$dir cannot have devices"; return; }
	rm "$null"
	if ! command -v debootstrap >/dev/null; then
		{ command -v apt-get >/dev/null && (need_packages debootstrap); } || echo "there is no debootstrap"
	fi
}

# Print the directory of the Debian release that has a version.  Here and below, an
# architecture may follow the version, as in 15:arm64.
release_dir()
{
	local dir=${SNOWFLAKE_TEST_DIR:-/var/cache/snowflake-test}/${debian_release[${1%:*}]}

	[[ $1 != *:* ]] || dir+=-${1#*:}
	echo "$dir"
}

# Make that directory unless it exists and is complete.  If the release is available, but
# not the server, ends the script, or the function that stage() runs, without an error.
make_release()
{
	local version=${1%:*}
	local release=${debian_release[$version]}
	local dir options=()
	local script=/usr/share/debootstrap/scripts/$release
	local include packages

	dir=$(release_dir "$1")
	read -ra packages < <(packages_for "$version")
	# on some architectures, gcc only recommends it
	[[ $1 != *:* ]] || { options=("--arch=${1#*:}"); packages+=(libc6-dev); }
	include=$(IFS=,; echo "${packages[*]}")
	[ "$(cat "$dir.ready" 2>/dev/null)" != "$include" ] || return 0
	# if debootstrap does not know the release yet, treat it like the newest
	[ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
	# an interrupted run may have left it mounted
	! mountpoint --quiet "$dir/proc" || umount "$dir/proc"
	rm -rf --one-file-system "$dir.ready" "$dir"
	mkdir -p "$(dirname "$dir")"
	debootstrap "${options[@]}" --variant=minbase --include="$(IFS=,; echo "${packages[*]:2}")" \
		"$release" "$dir" "" "$script" \
		>"$dir.log" 2>&1 || { tail -n 20 "$dir.log"; return 1; }
	# accept an expired package list, as a future release may have
	echo 'Acquire::Check-Valid-Until "false";' >"$dir/etc/apt/apt.conf.d/snowflake"
	# without /proc, this would fail; no test needs it
	can_mount || {
		chroot "$dir" dpkg-divert --local --rename --add /usr/bin/systemd-tmpfiles >>"$dir.log"
		ln -s true "$dir/usr/bin/systemd-tmpfiles"
	}
	install_server "$1" "${packages[@]:0:2}" >>"$dir.log" 2>&1 || {
		[ "$release" = sid ] || { tail -n 20 "$dir.log"; return 1; }
		echo "# skipped: PostgreSQL $version: no packages are available, see $dir.log"
		exit 0
	}
	echo "$include" >"$dir.ready"
}

# Install the packages of a server in its release.  One that is not released yet is in
# experimental, and later in sid.
install_server()
{
	local version=$1 suffix suffixes=('') dir
	shift

	dir=$(release_dir "$version")
	if [ "${debian_release[${version%:*}]}" = sid ]; then
		sed 's/ sid / experimental /' "$dir/etc/apt/sources.list" >"$dir/etc/apt/sources.list.d/experimental.list"
		set -- "$@" "postgresql-client-${version%:*}" libpq5 libpq-dev
		suffixes+=(/experimental)
	fi
	in_release "$version" root apt-get update -q || return
	for suffix in "${suffixes[@]}"; do
		in_release "$version" root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
			apt-get install -q -y --no-install-recommends "${@/%/$suffix}" && return
	done
}

# Run a command in the release that has a version, as one of its users.
in_release()
{
	local version=$1
	shift

	in_directory "$(release_dir "$version")" "$@"
}

# Run a command as a user, in any directory that holds a system.
in_directory()
{
	local dir=$1 user=$2 inside
	shift 2
	inside=(chroot "$dir" runuser -u "$user" -- env -u TMPDIR -u PG_CONFIG "$@")

	# else without /proc, and with dynamic shared memory of the kind that initdb finds usable
	can_mount || { "${inside[@]}"; return; }
	# the mounts go away with the last process in the namespace
	# shellcheck disable=SC2016
	unshare --mount --pid --fork --kill-child bash -c '
		mount -t proc proc "$0/proc" &&
		mount -t tmpfs -o mode=1777 tmpfs "$0/dev/shm" &&
		exec "$@"' "$dir" "${inside[@]}"
}

# The longest tests, longest first.  script/test runs them on the native version only.
# shellcheck disable=SC2034
long_tests=(t/025_waits.pl t/016_lease.pl t/023_fair.pl t/007_mark.pl t/008_crash.pl
	t/009_failover.pl t/006_dump.pl t/003_clock.pl t/002_increasing.pl t/001_unique.pl
	t/024_transactions.pl t/026_sql_only.pl)

# Run one of our scripts as a user in a release, on a copy of the sources.
run_in_release()
(
	user=$1 version=$2 script=$3
	shift 3

	dir=$(release_dir "$version")
	place=$(mktemp --directory "$dir/var/tmp/snowflake-test.XXXXXX")
	trap 'rm -rf "$place"' EXIT
	copy_sources "$place"
	chroot "$dir" chown -R postgres "${place#"$dir"}"
	# mutants are tested on the native version, which is enough
	in_release "$version" "$user" env SNOWFLAKE_RELEASE=1 "SNOWFLAKE_MUTANTS=${SNOWFLAKE_MUTANTS:-0}" \
		"${place#"$dir"}/$script" "$@"
)

# Run a function of the caller for each of several words, such as versions, in parallel,
# because the tests wait a lot.  Print the outputs in the order of the words, each as soon
# as possible.  Uses the caller's directory $work.
beside_each_other()
{
	local function=$1 word status=0
	local -A jobs
	shift

	for word in "$@"; do
		# shellcheck disable=SC2154
		(status=0; stage "$function" "$word"; exit $status) >"$work/$word.log" 2>&1 &
		jobs[$word]=$!
	done
	for word in "$@"; do
		wait "${jobs[$word]}" || status=1
		cat "$work/$word.log"
	done
	return $status
}

# Run a command, or a function of the caller, in a subshell that ends at the first error,
# and set the caller's "failed" to its status.  In a condition, bash would go on after
# errors, so this must not be called in one either.
attempt()
{
	local reached

	set +e
	reached=$(set -e; false; echo reached)
	[ -z "$reached" ] || die "$1 is run in a condition, where its errors would be ignored"
	(set -e; "$@")
	failed=$?
	set -e
}

# Run a command or a function of the caller, and write its output to the caller's $work/log
# as well.
logged()
{
	# shellcheck disable=SC2154
	"$@" 2>&1 | tee "$work/log"
}

# Do as attempt() does, and print how long it took.  If it fails, set the caller's "status" to 1.
stage()
{
	local start=$SECONDS failed outcome=

	attempt "$@"
	[ "$failed" -eq 0 ] || { status=1; outcome=', and failed'; }
	echo "# ${*#"$root/"} took $((SECONDS - start)) s$outcome"
}

# Repeat failures at the end, where people look for them: the lines of script/check and
# check(), and the last lines of a stage that failed, in case it broke off.
repeat_failures()
{
	awk '
		/^! / { print; next }
		/^not ok - / { print "! " $0; next }
		/^# .* took [0-9]+ s, and failed$/ { for (i = n < 10 ? 0 : n - 10; i < n; i++) print "! " last[i % 10]; print "! " $0 }
		{ last[n++ % 10] = $0 }' "$1"
}

# Add up the results that script/check and check() left in the logs, and the versions that
# were left out, and print the total as the last line.  A status other than 0 counts as a
# failure even if no line shows one.
summarize()
{
	local status=$1
	shift

	awk -v status="$status" '
		/^PostgreSQL [0-9]+: [0-9]+ passed, [0-9]+ failed$/ { passed += $3; failed += $5 }
		/^ok - / { passed++ }
		/^not ok - / { failed++ }
		/^# skipped: PostgreSQL / { skipped++ }
		END {
			if (status != 0 && !failed) failed++
			print passed + 0 " passed, " failed + 0 " failed" (skipped ? ", " skipped " skipped" : "")
		}' "$@"
}

# Copy the sources to a new directory, for the user that runs the server and may not be
# able to read ours.
copy_sources()
{
	mkdir -p "$1"
	tar --create --directory="$root" --exclude=./.git --exclude='*.o' \
		--exclude='*.bc' --exclude='*.so' --exclude='*.gc??' --exclude=./tmp_check . |
		tar --extract --no-same-owner --directory="$1"
	[ "$(id -u)" -ne 0 ] || chown -R postgres "$1"
}

# Change a file of the sources in a directory by a script for sed.
mutate()
{
	mutated=$2
	sed -E -z --in-place "$3" "$1/$2"
	! cmp --quiet "$root/$2" "$1/$2" || die "the mutant does not change $2"
}

# Make the sources in a directory those of a mutant in t/mutants.
apply_mutant()
{
	local name file script

	while IFS=$'\t' read -r name file script; do
		[ "$name" = "$1" ] || continue
		mutate "$2" "$file" "$script"
		return
	done <"$root/t/mutants"
	die "no mutant that $1"
}

# Make them ours again.
restore_sources()
{
	cp "$root/$mutated" "$1/$mutated"
}

# Install the extension from the sources in one directory below another, and print the
# settings with which the server finds it there.  Debian's servers up to 17 can look for
# extensions below a directory, and PostgreSQL 18 has a setting of its own.  Any other
# server is copied below that directory, since its programs find everything relative to
# themselves; $bindir is then that of the copy.
stage_server()
{
	local source=$1 stage=$2 pg_config=$3 place

	bindir=$("$pg_config" --bindir)
	as_user make --silent -C "$source" PG_CONFIG="$pg_config" with_llvm=no install DESTDIR="$stage" >&2 || return
	if [ "$("$pg_config" --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')" -ge 18 ]; then
		echo "extension_control_path = '$stage$("$pg_config" --sharedir):\$system'"
	elif "$bindir/postgres" --describe-config | grep '^extension_destdir' >/dev/null; then
		echo "extension_destdir = '$stage'"
	else
		for place in --bindir --sharedir --libdir --pkglibdir; do
			place=$("$pg_config" "$place")
			as_user mkdir -p "$stage$place"
			as_user cp -R "$place/." "$stage$place"
		done
		bindir=$stage$bindir
		return
	fi
	echo "dynamic_library_path = '$stage$("$pg_config" --pkglibdir):\$libdir'"
}

# Start a server with its data, log and socket in a directory, which belongs to the user that
# runs it.  Only that user can connect.  Reads further settings from stdin.  Needs $bindir, and
# sets what libpq needs to find the server.
start_server()
{
	local dir=$1 variable

	as_user "$bindir/initdb" --pgdata="$dir/data" --username=postgres --encoding=UTF8 --locale=C \
		--auth=trust --no-sync >/dev/null
	{
		echo "listen_addresses = ''"
		echo "unix_socket_directories = '$dir'"
		cat
	} >>"$dir/data/postgresql.conf"
	as_user "$bindir/pg_ctl" --pgdata="$dir/data" --log="$dir/log" \
		--silent --wait start || { cat "$dir/log"; die "could not start the server"; }

	# have clients find this server, whatever the environment says
	for variable in $(compgen -e PG || true); do
		unset "$variable"
	done
	export PGHOST=$dir PGUSER=postgres PGDATABASE=postgres PATH=$bindir:$PATH
}

# Stop it, if it runs.
stop_server()
{
	[ ! -e "$1/data/postmaster.pid" ] ||
		as_user "$bindir/pg_ctl" --pgdata="$1/data" --silent --mode=immediate stop || true
}

# Wait until a server has leased a worker id; false after 30 s.
wait_for_lease()
{
	for _ in {1..300}; do
		[ "$(psql --no-psqlrc --quiet --tuples-only --no-align \
			--command="SELECT lease_state FROM snowflake_status()")" != held ] || return 0
		sleep 0.1
	done
	return 1
}

# Build the extension, and start a server with it that is removed when the script exits.
# Only the user that starts it can connect, through a socket in the server's directory.
# Reads further settings from stdin.  Sets what libpq and the caller need to find the
# server.
start_throwaway_server()
{
	local pg_config

	need_build_packages
	version=$(native_version)
	pg_config=$(native_pg_config)

	throwaway=$(mktemp --directory --tmpdir snowflake.XXXXXX)
	trap stop_throwaway_server EXIT
	chmod 755 "$throwaway"
	# the user that runs the server may not be able to enter the current directory
	cd "$throwaway" || die "cannot enter $throwaway"
	copy_sources "$throwaway/source"
	[ "$(id -u)" -ne 0 ] || chown postgres "$throwaway"
	stage_server "$throwaway/source" "$throwaway/stage" "$pg_config" \
		>"$throwaway/staged.conf" 2>"$throwaway/build.log" ||
		{ cat "$throwaway/build.log"; die "could not build the extension"; }
	cat "$throwaway/staged.conf" - >"$throwaway/settings"
	start_server "$throwaway" <"$throwaway/settings"
}

stop_throwaway_server()
{
	stop_server "$throwaway"
	cd /
	rm -rf "$throwaway"
}

# Run postgres_exporter with the queries of doc/monitoring beside the throwaway server, as a
# role that is a member of pg_monitor only.  Sets $exporter, its PID, for the caller to kill.
start_exporter()
{
	psql --no-psqlrc --quiet --command="CREATE ROLE monitor LOGIN IN ROLE pg_monitor"
	DATA_SOURCE_NAME="user=monitor host=$throwaway database=postgres sslmode=disable" \
		prometheus-postgres-exporter --web.listen-address="$1" --disable-default-metrics \
		--disable-settings-metrics --extend.query-path=source/doc/monitoring/postgres_exporter.yaml \
		>exporter.log 2>&1 &
	# shellcheck disable=SC2034
	exporter=$!
}

# Print the arguments, starting with another one in each round.  The caller counts rounds
# in "round".
rotated()
{
	# shellcheck disable=SC2154
	local first=$((round % $#))

	printf '%s\n' "${@:first + 1}" "${@:1:first}"
}

# Print the result of one check: a name, then a condition for test(1).  If it is false,
# set the caller's "status" to 1.
check()
{
	local name
	name="$(basename "$0" .sh): $1"
	shift

	if [ "$@" ]; then
		echo "ok - $name"
	else
		echo "not ok - $name"
		# shellcheck disable=SC2034
		status=1
	fi
}
