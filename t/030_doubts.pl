# How a server trusts its clock from its start on: at the first id, after a crash, after a
# promotion, with rare calls, with many steps, with a leased worker id.  And that reading
# ids decides nothing.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $day = 86400;
my $year = 365 * $day;
my $decades = 40 * $year;
my ($code, $message, $seconds, $found, $others);

# Make ids while the clock is off by a number of seconds, and at once set it back to another
# offset, or set it right.
sub glitch
{
	my ($node, $offset, $name, $right) = @_;

	$right //= 0;
	set_clock($node, $offset);
	is(ids_by($right, $node), 'right', "$name: ids follow the old clock");
	set_clock($node, $right);
	is(ids_by($right, $node), 'right', "$name: ids are right when it is over");
	return;
}

#
# A glitch before the first id: after a start, a crash, a promotion.
#
my %replicates = (wal_level => 'replica', max_wal_senders => 5, hot_standby => 'on');
foreach my $offset (30 * $day, $decades)
{
	my $node = new_server("first_$offset", clock => 1, preload => 1, %replicates, 'snowflake.max_wait' => 0);
	my $standby = PostgreSQL::Test::Cluster->new("standby_$offset");

	$node->backup('empty');
	$standby->init_from_backup($node, 'empty', has_streaming => 1);
	$standby->append_conf('postgresql.conf', "snowflake.layout = 'snowflake lane:1'");
	start_with_clock($standby, 0);

	glitch($node, $offset, 'at the first id');
	crash($node);
	glitch($node, $offset, 'after a crash');

	# Reading an id fixes no layout.
	is( $standby->safe_psql('postgres', 'SELECT snowflake_lane((1::bigint << 22) + (3 << 12))'),
		1, 'a standby reads ids by the layout of its setting');
	$standby->append_conf('postgresql.conf', "snowflake.layout = 'snowflake'");
	$standby->reload;
	ok( $standby->poll_query_until('postgres', 'SELECT snowflake_lane((1::bigint << 22) + (3 << 12)) = 3'),
		'which can still be changed');
	$node->stop;
	$standby->promote;
	glitch($standby, $offset, 'after a promotion');
	is( $standby->safe_psql('postgres', 'SELECT layout FROM snowflake_capacity()'),
		'time:41 worker:5 timeline:2 lane:3 sequence:12 tick:1ms epoch:2026-01-01T00:00:00Z',
		'the first id fixes the layout');
	$standby->stop;
}

# A clock that is decades ahead at the first id is refused, and moving it on does not help.
foreach my $preload (0, 1)
{
	my $node = new_server("refused_$preload", clock => 1, preload => $preload, 'snowflake.max_wait' => 0);

	if ($preload)
	{
		$node->stop;
		start_with_clock($node, $decades);
	}
	set_clock($node, $decades);
	is(ids_by(0, $node), 'SF005', "preload = $preload: no ids of a clock that is decades ahead");
	set_clock($node, $decades + 2);
	is(ids_by(0, $node), 'SF005', 'nor a bit later');
	set_clock($node, 0);
	is(ids_by(0, $node), 'right', 'ids are made when it is right');
	$node->stop;
}

#
# Two glitches with silence between them are no step, but rare calls get to the new time.
#
my $node = new_server('rare', clock => 1, 'snowflake.max_wait' => 0);
my $session = $node->background_psql('postgres', on_error_stop => 0);
is(ids_by(0, $session), 'right', 'ids follow the clock');
glitch($node, 30 * $day, 'a glitch');
set_clock($node, 30 * $day);
is(ids_by(0, $session), 'right', 'a glitch that nobody sees the end of');
set_clock($node, 0);
sleep 4;
set_clock($node, 30 * $day);
begin_query($session, 'SELECT snowflake_nextval();');
sleep 0.3;
set_clock($node, 0);
my ($id) = $session->query('SELECT 1') =~ /^(\d+)$/m;
is( $node->safe_psql('postgres', "SELECT snowflake_timestamp($id) < clock_timestamp() + '1 minute'"),
	't', 'the next glitch, later, does not prove a step');
