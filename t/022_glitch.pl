# How far a server trusts its clock: not in a glitch, after a step only once it has
# lasted for a while, at once when the clock is set right, and decades ahead only if
# configured so.  And which steps are logged.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep time);
use Time::Local qw(timegm);

my $hour = 3600;
my $day = 86400;
my $year = 365 * $day;
my $far_ahead = timegm(0, 0, 0, 1, 5, 2090) - time;    # in 2090

my ($code, $message);

#
# A glitch: the clock is far ahead for a moment, during which ids are made.
#
sub server_with_glitch
{
	my ($mutant) = @_;
	my $node = new_server(
		$mutant ? 'mutant' : 'glitch', clock => 1,
		'snowflake.layout' => 'snowflake lane:0',
		'snowflake.max_wait' => 0,
		mutant => $mutant);

	$node->safe_psql('postgres', 'CREATE DATABASE other');
	add_extension($node, 'other');
	return $node;
}

my $node = server_with_glitch();
my $session = $node->background_psql('postgres', on_error_stop => 0);
is(ids_by(0, $session), 'right', 'ids follow the clock');
is(ids_by(0, $node, 'other'), 'right', 'ids of another database follow the clock, too');
foreach my $glitch ($hour, 360 * $day, 20 * $year)
{
	my $name = sprintf 'a glitch of %d h', $glitch / $hour;

	set_clock($node, $glitch);
	my $found = ids_by(0, $session);
	set_clock($node, 0);

	# a step of more than a year may be refused at once
	like($found, $glitch > $year ? qr/^(right|SF005)$/ : qr/^right$/, "$name: ids follow the old clock");
	is(ids_by(0, $session), 'right', "$name: ids are right when it is over");
	is(ids_by(0, $node), 'right', "$name: ids of a new session are right");
	is(ids_by(0, $node, 'other'), 'right', "$name: ids of another database are right");
}

# a small step is followed at once
set_clock($node, 0.9);
is(ids_by(0.9, $session), 'right', 'a step of less than a second is followed at once');
set_clock($node, 0);

# a large step is followed when it has lasted for about 3 s
is(ids_by(0, $session), 'right', 'ids follow the clock again');
set_clock($node, 300 * $day);
my ($seconds, $found, $others) = ids_until($session, 'right', 300 * $day, 0);
is($found, 'right', 'a step that lasts is followed');
cmp_ok($seconds, '>', 2.9, sprintf 'but not at once: %.1f s', $seconds);
is($others, '', 'until then, ids follow the old clock');
is(ids_by(300 * $day, $node, 'other'), 'right', 'the other database follows');
$session->quit;
$node->stop;

if (with_mutants())
{
	$node = server_with_glitch('believes every step');
	is(ids_by(0, $node), 'right', 'mutant that believes every step: ids follow the clock');
	set_clock($node, $hour);
	isnt(ids_by(0, $node), 'right', 'but also a glitch');
	set_clock($node, 0);
	isnt(ids_by(0, $node), 'right', 'and they stay there afterwards');
	$node->stop;
}

#
# A clock that was behind is set right: the server trusts it at once.
#
$node = new_server('behind', clock => 1, 'snowflake.max_wait' => 0);
$session = $node->background_psql('postgres', on_error_stop => 0);
is(ids_by(0, $session), 'right', 'ids follow the clock');
set_clock($node, -$hour);
is(ids_by(0, $session), 'SF001', 'no ids while the clock is an hour behind');
sleep 3;
is(ids_by(0, $session), 'SF001', 'and none later');
set_clock($node, 0);
is(ids_by(0, $session), 'right', 'ids are made as soon as it is set right');

foreach my $max_ahead ("'2h'", -1)
{
	my $before = $session->query_safe('SHOW snowflake.max_ahead');
	set_and_reload($node, "snowflake.max_ahead = $max_ahead");
	sleep 0.1 while $session->query_safe('SHOW snowflake.max_ahead') eq $before;
	set_clock($node, -$hour);
	my %states;
	foreach (1 .. 25)
	{
		$states{ ids_by(0, $session) =~ s/.* s behind/behind/r }++;
		sleep 0.2;
	}
	delete @states{ 'right', 'behind' };
	is(join(' ', %states), '', "max_ahead = $max_ahead: ids are made while the clock is behind");
	set_clock($node, 0);
	is(ids_by(0, $session), 'right', "max_ahead = $max_ahead: ids follow the clock as soon as it is set right");
}
$session->quit;
$node->stop;

#
# A clock that is decades ahead
#
$node = new_server('jump', clock => 1, 'snowflake.max_wait' => 0);
is(ids_by(0, $node), 'right', 'ids follow the clock');
$node->stop;
start_with_clock($node, $far_ahead);
($code, $message) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF005', 'no ids after a start with a clock of 2090');
like($message, qr/\b2090-/, 'the error shows the time of the clock');
like($message, qr/\b20(?!90)\d\d-\d\d-\d\d /, 'and what it should be');
like($message, qr/HINT: .*snowflake\.max_jump/s, 'and the hint shows what to do');
is($node->safe_psql('postgres', 'SELECT clock_refused FROM snowflake_stat()'), 1, 'the failure is counted');
set_clock($node, 0);
is(ids_by(0, $node), 'right', 'ids are made as soon as the clock is right');

