# What the tests share.

package SnowflakeTest;

use strict;
use warnings;
use Cwd qw(abs_path);
use Exporter 'import';
use File::Basename;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  new_server new_hunting_server new_registry lease_from add_extension
  start_clients finish_clients run_clients sqlstate_of wait_until_alone
  set_and_reload crash
  faketime_library set_clock start_with_clock use_mutant with_mutants
  start_collectors wait_for_collectors stop_collectors count_duplicates live_through
);

# A test that hunts for something is worth nothing if it would not find it.
# These are faults, by name: what is replaced in the sources, once in a file,
# to switch a guard off.  The test must find what it hunts on a server that has
# the fault.
our %mutants = (

	# the mark found at a start is taken for nothing
	'forgets the mark' => [ [ 'src/mark.c', '*found = Max(pages.values[0], pages.values[1]);', '*found = 0;' ] ],

	# what a running server remembers
	'goes by the clock' => [
		[ 'src/generator.c', 'floor = Max(mark_tick, pg_atomic_read_u64(&slot->floor));', 'floor = mark_tick;' ],
		[ 'src/generator.c', 'if (last_id >= 0 && *tick <= last_tick)', 'if (last_id >= 0 && *tick == last_tick)' ],
		[
			'src/generator.c',
			'return (word + 1) >> config.sequence_bits;',
			'return (word & config.sequence_mask) == config.sequence_mask ? (word + 1) >> config.sequence_bits : 0;'
		],
		[
			'src/generator.c',
			'word = old < window.first ? window.start : old + 1;',
			'word = old >= window.first && old <= window.last ? old + 1 : window.start;'
		]
	],

	# no fault, but time for others to come in between
	'looks slowly' => [
		[
			'src/generator.c',
			'floor = Max(mark_tick, pg_atomic_read_u64(&slot->floor));',
			'floor = Max(mark_tick, pg_atomic_read_u64(&slot->floor)); pg_usleep(MyProcPid % 16 * 20000);'
		]
	],
	'looks again in between' => [
		[
			'src/generator.c',
			'floor = Max(mark_tick, pg_atomic_read_u64(&slot->floor));',
			'floor = Max(mark_tick, pg_atomic_read_u64(&slot->floor)); pg_usleep(MyProcPid % 16 * 20000);'
		],
		[
			'src/generator.c',
			'must = tick >= limit;',
			'limit = pg_atomic_read_u64(&slot->limit); floor = pg_atomic_read_u64(&slot->floor); must = tick >= limit;'
		]
	],
	'raises the floor last' => [
		[ 'src/generator.c', '!raise_floor(tick))', '((void) raise_floor, false))' ],
		[
			'src/generator.c', 'raise_to(&slot->limit, limit);',
			'raise_to(&slot->floor, tick); raise_to(&slot->limit, limit);'
		]
	],
	'does not flush' => [ [ 'src/mark.c', 'XLogFlush(lsn);', '' ] ],
	'does not wait for standbys' => [ [ 'src/mark.c', 'wait_for_standbys(lsn);', '' ] ],
	'ignores the timeline' => [ [ 'src/generator.c', 'GetWALInsertionTimeLine()', '1' ] ],
	'has no guard' => [ [ 'src/mark.c', '*found = Max(pages.values[0], pages.values[1]);', '*found = pages.values[0];' ] ],
	'has room for two' => [ [ 'src/generator.c', '#define MAX_DATABASES	128', '#define MAX_DATABASES	2' ] ],
	'resets for any worker id' => [
		[
			'src/generator.c',
			"reset_refused(const Layout *layout, uint64 tick)\n{",
			"reset_refused(const Layout *layout, uint64 tick)\n{ return;"
		]
	],
	'forgets who has made ids' => [ [ 'src/generator.c', "note_use(tick);\n\n\twindow", 'window' ] ],
	'goes on after its lease' => [ [ 'src/generator.c', 'if (tick >= config.worker_lease.end)', 'if (false)' ] ],
	'begins before its lease' => [ [ 'src/generator.c', 'Max(min_tick, config.worker_lease.start)', 'min_tick' ] ],
	'forgets what it used' =>
	  [ [ 'registry/snowflake_lease.c', 'TIMESTAMP_NOT_FINITE(used) ? NULL : int64_text(unix_microseconds(used))', '"0"' ] ],
	'takes one id of a block' => [ [ 'src/generator.c', '&old, last)', '&old, first)' ] ],
	'masks 15 bits' => [ [ 'src/mask.c', '#define MASK_BITS		64', '#define MASK_BITS 16' ] ],
	'hashes by HMAC' => [ [ 'src/mask.c', '#define HASH_FROM_STATES', '' ] ],
	'forgets what was dropped' =>
	  [ [ 'src/generator.c', 'written = slot == NULL ? 0 : (int64) pg_atomic_read_u64(&slot->written);', 'written = 0;' ] ],
);

