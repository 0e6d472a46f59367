# Ids when the clock is stepped, and calls that wait for the clock.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep time clock_gettime CLOCK_MONOTONIC);

# Wait until a call in a background session waits for the clock.
sub wait_until_waiting
{
	my ($node, $comment) = @_;
	my $event = $node->pg_version < 17 ? 'Extension' : 'SnowflakeClock';

	ok( $node->poll_query_until(
			'postgres',
			"SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND wait_event = '$event'"),
		$comment);
	return;
}

sub seconds_taken
{
	my ($call) = @_;
	my $start = clock_gettime(CLOCK_MONOTONIC);

	$call->();
	return clock_gettime(CLOCK_MONOTONIC) - $start;
}

my ($code, $message);

# Defaults: ids may be 5 s ahead of the clock, and a call waits up to 1 s.
my $node = new_server('default', clock => 1);
my $session = $node->background_psql('postgres', on_error_stop => 0);
my $id = $session->query_safe('SELECT snowflake_nextval()');
is( $session->query_safe('SHOW snowflake.max_ahead') . ' ' . $session->query_safe('SHOW snowflake.max_wait'),
	'5s 1s', 'defaults of max_ahead and max_wait');

# Back by less than max_ahead: ids continue, and no call waits.
set_clock($node, -4.5);
my $behind = $session->query_safe('SET snowflake.max_wait = 0; SELECT snowflake_nextval()');
cmp_ok($behind, '>', $id, 'a step back of 4.5 s: the next id is greater');
is( $node->safe_psql(
		'postgres',
		"SELECT snowflake_timestamp(snowflake_nextval()) > snowflake_timestamp($id) - interval '2 s'"),
	't',
	'a new session on an idle lane does not fall behind either');
is( $node->safe_psql(
		'postgres',
		"SELECT max(snowflake_timestamp(snowflake_nextval()) - clock_timestamp()) BETWEEN interval '-1 ms' AND interval '5 s' FROM generate_series(1, 100)"
	),
	't',
	'ids are ahead of the clock by no more than max_ahead');

# Back by more: calls fail on every lane.  As they would have to wait for longer than
# max_wait, they do not wait at all.
sub waits { return $node->safe_psql('postgres', 'SELECT waits FROM snowflake_stat()') }

set_clock($node, -64);
my $waits = waits();
($code, $message) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF001', 'a step back of a minute is an error');
like(
	$message,
	qr/snowflake ids are too far ahead of the clock.*DETAIL: .*another 5\d{4}\.\d+ ms.*HINT: .*snowflake\.max_ahead/s,
	'with detail and hint');
is(waits(), $waits, 'without a wait');
$session->query('SELECT snowflake_nextval()');
$session->{stderr} = '';
is( $session->query_safe('SELECT snowflake_currval()'),
	$behind, 'a failed call leaves snowflake_currval() as it was');
is( $node->safe_psql('postgres', "SELECT snowflake_worker_id($id)"),
	0, 'decoding still works');

# A waiting call continues when the clock is set right.
$session->query_safe("SET snowflake.max_wait = '1h'");
$session->query_until(qr/waiting/, "\\echo waiting\nSELECT snowflake_nextval() > $behind;\n");
wait_until_waiting($node, 'a call waits for the clock');
set_clock($node, 0);
is($session->query_safe('SELECT 1'), "t\n1", 'and continues when the clock is set right');

# The wait can be ended in every way that a statement can.
my $wait = "SET snowflake.max_wait = '3d'; SELECT snowflake_nextval()";
set_clock($node, -60);
($code) = sqlstate_of($node, "SET statement_timeout = '200ms'; $wait");
is($code, '57014', 'statement_timeout ends the wait');
foreach my $way (
	[ 'pg_cancel_backend', qr/canceling statement due to user request/ ],
	[ 'pg_terminate_backend', qr/terminating connection/ ])
{
	my ($function, $expected) = @$way;
	my $waiting = $node->background_psql('postgres', on_error_stop => 0);

	$waiting->query_until(qr/waiting/, "\\echo waiting\n$wait;\n");
	wait_until_waiting($node, "a call waits for $function");
	# the call may be reading the clock just then
	$node->poll_query_until(
		'postgres',
		"SELECT count($function(pid)) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Extension'"
	) or die 'no call waits';
	$waiting->{run}->pump_nb until $waiting->{stderr} =~ $expected || $waiting->{timeout}->is_expired;
	like($waiting->{stderr}, $expected, "$function ends the wait");
	$waiting->{stderr} = '';
	eval { $waiting->quit };
}

