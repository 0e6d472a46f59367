# Ids when the clock is stepped, and calls that wait for the clock.

use SnowflakeTest;

my $day = 86400;

# How far ids are ahead of the clock, and what that says.  On a busy machine, time passes between
# the two, so take the best of some.
sub lead_of
{
	my ($node) = @_;

	return split /\|/, sql($node, <<'EOC');
SELECT extract(epoch FROM made - clock) AS lead, extract(epoch FROM clock)
FROM (SELECT snowflake_timestamp(snowflake_nextval()) AS made, clock_timestamp() AS clock FROM generate_series(1, 20) OFFSET 0) AS m
ORDER BY lead DESC LIMIT 1
EOC
}

# Nothing stops ids while the clock is behind by so many seconds, in running sessions, new ones
# and in blocks; nor after a crash, and once the clock is right again.
sub goes_on
{
	my ($node, $session, $back, $preload) = @_;
	my $name = sprintf 'set back by %s s%s', $back, $preload ? ', preloaded' : '';
	# ids of other sessions can be less, by up to a reservation
	my $before = sql($node, 'SELECT snowflake_nextval()') - (2000 << 22);
	my $make = "SELECT snowflake_nextval() > $before, min(first_id) > $before FROM snowflake_reserve(10000)";

	set_clock($node, -$back);
	is($session->query_safe($make), 't|t', "$name: ids go on");
	sql_is($node, $make, 't|t', "$name: and do so in a new session");
	# after a crash, ids begin ahead of the id clock
	sleep 3;
	my ($lead, $begin) = lead_of($node);
	# ids stop while a server is down
	cmp_ok($lead - $back, '<', 6, "$name: and are not further ahead than that");
	cmp_ok($lead - $back, '>', -60, "$name: from where they were") if $back > 60;
	sleep 4;
	my ($rest, $end) = lead_of($node);
	my ($slower, $elapsed) = ($lead - $rest, $end - $begin);
	if ($back > 1)
	{
		cmp_ok(
			abs($slower - $elapsed / 8), '<', 0.2,
			sprintf '%s: a little slower than the clock: by %.2f s in %.1f s', $name, $slower, $elapsed);
	}
	$before = sql($node, 'SELECT snowflake_nextval()');
	restart_with($node, stop => 'immediate', clock => -$back);
	sql_is($node, $make =~ s/> \d+/> $before/gr, 't|t', "$name: ids go on after a crash");
	($lead) = lead_of($node);
	cmp_ok($lead - $back, '>', -60, "$name: from where they were, too");
	return;
}

# Nor an advance, a dump that is restored, or a promotion.
sub goes_on_elsewhere
{
	my ($node, $back) = @_;
	my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';

	sql_succeeds(
		$node, 'SELECT snowflake_advance(max(last_id)) FROM snowflake_reserve(10000)',
		"set back by $back s: an advance to the last id");
	my $id = sql($node, 'SELECT snowflake_nextval()');
	system_or_bail('pg_dump', '--file', $dump, '--dbname', $node->connstr('postgres'));
	sql($node, 'CREATE DATABASE restored');
	system_or_bail('psql', '--quiet', '--set=ON_ERROR_STOP=1', '--file', $dump, '--dbname', $node->connstr('restored'));
	sql_is(
		[ $node, 'restored' ], "SELECT snowflake_nextval() > $id",
		't', "set back by $back s: ids go on in a dump that was restored");

	my $standby = new_standby($node, "standby_$back", clock => -$back);
	$id = sql($node, 'SELECT snowflake_nextval()');
	$node->wait_for_catchup($standby);
	$standby->promote;
	sql_is($standby, "SELECT snowflake_nextval() > $id", 't', "set back by $back s: ids go on after a promotion");
	my ($lead) = lead_of($standby);
	cmp_ok(abs($lead - $back), '<', 60, "set back by $back s: from where they were");
	$standby->stop;
	return;
}