# Where the server's version makes no difference, they can be left out.
sub with_mutants
{
	return $ENV{SNOWFLAKE_MUTANTS} // 1;
}

my %mutant_settings;

# Have a server use a library with a fault, from its next start on.
sub use_mutant
{
	my ($node, $name) = @_;
	my $settings = slurp_file($ENV{TEMP_CONFIG});

	if (!$mutant_settings{$name})
	{
		my ($stage) = $settings =~ /^dynamic_library_path = '([^:]*)\/usr\//m;
		my $dir = abs_path(PostgreSQL::Test::Utils::tempdir());

		system_or_bail('sh', '-c', "cp -r *.c *.sql *.control Makefile src registry $dir");
		foreach my $change (@{ $mutants{$name} })
		{
			my ($file, $from, $to) = @$change;
			my $source = slurp_file("$dir/$file");

			BAIL_OUT("mutant '$name' does not fit $file")
			  if ($source =~ s/\Q$from\E/$to/g) != 1;
			unlink "$dir/$file";
			append_to_file("$dir/$file", $source);
		}
		system_or_bail(
			'make', '--silent', '-C', $dir,
			'PG_CONFIG=' . $node->installed_command('pg_config'),
			'with_llvm=no', 'install', "DESTDIR=$dir/stage");
		$mutant_settings{$name} = $settings =~ s/\Q$stage\E/$dir\/stage/gr;
	}
	$node->append_conf('postgresql.conf', $mutant_settings{$name});
	return;
}

# A server with the extension in its database postgres.  The settings go to
# postgresql.conf; those of the test's own kind are:
#	preload		the library is in shared_preload_libraries
#	clock		the server's clock can be stepped with set_clock()
#	mutant		the library is one of %mutants
sub new_server
{
	my ($name, %settings) = @_;
	my $preload = delete $settings{preload};
	my $clock = delete $settings{clock};
	my $mutant = delete $settings{mutant};
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init;
	$node->append_conf('postgresql.conf', <<'EOC');
fsync = off
synchronous_commit = off
max_connections = 100
shared_buffers = 256MB
max_wal_size = 4GB
autovacuum = off
restart_after_crash = on
log_statement = none
EOC
	$node->append_conf(
		'postgresql.conf',
		"shared_preload_libraries = 'snowflake'") if $preload;
	$node->append_conf('postgresql.conf', "$_ = '$settings{$_}'") foreach sort keys %settings;

	use_mutant($node, $mutant) if $mutant;

	if ($clock)
	{
		# that the clock was stepped is for the log
		$node->append_conf('postgresql.conf', 'client_min_messages = error');
		start_with_clock($node, 0);
	}
	else
	{
		$node->start;
	}
	add_extension($node, 'postgres');
	return $node;
}

# One for hunts: two lanes, on which the same ticks are soon lived again, and
# errors instead of waits.
sub new_hunting_server
{
	my ($name, %settings) = @_;

	return new_server(
		$name,
		clock => 1,
		'snowflake.layout' => 'snowflake lane:1',
		'snowflake.max_wait' => 0,
		%settings);
}

# A registry to lease worker ids from, in a server without the extension itself.
# What it grants is kept in the table granted.
sub new_registry
{
	my ($name) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init;
	$node->append_conf(
		'postgresql.conf',
		"fsync = off\nautovacuum = off\nwal_level = replica\nmax_wal_senders = 5");
	$node->start;
	$node->safe_psql('postgres', <<'EOC');
CREATE EXTENSION snowflake_registry;
CREATE TABLE granted (worker_id bigint, holder text, starts timestamptz, ends timestamptz);
CREATE FUNCTION note_grant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.granted VALUES (NEW.worker_id, NEW.holder, NEW.starts, NEW.ends);
	RETURN NEW;
END
$$;
CREATE TRIGGER note_grant AFTER INSERT OR UPDATE OF ends ON snowflake_registry.lease
FOR EACH ROW WHEN (NEW.instance IS NOT NULL) EXECUTE FUNCTION note_grant();
EOC
	return $node;
}

