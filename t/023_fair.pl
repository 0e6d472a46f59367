# Users of one database must not use up the ids of another one, or move them ahead.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep time);

my ($code, $message);

#
# Six clients take blocks as large as possible, without waiting.  In another database a
# session makes 1000 ids per second, ten at a time, and gets all of them.
#

# Return how many ids one call can reserve.
sub largest_block
{
	my ($node) = @_;
	my ($code, $message) =
	  sqlstate_of($node, 'SET snowflake.max_wait = 0; SELECT count(*) FROM snowflake_reserve(1000000)');

	return 1000000 if $code eq '00000' || $code eq 'SF001';
	return $message =~ /allow at most (\d+) ids/ ? $1 : BAIL_OUT($message);
}

# Return how many of 3000 ids could be made, and the first error.
sub ids_of_the_modest
{
	my ($node, $max_wait) = @_;
	my ($out, $err);

	(undef, $out, $err) = $node->psql('other', <<"EOC", on_error_stop => 0);
SET snowflake.max_wait = '$max_wait';
SET client_min_messages = notice;
DO \$\$
DECLARE
	made integer := 0;
	first_error text := 'no error';
BEGIN
	FOR i IN 1 .. 300 LOOP
		FOR j IN 1 .. 10 LOOP
			BEGIN
				PERFORM snowflake_nextval();
				made := made + 1;
			EXCEPTION WHEN OTHERS THEN
				IF first_error = 'no error' THEN
					first_error := SQLSTATE;
				END IF;
			END;
		END LOOP;
		PERFORM pg_sleep(0.01);
	END LOOP;
	RAISE NOTICE '% ids, %', made, first_error;
END
\$\$;
EOC
	return $err =~ /NOTICE:  (\d+ ids, .*)/ ? $1 : $err;
}

# The strategies of doc/guarantees.md.  Each lets ids be further ahead than the one before.
my @strategies = (
	[ 'refuse', 0, 0 ],
	[ 'wait', 0, '500ms' ],
	[ 'survive', "'4s'", 0 ],
	[ 'default', "'5s'", 0 ],
	[ 'borrow', -1, 0 ]);

foreach my $layout ('snowflake', 'js53')
{
	my $node = new_server("fair_$layout", clock => 1, 'snowflake.layout' => $layout, 'snowflake.max_wait' => 0);

	$node->safe_psql('postgres', 'CREATE DATABASE other');
	add_extension($node, 'other');
	foreach my $strategy (@strategies)
	{
		my ($name, $max_ahead, $max_wait) = @$strategy;
		my ($found, $steps);

		set_and_reload($node, "snowflake.max_ahead = $max_ahead");
		my $size = largest_block($node);

		# repeat the test if the machine's own clock was stepped back
		foreach my $try (1 .. 3)
		{
			my $count_steps = 'SELECT clock_steps_back FROM snowflake_stat()';
			my $before = $node->safe_psql('postgres', $count_steps);
			my @greedy = start_collectors(
				$node, 6,
				sql => "SELECT count(*) /* generate_series(1, 20) */ FROM snowflake_reserve($size);",
				pause => 0);
			wait_for_collectors($node, 6);
			$found = ids_of_the_modest($node, $max_wait);
			stop_collectors(@greedy);
			$steps = $node->safe_psql('postgres', $count_steps) - $before;
			last if $steps == 0;
			note("the clock was stepped back");
		}
		is( $found, '3000 ids, no error',
			"$layout, $name: ids are made while six clients reserve $size at a time");
	}
	$node->stop;
}

#
# The owner of a database cannot move its ids beyond what the clock will soon reach,
# either by an advance or by setting the mark.
#
my $node = new_server('owner', clock => 1, 'snowflake.max_wait' => 0);
$node->safe_psql('postgres', 'CREATE ROLE owner LOGIN; CREATE DATABASE owned OWNER owner; CREATE DATABASE other');
add_extension($node, 'other');
my @owner = (database => 'owned', user => 'owner');
($code, $message) = sqlstate_of($node, 'CREATE EXTENSION snowflake; SELECT snowflake_nextval()', @owner);
is($code, '00000', 'an owner creates the extension') or diag($message);

