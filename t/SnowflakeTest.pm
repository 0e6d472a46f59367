# Functions that the tests share.

package SnowflakeTest;

use strict;
use warnings;
use Cwd      qw(abs_path);
use Exporter ();
use Fcntl    qw(O_RDWR SEEK_SET);
use File::Basename;
use IPC::Run;
use List::Util qw(max);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time clock_gettime CLOCK_BOOTTIME CLOCK_MONOTONIC);

our @ISA = 'Exporter';

# With these, a test has all that it uses of other modules.
our @EXPORT = (
	@PostgreSQL::Test::Utils::EXPORT, @Test::More::EXPORT, qw(
	  sleep time
	  new_server new_hunting_server new_registry lease_from add_database add_sql_database new_standby restart_with
	  lease_worker_of sql sql_is sql_becomes_true sqlstate_of sql_succeeds sql_fails open_session
	  start_clients finish_clients run_clients
	  begin_query take_errors wait_until
	  set_and_reload crash set_clock start_with_clock start_with_library
	  can_use_mutants stage_directory mutate use_mutant with_mutants
	  start_collectors wait_for_collectors stop_collectors ids_of count_duplicates
	  make_ids live_again live_from ids_by ids_until
	));

sub import
{
	strict->import;
	warnings->import;
	return SnowflakeTest->export_to_level(1, @_);
}

# A test that hunts for a fault proves nothing unless it would find one.  t/mutants removes
# safeguards: on a server that is built without one, the test must find what it hunts for.
# Mutants can be left out where the server's version makes no difference, and have to be on a
# server that was copied to be used with the extension, where nothing tells it where to look
# for the library.
sub can_use_mutants
{
	return slurp_file($ENV{TEMP_CONFIG}) =~ /^dynamic_library_path = /m;
}

sub with_mutants
{
	return can_use_mutants() && ($ENV{SNOWFLAKE_MUTANTS} // 1);
}

my %mutant_settings;

# The directory that the extension was installed in, unless the server is a copy.
sub stage_directory
{
	my ($stage) = slurp_file($ENV{TEMP_CONFIG}) =~ /^dynamic_library_path = '([^:]*)\/usr\//m;

	return $stage;
}

# Make the sources in a directory those of a mutant.
sub mutate { return system_or_bail('bash', '-c', '. script/lib.sh && apply_mutant "$0" "$1"', @_) }

# Make a server use the library of a mutant from its next start on.
sub use_mutant
{
	my ($node, $name) = @_;
	my $settings = slurp_file($ENV{TEMP_CONFIG});

	if (!$mutant_settings{$name})
	{
		my $stage = stage_directory();
		my $dir = abs_path(PostgreSQL::Test::Utils::tempdir());

		# with the object files, so that "make" rebuilds only those that the mutant affects
		system_or_bail('sh', '-c', "cp -Rp *.[co] *.so *.sql *.control Makefile src registry adopt sql-only $dir");
		mutate($name, $dir);
		system_or_bail(
			'make', '--silent', '-C', $dir, "PG_CONFIG=$ENV{PG_CONFIG}", 'with_llvm=no', 'install',
			"DESTDIR=$dir/stage");
		$mutant_settings{$name} = $settings =~ s/\Q$stage\E/$dir\/stage/gr;
	}
	$node->append_conf('postgresql.conf', $mutant_settings{$name});
	return;
}

# Create a server with the extension in its database postgres.  The settings go to
# postgresql.conf, except for the options of this function:
#	preload		puts the library in shared_preload_libraries
#	clock		lets set_clock() step the server's clock
#	mutant		uses the library of a mutant
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
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'snowflake'") if $preload;
	$node->append_conf('postgresql.conf', "$_ = '$settings{$_}'") foreach sort keys %settings;

	use_mutant($node, $mutant) if $mutant;

	if ($clock)
	{
		# warnings about a stepped clock should go to the log only
		$node->append_conf('postgresql.conf', 'client_min_messages = error');
		start_with_clock($node, 0);
	}
	else
	{
		$node->start;
	}
	# must succeed even if the settings cannot be used
	sql($node, 'CREATE EXTENSION snowflake');
	return $node;
}