# The settings of a server that leases its worker id there.
sub lease_from
{
	my ($registry, %settings) = @_;

	return (
		preload => 1,
		'snowflake.registry' => join(' ', 'host=' . $registry->host, 'port=' . $registry->port, 'dbname=postgres'),
		'snowflake.registry_lease' => '2s',
		'snowflake.max_ahead' => '1s',
		%settings);
}

sub add_extension
{
	my ($node, $database) = @_;

	# the settings may be of no use, and creating it must not mind
	$node->safe_psql($database, 'CREATE EXTENSION snowflake');
	return;
}

# Start clients that run a pgbench script.  The options are pgbench's.
sub start_clients
{
	my ($node, $options, $script) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/script.sql';
	my ($out, $err);

	append_to_file($file, $script);
	my $run = IPC::Run::start(
		[
			$node->installed_command('pgbench'), '--no-vacuum',
			split(' ', $options),
			'--file' => $file,
			'--host' => $node->host,
			'--port' => $node->port,
			'postgres'
		],
		'>' => \$out,
		'2>' => \$err);
	return { run => $run, err => \$err };
}

# Wait for their end.  Any error that a client sees fails the test.
sub finish_clients
{
	my ($clients, $name) = @_;
	my $ok = $clients->{run}->finish;
	my $errors = join("\n", grep { /error|aborted|warning/i } split /\n/, ${ $clients->{err} });

	ok($ok && $errors eq '', $name) or diag($errors || ${ $clients->{err} });
	return;
}

sub run_clients
{
	my ($node, $options, $name, $script) = @_;
	finish_clients(start_clients($node, $options, $script), $name);
	return;
}

