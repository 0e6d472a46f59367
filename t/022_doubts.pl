# How far a server trusts its clock.  The simulator has all orders of events; this shows on
# real servers that the pieces fit: at the first id, after a crash and a promotion, with a
# leased worker id.  And what is said about it.

use SnowflakeTest;

my $hour = 3600;
my $day = 86400;
my $year = 365 * $day;
my $far_ahead = 64 * $year;
my ($seconds, $found, $others);

# Make ids while the clock is off by a number of seconds, and set it right at once.
sub glitch
{
	my ($node, $offset, $name) = @_;

	set_clock($node, $offset);
	is(ids_by(0, $node), 'right', "$name: ids follow the old clock");
	set_clock($node, 0);
	is(ids_by(0, $node), 'right', "$name: ids are right when it is over");
	return;
}

# A glitch before the first id: after a start, a crash, a promotion.
my $node = new_server(
	'first', clock => 1, preload => 1, wal_level => 'replica', max_wal_senders => 5, hot_standby => 'on',
	'snowflake.max_wait' => 0);
my $standby = new_standby($node, 'standby', conf => "snowflake.layout = 'snowflake lane:1'", clock => 0);

glitch($node, 30 * $day, 'at the first id');
crash($node);
glitch($node, 30 * $day, 'after a crash');

# Reading an id fixes no layout.
my $read = 'SELECT (snowflake_decode((1::bigint << 22) + (3 << 13))).lane';
sql_is($standby, $read, 1, 'a standby reads ids by the layout of its setting');
set_and_reload($standby, "snowflake.layout = 'snowflake'");
sql_becomes_true($standby, "$read = 3", 'which can still be changed');
$node->stop;
$standby->promote;
glitch($standby, 30 * $day, 'after a promotion');
sql_is(
	$standby, 'SELECT layout FROM snowflake_capacity()',
	'time:41 worker:5 timeline:2 lane:2 sequence:13 tick:1ms epoch:2026-01-01T00:00:00Z',
	'the first id fixes the layout');
$standby->stop;

# Steps, of which clients get no message
$node = new_server('steps', clock => 1, 'snowflake.max_wait' => 0);
add_database($node, 'other');
my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query_safe('SET client_min_messages = log');
my $position = -s $node->logfile;
is(ids_by(0, $session), 'right', 'ids follow the clock');
glitch($node, $hour, 'a glitch');
set_clock($node, 0.9);
is(ids_by(0.9, $session), 'right', 'a step of less than a second is followed at once');
set_clock($node, 0);
is(ids_by(0, $session), 'right', 'ids follow the clock again');
set_clock($node, 30 * $day);
($seconds, $found, $others) = ids_until($session, 'right', 30 * $day, 0);
is($found, 'right', 'a step that lasts is followed');
cmp_ok($seconds, '>', 2.9, sprintf 'but not at once: %.1f s', $seconds);
is($others, '', 'until then, ids follow the old clock');
is(ids_by(30 * $day, $node, 'other'), 'right', 'another database follows');
set_clock($node, 60 * $day);
is(ids_by(30 * $day, $session), 'right', 'after another step, ids follow the old clock');
sleep 5;
is(ids_by(60 * $day, $session), 'right', 'one call every few seconds is enough to follow it');
set_clock($node, 0);
is(ids_by(0, $session), 'SF001', 'no ids while the clock is behind');
set_clock($node, 60 * $day);
is(ids_by(60 * $day, $session), 'right', 'ids are made as soon as it is set right');
$session->quit;
my $log = slurp_file($node->logfile, $position);
like($log, qr/LOG:  clock was stepped $_ s/, "the log shows a step $_")
  foreach 'forward by 2592000\\.\\d+', 'back by 5184000\\.\\d+';
$node->stop;

# Smaller steps matter only if ids must not be ahead; they are counted.
foreach my $max_ahead (5000, 0)
{
	$node = new_server("small_steps_$max_ahead", clock => 1, 'snowflake.max_ahead' => $max_ahead);
	sql($node, 'SELECT snowflake_nextval()');
	set_clock($node, -0.05);
	sql_becomes_true(
		$node, 'SELECT clock_steps_back > 0 FROM snowflake_nextval(), snowflake_stat()',
		"max_ahead = $max_ahead: a step of 50 ms is counted");
	$found = slurp_file($node->logfile) =~ /stepped back by 0\.0[45]/ ? 'logged' : 'not logged';
	is($found, $max_ahead ? 'not logged' : 'logged', 'and logged if it matters');
	$node->stop;
}

# A machine boots two years behind, and makes ids before its clock is set right.
$node = new_server('behind', clock => 1, 'snowflake.layout' => 'snowflake epoch:2020-01-01T00:00:00Z');
restart_with($node, clock => -2 * $year);
is(ids_by(-2 * $year, $node), 'right', 'ids of two years ago');
set_clock($node, 0);
$session = $node->background_psql('postgres', on_error_stop => 0);
($seconds, $found, $others) = ids_until($session, 'right', 0, -2 * $year);
is("$found, $others", 'right, ', 'ids follow a clock that is set right');
$session->quit;
$node->stop;

# A leased worker id: the registry and the server see the same wrong time.
my $registry = new_registry('registry');
restart_with($registry, clock => 0);
my $leased = new_server('leased', lease_from($registry, clock => 1, 'snowflake.max_wait' => '10s'));
is(ids_by(0, $leased), 'right', 'a server with a lease follows the clock');
$session = $leased->background_psql('postgres', on_error_stop => 0);
$session->query_safe("SET snowflake.max_wait = '100ms'");
set_clock($_, $far_ahead) foreach $registry, $leased;

foreach (1 .. 4)
{
	like(ids_by(0, $session), qr/^(right|SF004)$/, 'a glitch: no ids of that time');
	sleep 0.3;
}
set_clock($_, 0) foreach $registry, $leased;
is(ids_by(0, $leased), 'right', 'ids are right when it is over');
sql_is(
	$registry, "SELECT max(ends) < clock_timestamp() + '1 hour' FROM snowflake_registry.lease", 't',
	'and no lease lasts until then');
$session->quit;
set_clock($registry, $far_ahead);
like(
	sql($leased, 'SELECT pg_sleep(2)') . slurp_file($leased->logfile), qr/clock of the registry jumped too far ahead/,
	'a registry with a wrong clock refuses to grant');
set_clock($registry, 0);
$leased->stop;
$registry->stop;

done_testing();