$session = $node->background_psql('postgres', on_error_stop => 0);
is(ids_by(0, $session), 'right', 'in every session');
set_clock($node, $far_ahead);
($seconds, $found, $others) = ids_until($session, 'SF005', $far_ahead, 0);
is($found, 'SF005', 'no ids after the clock of a running server is set to 2090');
is($others, '', 'and no ids of 2090 before that');
is(ids_by(0, $node), 'SF005', 'no ids in other sessions either');
set_clock($node, 0);
is(ids_by(0, $session), 'right', 'ids are made as soon as the clock is right');

set_clock($node, $far_ahead);
($seconds, $found, $others) = ids_until($session, 'SF005', $far_ahead, 0);
is($found, 'SF005', 'the clock is in 2090 again');
$node->safe_psql('postgres', "LOAD 'snowflake'; ALTER SYSTEM SET snowflake.max_jump = 2147483647");
set_and_reload($node, '');
($seconds, $found, $others) = ids_until($session, 'right', $far_ahead, 0);
is($found, 'right', 'an operator who raises max_jump gets ids of 2090');
$session->quit;
$node->stop;

$node = new_server('no_limit', clock => 1, 'snowflake.max_jump' => -1);
is(ids_by(0, $node), 'right', 'ids follow the clock');
$node->stop;
start_with_clock($node, $far_ahead);
is(ids_by($far_ahead, $node), 'right', 'without max_jump, a clock of 2090 is followed at a start');
$node->stop;

#
# Old marks and other epochs prove nothing about the clock.
#
$node = new_server('old', clock => 1, 'snowflake.layout' => 'snowflake epoch:2020-01-01T00:00:00Z');
$node->stop;
start_with_clock($node, -2 * $year);
$node->safe_psql('postgres', "CREATE DATABASE $_") foreach 'template', 'idle';
foreach my $database ('template', 'idle')
{
	add_extension($node, $database);
	is(ids_by(-2 * $year, $node, $database), 'right', "two years ago: ids in database $database");
}
set_clock($node, 0);
$node->safe_psql('postgres', 'CHECKPOINT');
$node->stop;
start_with_clock($node, 0);
$node->safe_psql('postgres', 'CREATE DATABASE young TEMPLATE template');
is(ids_by(0, $node, $_), 'right', "now: ids in database $_") foreach 'postgres', 'young', 'idle';
$node->append_conf('postgresql.conf', "snowflake.layout = 'snowflake epoch:2005-01-01T00:00:00Z'");
$node->stop;
start_with_clock($node, 0);
is(ids_by(0, $node, $_), 'right', "another epoch: ids in database $_") foreach 'postgres', 'young', 'idle';
$node->stop;

#
# Steps are logged, but clients get no message.
#
$node = new_server('log', clock => 1);
$session = $node->background_psql('postgres', on_error_stop => 0);
my $some_ids = 'SELECT snowflake_nextval(), pg_sleep(0.1) FROM generate_series(1, 25)';
my $count_steps = 'SELECT clock_steps_back FROM snowflake_stat()';
$session->query_safe("SET client_min_messages = log; $some_ids");
foreach my $step ([ -0.5, 'back' ], [ 0, 'forward' ])
{
	my ($offset, $direction) = @$step;
	my $position = -s $node->logfile;

	set_clock($node, $offset);
	$session->query($some_ids);
	is(take_errors($session), '', "a client gets no message of a step $direction");
	like(
		slurp_file($node->logfile, $position),
		qr/LOG:  clock was stepped $direction by 0\.[45]\d\d s/,
		"a step $direction is logged");
}

# Smaller steps matter only if ids must not be ahead; they are counted.  The machine's
# own clock may be stepped, too.
my $position = -s $node->logfile;
foreach my $i (1 .. 3)
{
	my $steps = $node->safe_psql('postgres', $count_steps);
	my $deadline = time + 60;

	set_clock($node, -0.05 * $i);
	do
	{
		$session->query($some_ids);
	} while ($node->safe_psql('postgres', $count_steps) <= $steps && time < $deadline);
	cmp_ok($node->safe_psql('postgres', $count_steps), '>', $steps, 'a step of 50 ms is counted');
}
unlike(slurp_file($node->logfile, $position), qr/stepped back by 0\.0[45]/, 'but not logged');
is(take_errors($session), '', 'clients get no messages of them');
$session->quit;
$node->stop;

# With max_ahead = 0 ids are made, and each step matters.
$node = new_server('at_the_clock', clock => 1, 'snowflake.max_ahead' => 0);
is( $node->safe_psql('postgres', 'SELECT count(snowflake_nextval()) FROM generate_series(1, 100000)'),
	100000, 'max_ahead = 0: many ids are made at once');
is( $node->safe_psql(
		'postgres',
		'SELECT count(snowflake_nextval()) FROM (SELECT pg_sleep(0.05) FROM generate_series(1, 60) OFFSET 0) AS s'),
	60,
	'max_ahead = 0: ids are made now and then');
$position = -s $node->logfile;
set_clock($node, -0.05);
$node->safe_psql('postgres', $some_ids);
like(
	slurp_file($node->logfile, $position),
	qr/LOG:  clock was stepped back by 0\.0\d\d s/,
	'max_ahead = 0: a step of 50 ms is logged');
$node->stop;

#
# The layout is not fixed before it is needed.
#
$node = new_server('layout');
set_and_reload($node, "snowflake.layout = 'js53'");
is( $node->safe_psql('postgres', 'SELECT snowflake_nextval() < 1::bigint << 53'),
	't', 'a layout set right after CREATE EXTENSION takes effect');
$node->stop;

done_testing();