# The SQLSTATE that a statement fails with, and its message; 00000 if it does
# not fail.
sub sqlstate_of
{
	my ($node, $sql) = @_;
	my ($ret, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql", on_error_stop => 0);
	return $err =~ /(?:ERROR|FATAL):\s+([0-9A-Z]{5}):/ ? ($1, $err) : ('00000', $err);
}

# Clients that make ids as fast as they can until their server is gone or
# stop_collectors() ends them.  What they saw goes to files of their own,
# outside of the server.
sub start_collectors
{
	my ($node, $number, %options) = @_;
	my $database = $options{database} // 'postgres';
	my $sql = $options{sql} // 'SELECT snowflake_nextval() FROM generate_series(1, 20);';
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my @collectors;

	append_to_file("$dir/script.sql", "$sql\n" x 200_000);
	foreach my $i (1 .. $number)
	{
		my $run = IPC::Run::start(
			[
				$node->installed_command('psql'), '--no-psqlrc', '--no-align', '--tuples-only',
				'--quiet', '--set=VERBOSITY=verbose', "--file=$dir/script.sql",
				'--host', $node->host, '--port', $node->port, $database
			],
			'>',
			"$dir/$i.ids",
			'2>',
			"$dir/$i.errors");
		push @collectors, { run => $run, ids => "$dir/$i.ids", errors => "$dir/$i.errors" };
	}
	return @collectors;
}

# Wait until they are all at work, with the statement that they have if none is given.
sub wait_for_collectors
{
	my ($node, $number) = @_;

	$node->poll_query_until(
		'postgres',
		"SELECT count(*) = $number FROM pg_stat_activity WHERE query LIKE '%generate_series(1, 20)%' AND pid <> pg_backend_pid()"
	) or BAIL_OUT('clients do not work');
	return;
}

# End the clients.  Returns the SQLSTATEs of the errors that they saw, except
# for those that the end of a server brings, with their number.
sub stop_collectors
{
	my %errors;

	foreach my $collector (@_)
	{
		$collector->{run}->kill_kill;
		my $seen = slurp_file($collector->{errors});
		$errors{$1}++ while $seen =~ /(?:ERROR|FATAL|PANIC):  ([0-9A-Z]{5}): /g;
	}
	delete @errors{qw(57P01 57P02 57P03)};
	return \%errors;
}

# The clock was set to before an earlier run: make ids, one run after the other,
# until it is past the end of that.  Returns them, and how many ids of the earlier
# run are of the time that the clock went through again, by the bits below time.
sub live_through
{
	my ($old, $time_shift, $make_ids) = @_;
	my $new = $make_ids->();

	while ($new->{end} < $old->{end})
	{
		my $more = $make_ids->();

		push @{ $new->{ids} }, @{ $more->{ids} };
		$new->{end} = $more->{end};
	}

	# when an id was made, by the default epoch
	my $again = grep {
		my $time = ($_ >> $time_shift) / 1000 + 1767225600;
		$new->{begin} <= $time && $time <= $new->{end}
	} @{ $old->{ids} };
	return ($new, $again);
}

# The ids that clients saw, and how many of them were seen before.
sub count_duplicates
{
	my $files = join ' ', map { $_->{ids} } @_;
	my ($ids) = split ' ', `cat $files | wc -l`;
	my ($different) = split ' ', `cat $files | LC_ALL=C sort --unique --buffer-size=200M | wc -l`;

	return ($ids, $ids - $different);
}

# Wait in a session until the others are gone: a client that has left may have
# a backend that has not.
sub wait_until_alone
{
	my ($session) = @_;

	$session->query_safe(<<'EOC');
DO $$
BEGIN
	WHILE (SELECT count(*) > 1 FROM pg_stat_activity WHERE backend_type = 'client backend') LOOP
		PERFORM pg_sleep(0.01);
		PERFORM pg_stat_clear_snapshot();
	END LOOP;
END $$
EOC
	return;
}

# Change settings of a running server, and wait for the postmaster to see it.
sub set_and_reload
{
	my ($node, $setting) = @_;
	my $offset = -s $node->logfile;

	$node->append_conf('postgresql.conf', $setting);
	$node->reload;
	$node->wait_for_log(qr/received SIGHUP, reloading configuration files/, $offset);
	return;
}

# Kill a backend with no warning, and wait for the server to start again.
sub crash
{
	my ($node) = @_;
	my $victim = $node->background_psql('postgres', on_error_stop => 0);
	my $offset = -s $node->logfile;

	kill 'KILL', $victim->query_safe('SELECT pg_backend_pid()');
	$node->wait_for_log(qr/all server processes terminated; reinitializing/, $offset);
	$node->poll_query_until('postgres', 'SELECT true') or die 'no crash restart';
	eval { $victim->quit };
	return;
}

sub faketime_library
{
	my @found = glob '/usr/lib/*/faketime/libfaketime.so.1';
	return $found[0];
}

# What goes before libfaketime, see there.
my $clock_guard;

# Set the clock of a server off by so many seconds.  The clock goes on from
# there.  The monotonic clock is left alone, as a real step would.
sub set_clock
{
	my ($node, $offset) = @_;
	my $file = $node->basedir . '/clock';

	# replaced as a whole: the server must never read half of it
	unlink "$file.new";
	append_to_file("$file.new", sprintf('%+.3f', $offset));
	rename "$file.new", $file or die "could not rename clock file: $!";
	return;
}

# Start a server whose clock is off by so many seconds, or as it was last set.
# The parameters are those of start().
sub start_with_clock
{
	my ($node, $offset, %parameters) = @_;

	set_clock($node, $offset) if defined $offset;
	if (!$clock_guard)
	{
		$clock_guard = abs_path(PostgreSQL::Test::Utils::tempdir()) . '/clock_guard.so';
		system_or_bail('gcc', '-shared', '-fPIC', '-o', $clock_guard, dirname(__FILE__) . '/clock_guard.c');
	}
	local $ENV{LD_PRELOAD} = "$clock_guard:" . faketime_library();
	local $ENV{FAKETIME_TIMESTAMP_FILE} = abs_path($node->basedir . '/clock');
	local $ENV{FAKETIME_NO_CACHE} = 1;
	local $ENV{FAKETIME_DONT_FAKE_MONOTONIC} = 1;
	local $ENV{DONT_FAKE_MONOTONIC} = 1;

	# for the times of files it takes a lock, which a process that is killed would keep
	local $ENV{NO_FAKE_STAT} = 1;
	return $node->start(%parameters);
}

1;
