#!/bin/bash
#
# A machine that loses its power again and again while clients make ids.  What a killed
# server has written stays with the kernel, so only this test reveals a write that was
# not synced.  The machine is virtual, its clients' ids come out of a serial port, and
# qemu is killed while they flow.  Its disk keeps what was synced, and hardly more.
# Each life starts at the same second of the clock.
#
#	kept		four losses of power, three of them as soon as ids come, within a reservation
#	lost		a server with fsync = off, as a control: ids must come twice
#	created		losses during CREATE EXTENSION, before its commit, and after it
#
# usage: t/world/power.sh [kept | lost | created ...], as root

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

[ "$(id -u)" -eq 0 ] || die "needs root"
machines=("$@")
[ $# -gt 0 ] || machines=(kept lost created)
if [ "$(dpkg --print-architecture)" != amd64 ]; then
	echo "# power: skipped: the virtual machine is made of packages for amd64"
	exit 0
fi
version=$(native_version)
need_build_packages debootstrap e2fsprogs qemu-system-x86 qemu-utils
make_release "$version"

work=$(mktemp --directory --tmpdir snowflake-power.XXXXXX)
machine=
trap clean_up EXIT
status=0
# for a boot and what follows, on a slow machine
limit=3600
clock=2026-12-01T00:00:00Z

clean_up()
{
	[ -z "$machine" ] || kill -KILL "$machine"
	[ -e "$work/kernel" ] || tail -n 30 "$work/make.log" | sed 's/^/# /'
	rm -rf "$work"
}

# Make the disk: the release with the server, a kernel and the extension.
make_disk()
{
	local image=$work/image data=/var/lib/postgresql/power bindir=/usr/lib/postgresql/$version/bin

	mkdir "$image"
	tar --create --directory="$(release_dir "$version")" --one-file-system --exclude=./var/tmp/* \
		--exclude=./var/cache/apt/archives/* --exclude=./usr/share/doc --exclude=./usr/share/locale \
		--exclude=./usr/lib/llvm-* . |
		tar --extract --directory="$image"
	mkdir -p "$image/etc/initramfs-tools/conf.d"
	echo MODULES=list >"$image/etc/initramfs-tools/conf.d/power"
	printf '%s\n' virtio_pci virtio_blk ext4 >"$image/etc/initramfs-tools/modules"
	chroot "$image" apt-get -q update
	in_directory "$image" root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends \
		-o Dpkg::Options::=--force-confold install initramfs-tools linux-image-cloud-amd64

	copy_sources "$image/var/tmp/snowflake"
	in_directory "$image" root make --silent -C /var/tmp/snowflake PG_CONFIG="$bindir/pg_config" with_llvm=no install
	rm -r "$image/var/tmp/snowflake"
	install --mode=755 t/world/power_init.sh "$image/power"

	in_directory "$image" postgres "$bindir/initdb" --pgdata="$data" --username=postgres --encoding=UTF8 \
		--locale=C --auth=trust
	# one lane, long ticks, and sequences from 0, so that duplicates are certain
	cat >>"$image$data/postgresql.conf" <<-'END'
		listen_addresses = ''
		unix_socket_directories = '/tmp'
		shared_buffers = 32MB
		max_wal_senders = 0
		snowflake.layout = 'time:35 worker:5 timeline:2 sequence:18 tick:100ms'
		snowflake.sequence_start = 'zero'
		# each life continues above the one before, and need not wait for the clock
		snowflake.max_ahead = '1h'
	END
	in_directory "$image" postgres bash -c "
		set -e
		$bindir/pg_ctl --silent --wait --pgdata=$data --log=/tmp/log start
		$bindir/createdb --host=/tmp empty
		$bindir/psql --host=/tmp --no-psqlrc --quiet --command='CREATE EXTENSION snowflake'
		$bindir/pg_ctl --silent --wait --pgdata=$data stop"

	truncate --size="$(($(du --summarize --block-size=1M "$image" | cut -f 1) * 12 / 10 + 1024))M" "$work/disk"
	mke2fs -q -t ext4 -E lazy_itable_init=0,lazy_journal_init=0 -d "$image" "$work/disk"
	cp "$image"/boot/initrd.img-* "$work/initrd"
	cp "$image"/boot/vmlinuz-* "$work/kernel"
	rm -rf "$image"
}

# Run one life of a machine: boot it with its disk, and cut the power when a number of
# lines match a pattern.
live()
{
	local name=$1 task=$2 setting=$3 lines=$4 pattern=$5
	local disk=$work/disk.$name seen start=$SECONDS

	# A file that grows by the blocks that the machine writes.  qemu writes its map of
	# them when the machine flushes.
	[ -e "$disk" ] || qemu-img create -q -f qcow2 -F raw -b "$work/disk" "$disk"
	lives[$name]=$((${lives[$name]-0} + 1))
	seen=$work/$name.${lives[$name]}
	: >"$seen"
	# no_timer_check: on a busy host, the kernel would think that its timer is broken
	qemu-system-x86_64 -accel tcg -m 512 -display none -nodefaults -no-reboot -rtc base="${clock%Z}" \
		-drive file="$disk",format=qcow2,if=virtio,cache=unsafe -kernel "$work/kernel" -initrd "$work/initrd" \
		-append "root=/dev/vda rw init=/power console=ttyS0 panic=-1 mitigations=off no_timer_check quiet power_task=$task power_setting=$setting power_clock=$clock" \
		-serial "file:$work/console" -serial "file:$seen" >"$work/qemu.log" 2>&1 &
	machine=$!
	until [ "$(grep --count --extended-regexp "$pattern" "$seen")" -ge "$lines" ]; do
		kill -0 "$machine" 2>/dev/null && [ $((SECONDS - start)) -lt $limit ] || break
		sleep 0.1
	done
	kill -KILL "$machine" 2>/dev/null || true
	wait "$machine" 2>/dev/null || true
	machine=
	[ "$(grep --count --extended-regexp "$pattern" "$seen")" -ge "$lines" ] || {
		sed "s/^/# /" "$work/qemu.log" "$work/console"
		check "$name: life ${lives[$name]} prints $lines lines like $pattern" 1 -eq 0
		return 1
	}
	echo "# $name: life ${lives[$name]} of $((SECONDS - start)) s made $(ids_of "$seen" | wc -l) ids"
}
declare -A lives=()

# Print the ids that were seen in lives, without a last line that may be incomplete.
ids_of()
{
	local file

	for file in "$@"; do
		sed --quiet '$!{/^[0-9]\{16,19\}$/p}' "$file"
	done
}

duplicates() { ids_of "$work/$1".* | sort | uniq --repeated | wc -l; }

# Count the lives that made an id not above all ids of earlier lives.
lives_that_go_back()
{
	local life first last=0 back=0

	for life in $(seq "${lives[$1]}"); do
		read -r first < <(ids_of "$work/$1.$life" | sort --numeric-sort) || continue
		[ "$first" -gt "$last" ] || back=$((back + 1))
		last=$({ echo "$last"; ids_of "$work/$1.$life"; } | sort --numeric-sort | tail -n 1)
	done
	echo "$back"
}

# Check the ids of all lives of a machine.
check_lives()
{
	local name=$1

	echo "# $name: $(ids_of "$work/$name".* | wc -l) ids over $((lives[$name] - 1)) losses of power, $(duplicates "$name") of them twice"
	check "$name: all lines are complete" "$(sed --quiet --separate '$!{/^[0-9]\{16,19\}$/!{/^+ /!p}}' "$work/$name".* | wc -l)" -eq 0
	check "$name: no id is made twice" "$(duplicates "$name")" -eq 0
	check "$name: each life made greater ids than those before" "$(lives_that_go_back "$name")" -eq 0
}

make_disk >"$work/make.log" 2>&1

an_id='^[0-9]'

try_kept()
{
	local lines

	for lines in 100 100 100 50000 20000; do
		live kept ids fsync=on $lines "$an_id"
	done
	check_lives kept
}

# A life repeats ids of an earlier one if it starts before the seconds of that one are
# over, which a slow boot may miss.
try_lost()
{
	local life

	live lost ids fsync=off 50000 "$an_id"
	for life in {1..5}; do
		live lost ids fsync=off 20000 "$an_id"
		[ "$(duplicates lost)" -eq 0 ] || break
	done
	echo "# lost: $(ids_of "$work"/lost.* | wc -l) ids over $life losses of power, $(duplicates lost) of them twice"
	check "lost: without fsync, ids are made twice" "$(duplicates lost)" -gt 0
}

# With wal_level = minimal, a new relation is not in the WAL, but synced by the commit.
try_created()
{
	live created create wal_level=minimal 1 '^[+] creating'
	live created create wal_level=minimal 1 '^[+] created'
	live created commit wal_level=minimal 100 "$an_id"
	live created go_on wal_level=minimal 20000 "$an_id"
	check_lives created
}

for name in "${machines[@]}"; do
	"try_$name"
done
exit "$status"
