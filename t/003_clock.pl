# Ids when the clock is stepped, and calls that wait for the clock.

use FindBin;
use lib $FindBin::RealBin;
use SnowflakeTest;

# Wait until a call in a background session waits for the clock.
sub wait_until_waiting
{
	my ($node, $comment) = @_;
	my $event = $node->pg_version < 17 ? 'Extension' : 'SnowflakeClock';

	sql_becomes_true(
		$node,
		"SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND wait_event = '$event'",
		$comment);
	return;
}

# Defaults: ids may be 5 s ahead of the clock, and a call waits up to 1 s.
my $node = new_server('default', clock => 1);
my $session = $node->background_psql('postgres', on_error_stop => 0);
my $id = $session->query_safe('SELECT snowflake_nextval()');
is( $session->query_safe('SHOW snowflake.max_ahead') . ' ' . $session->query_safe('SHOW snowflake.max_wait'), '5s 1s',
	'defaults of max_ahead and max_wait');

# Back by less than max_ahead: ids continue, and no call waits.
set_clock($node, -4.5);
my $behind = $session->query_safe('SET snowflake.max_wait = 0; SELECT snowflake_nextval()');
cmp_ok($behind, '>', $id, 'a step back of 4.5 s: the next id is greater');
sql_is(
	$node, "SELECT snowflake_timestamp(snowflake_nextval()) > snowflake_timestamp($id) - interval '2 s'", 't',
	'a new session on an idle lane does not fall behind either');
sql_is(
	$node,
	"SELECT max(snowflake_timestamp(snowflake_nextval()) - clock_timestamp()) BETWEEN interval '-1 ms' AND interval '5 s' FROM generate_series(1, 100)",
	't', 'ids are ahead of the clock by no more than max_ahead');

# Back by more: calls fail on every lane.  As they would have to wait for longer than
# max_wait, they do not wait at all.
sub waits { return sql($node, 'SELECT waits FROM snowflake_stat()') }

set_clock($node, -64);
my $waits = waits();
sql_fails(
	$node, 'SELECT snowflake_nextval()', 'SF001', 'a step back of a minute is an error',
	qr/snowflake ids are too far ahead of the clock, which was set back.*DETAIL: .*has to reach .*HINT: .*snowflake\.max_ahead/s
);
is(waits(), $waits, 'without a wait');
cmp_ok(
	abs(awaited_seconds($node, 'SELECT snowflake_nextval()') - 55), '<=', 5,
	'the message says how long one would take');
$session->query('SELECT snowflake_nextval()');
$session->{stderr} = '';
is($session->query_safe('SELECT snowflake_currval()'), $behind, 'a failed call leaves snowflake_currval() as it was');
sql_is($node, "SELECT snowflake_worker_id($id)", 0, 'decoding still works');

# A waiting call continues when the clock is set right.
$session->query_safe("SET snowflake.max_wait = '1h'");
$session->query_until(qr/waiting/, "\\echo waiting\nSELECT snowflake_nextval() > $behind;\n");
wait_until_waiting($node, 'a call waits for the clock');
set_clock($node, 0);
is($session->query_safe('SELECT 1'), "t\n1", 'and continues when the clock is set right');

# The wait can be ended in the ways that a statement can.
my $wait = "SET snowflake.max_wait = '3d'; SELECT snowflake_nextval()";
set_clock($node, -60);
sql_fails($node, "SET statement_timeout = '200ms'; $wait", '57014', 'statement_timeout ends the wait');

my $waiting = $node->background_psql('postgres', on_error_stop => 0);
$waiting->query_until(qr/waiting/, "\\echo waiting\n$wait;\n");
wait_until_waiting($node, 'a call waits for the clock');
my $start = time;
$node->stop('fast');
cmp_ok(time - $start, '<', 20, 'a fast shutdown ends the wait');
eval { $waiting->quit };
eval { $session->quit };

# The clock before the epoch
start_with_clock($node, -3 * 365 * 86400);
sql_fails(
	$node, 'SELECT snowflake_nextval()', 'SF002', 'a clock before the epoch is an error',
	qr/clock is before the epoch.*DETAIL: .*clock says.*HINT: /s);
# far ahead of both the time believed and the last checkpoint
set_clock($node, 400 * 86400);
sql_is($node, 'SELECT state FROM snowflake_status()', 'clock refused', 'the state announces that');
sql_fails(
	$node, 'SELECT snowflake_nextval()', 'SF005', 'a clock that jumps by more than a year is not followed',
	qr/clock jumped too far ahead.*DETAIL: .*clock says.*should be.*HINT: .*max_jump/s);
sql_is($node, 'SELECT clock_refused FROM snowflake_stat()', 1, 'the refused clock is counted');
set_and_reload($node, 'snowflake.max_jump = -1');
sql_succeeds($node, 'SELECT snowflake_nextval()', 'without max_jump, the clock is followed');
$node->stop;

# At a start, the jump is measured from the last checkpoint, and the first reading is
# trusted.
start_with_clock($node, 401 * 86400);
sql_is(
	$node, "SELECT snowflake_timestamp(snowflake_nextval()) - snowflake_timestamp($behind) > interval '23:59'", 't',
	'a clock that is ahead at a start is followed at once');
