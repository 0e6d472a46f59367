# Masking is a permutation.  That of 2^63 numbers cannot be looked at as a
# whole; that of a build with 15 bits can.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('small', mutant => 'masks 15 bits');

foreach my $arguments ("'k'", "sha256('another key'), 'tweak'")
{
	is( $node->safe_psql(
			'postgres', qq{
SELECT count(DISTINCT masked), min(masked), max(masked),
	count(*) FILTER (WHERE snowflake_unmask(masked, $arguments) <> id) AS not_read_back,
	count(*) FILTER (WHERE masked = id) < 10 AS changed
FROM (SELECT id, snowflake_mask(id, $arguments) AS masked FROM generate_series(0, 32767) AS id) AS m}),
		'32768|0|32767|0|t',
		"a permutation of all numbers: $arguments");
}
$node->stop;

done_testing();
