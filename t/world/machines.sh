#!/bin/bash
#
# Other kinds of machines: run the SQL tests and t/world/machine.pl on
#
#	i386	32 bits, natively
#	arm64	by qemu-user
#	armhf	32 bits, with atomics of 64 bits simulated by spinlocks, by qemu-user
#	s390x	most significant byte first, by qemu-user
#
# An emulated machine orders memory as strongly as the machine itself does; weakly
# ordered memory is tested in t/world/model/.
#
# usage: t/world/machines.sh [ARCHITECTURE ...], as root

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

[ "$(id -u)" -eq 0 ] || die "needs root"
machines=("$@")
[ $# -gt 0 ] || machines=(i386 arm64 armhf s390x)
version=$(native_version)
need_packages debootstrap
work=$(mktemp --directory --tmpdir snowflake-machines.XXXXXX)
registered=()
trap clean_up EXIT
status=0

clean_up()
{
	local emulator

	for emulator in "${registered[@]}"; do
		echo -1 >"$work/binfmt/$emulator"
	done
	! mountpoint --quiet "$work/binfmt" || umount "$work/binfmt"
	rm -rf "$work"
}

# Check whether this machine can run programs of an architecture, with an emulator if
# necessary.  Prints the reason if not.
runs()
{
	local architecture=$1 emulator

	case $architecture in
		"$(dpkg --print-architecture)") return ;;
		i386) [ "$(dpkg --print-architecture)" != amd64 ] || { runs_32_bits; return; }; emulator=qemu-i386 ;;
		arm64) emulator=qemu-aarch64 ;;
		armhf) emulator=qemu-arm ;;
		*) emulator=qemu-$architecture ;;
	esac
	if [ ! -d "$work/binfmt" ]; then
		mkdir "$work/binfmt"
		mount -t binfmt_misc binfmt_misc "$work/binfmt" 2>"$work/why" || true
	fi
	[ -e "$work/binfmt/register" ] || { echo "the kernel does not allow to register an emulator: $(<"$work/why")"; return 1; }
	[ ! -e "$work/binfmt/$emulator" ] || return 0
	need_packages qemu-user-static
	# the package may have registered it, if a service for that runs
	[ ! -e "$work/binfmt/$emulator" ] || return 0
	cat "/usr/lib/binfmt.d/$emulator.conf" >"$work/binfmt/register" 2>"$work/why" ||
		{ echo "$emulator cannot be registered: $(<"$work/why")"; return 1; }
	registered+=("$emulator")
}

# A kernel for 64 bits can be built without support for programs of 32 bits.
runs_32_bits()
{
	gcc -m32 -nostdlib -static -x c -o "$work/exit" - <<-'END'
		void _start(void) { __asm__("mov $1, %eax; xor %ebx, %ebx; int $0x80"); }
	END
	"$work/exit" 2>/dev/null || { echo "the kernel runs no programs of 32 bits"; return 1; }
}

check_machine()
{
	make_release "$version:$1"
	# a test is ended after 30 minutes, so tests must not wait for each other
	SNOWFLAKE_JOBS=1 run_in_release postgres "$version:$1" script/check "$version" sql t/world/machine.pl
}

for machine in "${machines[@]}"; do
	if runs "$machine" >"$work/reason"; then
		stage check_machine "$machine"
	else
		echo "# machines: $machine is skipped: $(<"$work/reason")"
	fi
done
exit "$status"