is(ids_by(0, $session), 'right', 'ids are right when it is over');

set_clock($node, 30 * $day);
is(ids_by(0, $session), 'right', 'after a step, ids follow the old clock');
sleep 5;
is(ids_by(30 * $day, $session), 'right', 'one call every few seconds is enough to follow it');

# Canceled calls count, too.
set_clock($node, 60 * $day);
foreach my $try (1 .. 20)
{
	$session->query("SET statement_timeout = '500ms'; SELECT snowflake_nextval()");
	take_errors($session);
	$session->query_safe('RESET statement_timeout');
	last if ($found = $node->safe_psql('postgres', "SELECT ids_ahead > '-1 hour' FROM snowflake_status()")) eq 't';
	sleep 1.1;
}
is($found, 't', 'a step is followed even if every call is canceled soon');

# A refused clock that is set right while nobody looks
set_clock($node, 3 * $year);
($seconds, $found) = ids_until($session, 'SF005', 3 * $year, 60 * $day);
is($found, 'SF005', 'a clock that is years ahead is refused');
set_clock($node, 60 * $day);
sleep 2;
glitch($node, 160 * $day, 'a glitch after that', 60 * $day);

# A clock that is stepped all the time
my $offset = 60 * $day;
my $until = time + 25;
my $worst = 0;
while (time < $until)
{
	set_clock($node, $offset += 1.1);
	my $next = time + 1.8;
	while (time < $next)
	{
		$found = ids_by($offset, $session);
		$worst = $1 if $found =~ /^([\d.]+) s behind/ && $1 > $worst;
		isnt($found, 'SF001', 'ids are made') if $found =~ /^SF/;
		sleep 0.05;
	}
}
cmp_ok($worst, '<', 9, "ids are at most $worst s behind a clock that is stepped all the time");
$session->quit;
$node->stop;

#
# A machine boots two years behind, and makes ids before its clock is set right.
#
foreach my $preload (0, 1)
{
	$node = new_server(
		"behind_$preload",
		clock => 1, preload => $preload,
		'snowflake.layout' => 'snowflake epoch:2020-01-01T00:00:00Z');
	$node->stop;
	start_with_clock($node, -2 * $year);
	is(ids_by(-2 * $year, $node), 'right', "preload = $preload: ids of two years ago");
	set_clock($node, 0);
	$session = $node->background_psql('postgres', on_error_stop => 0);
	($seconds, $found, $others) = ids_until($session, 'right', 0, -2 * $year);
	is($found, 'right', "preload = $preload: ids follow a clock that is set right");
	is($others, '', 'without errors before that');
	$session->quit;
	$node->stop;
}

# A machine boots far behind or far ahead, and crashes after its clock was set right.
$node = new_server('set_right', clock => 1, preload => 1, 'snowflake.max_wait' => 0);
$node->stop;
start_with_clock($node, -20 * $year);
set_clock($node, 0);
$session = $node->background_psql('postgres', on_error_stop => 0);
($seconds, $found, $others) = ids_until($session, 'right', 0, 0);
is($found, 'right', 'a clock of before the epoch is set right');
is($others, '', 'without errors before that');
$session->quit;
$node->stop;
start_with_clock($node, 30 * $day);
set_clock($node, 0);
is(ids_by(0, $node), 'right', 'a clock that was ahead is set right before the first id');
crash($node);
glitch($node, 29 * $day, 'after a crash, as far as that');
$node->stop;

# A refused clock that many looked at comes back for a moment in reach of the start's.
$node = new_server('seen', clock => 1, 'snowflake.max_wait' => 0);
is(ids_by(0, $node), 'right', 'ids follow the clock');
set_clock($node, 3 * $year);
($seconds, $found) = (0, ids_by(0, $node));
foreach (1 .. 40)
{
	$found = ids_by(0, $node);
	sleep 0.1;
}
is($found, 'SF005', 'a clock that is years ahead is refused');
glitch($node, 300 * $day, 'a glitch after that');
$node->stop;