# Create a server for hunts: with only two lanes, so that two ids of one tick are likely
# to share a lane, with errors instead of waits, and with ids that follow a clock that is set
# back as soon as they can, so that ticks are lived through again.
sub new_hunting_server
{
	my ($name, %settings) = @_;

	return new_server(
		$name, clock => 1, 'snowflake.layout' => 'snowflake lane:1', 'snowflake.max_wait' => 0,
		'snowflake.max_set_back' => 0, %settings);
}

# Create a registry to lease worker ids from, in a server without the extension itself.
# The table "granted" records what it grants.
sub new_registry
{
	my ($name) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init;
	$node->append_conf('postgresql.conf', "fsync = off\nautovacuum = off\nwal_level = replica\nmax_wal_senders = 5");
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

# Return the settings of a server that leases its worker id from a registry.
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

# Create a database with the extension.
sub add_database
{
	my ($node, $database) = @_;

	sql($node, "CREATE DATABASE $database");
	sql([ $node, $database ], 'CREATE EXTENSION snowflake');
	return;
}

# Create a database with the edition in SQL, or with another script.
sub add_sql_database
{
	my ($node, $database, $settings, $script) = @_;

	sql($node, "CREATE DATABASE $database");
	sql([ $node, $database ], slurp_file($script // 'sql-only/snowflake_sql--1.0.sql'));
	sql([ $node, $database ], "SELECT snowflake_configure($settings)");
	return;
}

# Create a standby of a running server.  The options are those of restart_with().
sub new_standby
{
	my ($node, $name, %options) = @_;
	my $standby = PostgreSQL::Test::Cluster->new($name);

	$node->backup($name);
	$standby->init_from_backup($node, $name, has_streaming => 1);
	$standby->append_conf('postgresql.conf', $options{conf}) if defined $options{conf};
	defined $options{clock} ? start_with_clock($standby, $options{clock}) : $standby->start;
	return $standby;
}

# Restart a server.  The options are
#	stop		how it is stopped, by default "fast"
#	conf		what is added to postgresql.conf before it starts
#	clock		the parameter of start_with_clock()
sub restart_with
{
	my ($node, %options) = @_;

	$node->stop($options{stop} // 'fast');
	$node->append_conf('postgresql.conf', $options{conf}) if defined $options{conf};
	return defined $options{clock} ? start_with_clock($node, $options{clock}) : $node->start;
}

# Start clients that run a pgbench script.  The options are those of pgbench.
sub start_clients
{
	my ($node, $options, $script, $database) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/script.sql';
	my ($out, $err);

	append_to_file($file, $script);
	my $run = IPC::Run::start(
		[
			$node->installed_command('pgbench'), '--no-vacuum', '--failures-detailed',
			split(' ', $options),
			'--file' => $file,
			'--host' => $node->host,
			'--port' => $node->port,
			$database // 'postgres'
		],
		'>' => \$out,
		'2>' => \$err);
	return { run => $run, out => \$out, err => \$err };
}

# Wait until clients have ended.  Any error or warning that one has seen fails the test.
# pgbench shows only the number of deadlocks.
sub finish_clients
{
	my ($clients, $name) = @_;
	my $ok = $clients->{run}->finish;
	my $errors = join("\n", grep { /error|aborted|warning/i } split /\n/, ${ $clients->{err} });

	$errors .= $1 if ${ $clients->{out} } =~ /^(number of \w+ failures: [1-9].*)/m;
	ok($ok && $errors eq '', $name) or diag($errors || ${ $clients->{err} });
	return;
}

sub run_clients
{
	my ($node, $options, $name, $script) = @_;
	finish_clients(start_clients($node, $options, $script), $name);
	return;
}

# The next functions run SQL on a server, or on [ a server, a database, a role ], where the
# last one can be left out.
sub place_of
{
	my ($node, $database, $role) = ref $_[0] eq 'ARRAY' ? @{ $_[0] } : $_[0];

	return ($node, $database // 'postgres', $role ? (extra_params => [ '--username', $role ]) : ());
}

# Return the output of statements that must not fail.
sub sql
{
	my ($where, $sql) = @_;
	my ($node, $database, @role) = place_of($where);

	return $node->safe_psql($database, $sql, @role);
}

# Check the output of such statements.
sub sql_is
{
	my ($where, $sql, $expected, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(sql($where, $sql), $expected, $name);
}

# Wait until a query returns true.
sub sql_becomes_true
{
	my ($where, $sql, $name) = @_;
	my ($node, $database) = place_of($where);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok($node->poll_query_until($database, $sql), $name);
}

# Return the SQLSTATE that a statement fails with, or 00000 if it does not, and its
# messages.
sub sqlstate_of
{
	my ($where, $sql) = @_;
	my ($node, $database, @role) = place_of($where);
	my ($ret, $out, $err) = $node->psql($database, "\\set VERBOSITY verbose\n$sql", on_error_stop => 0, @role);

	return $err =~ /(?:ERROR|FATAL):\s+([0-9A-Z]{5}):/ ? ($1, $err) : ('00000', $err);
}

# Check that statements fail with an SQLSTATE, and, if a pattern is given, with messages
# that match it.
sub sql_fails
{
	my ($where, $sql, $expected, $name, $pattern) = @_;
	my ($code, $message) = sqlstate_of($where, $sql);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $ok = is($code, $expected, $name) or diag($message);
	like($message, $pattern, "$name: messages") if $pattern;
	return $ok;
}

sub sql_succeeds
{
	my ($where, $sql, $name, $pattern) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return sql_fails($where, $sql, '00000', $name, $pattern);
}

# Open a session in the background, and return it with its PID.
sub open_session
{
	my ($where) = @_;
	my ($node, $database, @role) = place_of($where);
	my $session = $node->background_psql($database, on_error_stop => 0, @role);

	return ($session, $session->query_safe('SELECT pg_backend_pid()'));
}

# Start statements in a session of background_psql(), without waiting for their end.
sub begin_query
{
	my ($session, $sql) = @_;

	$session->query_until(qr/begun/, "\\echo begun\n$sql\n");
	return;
}

# Return the messages that such a session has received since the last call.
sub take_errors
{
	my ($session) = @_;
	my $errors = $session->{stderr};

	$session->{stderr} = '';
	return $errors;
}

# Wait until the session with a PID meets a condition on pg_stat_activity.
sub wait_until
{
	my ($node, $pid, $condition, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return sql_becomes_true($node, "SELECT count(*) = 1 FROM pg_stat_activity WHERE pid = $pid AND $condition", $name);
}

# Start clients that make ids until their server is gone or stop_collectors() ends them.
# Each writes the ids to a file of its own, outside the server.  The options are
#	database
#	sql			a statement to run instead of one that makes 20 ids
#	pause		for how many seconds each client pauses after a statement; with the
#				default, some of them make ids at any time, but do not need all of
#				the machine
# The client pauses, not the server, as pg_sleep() goes by the clock that may be stepped.
sub start_collectors
{
	my ($node, $number, %options) = @_;
	my $database = $options{database} // 'postgres';
	my $sql = $options{sql} // 'SELECT snowflake_nextval() FROM generate_series(1, 20);';
	my $pause = $options{pause} // 0.002;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my @collectors;

	foreach my $i (1 .. $number)
	{
		my $run = IPC::Run::start(
			[
				$^X, '-e', '$| = 1; select undef, undef, undef, $ARGV[1] while print "$ARGV[0]\n"',
				$sql, $pause
			],
			'|',
			[
				$node->installed_command('psql'), '--no-psqlrc', '--no-align', '--tuples-only',
				'--quiet', '--set=VERBOSITY=verbose', '--file=-',
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

# Wait until a number of collectors run the default statement.
sub wait_for_collectors
{
	my ($node, $number) = @_;

	$node->poll_query_until(
		'postgres',
		"SELECT count(*) = $number FROM pg_stat_activity WHERE query LIKE '%generate_series(1, 20)%' AND pid <> pg_backend_pid()"
	) or BAIL_OUT('clients do not work');
	return;
}

# End collectors.  Returns the SQLSTATEs of the errors that they saw, with counts,
# except for those that the end of a server causes.
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

# Make ids in one session, and note when by the server's clock.  If two instants are given,
# that clock is set, and ids are made from the first one to the second one: the server has
# the statements by then, so no gap hides what a mutant does.
sub make_ids
{
	my ($node, $database, $from, $until) = @_;
	my $session = $node->background_psql($database);
	my $clock =
	  sprintf
	  "SELECT extract(epoch FROM clock_timestamp()) FROM pg_sleep(%s - extract(epoch FROM clock_timestamp()));\n",
	  $from // 0;
	my ($begin, $end, @ids);

	set_clock($node, $from - 2 - time) if defined $from;
	do
	{
		my ($earlier, @more) = split /\n/,
		  $session->query_safe($clock . "SELECT snowflake_nextval() FROM generate_series(1, 20);\n" x 500 . $clock);
		$begin //= $earlier;
		$end = pop @more;
		push @ids, @more;
	} while ($end < ($until // 0));
	$session->quit;
	return { begin => $begin, end => $end, ids => \@ids };
}

# Make ids while the clock passes the time of an earlier run again.  Returns how many
# were made, how many of these were made before, and how many are not above all of those.
sub live_again
{
	my ($node, $database, $old) = @_;
	my %seen = map { $_ => 1 } @{ $old->{ids} };
	my $new = make_ids($node, $database, $old->{begin} - 0.02, $old->{end});
	my $duplicates = grep { $seen{$_}++ } @{ $new->{ids} };
	my $lower = grep { $_ <= $old->{ids}[-1] } @{ $new->{ids} };

	BAIL_OUT('the clock has not passed the time again') if $new->{begin} > $old->{end};
	return (scalar @{ $new->{ids} }, $duplicates, $lower);
}

# Set the clock of a server to an instant, and have collectors make ids until the clock
# has passed another.  Returns the collectors, the time on that clock when they ended,
# and the errors that they saw.
sub live_from
{
	my ($node, $from, $until, %options) = @_;
	my $offset = $from - time;

	set_clock($node, $offset);
	my @collectors = start_collectors($node, 4, %options);
	wait_for_collectors($node, 4);
	sleep max(0.7, $until - $offset - time);
	# a busy machine is slow to make ids
	foreach (1 .. 600)
	{
		last if (() = ids_of(@collectors)) > 1000;
		sleep 0.1;
	}
	my $errors = stop_collectors(@collectors);
	return (\@collectors, time + $offset, $errors);
}

# A shell command that prints the ids that collectors saw, without the last one of a client
# that was killed while it wrote that.
sub print_ids
{
	return join ' ', q{perl -ne 'print if /\n\z/'}, map { $_->{ids} } @_;
}

sub ids_of
{
	my $lines = print_ids(@_);
	return map { int } `$lines`;
}

# Return how many ids collectors saw, and how many of these were duplicates.
sub count_duplicates
{
	my $lines = print_ids(@_);
	my ($ids) = split ' ', `$lines | wc -l`;
	my ($different) = split ' ', `$lines | LC_ALL=C sort --unique --buffer-size=200M | wc -l`;

	return ($ids, $ids - $different);
}

# Change settings of a running server, and wait until the postmaster has read them.
sub set_and_reload
{
	my ($node, $setting) = @_;
	my $offset = -s $node->logfile;

	$node->append_conf('postgresql.conf', $setting);
	$node->reload;
	$node->wait_for_log(qr/received SIGHUP, reloading configuration files/, $offset);
	return;
}

# The PID of a server's lease worker, from its last lease: it is not in pg_stat_activity.
sub lease_worker_of
{
	my ($node) = @_;
	my @pids = slurp_file($node->logfile) =~ /\[(\d+)\] LOG:  leased worker id/g;

	return $pids[-1];
}

# Kill a backend without warning, and wait until the server has restarted, with its clock set off by
# a number of seconds, if one is given.
sub crash
{
	my ($node, $clock) = @_;
	my $victim = $node->background_psql('postgres', on_error_stop => 0);
	my $offset = -s $node->logfile;

	kill 'KILL', $victim->query_safe('SELECT pg_backend_pid()');
	set_clock($node, $clock) if defined $clock;
	$node->wait_for_log(qr/all server processes terminated; reinitializing/, $offset);
	eval { $victim->quit };

	# not by a query: psql may be gone before poll_query_until() has written it, which ends the test
	my @is_ready = ($node->installed_command('pg_isready'), '--quiet', '--host', $node->host, '--port', $node->port);
	foreach (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if system(@is_ready) == 0;
		sleep 0.1;
	}
	BAIL_OUT('no crash restart');
}

# The library that clock.c is built into, for start_with_clock().
my $clock_library;

# The file that clock.c maps: a number of settings, and the index of the current one.
my $clock_settings = 255;
my $clock_current = $clock_settings * 8;
# When the machine was booted: determined once, as each reading would be a bit different;
# time passes before the second clock is read.
my $boot_time = max(map { time - clock_gettime(CLOCK_BOOTTIME) } 1 .. 10);

# Set the wall clock of a server off by a number of seconds, from where it runs on.  Other
# clocks stay as they are, as in a real step.
sub set_clock
{
	my ($node, $offset) = @_;
	my $path = $node->basedir . '/clock';
	my ($file, $current);

	append_to_file($path, "\0" x ($clock_current + 1)) if !-e $path;
	sysopen($file, $path, O_RDWR) or die "could not open clock: $!";
	sysseek($file, $clock_current, SEEK_SET);
	sysread($file, $current, 1);
	$current = (ord($current) + 1) % $clock_settings;
	sysseek($file, $current * 8, SEEK_SET);
	syswrite($file, pack('q', ($boot_time + $offset) * 1e9));
	sysseek($file, $clock_current, SEEK_SET);
	syswrite($file, chr $current) or die "could not set clock: $!";
	close $file;
	return;
}

# Start a server whose clock is off by a number of seconds, or as it was last set.  The
# parameters are those of start().
sub start_with_clock
{
	my ($node, $offset, %parameters) = @_;

	set_clock($node, $offset) if defined $offset;
	if (!$clock_library)
	{
		$clock_library = abs_path(PostgreSQL::Test::Utils::tempdir()) . '/clock.so';
		system_or_bail('gcc', '-shared', '-fPIC', '-O2', '-o', $clock_library, dirname(__FILE__) . '/modules/clock.c');
	}

	local $ENV{SNOWFLAKE_TEST_CLOCK} = abs_path($node->basedir . '/clock');
	return start_with_library($node, $clock_library, %parameters);
}

# Start a server with a library in LD_PRELOAD, behind that of a sanitizer, which must be
# the first.
sub start_with_library
{
	my ($node, $library, %parameters) = @_;

	local $ENV{LD_PRELOAD} = join ':', $ENV{LD_PRELOAD} // (), $library;
	return $node->start(%parameters);
}

# Make ids in a given or a new session, and tell their time: "right" if it is that of a
# clock off by a number of seconds, or up to 5 s ahead of it.  Of several offsets, one
# suffices.  If there is another time, return that, and the SQLSTATE if the call fails.
sub ids_by
{
	my ($offset, $where, $database) = @_;
	my $sql = <<'EOC';
SELECT 'ids', extract(epoch FROM min(made)), extract(epoch FROM max(made))
FROM (SELECT snowflake_timestamp(snowflake_nextval()) AS made FROM generate_series(1, 100)) AS ids;
EOC
	# the time of a server whose clock is set, but not off, goes on like this
	my $before = $boot_time + clock_gettime(CLOCK_BOOTTIME);
	my ($out, $err);

	if (ref $where eq 'PostgreSQL::Test::BackgroundPsql')
	{
		$out = $where->query("\\set VERBOSITY verbose\n$sql");
		$err = take_errors($where);
	}
	else
	{
		(undef, $out, $err) = $where->psql($database // 'postgres', "\\set VERBOSITY verbose\n$sql");
	}
	my $after = $boot_time + clock_gettime(CLOCK_BOOTTIME);

	return $1 if $err =~ /ERROR:  (\w{5}):/;
	my ($min, $max) = $out =~ /^ids\|([\d.]+)\|([\d.]+)$/m or die "no ids: $out $err";
	foreach (ref $offset ? @$offset : $offset)
	{
		return 'right' if $min >= $before + $_ - 0.05 && $max <= $after + $_ + 5;
	}
	return sprintf '%.3f s ahead', $min - $before;
}

# Make ids every 0.1 s until their time is that of a clock off by a number of seconds,
# or a call fails with a given SQLSTATE.  Returns how long that took, the last result,
# and earlier results that were neither as expected nor "right".
sub ids_until
{
	my ($session, $expected, $offset, $old_offset) = @_;
	my $began = clock_gettime(CLOCK_MONOTONIC);
	my %others;

	while (clock_gettime(CLOCK_MONOTONIC) < $began + 30)
	{
		my $found = ids_by($offset, $session);
		return (clock_gettime(CLOCK_MONOTONIC) - $began, $found, join ' ', sort keys %others)
		  if $found eq $expected;
		# this result may be the first one as expected
		$found = ids_by($expected eq 'right' ? [ $old_offset, $offset ] : $old_offset, $session)
		  if $found =~ / /;
		$others{$found} = 1 if $found ne 'right' && $found ne $expected;
		sleep 0.1;
	}
	return (30, 'too late', join ' ', sort keys %others);
}

1;
