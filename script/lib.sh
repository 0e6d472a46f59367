# shellcheck shell=bash
# What the scripts share.  Sourced by bash, not run.

# The Debian releases that bring the PostgreSQL versions we support.
declare -A debian_release=([15]=bookworm [17]=trixie [18]=forky)

die()
{
	echo "$0: $*" >&2
	exit 1
}

# Packages of a machine that builds and tests for one version.
packages_for()
{
	echo "postgresql-$1 postgresql-server-dev-$1 make gcc libipc-run-perl faketime"
}

# Install the packages that are missing.
need_packages()
{
	local package missing=()

	for package in "$@"; do
		dpkg-query --show --showformat='${db:Status-Status}\n' "$package" 2>/dev/null |
			grep -qx installed || missing+=("$package")
	done
	[ ${#missing[@]} -eq 0 ] && return

	local sudo=()
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null || die "to be installed by root: ${missing[*]}"
		sudo=(sudo)
	fi
	# installing a server must not start one
	"${sudo[@]}" apt-get update -q >&2
	"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
		apt-get install -q -y --no-install-recommends "${missing[@]}" >&2
}

# PostgreSQL refuses to run as root: then its own user runs the command.
as_user()
{
	if [ "$(id -u)" -eq 0 ]; then
		runuser -u postgres -- "$@"
	else
		"$@"
	fi
}

# The major version that this machine's release of Debian brings.
native_version()
{
	local version codename

	codename=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
	for version in "${!debian_release[@]}"; do
		[ "${debian_release[$version]}" != "$codename" ] || { echo "$version"; return; }
	done
	die "this Debian release (${codename:-unknown}) is none of ${debian_release[*]}"
}

# Copy the sources to a new directory of the user that runs the server, which
# may not be able to read ours.
copy_sources()
{
	local source

	source=$(dirname "${BASH_SOURCE[0]}")/..
	mkdir -p "$1"
	tar --create --directory="$source" --exclude=./.git --exclude='*.o' \
		--exclude='*.bc' --exclude='*.so' --exclude=./tmp_check . |
		tar --extract --no-same-owner --directory="$1"
	[ "$(id -u)" -ne 0 ] || chown -R postgres "$1"
}