# whether a database makes ids of the present
sub has_ids
{
	my ($database) = @_;
	my ($ret, $out, $err) = $node->psql(
		$database,
		"\\set VERBOSITY verbose\nSELECT count(*) FROM generate_series(1, 1000) WHERE snowflake_timestamp(snowflake_nextval()) - clock_timestamp() <= '5 s'"
	);

	return $err =~ /ERROR:  (\w{5}):/ ? $1 : "$out ids";
}

my $in_an_hour = "snowflake_compose(clock_timestamp() + '1 h')";
foreach my $max_ahead ("'5s'", -1)
{
	my $name = "max_ahead = $max_ahead";

	set_and_reload($node, "snowflake.max_ahead = $max_ahead");
	my $mark = $node->safe_psql('owned', 'SELECT last_value FROM snowflake_internal.mark');
	foreach my $target ('9223372036854775807', $in_an_hour)
	{
		($code, $message) = sqlstate_of($node, "SELECT snowflake_advance($target)", @owner);
		is($code, '55000', "$name: the owner cannot advance to $target") or diag($message);
		($code) = sqlstate_of($node, "SELECT snowflake_advance($target, true)", @owner);
		is($code, '42501', "$name: nor by force");
		($code) = sqlstate_of($node, "SELECT snowflake_advance($target)", database => 'owned');
		is($code, '55000', "$name: a superuser must force it");
	}
	is(has_ids($_), '1000 ids', "$name: ids continue in database $_") foreach 'owned', 'other';

	# an id that the clock will soon reach, or has reached
	my $id = $node->safe_psql('owned', 'SELECT max(snowflake_nextval()) FROM generate_series(1, 1000)');
	($code, $message) = sqlstate_of($node, "SELECT snowflake_advance($id + 1000)", @owner);
	is($code, '00000', "$name: an advance to a near id succeeds") or diag($message);
	cmp_ok($node->safe_psql('owned', 'SELECT snowflake_nextval()'), '>', $id + 1000, "$name: ids are above it");

	# The mark takes effect when the limit moves next.
	$mark = $node->safe_psql('owned', 'SELECT last_value FROM snowflake_internal.mark');
	($code, $message) = sqlstate_of($node, "SELECT setval('snowflake_internal.mark', $in_an_hour)", @owner);
	is($code, '00000', "$name: the owner can set the mark") or diag($message);
	my $deadline = time + 30;
	my $found;
	do
	{
		sleep 0.1;
		$found = has_ids('owned');
	} while ($found ne 'SF001' && time < $deadline);
	is($found, 'SF001', "$name: which stops ids in that database");
	is(has_ids('other'), '1000 ids', "$name: but not in another database");
	sqlstate_of($node, "SELECT setval('snowflake_internal.mark', $mark)", @owner);
	is(has_ids('owned'), '1000 ids', "$name: until the mark is corrected");
}

# and not by a mark beyond all ids, while clients are busy
my @clients = start_collectors($node, 2, database => 'owned');
wait_for_collectors($node, 2);
($code) = sqlstate_of($node, "SELECT setval('snowflake_internal.mark', 9223372036854775807)", @owner);
foreach (1 .. 300)
{
	last if grep { -s $_->{errors} } @clients;
	sleep 0.1;
}
my $errors = stop_collectors(@clients);
like(join(' ', sort keys %$errors), qr/^(SF001|SF003)$/, 'a mark beyond all ids stops busy clients');
is(has_ids('other'), '1000 ids', 'but not in another database');
sqlstate_of($node, "SELECT setval('snowflake_internal.mark', 0, false)", @owner);
is(has_ids('owned'), '1000 ids', 'until the mark is corrected');

# A superuser may do both.
set_and_reload($node, "snowflake.max_ahead = '5s'");
($code, $message) = sqlstate_of($node, "SELECT snowflake_advance($in_an_hour, true)", database => 'owned');
is($code, '00000', 'a superuser can force an advance') or diag($message);
is(has_ids('owned'), 'SF001', 'no ids are made before the clock gets there');
is(has_ids('other'), '1000 ids', 'except in another database');
$node->stop;

