# Worker ids that are leased from a registry: how a server behaves without a lease, and
# that all ids are within a lease, whatever the registry does.

use IO::Socket::INET;
use SnowflakeTest;

my $worker_id = 'SELECT snowflake_worker_id(snowflake_nextval())';

# Make an id, until that has the expected result.
sub call_ends
{
	my ($node, $expected, $pattern, $name) = @_;
	my ($code, $message);

	foreach (1 .. 100)
	{
		($code, $message) = sqlstate_of($node, 'SELECT snowflake_nextval()');
		last if $code eq $expected && $message =~ $pattern;
		sleep 0.1;
	}
	is($code, $expected, $name) or diag($message);
	like($message, $pattern, "$name: messages");
	return;
}

sub fails           { my ($node, $hint, $name) = @_; return call_ends($node, 'SF004', $hint, "$name: no ids") }
sub makes_ids_again { my ($node, $name) = @_;        return call_ends($node, '00000', qr//, $name) }

# A server and its registry, from the first lease to the end

my $registry = new_registry('registry');
$registry->stop;
my $node = new_server(
	'node',
	lease_from(
		$registry, 'snowflake.node_name' => 'first', 'snowflake.registry_lease' => '9s', 'snowflake.worker_id' => 7,
		'wal_level' => 'replica', 'max_wal_senders' => 5, 'snowflake.max_wait' => 200));

fails($node, qr/cannot be reached/, 'registry down at start');
$registry->start;
makes_ids_again($node, 'ids are made once the registry answers');
sql_is($node, $worker_id, 0, 'with the leased worker id');
sql_is(
	$registry, "SELECT worker_id, holder, state FROM snowflake_registry.leases", '0|first|held',
	'which the registry shows as held');
sql_is(
	$node,
	'SELECT state, worker_id, worker_id_source, lease_state, lease_ends > now(), lease_starts < now() FROM snowflake_status()',
	'ready|0|registry|held|t|t', 'as does the status');

# renewals
my $ends = sql($registry, 'SELECT ends FROM snowflake_registry.lease');
sql_becomes_true($registry, "SELECT ends > '$ends' FROM snowflake_registry.lease", 'the lease is renewed');

# An outage that is longer than the lease.  Ids are made until the lease ends.
$registry->stop;
my $last_id = sql($node, 'SELECT snowflake_nextval()');
for (my $begin = time; time < $begin + 20; sleep 0.01)
{
	my ($ret, $id) = $node->psql('postgres', 'SELECT snowflake_nextval()');
	last if $ret != 0;
	$last_id = $id;
}
fails($node, qr/cannot be reached/, 'registry down for longer than the lease');
like(
	sql($node, "SELECT pg_read_file('" . $node->logfile . "')"), qr/could not renew the lease of worker id 0.*HINT/s,
	'the log reports it');
$registry->start;
is( sql($registry,
		"SELECT ends > to_timestamp("
		  . sql($node, "SELECT extract(epoch FROM snowflake_timestamp($last_id))")
		  . ") FROM snowflake_registry.lease"),
	't',
	'the last id is within the lease');
makes_ids_again($node, 'ids are made again after the outage');
sql_is($node, $worker_id, 0, 'with the same worker id, which no other server has leased');

# a lease that is taken away lasts to its end, unless the server gets another one
sql($registry, 'UPDATE snowflake_registry.lease SET instance = NULL');
sql_becomes_true($node, "$worker_id = 1", 'another worker id replaces it');

# restarts
$node->restart;
makes_ids_again($node, 'ids are made after a restart');
sql_is($node, $worker_id, 1, 'with the worker id that was released');
restart_with($node, stop => 'immediate');
makes_ids_again($node, 'ids are made after a crash');
isnt(sql($node, $worker_id), 1, 'not with the worker id that is still leased');

# the lease worker alone
my $before = sql($node, 'SELECT snowflake_nextval()');
my $seen = -s $node->logfile;
kill 'TERM', lease_worker_of($node);
$node->wait_for_log(qr/snowflake lease worker" \(PID \d+\) exited/, $seen);
makes_ids_again($node, 'ids are made after the worker was terminated');
cmp_ok(sql($node, 'SELECT snowflake_nextval()'), '>', $before, 'above the earlier ids');

# the clock
restart_with($node, clock => 3600);
$node->poll_query_until('postgres', "SELECT lease_state = 'held' FROM snowflake_status()") or die;
fails($node, qr/lease of worker id \d+ is for ids before/, 'a clock an hour ahead of the registry\'s');
is(sql($node, 'SELECT state FROM snowflake_status()'), 'no lease', 'the state shows it');
set_clock($node, 0);
makes_ids_again($node, 'ids are made when the clock is right again');

# Other servers

# a copy of a running server, including its files and its name
$node->backup('copy');
my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($node, 'copy');
$copy->start;
makes_ids_again($copy, 'a copy of a running server makes ids');
isnt(sql($copy, $worker_id), sql($node, $worker_id), 'with a worker id of its own');
$copy->stop;

my $standby = new_standby($node, 'standby');
set_and_reload($standby, "snowflake.node_name = 'standby'");
is(lease_worker_of($standby), undef, 'a standby leases nothing');
sql_is($standby, 'SELECT state FROM snowflake_status()', 'standby', 'its state says what it is');
sql_fails($standby, 'SELECT snowflake_nextval()', '25006', 'and makes no ids');
$standby->promote;
makes_ids_again($standby, 'it makes ids when it is promoted');
sql_is(
	$registry, "SELECT count(*) FROM snowflake_registry.leases WHERE holder = 'standby' AND state = 'held'", 1,
	'with a lease of its own');
isnt(sql($standby, $worker_id), sql($node, $worker_id), 'and not the worker id of the old primary');
$standby->stop;

my $other = new_server('other', lease_from($registry, 'snowflake.layout' => 'twitter'));
fails($other, qr/refuses/, 'a layout other than that of the registry');
sql_becomes_true($other, "SELECT lease_state = 'refused' FROM snowflake_status()", 'the state shows it');
like(slurp_file($other->logfile), qr/registry is for snowflake ids of the layout/, 'the log reports it');

# Registries that do not answer

# the first of several hosts accepts connections, but does not answer
my $silent = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1') or die "cannot listen: $!";
my $hosts = new_server(
	'hosts',
	lease_from(
		$registry,
		'snowflake.registry' =>
		  sprintf('host=127.0.0.1,%s port=%s,%s dbname=postgres', $registry->host, $silent->sockport, $registry->port))
);
makes_ids_again($hosts, 'ids are made when the first of several hosts hangs');
$hosts->stop;

# a server that gave up waiting is not granted anything later
my $locker = $registry->background_psql('postgres');
$locker->query_safe('BEGIN; SELECT FROM snowflake_registry.registry FOR UPDATE');
$hosts->append_conf('postgresql.conf', "snowflake.node_name = 'waiting'");
$hosts->start;
sleep 5;
cmp_ok(
	sql($registry, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"), '<=', 3,
	'no queue of abandoned calls builds up');
$locker->query_safe('ROLLBACK');
$locker->quit;
makes_ids_again($hosts, 'ids are made once the registry answers again');
cmp_ok(
	sql($registry, "SELECT count(DISTINCT worker_id) FROM granted WHERE holder = 'waiting'"), '<=', 2,
	'and worker ids are not used up');
$hosts->stop;

# a grant does not count if its wait for synchronous standbys is canceled, as it may be
# lost
$hosts->append_conf('postgresql.conf', "snowflake.node_name = 'synchronous'");
set_and_reload($registry, "synchronous_standby_names = 'nobody'");
my $log_end = -s $hosts->logfile;
$hosts->start;
foreach (1 .. 200)
{
	sql($registry, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
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
sql($registry, <<'EOC');
SELECT count(snowflake_registry.reserve(i, 'for the test')) FROM generate_series(0, 31) AS i
WHERE i NOT IN (SELECT worker_id FROM snowflake_registry.leases WHERE state = 'held')
EOC
$hosts->append_conf('postgresql.conf', "snowflake.registry_lease = '6s'");
$hosts->start;
sql_becomes_true(
	$hosts, "SELECT state = 'no lease' AND lease_state = 'none free' FROM snowflake_status()",
	'no worker id is free');
fails($hosts, qr/no free worker id/, 'no free worker id');
sql($registry, "SELECT snowflake_registry.unreserve(31, now() + '30 s')");
set_and_reload($hosts, "snowflake.node_name = 'ahead'");
sql_becomes_true(
	$hosts, "SELECT state = 'no lease' AND worker_id = 31 FROM snowflake_status()",
	'a lease starts some seconds in the future');
sql_fails(
	$hosts, 'SELECT snowflake_nextval()', 'SF004', 'no ids are made before it starts',
	qr/begins ahead of the clock.*for worker id 31/s);
sql($registry, "SELECT count(snowflake_registry.unreserve(i, now())) FROM generate_series(0, 31) AS i WHERE i <> 31");
$hosts->restart;
makes_ids_again($hosts, 'ids are made when other worker ids are free');

# a lease worker that is paused, and one that is missing
$hosts->poll_query_until('postgres', "SELECT lease_state = 'held' FROM snowflake_status()") or die;
my $worker = lease_worker_of($hosts);
kill 'STOP', $worker;
sql_becomes_true(
	$hosts, 'SELECT lease_ends < clock_timestamp() FROM snowflake_status()',
	'the lease is not renewed while the lease worker is paused');
fails($hosts, qr/renewed after each third/, 'lease worker paused');
kill 'CONT', $worker;
makes_ids_again($hosts, 'ids are made when the lease worker continues');
restart_with($hosts, conf => 'max_worker_processes = 0');
fails($hosts, qr/asks the registry for a lease.*max_worker_processes/, 'lease worker not started');
sql_is($hosts, 'SELECT lease_state FROM snowflake_status()', 'not asked', 'the state shows it');
$hosts->stop;

# Settings

restart_with($other, conf => "snowflake.registry = 'password=secret nonsense'");
fails($other, qr/registry cannot be reached/, 'an unusable connection string does not count as none');
unlike(slurp_file($other->logfile), qr/could not lease .*secret/, 'and is not shown');
restart_with($other, conf => "snowflake.registry = 'host=nowhere'\nshared_preload_libraries = ''");
sql_fails(
	$other, 'SELECT snowflake_nextval()', 'F0000', 'no ids are made unless the library is preloaded',
	qr/shared_preload_libraries/);
$other->stop;
$registry->stop;

# ids that are to begin beyond the lease
sql($node, "SELECT snowflake_advance(snowflake_compose(now() + interval '1 hour'), force => true)");
sql_is(
	$node, "SELECT state, lease_ends > now() FROM snowflake_status() WHERE hint <> ''", 'no lease|t',
	'the state if ids begin beyond the lease');
sql_fails($node, 'SELECT snowflake_nextval()', 'SF004', 'is what a call says');
$node->stop;

# A server is stopped just before an answer comes

my $alone = new_registry('alone');
my $stopped = new_server('stopped', lease_from($alone, 'snowflake.registry_lease' => '10min'));
$stopped->stop;
sql($alone, "UPDATE snowflake_registry.registry SET max_lease = '10 min'");
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
sql_is($alone, 'SELECT DISTINCT state FROM snowflake_registry.leases', 'released', 'and releases its lease');
$stopped->_update_pid(0);

# A renewal waits for others no longer than a server waits for it.

sql($alone,
	"SELECT FROM snowflake_registry.acquire('server', gen_random_uuid(), (SELECT layout FROM snowflake_registry.registry), 32, clock_timestamp(), '1 min')"
);
$locker = $alone->background_psql('postgres');
$locker->query_safe('BEGIN; SELECT FROM snowflake_registry.lease FOR UPDATE');
sql_fails(
	$alone,
	"SET statement_timeout = '20s'; SELECT snowflake_registry.renew(worker_id, instance, ends, clock_timestamp(), '1 s') FROM snowflake_registry.lease WHERE holder = 'server'",
	'55P03', 'a renewal does not wait for others for long');
$locker->quit;
$alone->stop;

done_testing();
