# Two servers lease the only worker id from a registry.  Servers, or only some backends,
# are paused for longer than the lease, and restarted.  The clock of the second server
# is behind, so that it would make the ids of the first one again, even if a busy machine
# lets it take over late.  Then, a host name that is hard to look up, and a failover of the registry.

use SnowflakeTest;

my $behind = 3;

# Return the PIDs of a server and its children.
sub processes
{
	my ($server) = @_;
	my ($postmaster) = split /\n/, slurp_file($server->data_dir . '/postmaster.pid');

	# pid (command) state parent ...
	return ($postmaster, map { /^(\d+) \(.*\) \S $postmaster / ? $1 : () } `cat /proc/[0-9]*/stat 2>/dev/null`);
}

# Put the server that holds the lease first.  It is the last one that took over, unless
# that has lost the lease again.
sub holder_first
{
	my @servers = @_;

	foreach (1 .. 100)
	{
		return @servers if (sqlstate_of($servers[0], 'SELECT snowflake_nextval()'))[0] eq '00000';
		@servers = reverse @servers;
		sleep 0.1;
	}
	BAIL_OUT('no lease');
	return;
}

# Wait until a server makes ids, which it cannot before the other's lease has ended.
sub wait_for_lease
{
	my ($server) = @_;

	foreach (1 .. 100)
	{
		return if (sqlstate_of($server, 'SELECT snowflake_nextval()'))[0] eq '00000';
		sleep 0.1;
	}
	BAIL_OUT('no lease');
	return;
}

sub pause_while_other_holds
{
	my ($other, @pids) = @_;

	kill 'STOP', @pids;
	wait_for_lease($other);
	sleep 0.3;
	kill 'CONT', @pids;
	sleep 0.5;
	return;
}

# Interruptions of the server that holds the lease
my %interruptions = (
	'server paused' => sub {
		my ($holder, $other) = @_;
		pause_while_other_holds($other, processes($holder));
	},
	'backends paused' => sub {
		my ($holder, $other) = @_;
		my $pids = sql(
			$holder,
			q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() LIMIT 2}
		);
		pause_while_other_holds($other, lease_worker_of($holder), split /\n/, $pids);
	},
	'server restarted' => sub {
		my ($holder, $other, $start) = @_;
		$holder->stop;
		wait_for_lease($other);
		# the clock that is behind has to pass the ids of the other server
		sleep $behind + 0.5;
		$start->();
	});

# Return the number of ids, of duplicates and of leases.
sub hunt
{
	my ($name, $mutant, @rounds) = @_;
	my $one = new_registry("one_$name");
	my %settings = lease_from(
		$one, 'snowflake.layout' => 'snowflake worker:1 lane:1', 'snowflake.registry_lease' => '1s',
		'snowflake.max_ahead' => '20s', 'snowflake.sequence_start' => 'zero', 'snowflake.max_wait' => 0,
		$mutant ? (mutant => $mutant) : ());
	sql($one, "SELECT snowflake_registry.reserve(1, 'for the test')");

	my @servers = (
		new_server("first_$name", %settings),
		new_server("second_$name", %settings, clock => 1));
	set_clock($servers[1], -$behind);
	my @all;

	foreach my $round (@rounds)
	{
		my ($holder, $other) = holder_first(@servers);
		my @collectors;

		push @collectors, start_collectors($_, 4) foreach @servers;
		push @all, @collectors;
		# so that the other one meets these ids
		sleep $behind + 0.5;
		$interruptions{$round}->(
			$holder, $other,
			sub { $holder->name =~ /^second/ ? start_with_clock($holder, -$behind) : $holder->start });
		stop_collectors(@collectors);
		@servers = ($other, $holder);
	}
	my ($ids, $duplicates) = count_duplicates(@all);
	my $leases = sql($one, 'SELECT count(DISTINCT starts) FROM granted');
	note("$ids ids, $duplicates duplicates, $leases leases");
	$_->stop('immediate') foreach @servers, $one;
	return ($ids, $duplicates, $leases);
}

my ($ids, $duplicates, $leases) =
  hunt('product', undef, ('server paused') x 2, ('backends paused') x 2, ('server restarted') x 2);