#
# The owner of a database who advances as far as that is allowed, again and again, leaves
# room for sessions of another database, even for those that take many ids.
#
$node = new_server('edge', clock => 1, 'snowflake.layout' => 'twitter');
$node->safe_psql('postgres', 'CREATE ROLE owner LOGIN; CREATE DATABASE owned OWNER owner; CREATE DATABASE other');
add_extension($node, $_) foreach 'owned', 'other';
my $advance = "SELECT snowflake_advance(snowflake_compose(clock_timestamp() + '%s'));\n";
@clients = start_collectors(
	$node, 1,
	database => 'owned',
	sql => 'SET ROLE owner; SELECT pg_sleep(0.3) /* generate_series(1, 20) */;'
	  . join('', map { sprintf $advance, $_ } '4.99 s', '2.49 s')
	  . 'SELECT snowflake_nextval();');
wait_for_collectors($node, 1);
sleep 1;
foreach my $try (1 .. 3)
{
	($code, $message) =
	  sqlstate_of($node, 'SELECT count(snowflake_nextval()) FROM generate_series(1, 50000)', database => 'other');
	is($code, '00000', "try $try: 50000 ids at once, while another database is at the edge") or diag($message);
}
$errors = stop_collectors(@clients);
is(join(' ', sort keys %$errors), '55000', 'an advance beyond the edge is refused, one to the edge is not');
$node->stop;

#
# Nor can the owner of a database move ids ahead by having the server find the mark that
# it wrote itself, again and again.
#
$node = new_server('again', clock => 1, 'snowflake.layout' => 'twitter');
$node->safe_psql(
	'postgres',
	'CREATE ROLE owner LOGIN CREATEDB; CREATE DATABASE owned OWNER owner; CREATE DATABASE other');
add_extension($node, 'other');
@owner = (database => 'owned', user => 'owner');
sqlstate_of($node, 'CREATE EXTENSION snowflake; SELECT snowflake_nextval()', @owner);
my $original = 'owned';
my %ways = (
	'ALTER DATABASE' => sub {
		sqlstate_of($node, "ALTER DATABASE owned CONNECTION LIMIT $_[0]", user => 'owner');
	},
	'DROP EXTENSION' => sub {
		sqlstate_of($node, 'BEGIN; DROP EXTENSION snowflake; CREATE EXTENSION snowflake; ROLLBACK', @owner);
	},
	'CREATE DATABASE' => sub {
		my $template = $original;

		$original = "copy$_[0]";
		sqlstate_of($node, "CREATE DATABASE $original TEMPLATE $template", user => 'owner');
	});
foreach my $way (sort keys %ways)
{
	foreach my $i (1 .. 5)
	{
		($code, $message) = $ways{$way}->($i);
		is($code, '00000', "$way, $i") or diag($message);
		($code, $message) = sqlstate_of(
			$node, 'SELECT snowflake_nextval()',
			user => 'owner',
			database => $way eq 'CREATE DATABASE' ? $original : 'owned');
		is($code, '00000', "$way, $i: the mark is found") or diag($message);
	}
	($code, $message) = sqlstate_of($node, 'SELECT * FROM snowflake_reserve(50000)', database => 'other');
	is($code, '00000', "$way: 50000 ids at once in another database") or diag($message);
}
$node->stop;

#
# Nor by two databases of theirs, which take the same slot in turn.
#
if (can_use_mutants())
{
	$node = new_server('turns', clock => 1, mutant => 'has room for two', 'snowflake.layout' => 'twitter');
	$node->safe_psql('postgres', "CREATE DATABASE $_") foreach 'held', 'one', 'two';
	add_extension($node, $_) foreach 'held', 'one', 'two';
	$node->restart;    # so that the databases are older than the start
	my $held = $node->background_psql('held', on_error_stop => 0);
	$held->query_safe('SELECT snowflake_nextval()');
	foreach my $i (1 .. 3)
	{
		foreach my $database ('one', 'two')
		{
			($code, $message) = sqlstate_of($node, 'SELECT snowflake_nextval()', database => $database);
			is($code, '00000', "turn $i of database $database") or diag($message);
			# its slot is free only then
			wait_until_alone($held);
		}
	}
	$held->query('SELECT * FROM snowflake_reserve(50000)');
	is(take_errors($held), '', '50000 ids at once in a database that keeps its slot');
	$held->quit;
	$node->stop;
}

