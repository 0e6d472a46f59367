# Users of one database must not use up the ids of another one, or move them ahead.

use SnowflakeTest;

# Return how many ids one call can reserve.
sub largest_block
{
	my ($node) = @_;
	my ($code, $message) = sqlstate_of($node, 'SELECT count(*) FROM snowflake_reserve(1000000)');

	return 1000000 if $code eq '00000' || $code eq 'SF001';
	return $message =~ /allow at most (\d+) ids/ ? $1 : BAIL_OUT($message);
}

# A millisecond has 16 ids.  max_ahead and max_wait bound what one call may have.
my $node = new_server('narrow', 'snowflake.layout' => 'time:40 worker:5 sequence:4', 'snowflake.max_wait' => '100ms');
sql_is(
	$node, 'SELECT sum(last_id - first_id + 1), count(*) BETWEEN 1250 AND 1260 FROM snowflake_reserve(20000)',
	'20000|t', 'a block is as large as a tick allows');
is(largest_block($node), 41616, 'a call for more ids than it can ever get is an error');
sql_fails(
	$node, 'SELECT count(*) FROM snowflake_reserve(40000) AS a, snowflake_reserve(40000) AS b', 'SF001',
	'calls for more ids than half of max_ahead allows are an error');
$node->stop;

# Make 3000 ids.  Returns how many were made, and the errors.
sub ids_of_the_modest
{
	my ($node, $max_wait) = @_;
	my $make = "SELECT snowflake_nextval() FROM generate_series(1, 10); SELECT pg_sleep(0.01);\n";
	my ($ret, $out, $err) =
	  $node->psql('other', "SET snowflake.max_wait = '$max_wait';\n" . $make x 300, on_error_stop => 0);

	return scalar(my @ids = $out =~ /^\d+$/mg) . " ids$err";
}

# Six clients take blocks as large as possible, without waiting.  In another database a
# session makes 1000 ids per second, ten at a time, and gets all of them: it takes them first,
# and then waits until the clock gets there.  Each strategy lets ids be further ahead than the
# one before.
my @strategies = ([ 'strict', 0, '500ms' ], [ 'default', "'5s'", '1s' ], [ 'unbounded', -1, 0 ]);

foreach my $layout ('snowflake', 'js53')
{
	$node = new_server("fair_$layout", clock => 1, 'snowflake.layout' => $layout, 'snowflake.max_wait' => 0);

	add_database($node, 'other');
	foreach my $strategy (@strategies)
	{
		my ($name, $max_ahead, $max_wait) = @$strategy;

		set_and_reload($node, "snowflake.max_ahead = $max_ahead");
		my $size = largest_block($node);
		my @greedy = start_collectors(
			$node, 6,
			sql => "SELECT count(*) /* generate_series(1, 20) */ FROM snowflake_reserve($size);", pause => 0);
		wait_for_collectors($node, 6);
		my $found = ids_of_the_modest($node, $max_wait);
		stop_collectors(@greedy);
		is($found, '3000 ids', "$layout, $name: ids are made while six clients reserve $size at a time");
	}
	$node->stop;
}

# The owner of a database cannot move its ids beyond what the clock will soon reach,
# either by an advance or by setting the mark.
$node = new_server('owner', clock => 1, 'snowflake.max_wait' => 0);
my $owner = [ $node, 'owned', 'owner' ];
sql($node, 'CREATE ROLE owner LOGIN; CREATE DATABASE owned OWNER owner');
add_database($node, 'other');
sql_succeeds($owner, 'CREATE EXTENSION snowflake; SELECT snowflake_nextval()', 'an owner creates the extension');

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
		sql_fails(
			$owner, "SELECT snowflake_advance($target)", '55000', "$name: the owner cannot advance to $target",
			qr/cannot be advanced too far ahead.*DETAIL: .*max_ahead.*HINT: .*force/s);
	}
	is(has_ids($_), '1000 ids', "$name: ids continue in database $_") foreach 'owned', 'other';

	# an id that the clock will soon reach, or has reached
	my $id = $node->safe_psql('owned', 'SELECT max(snowflake_nextval()) FROM generate_series(1, 1000)');
	sql_succeeds($owner, "SELECT snowflake_advance($id + 1000)", "$name: an advance to a near id succeeds");
	cmp_ok($node->safe_psql('owned', 'SELECT snowflake_nextval()'), '>', $id + 1000, "$name: ids are above it");

	# The mark takes effect when the limit moves next.
	$mark = $node->safe_psql('owned', 'SELECT last_value FROM snowflake_internal.mark');
	sql_succeeds($owner, "SELECT setval('snowflake_internal.mark', $in_an_hour)", "$name: the owner can set the mark");
	my $found = '';
	for (my $deadline = time + 30; $found ne 'SF001' && time < $deadline; sleep 0.1)
	{
		$found = has_ids('owned');
	}
	is($found, 'SF001', "$name: which stops ids in that database");
	is(has_ids('other'), '1000 ids', "$name: but not in another database");
	sql($owner, "SELECT setval('snowflake_internal.mark', $mark)");
	is(has_ids('owned'), '1000 ids', "$name: until the mark is corrected");
}