foreach my $preload (0, 1)
{
	my $node = new_server(
		"back_$preload",
		clock => 1,
		preload => $preload,
		wal_level => 'replica',
		max_wal_senders => 5,
		'snowflake.max_wait' => 0);

	foreach my $back ($preload ? 20 * 3600 : (1, 10, 3600, 20 * 3600))
	{
		restart_with($node, stop => 'immediate', clock => 0) if $back == 10;
		my $session = $node->background_psql('postgres');
		sql($node, 'SELECT snowflake_nextval()');
		goes_on($node, $session, $back, $preload);
		goes_on_elsewhere($node, $back) if $back == 3600;
		eval { $session->quit };
		next if $back < 20 * 3600;

		# dead batteries, and far more than max_set_back allows
		my $id = sql($node, 'SELECT snowflake_nextval()');
		foreach my $clock (-100 * $day, -time)
		{
			restart_with($node, stop => 'immediate', clock => $clock);
			sql_fails(
				$node, 'SELECT snowflake_nextval()', 'SF001',
				"preloaded $preload: the clock is behind by more than a day",
				qr/clock was set back too far for snowflake ids.*DETAIL:  Ids are ahead of it by \d+.*HINT: .*raise "snowflake\.max_set_back"/s
			);
			like(
				sql($node, 'SELECT state, hint FROM snowflake_status()'), qr/^too far ahead\|.*max_set_back/,
				'and the state says so');
			set_and_reload($node, 'snowflake.max_set_back = -1');
			sql_is($node, "SELECT snowflake_nextval() > $id", 't', 'without max_set_back, ids go on');
			sql_is($node, 'SELECT state FROM snowflake_status()', 'ready', 'and the state is ready');
			set_and_reload($node, "snowflake.max_set_back = '1d'");
		}

		# the clock is set right
		restart_with($node, clock => 0);
		sql_is($node, "SELECT snowflake_nextval() > $id", 't', 'the clock is right: ids go on');
	}
	$node->stop;
}

# Bursts and restarts in a row push nothing ahead.
my $node = new_server('bursts', clock => 1, 'snowflake.layout' => 'time:41 worker:5 sequence:2');
foreach (1 .. $ENV{SNOWFLAKE_RESTARTS} // 10)
{
	sql($node, 'SELECT count(snowflake_nextval()) FROM generate_series(1, 30000)');
	restart_with($node, stop => 'immediate', clock => 0);
}
sql_is(
	$node, "SELECT snowflake_timestamp(snowflake_nextval()) - clock_timestamp() < '7 s'", 't',
	'bursts and restarts in a row: ids are not further ahead than after one');
$node->stop;

# A call waits for a clock that was set back only if max_set_back is less than that; and if
# it would have to wait for longer than max_wait, it does not wait at all.
sub waits { return sql($node, 'SELECT waits FROM snowflake_stat()') }

$node = new_server('default', clock => 1);
my ($session, $pid) = open_session($node);
$session->query_safe('SELECT snowflake_nextval()');
set_and_reload($node, 'snowflake.max_set_back = 0');
$session->query_safe('SELECT snowflake_nextval()');
set_clock($node, -4);
$session->query_safe('SELECT snowflake_nextval()');
set_clock($node, -64);
my $waits = waits();
sql_fails($node, 'SELECT snowflake_nextval()', 'SF001', 'without max_set_back, a step back of a minute is an error');
is(waits(), $waits, 'without a wait');
my $behind = $session->query_safe('SELECT snowflake_currval()');

# A waiting call continues when the clock is set right.
$session->query_safe("SET snowflake.max_wait = '1h'");
begin_query($session, "SELECT snowflake_nextval() > $behind;");
wait_until($node, $pid, "wait_event_type = 'Extension'", 'a call waits for the clock');
set_clock($node, 0);
is($session->query_safe('SELECT 1'), "t\n1", 'and continues when the clock is set right');

# The wait can be ended in the ways that a statement can.
my $wait = "SET snowflake.max_wait = '3d'; SELECT snowflake_nextval()";
(my $waiting, $pid) = open_session($node);
my $last = $waiting->query_safe('SELECT snowflake_nextval()');
set_clock($node, -60);
$waiting->query("SET statement_timeout = '200ms'; $wait");
like(take_errors($waiting), qr/statement timeout/, 'statement_timeout ends the wait');
is( $waiting->query_safe('RESET statement_timeout; SELECT snowflake_currval()'),
	$last, 'and the id that the call had taken is not shown');

begin_query($waiting, "$wait;");
wait_until($node, $pid, "wait_event_type = 'Extension'", 'a call waits for the clock');
my $start = time;
$node->stop('fast');
cmp_ok(time - $start, '<', 20, 'a fast shutdown ends the wait');
eval { $waiting->quit };
eval { $session->quit };

# The clock before the epoch
start_with_clock($node, -3 * 365 * 86400);
add_database($node, 'new');
sql_fails(
	[ $node, 'new' ], 'SELECT snowflake_nextval()', 'SF001', 'a clock before the epoch is an error if there are no ids',
	qr/too far ahead of the clock.*DETAIL: .*time that ids follow is.*HINT:  The clock is before the epoch/s);
sql_is(
	[ $node, 'new' ], 'SELECT state, hint FROM snowflake_status()',
	'too far ahead|The clock is before the epoch of the layout. Set the clock of the server right, or choose a layout with an earlier epoch and restart the server.',
	'the state announces that');
# far ahead of both the time believed and the last checkpoint
set_clock($node, 400 * 86400);
sql_fails(
	$node, 'SELECT snowflake_nextval()', 'SF002', 'a clock that jumps by more than a year is not followed',
	qr/clock jumped too far ahead.*DETAIL: .*clock says.*should be.*HINT: .*max_jump/s);
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
	$node, 'SELECT snowflake_nextval()', 'SF002',
	'but not one that jumped by more than a year while the server was down');