# A crash soon after a step, with as little reserved as possible
foreach my $max_ahead (0, '1s')
{
	$node = new_server(
		"crash_$max_ahead",
		clock => 1, preload => 1,
		'snowflake.max_wait' => 0,
		'snowflake.max_ahead' => $max_ahead);
	is(ids_by(0, $node), 'right', "max_ahead = $max_ahead: ids follow the clock");
	set_clock($node, 3600);
	$session = $node->background_psql('postgres', on_error_stop => 0);
	($seconds, $found, $others) = ids_until($session, 'right', 3600, 0);
	is($found, 'right', 'and a step');
	$session->quit;
	crash($node);
	$session = $node->background_psql('postgres', on_error_stop => 0);
	($seconds, $found, $others) = ids_until($session, 'right', 3600, 0);
	is("$found, $others", 'right, ', 'and the clock after a crash');
	$session->quit;
	$node->stop;
}

#
# An error names the bound that is in the way.
#
$node = new_server('hints', clock => 1, 'snowflake.max_ahead' => 0, 'snowflake.max_wait' => 0);
$session = $node->background_psql('postgres', on_error_stop => 0);
foreach my $try (1 .. 20)
{
	$session->query('SELECT count(snowflake_nextval()) FROM generate_series(1, 1000)');
	set_clock($node, -0.3 * $try);
	take_errors($session);
	$session->query('SELECT snowflake_nextval()');
	last if ($message = take_errors($session)) =~ /set back/;
}
like(
	$message, qr/ERROR:.*which was set back.*HINT:  Wait until the clock has caught up/s,
	'max_ahead = 0: a small step back is the cause');
$session->quit;
$node->stop;

$node = new_server(
	'greedy', clock => 1,
	'snowflake.layout' => 'time:41 worker:5 lane:1 sequence:3',
	'snowflake.max_ahead' => '100ms',
	'snowflake.max_wait' => 0);
my %hints;
my @sessions = map { $node->background_psql('postgres', on_error_stop => 0) } 1 .. 3;
begin_query($_, 'SELECT count(snowflake_nextval()) FROM generate_series(1, 100000);' x 50) foreach @sessions;
foreach (@sessions)
{
	$_->query('SELECT 1');
	$hints{$1}++ while take_errors($_) =~ /HINT:  (.*?),/g;
	$_->quit;
}
is( join(' ', keys %hints), 'If ids are needed faster than the layout provides them',
	'a rate that is too high is the cause');
$node->stop;

#
# A leased worker id: the registry and the server see the same wrong time.
#
my $registry = new_registry('registry');
$registry->stop;
start_with_clock($registry, 0);
my $leased = new_server('leased', lease_from($registry, clock => 1, 'snowflake.max_wait' => '10s'));
is(ids_by(0, $leased), 'right', 'a server with a lease follows the clock');
$session = $leased->background_psql('postgres', on_error_stop => 0);
$session->query_safe("SET snowflake.max_wait = '100ms'");

foreach my $jump (30 * $day, $decades)
{
	set_clock($_, $jump) foreach $registry, $leased;
	foreach (1 .. 4)
	{
		$found = ids_by(0, $session);
		like($found, qr/^(right|SF004)$/, "a glitch of $jump s: no ids of that time");
		sleep 0.3;
	}
	set_clock($_, 0) foreach $registry, $leased;
	is(ids_by(0, $leased), 'right', 'ids are right when it is over');
	is( $registry->safe_psql(
			'postgres', "SELECT max(ends) < clock_timestamp() + '1 hour' FROM snowflake_registry.lease"),
		't',
		'and no lease lasts until then');
}
$session->quit;
set_clock($registry, $decades);
like(
	$leased->safe_psql('postgres', 'SELECT pg_sleep(2)') . slurp_file($leased->logfile),
	qr/clock of the registry jumped too far ahead/, 'a registry with a wrong clock refuses to grant');
set_clock($registry, 0);
$leased->stop;
$registry->stop;

done_testing();