# A clock that is ahead: ids ignore it for as long as it may be a glitch.
set_clock($node, 0);
my $ahead = "snowflake_timestamp(snowflake_nextval()) - snowflake_timestamp($behind) > interval '23:59'";
# move the limit, and so read the clock, twice
foreach (1 .. 2)
{
	$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
	sleep 2.1;
}
set_clock($node, 86400);
is($node->safe_psql('postgres', "SELECT $ahead"), 'f', 'ids do not follow the clock ahead');
set_clock($node, 0);
sleep 3.1;
$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
sleep 2.1;
set_clock($node, 86400);
is($node->safe_psql('postgres', "SELECT $ahead"), 'f', 'nor one that was right in between');
# they follow a clock that stays ahead, and then cannot follow it back
ok( $node->poll_query_until('postgres', "SELECT $ahead"),
	'ids follow the clock when it has been ahead for a while');
set_clock($node, 0);
($code) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF001', 'and wait for the clock when it is set back');

# The server stops while a call waits.
my $waiting = $node->background_psql('postgres', on_error_stop => 0);
$waiting->query_until(qr/waiting/, "\\echo waiting\n$wait;\n");
wait_until_waiting($node, 'a call waits for the clock');
cmp_ok(seconds_taken(sub { $node->stop('fast') }), '<', 20, 'a fast shutdown ends the wait');
eval { $waiting->quit };
eval { $session->quit };

# The clock before the epoch
start_with_clock($node, -3 * 365 * 86400);
($code, $message) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF002', 'a clock before the epoch is an error');
like($message, qr/clock is before the epoch.*DETAIL: .*clock says.*HINT: /s, 'with detail and hint');
# far ahead of both the time believed and the last checkpoint
set_clock($node, 400 * 86400);
is($node->safe_psql('postgres', 'SELECT state FROM snowflake_status()'), 'clock refused', 'the state announces that');
($code, $message) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF005', 'a clock that jumps by more than a year is not followed');
like(
	$message, qr/clock jumped too far ahead.*DETAIL: .*clock says.*should be.*HINT: .*max_jump/s,
	'with detail and hint');
is( $node->safe_psql('postgres', 'SELECT clock_refused FROM snowflake_stat()'),
	1, 'the refused clock is counted');
set_and_reload($node, 'snowflake.max_jump = -1');
($code) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, '00000', 'without max_jump, the clock is followed');
$node->stop;

# At a start, the jump is measured from the last checkpoint, and the first reading is
# trusted.
start_with_clock($node, 401 * 86400);
is($node->safe_psql('postgres', "SELECT $ahead"), 't', 'a clock that is ahead at a start is followed at once');
$node->append_conf('postgresql.conf', 'snowflake.max_jump = 31536000');
$node->stop;
start_with_clock($node, 801 * 86400);
($code) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF005', 'but not one that jumped by more than a year while the server was down');
set_clock($node, 401 * 86400);
($code) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, '00000', 'ids are made again when the clock is set right');
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'snowflake'");
$node->stop;
start_with_clock($node, 401 * 86400);
$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
set_clock($node, 801 * 86400);
crash($node);
$session = $node->background_psql('postgres', on_error_stop => 0);
my (undef, $found, $others) = ids_until($session, 'SF005', 801 * 86400, 401 * 86400);
is($found, 'SF005', 'a crash restart does not make such a clock acceptable');
is($others, '', 'and until it is refused, ids follow the old clock');
$session->quit;
$node->stop;

# Strategy: refuse.  Ids are never ahead of the clock, not even by a tick.
$node = new_server(
	'refuse',
	clock => 1,
	'snowflake.max_ahead' => 0,
	'snowflake.max_wait' => 0);
$id = $node->safe_psql('postgres', 'SELECT snowflake_nextval()');
set_clock($node, -5);
($code) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF001', 'refuse: a step back is an error');
$node->stop;

# Strategy: wait for the clock.
$node = new_server(
	'wait',
	clock => 1,
	'snowflake.layout' => 'time:41 worker:5 lane:2 sequence:2',
	'snowflake.max_ahead' => 0,
	'snowflake.max_wait' => '500ms');
is( $node->safe_psql(
		'postgres', q{
SELECT count(*), count(*) FILTER (WHERE snowflake_timestamp(id) > clock)
FROM (SELECT snowflake_nextval() AS id, clock_timestamp() AS clock FROM generate_series(1, 2000) OFFSET 0) AS m
}),
	'2000|0',
	'wait: ids are never ahead, even if they are wanted faster than ticks pass');
$session = $node->background_psql('postgres');
$id = $session->query_safe('SELECT snowflake_nextval()');
set_clock($node, -0.3);
is( $session->query_safe("SELECT snowflake_nextval() > $id"),
	't', 'wait: a step back of 300 ms is waited out');
