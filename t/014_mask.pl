# Masking is a permutation.  All 2^63 numbers cannot be tested, but those of a build
# with 15 bits can.

use SnowflakeTest;

my $node;
if (can_use_mutants())
{
	$node = new_server('small', mutant => 'masks 15 bits');

	foreach my $arguments ("'k'", "sha256('another key'), 'tweak'")
	{
		sql_is(
			$node, qq{
	SELECT count(DISTINCT masked), min(masked), max(masked),
		count(*) FILTER (WHERE snowflake_unmask(masked, $arguments) <> id) AS not_read_back,
		count(*) FILTER (WHERE masked = id) < 10 AS changed
	FROM (SELECT id, snowflake_mask(id, $arguments) AS masked FROM generate_series(0, 32767) AS id) AS m},
			'32768|0|32767|0|t', "masking permutes all numbers: $arguments");
	}
	$node->stop;

	$node = new_server('plain', mutant => 'has no OpenSSL');
	sql_fails($node, "SELECT snowflake_mask(1, 'key')", '0A000', 'without OpenSSL, there is a clear error');
	$node->stop;
}

# A key or tweak in a text is the same in databases of any encoding.
my $mask = "SELECT snowflake_mask(42, U&'schl\\00fcssel', U&'\\00e9')";
my %masks;
$node = new_server('encodings');
foreach my $encoding ('UTF8', 'LATIN1', 'EUC_JIS_2004')
{
	sql($node, "CREATE DATABASE $encoding TEMPLATE template0 ENCODING '$encoding' LC_COLLATE 'C' LC_CTYPE 'C'");
	sql([ $node, lc $encoding ], 'CREATE EXTENSION snowflake');
	$masks{$encoding} = $node->safe_psql(lc $encoding, $mask);
}
is($masks{$_}, $masks{UTF8}, "masks are the same in $_ and UTF-8") foreach 'LATIN1', 'EUC_JIS_2004';
$node->stop;

done_testing();
