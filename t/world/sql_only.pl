# Snowflake ids in SQL and PL/pgSQL with leased worker ids, in copies of a database, with stepped
# clocks, at the end of a layout, and on standbys that are promoted; and a move to the extension.

use Cwd   qw(abs_path);
use POSIX ();
use SnowflakeTest;

my $dir = abs_path(PostgreSQL::Test::Utils::tempdir());
my $node = new_server('main', clock => 1, synchronous_commit => 'on');
my $is_new = $node->pg_version >= 17;
my $id;

#
# Leased worker ids
#

my $make = 'SELECT snowflake_worker_id(snowflake_nextval())';
add_sql_database($node, 'leases', "'time:41 worker:2 sequence:4', NULL, max_wait => '0'");
# what another role has put there is no registry
$node->safe_psql('leases', 'CREATE SCHEMA snowflake_registry');
sql_fails([ $node, 'leases' ], 'SELECT snowflake_lease()', '42704', 'a schema alone is no registry');
$node->safe_psql('leases', 'DROP SCHEMA snowflake_registry; CREATE EXTENSION snowflake_registry');
sql_fails([ $node, 'leases' ], $make, 'SF004', 'no id without a lease');
sql_is(
	[ $node, 'leases' ],
	"SELECT snowflake_lease() BETWEEN now() + interval '50 s' AND now() + interval '70 s'; $make", "t\n0",
	'a lease is acquired');
sql_is(
	[ $node, 'leases' ], "SELECT snowflake_lease() > now(); $make; SELECT count(*) FROM snowflake_registry.leases",
	"t\n0\n1", 'and renewed');
sql_is(
	[ $node, 'leases' ], "BEGIN; SELECT snowflake_lease() > now(); ROLLBACK; $make", "t\n0",
	'but not by a transaction that rolls back');

# a worker id of before, while the clock is behind its ids
add_sql_database($node, 'returns', "'time:41 worker:2 sequence:4', 0, max_wait => '0'");
$node->safe_psql('returns', <<'EOC');
CREATE EXTENSION snowflake_registry;
SELECT snowflake_nextval();
SELECT snowflake_configure('time:41 worker:2 sequence:4', NULL, max_wait => '0');
EOC
set_clock($node, -3600);
sql_is(
	[ $node, 'returns' ], 'SELECT snowflake_lease() > now()', 't',
	'a worker id is leased that was configured before');
sql_fails([ $node, 'returns' ], $make, 'SF001', 'it makes no ids of the time that it lived');
set_clock($node, 0);

