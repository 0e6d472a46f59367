# Blocks of ids: an id of a block is made only once, across sessions, single ids, and a
# crash after which the same seconds pass again.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep time);

# The ids of blocks of all sizes, one by one
my $blocks = <<'EOC';
SELECT generate_series(first_id, last_id) FROM snowflake_reserve(1 + (random() * 3000)::integer);
SELECT generate_series(first_id, last_id) FROM generate_series(1, 20) AS i, snowflake_reserve(i % 4 + 1);
EOC

# A session that takes blocks gets half of max_ahead, and must wait until it is above the
# mark.
my $node = new_server(
	'product',
	clock => 1,
	'snowflake.layout' => 'snowflake lane:1',
	'snowflake.max_wait' => '10s');
my $began = time;
my (@all, %errors);
foreach my $round (1 .. 2)
{
	my @collectors = (
		start_collectors($node, 4, sql => $blocks),
		start_collectors($node, 2));
	sleep 1.5;
	wait_for_lines(100_000, map { $_->{ids} } @collectors) if $round == 1;
	$node->stop('immediate');
	start_with_clock($node, $began - time);
	%errors = (%errors, %{ stop_collectors(@collectors) });
	push @all, @collectors;
}
my ($ids, $duplicates) = count_duplicates(@all);
is($duplicates, 0, 'no id is made twice');
cmp_ok($ids, '>', 100_000, 'many ids were made');
is(join(' ', %errors), '', 'no errors');
$node->stop;

# A millisecond has 16 ids, of which blocks leave two to others.  Half of max_ahead
# bounds what one call may have.
$node = new_server(
	'narrow',
	'snowflake.layout' => 'time:40 worker:5 sequence:4',
	'snowflake.max_wait' => '100ms');
is( $node->safe_psql(
		'postgres', 'SELECT sum(last_id - first_id + 1), count(*) BETWEEN 1428 AND 1440 FROM snowflake_reserve(20000)'),
	'20000|t',
	'a block is as large as a tick allows');
my ($code, $message) = sqlstate_of($node, 'SELECT count(*) FROM snowflake_reserve(1000000)');
is($code, '22023', 'a call for more ids than it can ever get is an error');
like($message, qr/allow at most 36414 ids in one call/, 'the error states the limit');
($code, $message) =
  sqlstate_of($node, 'SELECT count(*) FROM snowflake_reserve(30000) AS a, snowflake_reserve(30000) AS b');
is($code, 'SF001', 'a call for more ids than max_ahead allows is an error');
$node->append_conf('postgresql.conf', "snowflake.max_wait = '1h'");
$node->reload;
my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query(
	"SET snowflake.max_wait = '1h'; SET statement_timeout = '1s'; SELECT count(*) FROM snowflake_reserve(1000000);");
like(
	$session->{stderr}, qr/canceling statement due to statement timeout/,
	'a call that waits for the clock can be canceled');
$session->quit;
$node->stop;

# the layout must have consecutive ids
foreach my $layout ('sonyflake', 'snowflake sequence:9 tag:3', 'time:41 worker:5 lane:6')
{
	$node = new_server('layout_' . length $layout, 'snowflake.layout' => $layout);
	($code, $message) = sqlstate_of($node, 'SELECT * FROM snowflake_reserve(1)');
	is($code, '22023', "no blocks in the layout $layout");
	like($message, qr/last field of the layout ".*" must be "sequence"/, 'with the reason');
	$node->stop;
}

done_testing();