restart_with($node, conf => 'snowflake.max_jump = 31536000', clock => 801 * 86400);
sql_fails(
	$node, 'SELECT snowflake_nextval()', 'SF005',
	'but not one that jumped by more than a year while the server was down');
set_clock($node, 401 * 86400);
sql_succeeds($node, 'SELECT snowflake_nextval()', 'ids are made again when the clock is set right');
restart_with($node, conf => "shared_preload_libraries = 'snowflake'", clock => 801 * 86400);
sql_fails($node, 'SELECT snowflake_nextval()', 'SF005', 'nor if the library is preloaded');
set_clock($node, 401 * 86400);
sql($node, 'SELECT snowflake_nextval()');
set_clock($node, 801 * 86400);
crash($node);
$session = $node->background_psql('postgres', on_error_stop => 0);
my (undef, $found, $others) = ids_until($session, 'SF005', 801 * 86400, 401 * 86400);
is($found, 'SF005', 'a crash restart does not make such a clock acceptable');
is($others, '', 'and until it is refused, ids follow the old clock');
$session->quit;
$node->stop;

# Strategy: wait for the clock.
$node = new_server(
	'wait', clock => 1, 'snowflake.layout' => 'time:41 worker:5 lane:2 sequence:2',
	'snowflake.max_ahead' => 0, 'snowflake.max_wait' => '500ms');
sql_is(
	$node, q{
SELECT count(*), count(*) FILTER (WHERE snowflake_timestamp(id) > clock)
FROM (SELECT snowflake_nextval() AS id, clock_timestamp() AS clock FROM generate_series(1, 2000) OFFSET 0) AS m
}, '2000|0', 'wait: ids are never ahead, even if they are wanted faster than ticks pass');
$session = $node->background_psql('postgres', on_error_stop => 0);
$id = $session->query_safe('SELECT snowflake_nextval()');
set_clock($node, -0.3);
is($session->query_safe("SELECT snowflake_nextval() > $id"), 't', 'wait: a step back of 300 ms is waited out');
set_clock($node, -1.5);
$session->query('SELECT snowflake_nextval()');
like(
	take_errors($session), qr/which was set back.*HINT:  Wait until the clock has caught up/s,
	'the error names a step');
$session->quit;
set_clock($node, -5);
$waits = waits();
sql_fails($node, 'SELECT snowflake_nextval()', 'SF001', 'wait: a longer one is an error');
is(waits(), $waits, 'wait: without a wait');
$node->stop;

# Strategy: survive a step back of 2 s without a pause, even in sessions that take many ids.
$node = new_server('survive', clock => 1, 'snowflake.max_ahead' => '4s', 'snowflake.max_wait' => 0);
my $many = 'SELECT count(snowflake_nextval()) FROM generate_series(1, 100000)';
sql($node, $many);
set_clock($node, -1.9);
sql_is($node, $many, 100000, 'survive: no pause');
$node->stop;

# Strategy: borrow.  The time in ids advances by itself.
$node = new_server('borrow', clock => 1, 'snowflake.max_ahead' => -1, 'snowflake.max_wait' => 0);
$session = $node->background_psql('postgres');
$id = $session->query_safe('SELECT snowflake_nextval()');
set_clock($node, -3600);
is($session->query_safe("SELECT snowflake_nextval() > $id"), 't', 'borrow: a step back of an hour has no effect');
$session->quit;
sql_is(
	$node, "SELECT snowflake_timestamp(snowflake_nextval()) - clock_timestamp() > interval '00:59:50'", 't',
	'borrow: ids stay ahead');
$node->stop;

# An epoch in the future, a layout that has ended, and one that ends while it is in use
$node = new_server('epoch', 'snowflake.layout' => 'snowflake epoch:2090-01-01T00:00:00Z');
sql_fails($node, 'SELECT snowflake_nextval()', 'SF002', 'an epoch in the future is an error');
$node->stop;

$node = new_server('ended', 'snowflake.layout' => 'uid-generator');
sql_fails(
	$node, 'SELECT snowflake_nextval()', 'SF003', 'a layout that has ended is an error',
	qr/layout has no tick left.*DETAIL: .*2024-11-20.*HINT: /s);
$node->stop;

$node = new_server(
	'burst', 'snowflake.max_ahead' => -1,
	'snowflake.layout' => sprintf('time:20 sequence:3 epoch:%d', (time + 20) * 1000 - (1 << 20)));
sql_fails(
	$node, 'SELECT count(snowflake_nextval()) FROM generate_series(1, 1000000)', 'SF003',
	'a burst that borrows beyond the last tick fails');
$node->stop;

# Honest time: a burst in a narrow layout runs ahead of the clock only as far as it may.
# A session that takes an id in each tick of the clock leaves half of max_ahead to others.
$node = new_server('honest', clock => 1, 'snowflake.layout' => 'time:41 worker:5 sequence:2');
sql_is(
	$node, q{
SELECT count(*), max(lead) > interval '2 s', max(lead) <= interval '2.5 s'
FROM (SELECT snowflake_timestamp(snowflake_nextval()) - clock_timestamp() AS lead FROM generate_series(1, 18000)) AS m
}, '18000|t|t', 'ids of a burst are ahead of the clock by no more than they may');
$node->stop;

done_testing();
