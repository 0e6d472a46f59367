# Blocks of ids: how many a call gets, and in which layouts.  That an id of a block is made
# only once is seen in 008.

use SnowflakeTest;

# A millisecond has 16 ids.  max_ahead and max_wait bound what one call may have.
my $node = new_server('narrow', 'snowflake.layout' => 'time:40 worker:5 sequence:4', 'snowflake.max_wait' => '100ms');
sql_is(
	$node, 'SELECT sum(last_id - first_id + 1), count(*) BETWEEN 1250 AND 1260 FROM snowflake_reserve(20000)',
	'20000|t', 'a block is as large as a tick allows');
sql_fails(
	$node, 'SELECT count(*) FROM snowflake_reserve(1000000)', '22023',
	'a call for more ids than it can ever get is an error', qr/allow at most 41616 ids in one call/);
sql_fails(
	$node, 'SELECT count(*) FROM snowflake_reserve(40000) AS a, snowflake_reserve(40000) AS b', 'SF001',
	'calls for more ids than half of max_ahead allows are an error');
$node->stop;

# the layout must have consecutive ids
foreach my $layout ('sonyflake', 'snowflake sequence:10 tag:3', 'time:41 worker:5 lane:6')
{
	$node = new_server('layout_' . length $layout, 'snowflake.layout' => $layout);
	sql_fails(
		$node, 'SELECT * FROM snowflake_reserve(1)', '22023', "no blocks in the layout $layout",
		qr/last field of the layout ".*" must be "sequence"/);
	$node->stop;
}

done_testing();