# another database, through dblink
add_sql_database($node, 'leases_by_dblink', "'time:41 worker:2 sequence:4', NULL, max_wait => '0'");
my $lease = sprintf('SELECT snowflake_lease(%s) > now()', "'" . $node->connstr('leases') =~ s/'/''/gr . "'");
sql_fails([ $node, 'leases_by_dblink' ], $lease, '42704', 'without dblink there is no lease');
$node->safe_psql('leases_by_dblink', 'CREATE EXTENSION dblink');
sql_is([ $node, 'leases_by_dblink' ], "$lease; $lease; $make", "t\nt\n1", 'another database leases another worker id');

# the end of a lease
set_clock($node, 3600);
sql_fails(
	[ $node, 'leases' ], $make, 'SF004', 'ids end with the lease',
	qr/lease of worker id 0 is for ids before.*HINT: .*snowflake_lease/s);
sql_is([ $node, 'leases' ], "SELECT snowflake_lease() > now(); $make", "t\n0", 'ids are made when it is renewed');
# another server leases that worker id
sql_is(
	[ $node, 'leases' ],
	"SELECT worker_id FROM snowflake_registry.acquire('b', gen_random_uuid(), (snowflake_capacity()).layout, 4, clock_timestamp(), '1 min')",
	1, 'an expired lease goes to another server');
sql_is([ $node, 'leases_by_dblink' ], "$lease; $make", "t\n2", 'and its last holder gets another worker id');

# A copy of the database has the lease from before its start, too.
restart_with($node, clock => 3600);
sql_fails([ $node, 'leases' ], $make, 'SF004', 'after a start, a lease must be acquired again');
sql_is([ $node, 'leases' ], "SELECT snowflake_lease() > now(); $make", "t\n3", 'with another worker id');
sql_succeeds(
	[ $node, 'leases_by_dblink' ], "SET client_min_messages = warning; $lease", 'unless no worker id is free',
	qr/WARNING: .*no free worker id/);
sql_fails([ $node, 'leases_by_dblink' ], $make, 'SF004', 'then no ids are made');

# A lease that is being renewed does not replace settings that are made meanwhile.
my $holder = $node->background_psql('leases');
my $renewing = $node->background_psql('leases');
my $configuring = $node->background_psql('leases');
my $pid = $renewing->query_safe('SELECT pg_backend_pid()');
my $configuring_pid = $configuring->query_safe('SELECT pg_backend_pid()');
$holder->query_safe('BEGIN; LOCK TABLE snowflake_registry.lease');
begin_query($renewing, 'SELECT snowflake_lease() > now();');
wait_until($node, $pid, "wait_event_type = 'Lock'", 'a lease is being renewed');
begin_query($configuring, q{SELECT snowflake_configure('time:41 worker:2 sequence:4', 0);});
wait_until(
	$node, $configuring_pid, q{(wait_event_type = 'Lock' OR state = 'idle' AND query LIKE '%configure%')},
	'the settings are changed meanwhile');
$holder->query_safe('COMMIT');
is($renewing->query_safe('SELECT 1'), "t\n1", 'the lease is renewed');
$configuring->query_safe('SELECT 1');
$_->quit foreach $holder, $renewing, $configuring;
sql_is([ $node, 'leases' ], 'SELECT (snowflake_sql.settings()).is_leased', 'f', 'and the settings are in force');
sql_fails([ $node, 'leases' ], 'SELECT snowflake_lease()', '55000', 'a worker id that was configured is not leased');

# Copies of a database on the same server
sql($node, 'CREATE DATABASE registry');
$node->safe_psql('registry', 'CREATE EXTENSION snowflake_registry');
$lease = sprintf('SELECT snowflake_lease(%s) > now()', "'" . $node->connstr('registry') =~ s/'/''/gr . "'");
add_sql_database($node, 'original', "'snowflake', NULL, max_wait => '0'");
$node->safe_psql('original', 'CREATE EXTENSION dblink');
sql_is([ $node, 'original' ], "$lease; $make", "t\n0", 'a database leases a worker id');
sql($node, 'CREATE DATABASE template_copy TEMPLATE original; CREATE DATABASE restored_copy');
command_ok([ 'pg_dump', '--dbname', $node->connstr('original'), '--file', "$dir/original.dump" ], 'it can be dumped');
command_ok(
	[
		'psql', '--no-psqlrc', '--quiet', '--set=ON_ERROR_STOP=1', '--output=/dev/null', '--file',
		"$dir/original.dump", '--dbname', $node->connstr('restored_copy')
	],
	'and restored');

foreach my $copy ('template_copy', 'restored_copy')
{
	sql_fails(
		[ $node, $copy ], $make, 'SF004', "$copy does not use the lease of the original",
		qr/DETAIL: .*for the database with OID \d+/);
}
sql_is([ $node, 'template_copy' ], "$lease; $make", "t\n1", 'a copy leases another worker id');
sql_is([ $node, 'original' ], "$lease; $make", "t\n0", 'the original keeps its own');

#
# Clocks
#

set_clock($node, 0);
my $ahead = "snowflake_timestamp(snowflake_nextval()) > clock_timestamp()";
add_sql_database($node, 'clocks', "'snowflake', 1, max_ahead => '1 hour', max_wait => '200 ms'");
$id = $node->safe_psql('clocks', 'SELECT snowflake_nextval()');
set_clock($node, -1800);
sql_is(
	[ $node, 'clocks' ], "SELECT snowflake_nextval() > $id, $ahead + interval '20 min'", 't|t',
	'after a step back of half an hour, ids continue ahead of the clock');
add_sql_database($node, 'hopeless', "'snowflake', 1, max_wait => '1 hour'");
$node->safe_psql('hopeless', 'SELECT snowflake_nextval()');
set_clock($node, -7200);
sql_fails(
	[ $node, 'hopeless' ], "SET statement_timeout = '30s'; SELECT snowflake_nextval()", 'SF001',
	'a call does not begin to wait for longer than it may');
sql_fails(
	[ $node, 'clocks' ], 'SELECT snowflake_nextval()', 'SF001', 'after a step back of two hours, the call fails',
	qr/too far ahead of the clock.*DETAIL: .*another 0[01]:\d\d:.*3600000 ms.*200 ms.*HINT: /s);
set_clock($node, 0);
sql_is(
	[ $node, 'clocks' ], "SELECT snowflake_nextval() > $id, NOT $ahead + interval '1 min'", 't|t',
	'when the clock is right again, ids are made');

# A clock that was far ahead for a moment, and the remedy
set_clock($node, 10 * 365 * 86400);
my $far = $node->safe_psql('clocks', 'SELECT snowflake_nextval()');
set_clock($node, 0);
sql_fails([ $node, 'clocks' ], 'SELECT snowflake_nextval()', 'SF001', 'no ids after a clock that was far ahead');
foreach my $settings ("'snowflake', 1", "'snowflake tick:10ms', 1", "'snowflake', NULL")
{
	sql_fails(
		[ $node, 'clocks' ], "SELECT snowflake_configure($settings)", '55000',
		"ids cannot continue with $settings", qr/choose a worker id that has never been used/);
}
sql_succeeds(
	[ $node, 'clocks' ], "SET client_min_messages = warning; SELECT snowflake_configure('snowflake', 2)",
	'ids can continue with a fresh worker id', qr/WARNING: .*begin at the clock again/);
sql_is(
	[ $node, 'clocks' ], "SELECT snowflake_nextval() BETWEEN $id AND $far, NOT $ahead + interval '1 min'", 't|t',
	'at the time of the clock');
sql_fails(
	[ $node, 'clocks' ], "SELECT snowflake_configure('snowflake', 1)", '55000',
	'but still not with the old worker id');
sql([ $node, 'clocks' ], "SELECT snowflake_configure('snowflake', $_)") foreach 3, 2;
sql_is([ $node, 'clocks' ], 'SELECT snowflake_worker_id(snowflake_nextval())', 2, 'worker ids may be changed then');

# Before the epoch, and after the last tick
add_sql_database($node, 'epoch', "'snowflake epoch:2090-01-01T00:00:00Z', 1");
sql_fails([ $node, 'epoch' ], 'SELECT snowflake_nextval()', 'SF001', 'an epoch in the future is an error');
add_sql_database($node, 'ended', "'uid-generator', 1");
sql_fails([ $node, 'ended' ], 'SELECT snowflake_nextval()', 'SF003', 'a layout that has ended is an error');

# A crash after ids of the last second of a layout, and a clock beyond it
my $epoch = POSIX::strftime('%Y-%m-%dT%H:%M:%SZ', gmtime(time + 900 - (1 << 20) / 1000));
add_sql_database($node, 'last_tick', "'time:20 worker:4 sequence:4 epoch:$epoch', 1, max_ahead => '1 hour'");
sql_is(
	[ $node, 'last_tick' ], q{
SELECT last_instant - interval '1 s' AS instant FROM snowflake_capacity() \gset
SELECT snowflake_advance(snowflake_first_from(:'instant'));
SELECT snowflake_timestamp(snowflake_nextval()) - :'instant'}, "\n00:00:00.001", 'a layout has ids up to its end');
foreach my $clock (1000, 10 * 365 * 86400, 0)
{
	restart_with($node, stop => 'immediate', clock => $clock);
	sql_fails(
		[ $node, 'last_tick' ], 'SELECT snowflake_nextval()', 'SF003',
		"a crash, and a clock $clock s ahead: no id is left above the mark");
}
set_clock($node, 0);

# An advance to the end of a layout leaves no ids, and none is made again.
my $near_end = POSIX::strftime('%Y-%m-%dT%H:%M:%SZ', gmtime(time + 60 - (1 << 20) / 1000));
add_sql_database($node, 'ends', "'time:20 worker:4 sequence:4 epoch:$near_end', 1, max_ahead => '1 hour'");
sql_fails(
	[ $node, 'ends' ],
	'SELECT snowflake_advance((1 << 28) - 1); SELECT snowflake_advance((1 << 28) - 1); SELECT snowflake_nextval()',
	'SF003', 'after an advance to the last tick, none is left');

# Moving to the extension

add_sql_database($node, 'moves', "'snowflake', 7");
$node->safe_psql(
	'moves', 'CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
INSERT INTO orders SELECT FROM generate_series(1, 100)');
sql_fails([ $node, 'moves' ], 'CREATE EXTENSION snowflake', '42723', 'the extension cannot be created along with it');
$node->safe_psql(
	'moves', q{
SELECT snowflake_nextval() AS last \gset
BEGIN;
DROP SCHEMA snowflake_sql CASCADE;
CREATE EXTENSION snowflake;
SELECT snowflake_advance(:last);
ALTER TABLE orders ALTER COLUMN id SET DEFAULT snowflake_id();
COMMIT;
INSERT INTO orders SELECT FROM generate_series(1, 100)});
sql_is(
	[ $node, 'moves' ],
	'SELECT count(*), count(*) FILTER (WHERE id <= previous) FROM (SELECT id, lag(id) OVER (ORDER BY ctid) AS previous FROM orders) AS pairs',
	'200|0', 'a table gets greater ids');
$node->stop;

#
# A standby that has not received everything, and passes the same ticks again
#

my $primary =
  new_server('primary', clock => 1, synchronous_commit => 'on', wal_level => 'replica', max_wal_senders => 5);
add_sql_database($primary, 'fails_over', "'snowflake lane:0 sequence:4', 1, max_ahead => '1 hour'");
$id = $primary->safe_psql('fails_over', 'SELECT snowflake_nextval()');
my $standby = new_standby($primary, 'standby');
sql_fails([ $standby, 'fails_over' ], 'SELECT snowflake_nextval()', '25006', 'a standby makes no ids');
sql_is([ $standby, 'fails_over' ], "SELECT snowflake_worker_id($id)", 1, 'but decodes them');
$primary->wait_for_catchup($standby);
$standby->stop;

my $begin = time + 30;
set_clock($primary, 30);
my $seen = $primary->safe_psql('fails_over', 'SELECT snowflake_nextval() FROM generate_series(1, 2000)');
$primary->stop('immediate');
start_with_clock($standby, $begin - 25 - time);
$standby->promote;
sql_is(
	[ $standby, 'fails_over' ], qq{
CREATE TABLE seen (id bigint);
INSERT INTO seen SELECT unnest('{@{[ join ',', split /\n/, $seen ]}}'::bigint[]);
CREATE TABLE made AS SELECT snowflake_nextval() AS id FROM generate_series(1, 450000);
SELECT count(DISTINCT id), min(id) > $id, (SELECT count(*) FROM seen JOIN made USING (id)) FROM made;
SELECT count(*) > 0 FROM made WHERE id >> 11 IN (SELECT id >> 11 FROM seen)}, "450000|t|0\nt",
	'a promoted standby makes none of the ids that its primary made in the same ticks');
$standby->stop;

# The same when ids were ahead of the clock, and committed.  Without timeline bits, the
# standby has the mark, as it lags by less than a reservation.
$primary = new_server(
	'ahead', clock => 1, synchronous_commit => 'on', wal_level => 'replica', wal_writer_delay => '10s',
	max_wal_senders => 5);
my @layouts = ('snowflake', 'leaf');
foreach my $layout (@layouts)
{
	add_sql_database($primary, "lags_$layout", "'$layout', 1, max_ahead => '1 hour'");
	$primary->safe_psql("lags_$layout", 'CREATE TABLE seen (id bigint)');
}
# a flush that fails, again and again, does not take ids ahead
if (!$is_new)
{
	add_sql_database($primary, 'fails', "'leaf', 1, max_ahead => '1 hour', durable => true");
	sql_is(
		[ $primary, 'fails' ], q{
CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS
'BEGIN IF current_setting(''test.refuse'', true) = ''on'' THEN RAISE ''no DDL''; END IF; END';
CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION refuse();
SET test.refuse = on;
DO $$
BEGIN
	FOR i IN 1..20 LOOP
		BEGIN
			PERFORM snowflake_nextval();
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	END LOOP;
END
$$;
RESET test.refuse;
SELECT snowflake_nextval() > 0;
SELECT durable, mark_ahead < '3 s' FROM snowflake_status();
SELECT snowflake_advance(snowflake_first_from(clock_timestamp() + interval '30 min'));
SELECT snowflake_nextval() > 0}, "t\nt|t\n\nt", 'calls fail if the flush does, and ids stay at the clock');
	# nor does one that fails after a crash leave the next call without a flush
	restart_with($primary, stop => 'immediate', clock => 0);
	sql_fails(
		[ $primary, 'fails' ], 'SET test.refuse = on; SELECT snowflake_nextval()', 'P0001',
		'a flush fails after a crash');
	$id = $primary->safe_psql('fails', 'SELECT max(snowflake_nextval()) FROM generate_series(1, 3)');
	restart_with($primary, stop => 'immediate', clock => 0);
	sql_is([ $primary, 'fails' ], "SELECT snowflake_nextval() > $id", 't', 'but the next one is not forgotten');
	# durable settings can be left although the flush fails
	sql_is(
		[ $primary, 'fails' ], q{
SET test.refuse = on;
SELECT snowflake_configure('leaf', 1, max_ahead => '1 hour', durable => false)}, '',
		'settings that are not durable need no flush');
	sql_is(
		[ $primary, 'fails' ],
		"SET test.refuse = on; SELECT snowflake_nextval() > $id; SELECT durable FROM snowflake_status()", "t\nf",
		'and their ids are greater');
}
$primary->backup('backup');
$standby = PostgreSQL::Test::Cluster->new('lagging');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
start_with_clock($standby, 0);
set_clock($primary, 1800);
$primary->safe_psql("lags_$_", 'INSERT INTO seen SELECT snowflake_nextval() FROM generate_series(1, 10)')
  foreach @layouts;
set_clock($primary, 0);
$primary->wait_for_catchup($standby);
sql($standby, $_) foreach q{ALTER SYSTEM SET primary_conninfo = ''}, 'SELECT pg_reload_conf()';
$standby->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_wal_receiver')
  or BAIL_OUT('the standby does not stop to receive');
my %committed;
$committed{$_} = $primary->safe_psql(
	"lags_$_",
	'INSERT INTO seen SELECT snowflake_nextval() FROM generate_series(1, 300) RETURNING id') foreach @layouts;
$primary->stop('immediate');
$standby->promote;

foreach my $layout (@layouts)
{
	sql_is([ $standby, "lags_$layout" ], 'SELECT count(*) FROM seen', 10, "$layout: the standby lags");
	sql_is(
		[ $standby, "lags_$layout" ], qq{
CREATE TABLE made AS SELECT snowflake_nextval() AS id FROM generate_series(1, 100000);
SELECT count(*) FROM made WHERE id = ANY ('{@{[ join ',', split /\n/, $committed{$layout} ]}}')}, 0,
		"$layout: when it is promoted, it makes none of the committed ids again");
}

done_testing();