set_clock($node, 401 * 86400);
sql_succeeds($node, 'SELECT snowflake_nextval()', 'ids are made again when the clock is set right');
restart_with($node, conf => "shared_preload_libraries = 'snowflake'", clock => 801 * 86400);
sql_fails($node, 'SELECT snowflake_nextval()', 'SF002', 'nor if the library is preloaded');
set_clock($node, 401 * 86400);
sql($node, 'SELECT snowflake_nextval()');
set_clock($node, 801 * 86400);
crash($node);
$session = $node->background_psql('postgres', on_error_stop => 0);
my (undef, $found, $others) = ids_until($session, 'SF002', 801 * 86400, 401 * 86400);
is($found, 'SF002', 'a crash restart does not make such a clock acceptable');
is($others, '', 'and until it is refused, ids follow the old clock');
$session->quit;
$node->stop;

# As Twitter's and Leaf's generators: no id is ahead of the clock, and a call waits for a clock that
# was set back by less than max_wait.
foreach my $max_wait (0, 1, 500)
{
	$node = new_server(
		"strict_$max_wait", clock => 1, 'snowflake.layout' => 'time:41 worker:5 sequence:2',
		'snowflake.max_ahead' => 0, 'snowflake.max_set_back' => 0, 'snowflake.max_wait' => $max_wait);
	sql_is(
		$node, q{
SELECT count(*), count(*) FILTER (WHERE snowflake_timestamp(id) > clock)
FROM (SELECT snowflake_nextval() AS id, clock_timestamp() AS clock FROM generate_series(1, 2000) OFFSET 0) AS m
}, '2000|0', 'ids are never ahead, even if they are wanted faster than ticks pass') if $max_wait;
	$session = $node->background_psql('postgres', on_error_stop => 0);
	my $id = $session->query_safe('SELECT snowflake_nextval()');
	set_clock($node, -0.3);
	if ($max_wait > 300)
	{
		is($session->query_safe("SELECT snowflake_nextval() > $id"), 't', 'a step back of 300 ms is waited out');
	}
	set_clock($node, -5);
	$session->query('SELECT snowflake_nextval()');
	like(take_errors($session), qr/clock was set back too far/s, "max_wait = $max_wait: the error names a step");
	$session->quit;
	$node->stop;
}

# Honest time: a burst in a narrow layout runs ahead of the clock only as far as it may.
$node = new_server('honest', clock => 1, 'snowflake.layout' => 'time:41 worker:5 sequence:2');
sql_is(
	$node, q{
SELECT count(*), max(lead) > interval '2 s', max(lead) <= interval '2.5 s'
FROM (SELECT snowflake_timestamp(snowflake_nextval()) - clock_timestamp() AS lead FROM generate_series(1, 24000)) AS m
}, '24000|t|t', 'ids of a burst are ahead of the clock by no more than they may');
$node->stop;

done_testing();