#
# With one id per lane and second, a session can use all lanes, and an advance that
# raises nothing moves no session ahead.
#
$node = new_server(
	'slow', clock => 1,
	'snowflake.layout' => 'time:31 worker:5 lane:3 sequence:0 tick:1s',
	'snowflake.max_ahead' => '20s');
my $ticks;

# repeat the test if the clock moves on meanwhile
foreach my $try (1 .. 5)
{
	$ticks = $node->safe_psql(
		'postgres', q{
SELECT count(DISTINCT id), max(made) - min(made) <= '2 s'
FROM (SELECT id, snowflake_timestamp(id) AS made FROM (SELECT snowflake_nextval() AS id FROM generate_series(1, 16)) AS i) AS m
});
	last if $ticks eq '16|t';
}
is($ticks, '16|t', 'a session has two ids of each lane in three ticks');
my $id = $node->safe_psql('postgres', 'SELECT snowflake_nextval()');
$node->safe_psql('postgres', "DO 'BEGIN FOR i IN 1 .. 1000 LOOP PERFORM snowflake_advance(0); END LOOP; END'");
$node->safe_psql('postgres', "SELECT snowflake_advance($id)");
$node->safe_psql('postgres', "DO 'BEGIN FOR i IN 1 .. 1000 LOOP PERFORM snowflake_advance($id); END LOOP; END'");
($code, $message) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, '00000', 'advances that raise nothing move no session ahead') or diag($message);
$node->stop;

#
# A session ahead of the clock stays in a tick for as long as no other one moves on.  It is
# not greedy if it has made many ids there, but few per tick of the clock.
#
$node = new_server(
	'stays', clock => 1,
	'snowflake.layout' => 'time:31 worker:5 sequence:7 tick:1s',
	'snowflake.max_ahead' => '20s',
	'snowflake.max_wait' => 0);
my $modest = $node->background_psql('postgres', on_error_stop => 0);
my $make = "SELECT count(snowflake_nextval()) || ' ids' FROM generate_series(1, %d)";
my $next_second = 'SELECT pg_sleep(1 - extract(microseconds FROM clock_timestamp())::integer % 1000000 / 1e6)';

# take all that blocks can have
sub fill_with_blocks
{
	my ($code, $message) = sqlstate_of($node, <<'EOC');
DO $$
BEGIN
	LOOP
		PERFORM snowflake_reserve(112);
		COMMIT;
	END LOOP;
END
$$
EOC
	is($code, 'SF001', 'blocks take all that they can have') or diag($message);
}

$modest->query_safe($next_second);
fill_with_blocks();
is($modest->query_safe(sprintf $make, 10), '10 ids', 'another session makes ids, too');
$modest->query_safe($next_second);
is($modest->query_safe(sprintf $make, 6), '6 ids', 'so it does a second later');
fill_with_blocks();
is($modest->query(sprintf $make, 10), '10 ids', 'and after others have filled the tick that came');
$modest->quit;
$node->stop;

#
# Nor is it greedy if it stays in a tick because the clock was stepped back.
#
$node = new_server('back', clock => 1, 'snowflake.layout' => 'js53', 'snowflake.max_wait' => 0);
$modest = $node->background_psql('postgres', on_error_stop => 0);
$modest->query_safe('SELECT snowflake_nextval()');
set_clock($node, -4);
$make = "SELECT count(snowflake_nextval()) || ' ids' FROM generate_series(1, 100) WHERE pg_sleep(0.01) IS NOT NULL";
is($modest->query($make), '100 ids', 'a session makes ids after a step back');
is(take_errors($modest), '', 'without errors');
$modest->quit;
$node->stop;

done_testing();