$session->quit;
set_clock($node, -5);
$waits = waits();
($code) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF001', 'wait: a longer one is an error');
is(waits(), $waits, 'wait: without a wait');
$node->stop;

# Strategy: survive a step back of 2 s without a pause, even in sessions that take many
# ids.
$node = new_server(
	'survive',
	clock => 1,
	'snowflake.max_ahead' => '4s',
	'snowflake.max_wait' => 0);
$node->safe_psql('postgres', 'CREATE TABLE ids (id bigint PRIMARY KEY)');
$node->safe_psql('postgres', 'INSERT INTO ids SELECT snowflake_nextval() FROM generate_series(1, 100000)');
set_clock($node, -1.9);
$node->safe_psql('postgres', 'INSERT INTO ids SELECT snowflake_nextval() FROM generate_series(1, 100000)');
is($node->safe_psql('postgres', 'SELECT count(*) FROM ids'), 200000, 'survive: no pause, no duplicate');
$node->stop;

# Strategy: borrow.  The time in ids advances by itself.
$node = new_server(
	'borrow',
	clock => 1,
	'snowflake.max_ahead' => -1,
	'snowflake.max_wait' => 0);
$session = $node->background_psql('postgres');
$id = $session->query_safe('SELECT snowflake_nextval()');
set_clock($node, -3600);
is( $session->query_safe("SELECT snowflake_nextval() > $id"),
	't', 'borrow: a step back of an hour has no effect');
$session->quit;
is( $node->safe_psql(
		'postgres',
		"SELECT snowflake_timestamp(snowflake_nextval()) - clock_timestamp() > interval '00:59:50'"),
	't',
	'borrow: ids stay ahead');
$node->stop;

# An epoch in the future, a layout that has ended, and one that ends while it is in use.
$node = new_server('epoch', 'snowflake.layout' => 'snowflake epoch:2090-01-01T00:00:00Z');
($code) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF002', 'an epoch in the future is an error');
$node->stop;

$node = new_server('ended', 'snowflake.layout' => 'uid-generator');
($code, $message) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF003', 'a layout that has ended is an error');
like($message, qr/layout has no tick left.*DETAIL: .*2024-11-20.*HINT: /s, 'with detail and hint');
$node->stop;

my $seconds_left = 15;
$node = new_server(
	'ending',
	'snowflake.max_ahead' => -1,
	'snowflake.layout' => sprintf(
		'time:20 sequence:3 epoch:%d',
		(time + $seconds_left) * 1000 - (1 << 20)));
my $last = 0;
my $made = 0;
my $deadline = time + 90;
do
{
	my ($ret, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT snowflake_nextval()");
	($code) = $err =~ /ERROR:\s+(\w+):/ ? $1 : '00000';
	if ($code eq '00000')
	{
		fail("id $out does not follow $last") if $out <= $last;
		$last = $out;
		$made++;
	}
} while ($code eq '00000' && time < $deadline);
is($code, 'SF003', 'calls fail when the last tick has passed');
cmp_ok($made, '>', 0, 'after some ids were made');
is($node->safe_psql('postgres', "SELECT $last <= (1 << 23) - 1"), 't', 'within the layout');
$node->stop;

$node = new_server(
	'burst',
	'snowflake.max_ahead' => -1,
	'snowflake.layout' => sprintf('time:20 sequence:3 epoch:%d', (time + 20) * 1000 - (1 << 20)));
($code) = sqlstate_of($node, 'SELECT count(snowflake_nextval()) FROM generate_series(1, 1000000)');
is($code, 'SF003', 'a burst that borrows beyond the last tick fails, too');
$node->stop;

# Honest time: a burst in a narrow layout runs ahead of the clock only as far as it may.
# A session that takes an id in each tick of the clock leaves half of max_ahead to others.
my $longest_lead = 2.5;
foreach my $case ([ 'time:41 worker:5', 1 ], [ 'time:41 worker:5 sequence:2', 4 ])
{
	my ($layout, $per_tick) = @$case;
	my $ids = $per_tick * 1000 * ($longest_lead + 2);

	$node = new_server("honest$per_tick", clock => 1, 'snowflake.layout' => $layout);
	is( $node->safe_psql(
			'postgres', qq{
SELECT count(*), max(lead) > interval '$longest_lead s' - interval '0.5 s' AS used, max(lead) <= interval '$longest_lead s' AS bounded
FROM (SELECT snowflake_timestamp(snowflake_nextval()) - clock_timestamp() AS lead FROM generate_series(1, $ids)) AS m
}),
		"$ids|t|t",
		"ids of '$layout' are ahead of the clock by no more than they may");
	$node->stop;
}

done_testing();