is($duplicates, 0, 'one worker id for two servers: no id is made twice');
cmp_ok($ids, '>', 50_000, 'many ids were made');
cmp_ok($leases, '>', 6, 'the lease changed hands');

my %rounds = (
	'goes on after its lease' => [ ('server paused') x 2 ],
	'forgets what it used' => ['server restarted']);
foreach my $mutant (with_mutants() ? sort keys %rounds : ())
{
	# other processes on the machine may delay a pause too much for duplicates
	foreach my $try (1 .. 3)
	{
		($ids, $duplicates) = hunt($mutant =~ tr/ /_/r . "_$try", $mutant, @{ $rounds{$mutant} });
		last if $duplicates > 0;
	}
	cmp_ok($duplicates, '>', 0, "mutant that $mutant: duplicates are found");
}

# The lookup of a host name takes long.
my $resolver = PostgreSQL::Test::Utils::tempdir() . '/slow_resolver';
append_to_file("$resolver.c", <<'EOC');
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <unistd.h>
/* Like a resolver whose name servers are silent, it goes on when a signal arrives. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
	__typeof__(getaddrinfo) *next = dlsym(RTLD_NEXT, "getaddrinfo");
	unsigned left;
	if (node == NULL || sscanf(node, "slow%u.invalid", &left) != 1)
		return next(node, service, hints, result);
	while (left > 0)
		left = sleep(left);
	return EAI_AGAIN;
}
EOC
system_or_bail('gcc', '-shared', '-fPIC', '-o', "$resolver.so", "$resolver.c");
my $lookup = new_server('lookup', preload => 1, 'snowflake.registry' => 'host=slow10.invalid');
$lookup->stop;
my $log_end = -s $lookup->logfile;
start_with_library($lookup, "$resolver.so");
sql_becomes_true($lookup, "SELECT lease_state = 'not asked' FROM snowflake_status()", 'a host name is looked up');
sql($lookup, 'CREATE DATABASE dropped');
sql($lookup, "SET statement_timeout = '5s';\nDROP DATABASE dropped");
$lookup->wait_for_log(qr/could not lease .*: could not translate host name/, $log_end);
pass('a database was dropped meanwhile');
$lookup->stop;

# A failover of the registry, while the clock of the server is behind by an hour.  If no lease
# can be missing, it goes unnoticed; if one can, there are no ids for 2 x max_clock_lead +
# max_lease.
foreach my $asynchronous ('false', 'true')
{
	my $old = new_registry("old_$asynchronous");
	sql($old,
		"UPDATE snowflake_registry.registry SET asynchronous_standbys = $asynchronous, max_clock_lead = '1 s', max_lease = '8 s';
UPDATE snowflake_registry.registry SET former_reach = '0'"
	);
	my $new = new_standby($old, "new_$asynchronous");
	my ($hosts, $ports) = map { join ',', $old->$_, $new->$_ } 'host', 'port';
	my $behind = new_server(
		"behind_$asynchronous",
		lease_from(
			$old,
			'snowflake.registry' => "host=$hosts port=$ports dbname=postgres target_session_attrs=read-write",
			'snowflake.registry_lease' => '8s'),
		clock => 1);

	wait_for_lease($behind);
	set_clock($behind, -3600);
	my @clients = start_collectors($behind, 2);
	sleep 4;
	$old->wait_for_catchup($new, 'replay', $old->lsn('insert'));
	$old->stop('immediate');
	$new->promote;
	my $promoted_at = time;
	my $name = "a failover, with asynchronous standbys: $asynchronous";
	sleep 10;
	$behind->poll_query_until('postgres', 'SELECT snowflake_nextval() > 0') or die;
	note(sprintf '%s: ids at the latest %.1f s after it', $name, time - $promoted_at);
	my $found = stop_collectors(@clients);
	is(join(' ', sort keys %$found), $asynchronous eq 'true' ? 'SF004' : '', "$name: the errors of calls");
	sql_is(
		$behind,
		"SELECT snowflake_timestamp(snowflake_nextval()) BETWEEN now() + interval '59 min' AND now() + interval '62 min'",
		't', "$name: ids go on from where they were");
	$_->stop foreach $behind, $new;
}

done_testing();