# A superuser may do both.  An advance that fails moves nothing.  Without max_ahead, a mark that
# was set right again has moved ids ahead.
set_and_reload($node, "snowflake.max_ahead = '5s'");
$node->poll_query_until('other', "SELECT ids_ahead < '0' FROM snowflake_status()")
  or BAIL_OUT('the clock does not catch up');
my ($locker) = open_session([ $node, 'owned' ]);
my ($advancer) = open_session([ $node, 'owned' ]);
$advancer->query_safe('SELECT snowflake_nextval()');
$locker->query_safe('BEGIN; ALTER MATERIALIZED VIEW snowflake_internal.guard OWNER TO CURRENT_USER');
$advancer->query("SELECT snowflake_advance($in_an_hour, true)");
like(take_errors($advancer), qr/could not obtain lock/, 'an advance fails');
is(has_ids('other'), '1000 ids', 'and leaves other databases alone');
$locker->query_safe('ROLLBACK');
$_->quit foreach $locker, $advancer;
sql_succeeds([ $node, 'owned' ], "SELECT snowflake_advance($in_an_hour, true)", 'a superuser can force an advance');
is(has_ids('owned'), '0 ids', 'ids are an hour ahead then');
$node->stop;

# The owner of a database who advances as far as that is allowed, again and again, leaves
# room for sessions of another database, even for those that take many ids.
$node = new_server('edge', clock => 1, 'snowflake.layout' => 'twitter');
add_database($node, $_) foreach 'owned', 'other';
sql($node, 'CREATE ROLE owner; ALTER DATABASE owned OWNER TO owner');
my $advance = "SELECT snowflake_advance(snowflake_compose(clock_timestamp() + '%s'));\n";
my @clients = start_collectors(
	$node, 1,
	database => 'owned',
	sql => 'SET ROLE owner; SELECT pg_sleep(0.3) /* generate_series(1, 20) */;'
	  . join('', map { sprintf $advance, $_ } '4.99 s', '2.49 s')
	  . 'SELECT snowflake_nextval();');
wait_for_collectors($node, 1);
sleep 1;
foreach my $try (1 .. 3)
{
	sql_succeeds(
		[ $node, 'other' ], 'SELECT count(snowflake_nextval()) FROM generate_series(1, 50000)',
		"try $try: 50000 ids at once, while another database is at the edge");
}
my $errors = stop_collectors(@clients);
is(join(' ', sort keys %$errors), '55000', 'an advance beyond the edge is refused, one to the edge is not');
$node->stop;

# Nor can the owner of a database move ids ahead by having the server find the mark that
# it wrote itself, again and again.
$node = new_server('again', clock => 1, 'snowflake.layout' => 'twitter');
sql($node, 'CREATE ROLE owner LOGIN CREATEDB; CREATE DATABASE copy0 OWNER owner');
add_database($node, 'other');
sql([ $node, 'copy0', 'owner' ], 'CREATE EXTENSION snowflake; SELECT snowflake_nextval()');
my $original = 0;
my %ways = (
	'ALTER DATABASE' => [ 'postgres', 'ALTER DATABASE copy%1$d CONNECTION LIMIT %2$d' ],
	'DROP EXTENSION' => [ 'copy0', 'BEGIN; DROP EXTENSION snowflake; CREATE EXTENSION snowflake; ROLLBACK' ],
	'CREATE DATABASE' => [ 'postgres', 'CREATE DATABASE copy%2$d TEMPLATE copy%1$d' ]);
foreach my $way ('ALTER DATABASE', 'DROP EXTENSION', 'CREATE DATABASE')
{
	my ($database, $sql) = @{ $ways{$way} };

	foreach my $i (1 .. 5)
	{
		no warnings 'redundant';
		sql_succeeds([ $node, $database, 'owner' ], sprintf($sql, $original, $i), "$way, $i");
		$original = $i if $way eq 'CREATE DATABASE';
		sql_succeeds([ $node, "copy$original", 'owner' ], 'SELECT snowflake_nextval()', "$way, $i: the mark is found");
	}
	sql_succeeds(
		[ $node, 'other' ], 'SELECT * FROM snowflake_reserve(50000)',
		"$way: 50000 ids at once in another database");
}
$node->stop;

done_testing();
