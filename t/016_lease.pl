# Worker ids that are leased from a registry: how a server behaves without a lease, and
# that all ids are within a lease, whatever the registry does.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use File::Basename;
use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $worker_id = 'SELECT snowflake_worker_id(snowflake_nextval())';

sub in_registry
{
	my ($registry, $sql) = @_;
	return $registry->safe_psql('postgres', $sql);
}

# Check how a server without a lease fails.  The reason may be another one for a moment,
# such as that an answer of the registry takes long.
sub fails
{
	my ($node, $hint, $name) = @_;
	my ($code, $message);

	foreach (1 .. 100)
	{
		($code, $message) = sqlstate_of($node, 'SELECT snowflake_nextval()');
		last if $code ne 'SF004' || $message =~ $hint;
		sleep 0.1;
	}
	is($code, 'SF004', "$name: no ids");
	like($message, $hint, "$name: with the reason");
	return;
}

# End the lease worker, and wait for its successor.
sub terminate_worker
{
	my ($server) = @_;

	$server->poll_query_until(
		'postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'snowflake lease worker'") or die;
	my ($pid) = split /\|/, $server->safe_psql(
		'postgres',
		"SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'snowflake lease worker'");

	$server->poll_query_until(
		'postgres',
		"SELECT pid <> $pid FROM pg_stat_activity WHERE backend_type = 'snowflake lease worker'") or die;
	return;
}

sub makes_ids_again
{
	my ($node, $name) = @_;
	my ($code, $message);

	foreach (1 .. 100)
	{
		($code, $message) = sqlstate_of($node, 'SELECT snowflake_nextval()');
		last if $code eq '00000';
	}
	is($code, '00000', $name) or diag($message);
	return;
}

#
# A server and its registry, from the first lease to the end
#

my $registry = new_registry('registry');
$registry->stop;
my $node = new_server(
	'node',
	lease_from(
		$registry,
		'snowflake.node_name' => 'first',
		'snowflake.registry_lease' => '9s',
		'snowflake.worker_id' => 7,
		'wal_level' => 'replica',
		'max_wal_senders' => 5,
		'snowflake.max_wait' => 200));

fails($node, qr/cannot be reached/, 'registry down at start');
$registry->start;
makes_ids_again($node, 'ids are made once the registry answers');
is($node->safe_psql('postgres', $worker_id), 0, 'with the leased worker id');
is( in_registry($registry, "SELECT worker_id, holder, state FROM snowflake_registry.leases"),
	'0|first|held', 'which the registry shows as held');
is( $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'snowflake lease worker'"),
	1, 'there is one lease worker');

# renewals
my $ends = in_registry($registry, 'SELECT ends FROM snowflake_registry.lease');
ok( $registry->poll_query_until('postgres', "SELECT ends > '$ends' FROM snowflake_registry.lease"),
	'the lease is renewed');

# An outage that is longer than the lease.  Ids are made until the lease ends.
$registry->stop;
my $last_id = $node->safe_psql('postgres', 'SELECT snowflake_nextval()');
for (my $begin = time; time < $begin + 20; sleep 0.01)
{
	my ($ret, $id) = $node->psql('postgres', 'SELECT snowflake_nextval()');
	last if $ret != 0;
	$last_id = $id;
}
fails($node, qr/cannot be reached/, 'registry down for longer than the lease');
like(
	$node->safe_psql('postgres', "SELECT pg_read_file('" . $node->logfile . "')"),
	qr/could not renew the lease of worker id 0.*HINT/s, 'the log reports it');
$registry->start;
is( in_registry(
		$registry,
		"SELECT ends > to_timestamp(" . $node->safe_psql(
			'postgres',
			"SELECT extract(epoch FROM snowflake_timestamp($last_id))")
		  . ") FROM snowflake_registry.lease"),
	't',
	'the last id is within the lease');
makes_ids_again($node, 'ids are made again after the outage');
is($node->safe_psql('postgres', $worker_id), 0, 'with the same worker id, which no other server has leased');

# a lease that is taken away lasts to its end, unless the server gets another one
in_registry($registry, 'UPDATE snowflake_registry.lease SET instance = NULL');
ok($node->poll_query_until('postgres', "$worker_id = 1"), 'another worker id replaces it');

# restarts
$node->restart;
makes_ids_again($node, 'ids are made after a restart');
is($node->safe_psql('postgres', $worker_id), 1, 'with the worker id that was released');
$node->stop('immediate');
$node->start;
makes_ids_again($node, 'ids are made after a crash');
isnt($node->safe_psql('postgres', $worker_id), 1, 'not with the worker id that is still leased');

# the lease worker alone
my $before = $node->safe_psql('postgres', 'SELECT snowflake_nextval()');
terminate_worker($node);
makes_ids_again($node, 'ids are made after the worker was terminated');
cmp_ok($node->safe_psql('postgres', 'SELECT snowflake_nextval()'), '>', $before, 'above the earlier ids');

# the clock
$node->stop;
start_with_clock($node, 3600);
$node->poll_query_until('postgres', "SELECT lease_state = 'refused' FROM snowflake_status()") or die;
fails($node, qr/refuses/, 'a clock an hour ahead of the registry\'s');
like(slurp_file($node->logfile), qr/clock is too far ahead of the registry's clock/, 'the log reports it');
set_clock($node, 0);
makes_ids_again($node, 'ids are made when the clock is right again');

#
# Other servers
#

# a copy of a running server, including its files and its name
$node->backup('copy');
my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($node, 'copy');
$copy->start;
makes_ids_again($copy, 'a copy of a running server makes ids');
isnt(
	$copy->safe_psql('postgres', $worker_id), $node->safe_psql('postgres', $worker_id),
	'with a worker id of its own');
$copy->stop;

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
$standby->append_conf('postgresql.conf', "snowflake.node_name = 'standby'");
$standby->reload;
is( $standby->safe_psql(
		'postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'snowflake lease worker'"),
	0,
	'a standby has no lease worker');
is((sqlstate_of($standby, 'SELECT snowflake_nextval()'))[0], '25006', 'and makes no ids');
$standby->promote;
makes_ids_again($standby, 'it makes ids when it is promoted');
is( in_registry(
		$registry, "SELECT count(*) FROM snowflake_registry.leases WHERE holder = 'standby' AND state = 'held'"),
	1,
	'with a lease of its own');
isnt(
	$standby->safe_psql('postgres', $worker_id), $node->safe_psql('postgres', $worker_id),
	'and not the worker id of the old primary');
$standby->stop;

my $other = new_server('other', lease_from($registry, 'snowflake.layout' => 'twitter'));
fails($other, qr/refuses/, 'a layout other than that of the registry');
ok( $other->poll_query_until('postgres', "SELECT lease_state = 'refused' FROM snowflake_status()"),
	'the state shows it');
like(slurp_file($other->logfile), qr/registry is for snowflake ids of the layout/, 'the log reports it');

#
# Registries that do not answer
#

# the first of several hosts accepts connections, but does not answer
my $silent = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1') or die "cannot listen: $!";
my $hosts = new_server(
	'hosts',
	lease_from(
		$registry,
		'snowflake.registry' => sprintf(
			'host=127.0.0.1,%s port=%s,%s dbname=postgres',
			$registry->host, $silent->sockport, $registry->port)));
makes_ids_again($hosts, 'ids are made when the first of several hosts hangs');
$hosts->stop;

# the lookup of a host name takes too long
my $resolver = PostgreSQL::Test::Utils::tempdir() . '/slow_resolver.so';
system_or_bail('gcc', '-shared', '-fPIC', '-o', $resolver, dirname(__FILE__) . '/slow_resolver.c');
my $lookup = new_server('lookup', lease_from($registry));
$lookup->stop;
$lookup->append_conf('postgresql.conf', "snowflake.registry = 'host=slow.invalid'");
start_with_library($lookup, $resolver);
$lookup->wait_for_log(qr/could not lease .*: lookup of the host name timed out/);
fails($lookup, qr/cannot be reached/, 'while a host name is looked up');
my $stopping = time;
$lookup->stop;
cmp_ok(time - $stopping, '<', 60, 'the server can be stopped during the lookup');

# but other hosts are tried meanwhile, even if the lease has to be renewed often
$lookup->append_conf(
	'postgresql.conf',
	sprintf(
		"snowflake.registry = 'host=slow.invalid,%s port=%s,%s dbname=postgres'\nsnowflake.registry_lease = '6s'",
		$registry->host, $registry->port, $registry->port));
start_with_library($lookup, $resolver);
makes_ids_again($lookup, 'ids are made although the lookup of the first of two hosts hangs');
in_registry($registry, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'snowflake'");
my %codes;
foreach (1 .. 50)
{
	$codes{ (sqlstate_of($lookup, 'SELECT snowflake_nextval()'))[0] }++;
	sleep 0.2;
}
is(join(' ', %codes), '00000 50', 'and go on being made when the connection is lost');
$lookup->stop;

# a server that gave up waiting is not granted anything later
my $locker = $registry->background_psql('postgres');
$locker->query_safe('BEGIN; SELECT FROM snowflake_registry.registry FOR UPDATE');
$hosts->append_conf('postgresql.conf', "snowflake.node_name = 'waiting'");
$hosts->start;
sleep 5;
cmp_ok(
	in_registry($registry, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"),
	'<=', 3, 'no queue of abandoned calls builds up');
$locker->query_safe('ROLLBACK');
$locker->quit;
makes_ids_again($hosts, 'ids are made once the registry answers again');
cmp_ok(
	in_registry($registry, "SELECT count(DISTINCT worker_id) FROM granted WHERE holder = 'waiting'"),
	'<=', 2, 'and worker ids are not used up');
$hosts->stop;

# a grant does not count if its wait for synchronous standbys is canceled, as it may be
# lost
$hosts->append_conf('postgresql.conf', "snowflake.node_name = 'synchronous'");
set_and_reload($registry, "synchronous_standby_names = 'nobody'");
my $log_end = -s $hosts->logfile;
$hosts->start;
foreach (1 .. 200)
{
	in_registry($registry, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
	last if slurp_file($hosts->logfile, $log_end) =~ /wait for its synchronous standbys was canceled/;
	sleep 0.05;
}
like(
	slurp_file($hosts->logfile, $log_end), qr/wait for its synchronous standbys was canceled/,
	'a wait for synchronous standbys is canceled');
unlike(slurp_file($hosts->logfile, $log_end), qr/leased worker id/, 'such a grant is not used');
set_and_reload($registry, "synchronous_standby_names = ''");
makes_ids_again($hosts, 'ids are made when grants are safe');
$hosts->stop;

# no worker id is free; then one is, whose last holder had a clock that was ahead
$registry->poll_query_until('postgres', "SELECT count(*) = 1 FROM snowflake_registry.leases WHERE state = 'held'")
  or die;
in_registry($registry, <<'EOC');
SELECT count(snowflake_registry.reserve(i, 'for the test')) FROM generate_series(0, 31) AS i
WHERE i NOT IN (SELECT worker_id FROM snowflake_registry.leases WHERE state = 'held')
EOC
$hosts->append_conf('postgresql.conf', "snowflake.registry_lease = '6s'");
$hosts->start;
ok( $hosts->poll_query_until(
		'postgres', "SELECT state = 'no lease' AND lease_state = 'none free' FROM snowflake_status()"),
	'no worker id is free');
fails($hosts, qr/no free worker id/, 'no free worker id');
in_registry($registry, "SELECT snowflake_registry.unreserve(31, now() + '30 s')");
$hosts->append_conf('postgresql.conf', "snowflake.node_name = 'ahead'");
$hosts->reload;
ok( $hosts->poll_query_until('postgres', "SELECT state = 'no lease' AND worker_id = 31 FROM snowflake_status()"),
	'a lease starts some seconds in the future');
my ($ahead_code, $ahead_message) = sqlstate_of($hosts, 'SELECT snowflake_nextval()');
is($ahead_code, 'SF004', 'no ids are made before it starts');
like($ahead_message, qr/begins ahead of the clock.*for worker id 31/s, 'with the reason');
in_registry(
	$registry,
	"SELECT count(snowflake_registry.unreserve(i, now())) FROM generate_series(0, 31) AS i WHERE i <> 31");
$hosts->restart;
makes_ids_again($hosts, 'ids are made when other worker ids are free');

# a lease worker that is paused, and one that is missing
$hosts->poll_query_until('postgres', "SELECT lease_state = 'held' FROM snowflake_status()") or die;
my ($worker) = $hosts->safe_psql(
	'postgres',
	"SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake lease worker'");
kill 'STOP', $worker;
ok( $hosts->poll_query_until('postgres', 'SELECT lease_ends < clock_timestamp() FROM snowflake_status()'),
	'the lease is not renewed while the lease worker is paused');
fails($hosts, qr/renewed after each third/, 'lease worker paused');
kill 'CONT', $worker;
makes_ids_again($hosts, 'ids are made when the lease worker continues');
my (undef, $released, $why) = $hosts->psql('postgres', <<'EOC', on_error_stop => 0);
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_type = 'snowflake lease worker';
SET snowflake.max_wait = 0;
SELECT snowflake_nextval();
SELECT state, lease_state FROM snowflake_status()
EOC
is($released, "t\nno lease|released", 'no ids are made for a moment after the lease worker was terminated');
like($why, qr/no lease.*given back/s, 'with the reason');
$hosts->append_conf('postgresql.conf', 'max_worker_processes = 0');
$hosts->restart;
fails($hosts, qr/asks the registry for a lease.*max_worker_processes/, 'lease worker not started');
is($hosts->safe_psql('postgres', 'SELECT lease_state FROM snowflake_status()'), 'not asked', 'the state shows it');
$hosts->stop;

#
# Settings
#

is( (sqlstate_of($other, "ALTER SYSTEM SET snowflake.registry = 'nonsense'"))[0], '22023',
	'a connection string is validated');
is((sqlstate_of($other, "SET snowflake.registry = ''"))[0], '55P02', 'a session cannot set it');
$other->safe_psql('postgres', 'CREATE ROLE ordinary');
is( (sqlstate_of($other, 'SET ROLE ordinary; SHOW snowflake.registry'))[0], '42501',
	'an ordinary role cannot see it');
$other->append_conf('postgresql.conf', "snowflake.registry = 'password=secret nonsense'");
$other->restart;
my ($code, $message) = sqlstate_of($other, 'SELECT snowflake_nextval()');
is($code, 'F0000', 'an unusable connection string does not count as none');
unlike($message, qr/secret/, 'and is not shown');
$other->append_conf('postgresql.conf', "snowflake.registry = 'host=nowhere'\nshared_preload_libraries = ''");
$other->restart;
($code, $message) = sqlstate_of($other, 'SELECT snowflake_nextval()');
is($code, 'F0000', 'no ids are made unless the library is preloaded');
like($message, qr/shared_preload_libraries/, 'with the reason');
$other->stop;

# The lease worker's library validates connection strings, and is loaded when there is
# one.  A postmaster that cannot load it keeps running.
my $empty = new_server('empty', preload => 1);
is( $empty->safe_psql('postgres', "SELECT pg_read_file('/proc/self/maps') ~ 'libpq'"), 'f',
	'without a registry, libpq is not loaded');
is( (sqlstate_of($empty, "ALTER SYSTEM SET snowflake.registry = 'nonsense'"))[0], '22023',
	'a connection string is validated nevertheless');
$log_end = -s $empty->logfile;
$empty->append_conf('postgresql.conf', "dynamic_library_path = '/nowhere'\nsnowflake.registry = 'host=nowhere'");
$empty->reload;
$empty->wait_for_log(qr/invalid value for parameter "snowflake.registry"/, $log_end);
like(
	slurp_file($empty->logfile, $log_end), qr/library of the lease worker could not be loaded: .*snowflake_lease/,
	'a missing library cannot validate it');
is($empty->safe_psql('postgres', 'SELECT 1'), 1, 'and the server keeps running');
$empty->stop;

#
# Leases that come and go while many clients make ids: all ids are within a range that
# this server was granted, whatever the registry does.
#

$node->append_conf('postgresql.conf', "snowflake.registry_lease = '2s'");
$node->restart;
makes_ids_again($node, 'ids are made with a short lease');
my @collectors = start_collectors($node, 8);
foreach my $round (1 .. 8)
{
	in_registry($registry, 'UPDATE snowflake_registry.lease SET instance = NULL');
	sleep 0.3;
	in_registry($registry, 'UPDATE snowflake_registry.lease SET instance = gen_random_uuid()')
	  if $round % 4 == 0;
	sleep 1;
}
wait_for_lines(50_000, map { $_->{ids} } @collectors);
my $errors = stop_collectors(@collectors);
delete $errors->{SF004};
is(join(' ', %$errors), '', 'the only errors are that there is no lease');
my ($ids, $duplicates) = count_duplicates(@collectors);
is($duplicates, 0, 'no id is made twice while leases came and went');
cmp_ok($ids, '>', 50_000, 'many ids were made');

my $granted = in_registry($registry, 'COPY granted TO STDOUT');
my $dir = PostgreSQL::Test::Utils::tempdir();
append_to_file("$dir/granted", $granted . "\n");
system(print_ids(@collectors) . " > $dir/ids");
chmod 0755, $dir;
$node->safe_psql('postgres', <<EOC);
CREATE TABLE ids (id bigint);
COPY ids FROM '$dir/ids';
CREATE TABLE granted (worker_id bigint, holder text, starts timestamptz, ends timestamptz);
COPY granted FROM '$dir/granted';
EOC
cmp_ok(
	$node->safe_psql('postgres', 'SELECT count(DISTINCT snowflake_worker_id(id)) FROM ids'),
	'>', 2, 'with several worker ids');
is($node->safe_psql('postgres', <<'EOC'), 0, 'each id is within a lease');
SELECT count(*)
FROM (SELECT DISTINCT snowflake_worker_id(id) AS worker_id, snowflake_timestamp(id) AS instant FROM ids) AS used
WHERE NOT EXISTS (SELECT FROM granted
	WHERE granted.worker_id = used.worker_id AND holder = 'first'
		AND starts <= instant AND instant < ends)
EOC
$node->stop;
$registry->stop;

#
# The clock jumps while a call waits for the mark.  The mark does not follow it.
#

my $alone = new_registry('alone');
my $jump = new_server(
	'jump',
	lease_from($alone, 'snowflake.registry_lease' => '3s', wal_level => 'replica', max_wal_senders => 5),
	clock => 1);
makes_ids_again($jump, 'a server makes ids');
my @sessions = map { $jump->background_psql('postgres', on_error_stop => 0) } 1 .. 2;
my @pids = map { $_->query_safe('SELECT pg_backend_pid()') } @sessions;
set_and_reload($jump, "synchronous_standby_names = 'nobody'");

# until the reservation is used up, and what the first session reserves then
sleep 2.5;
begin_query($sessions[0], 'SELECT snowflake_nextval();');
wait_until($jump, $pids[0], "wait_event = 'SyncRep'", 'one session moves the mark');
sleep 2.5;
begin_query($sessions[1], 'SELECT snowflake_nextval();');
wait_until($jump, $pids[1], "wait_event_type = 'Extension'", 'another one waits for it');
set_clock($jump, 365 * 86400);
set_and_reload($jump, "synchronous_standby_names = ''");
$_->query('SELECT 1') foreach @sessions;
set_clock($jump, 0);
$_->quit foreach @sessions;
makes_ids_again($jump, 'a clock that jumps does not take the mark along');
$jump->stop;

#
# A server is stopped just before an answer comes
#

my $stopped = new_server('stopped', lease_from($alone, 'snowflake.registry_lease' => '10min'));
$stopped->stop;
in_registry($alone, "UPDATE snowflake_registry.registry SET max_lease = '10 min'");
$locker = $alone->background_psql('postgres');
$locker->query_safe('BEGIN; SELECT FROM snowflake_registry.registry FOR UPDATE');
$stopped->start;
$alone->poll_query_until(
	'postgres',
	"SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%acquire%'") or die;
my $offset = -s $stopped->logfile;
my $stop = IPC::Run::start([ 'pg_ctl', '--pgdata', $stopped->data_dir, '--mode=fast', '--timeout=30', 'stop' ]);
$stopped->wait_for_log(qr/received fast shutdown request/, $offset);
$locker->query_safe('ROLLBACK');
$locker->quit;
ok($stop->finish, 'a server stops although an answer has come since');
is(in_registry($alone, 'SELECT DISTINCT state FROM snowflake_registry.leases'), 'released', 'and releases its lease');
$stopped->_update_pid(0);
$alone->stop;

#
# A registry that is promoted without its first lease, as a standby that is behind
#

my $first = new_registry('first');
$first->backup('unused');
my $acquire =
  "SELECT ends FROM snowflake_registry.acquire('server', gen_random_uuid(), 'layout', 4, clock_timestamp(), '1 min')";
$ends = in_registry($first, $acquire);

# a renewal waits for others no longer than a server waits for it
$locker = $first->background_psql('postgres');
$locker->query_safe('BEGIN; SELECT FROM snowflake_registry.lease FOR UPDATE');
is( (   sqlstate_of(
			$first,
			"SET statement_timeout = '20s'; SELECT snowflake_registry.renew(worker_id, instance, ends, clock_timestamp(), '1 s') FROM snowflake_registry.lease"
		))[0],
	'55P03',
	'a renewal does not wait for others for long');
$locker->quit;

my $promoted = PostgreSQL::Test::Cluster->new('promoted');
$promoted->init_from_backup($first, 'unused', has_streaming => 1);
$promoted->append_conf('postgresql.conf', "primary_conninfo = ''");
$first->stop('immediate');
$promoted->start;
$promoted->promote;
is(in_registry($promoted, $acquire), '', 'a promoted registry grants nothing that may be leased');
is( in_registry($promoted, "SELECT lost_until > '$ends' FROM snowflake_registry.registry"),
	't', 'until all leases of the old one have ended');
$promoted->stop;

done_testing();
