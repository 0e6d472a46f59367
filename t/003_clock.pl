# What ids do when the clock is stepped, and how calls wait for it.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep time);

# Wait for a call, that a background session has under way, to wait for the
# clock.
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
	my $start = time;

	$call->();
	return time - $start;
}

my ($code, $message);

# Defaults: ids may be 5 s ahead of the clock, and a call waits 1 s.
my $node = new_server('default', clock => 1);
my $session = $node->background_psql('postgres', on_error_stop => 0);
my $id = $session->query_safe('SELECT snowflake_nextval()');
is( $session->query_safe('SHOW snowflake.max_ahead') . ' ' . $session->query_safe('SHOW snowflake.max_wait'),
	'5s 1s', 'defaults');

# Back by less than what ids live on: nobody notices, or has to wait.
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
	'the lead is within bounds');

# Back by more: the call waits for max_wait and fails, in every lane.
set_clock($node, -60);
my $seconds = seconds_taken(sub { ($code, $message) = sqlstate_of($node, 'SELECT snowflake_nextval()') });
is($code, 'SF001', 'a step back of a minute is an error');
like(
	$message,
	qr/snowflake ids are too far ahead of the clock.*DETAIL: .*another 5\d{4}\.\d+ ms.*HINT: .*snowflake\.max_ahead/s,
	'which explains itself');
cmp_ok($seconds, '>=', 1, 'after max_wait');
($code) = sqlstate_of($node, 'SET snowflake.max_wait = 0; SELECT snowflake_nextval()');
is($code, 'SF001', 'without a wait');
$session->query('SELECT snowflake_nextval()');
$session->{stderr} = '';
is( $session->query_safe('SELECT snowflake_currval()'),
	$behind, 'a call that fails leaves the last id');
is( $node->safe_psql('postgres', "SELECT snowflake_worker_id($id)"),
	0, 'decoding does not care');

# A call that waits goes on when the clock is set right.
$session->query_safe("SET snowflake.max_wait = '1h'");
$session->query_until(qr/waiting/, "\\echo waiting\nSELECT snowflake_nextval() > $behind;\n");
wait_until_waiting($node, 'a call waits for the clock');
set_clock($node, 0);
is($session->query_safe('SELECT 1'), "t\n1", 'and goes on when it is set right');

# It can be ended in every way that a statement can.
my $wait = "SET snowflake.max_wait = '1h'; SELECT snowflake_nextval()";
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
	# it may be looking at the clock just then
	$node->poll_query_until(
		'postgres',
		"SELECT count($function(pid)) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Extension'"
	) or die 'nobody waits';
	$waiting->{run}->pump_nb until $waiting->{stderr} =~ $expected || $waiting->{timeout}->is_expired;
	like($waiting->{stderr}, $expected, "$function ends the wait");
	$waiting->{stderr} = '';
	eval { $waiting->quit };
}

# The clock ahead: ids go on as before, for as long as that may be a glitch.
set_clock($node, 0);
my $ahead = "snowflake_timestamp(snowflake_nextval()) - snowflake_timestamp($behind) > interval '23:59'";
# the limit is moved, and so the clock looked at, twice
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
is($node->safe_psql('postgres', "SELECT $ahead"), 'f', 'nor one that had been right in between');
# they follow one that stays there, and when it comes back they cannot
ok( $node->poll_query_until('postgres', "SELECT $ahead"),
	'ids follow the clock when it has been ahead for a while');
set_clock($node, 0);
($code) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF001', 'and wait for it when it comes back');

# The server stops while a call waits.
my $waiting = $node->background_psql('postgres', on_error_stop => 0);
$waiting->query_until(qr/waiting/, "\\echo waiting\n$wait;\n");
wait_until_waiting($node, 'a call waits for the end');
cmp_ok(seconds_taken(sub { $node->stop('fast') }), '<', 20, 'a fast shutdown ends the wait');
eval { $waiting->quit };
eval { $session->quit };

# The clock before the epoch
start_with_clock($node, -3 * 365 * 86400);
($code, $message) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF002', 'clock before the epoch');
like($message, qr/clock is before the epoch.*DETAIL: .*clock says.*HINT: /s, 'explains itself');
# ids were a day ahead before, and the server was started in another epoch
set_clock($node, 86400);
is($node->safe_psql('postgres', 'SELECT state FROM snowflake_status()'), 'clock refused', 'the state says what comes');
($code) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF002', 'the error stays while the clock may come back');
sleep 3.1;
($code, $message) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF005', 'a clock that jumps by more than a year is not followed');
like(
	$message, qr/clock jumped too far ahead.*DETAIL: .*clock says.*should be.*HINT: .*max_jump/s,
	'which explains itself');
