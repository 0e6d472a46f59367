# Two sessions adopt the same column at once: the second one waits, and finds
# what the first has done.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('adopt', client_min_messages => 'warning');

foreach my $end ('COMMIT', 'ROLLBACK')
{
	$node->safe_psql('postgres', 'CREATE TABLE adopted (id serial PRIMARY KEY, v int)');
	my $first = $node->background_psql('postgres');
	my $second = $node->background_psql('postgres');
	my $pid = $second->query_safe('SELECT pg_backend_pid()');
	$first->query_safe(q{BEGIN; CALL snowflake_adopt('adopted', 'id')});
	$second->query_until(qr/begun/, qq{\\echo begun\nCALL snowflake_adopt('adopted', 'id');\n});
	ok( $node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_locks WHERE pid = $pid AND NOT granted"),
		"$end: the second one waits");
	$first->query_safe($end);
	$second->query_safe('SELECT 1');
	$_->quit foreach $first, $second;
	is( $node->safe_psql(
			'postgres',
			'INSERT INTO adopted DEFAULT VALUES; SELECT count(*) FILTER (WHERE id > 1000000), pg_typeof(max(id)) FROM adopted'
		),
		'1|bigint',
		"$end: the column makes ids");
	$node->safe_psql('postgres', 'DROP TABLE adopted; DROP SEQUENCE adopted_id_seq');
}
$node->stop;

done_testing();