is( $node->safe_psql('postgres', 'SELECT clock_refused FROM snowflake_stat()'),
	1, 'and is counted');
set_and_reload($node, 'snowflake.max_jump = -1');
($code) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, '00000', 'and is over when the clock is said to be right');
$node->stop;

# So it is at a start, by the last checkpoint; the first look is believed.
start_with_clock($node, 86400);
is($node->safe_psql('postgres', "SELECT $ahead"), 't', 'a clock that is ahead at a start is believed at once');
$node->append_conf('postgresql.conf', 'snowflake.max_jump = 31536000');
$node->stop;
start_with_clock($node, 400 * 86400);
($code) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF005', 'but not one that jumped by more than a year while the server was down');
set_clock($node, 86400);
($code) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, '00000', 'and is over when the clock is set right');
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'snowflake'");
$node->stop;
start_with_clock($node, 86400);
$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
set_clock($node, 400 * 86400);
crash($node);
($code) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF005', 'a crash restart does not make it right');
$node->stop;

# Strategy: refuse.  Ids are never ahead of the clock, not by a tick.
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
	'wait: ids that are wanted faster than they come are never ahead');
$session = $node->background_psql('postgres');
$id = $session->query_safe('SELECT snowflake_nextval()');
set_clock($node, -0.3);
is( $session->query_safe("SELECT snowflake_nextval() > $id"),
	't', 'wait: a step back of 300 ms is waited out');
$session->quit;
set_clock($node, -5);
$seconds = seconds_taken(sub { ($code) = sqlstate_of($node, 'SELECT snowflake_nextval()') });
is($code, 'SF001', 'wait: a longer one is an error');
cmp_ok($seconds, '>=', 0.5, 'wait: after max_wait');
$node->stop;

# Strategy: survive a step back of 2 s without a pause, also for sessions that
# take many ids.
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

# Strategy: the time counts by itself.
$node = new_server(
	'borrow',
	clock => 1,
	'snowflake.max_ahead' => -1,
	'snowflake.max_wait' => 0);
$session = $node->background_psql('postgres');
$id = $session->query_safe('SELECT snowflake_nextval()');
set_clock($node, -3600);
is( $session->query_safe("SELECT snowflake_nextval() > $id"),
	't', 'borrow: a step back of an hour does not matter');
$session->quit;
is( $node->safe_psql(
		'postgres',
		"SELECT snowflake_timestamp(snowflake_nextval()) - clock_timestamp() > interval '00:59:50'"),
	't',
	'borrow: ids stay ahead');
$node->stop;

# An epoch to come, a layout that has ended, and one that ends while it is
# used.
$node = new_server('epoch', 'snowflake.layout' => 'snowflake epoch:2090-01-01T00:00:00Z');
($code) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF002', 'an epoch to come');
$node->stop;

$node = new_server('ended', 'snowflake.layout' => 'uid-generator');
($code, $message) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF003', 'a layout that has ended');
like($message, qr/layout has no tick left.*DETAIL: .*2024-11-20.*HINT: /s, 'explains itself');
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
is($code, 'SF003', 'the last tick passes');
cmp_ok($made, '>', 0, 'after ids were made');
is($node->safe_psql('postgres', "SELECT $last <= (1 << 23) - 1"), 't', 'within the layout');
$node->stop;

$node = new_server(
	'burst',
	'snowflake.max_ahead' => -1,
	'snowflake.layout' => sprintf('time:20 sequence:3 epoch:%d', (time + 20) * 1000 - (1 << 20)));
($code) = sqlstate_of($node, 'SELECT count(snowflake_nextval()) FROM generate_series(1, 1000000)');
is($code, 'SF003', 'a burst that borrows beyond the last tick fails, too');
$node->stop;

# Honest time: a burst in a narrow layout runs ahead of the clock by what it may,
# and no more.  Who takes more than one id of each tick leaves half of max_ahead to
# others.
foreach my $case ([ 'time:41 worker:5', 1, 5 ], [ 'time:41 worker:5 sequence:2', 4, 2.5 ])
{
	my ($layout, $per_tick, $longest_lead) = @$case;
	my $ids = $per_tick * 1000 * ($longest_lead + 2);

	$node = new_server("honest$per_tick", 'snowflake.layout' => $layout);
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
