# Ids are evenly distributed modulo any number, even when few are made: chi-square at
# the 0.1% level, for ids at fixed and at irregular intervals.

use FindBin;
use lib "$FindBin::RealBin/..";
use SnowflakeTest;

# 0.1% points of the chi-square distribution with n - 1 degrees of freedom
my %critical = (
	2 => 10.828,
	5 => 18.467,
	10 => 27.877,
	16 => 37.697,
	100 => 148.230,
	1024 => 1168.497);
my $sample = 20480;

# Return the moduli in which the ids of a sample are uneven.
sub uneven
{
	my ($node, $sample_query) = @_;
	my $query = "CREATE TEMP TABLE sample AS $sample_query;\n";

	$query .= qq{
SELECT $_, sum(power(coalesce(count, 0) - $sample / $_.0, 2)) / ($sample / $_.0)
FROM generate_series(0, $_ - 1) AS i LEFT JOIN
	(SELECT id % $_ AS i, count(*) FROM sample GROUP BY 1) AS c USING (i);
} foreach sort { $a <=> $b } keys %critical;
	my %chi_square =
	  map { split /\|/ } split /\n/, sql($node, $query);
	return grep { $chi_square{$_} > $critical{$_} } keys %critical;
}

# An even sample exceeds one of the points in up to 6 of 1000 cases.  It counts as
# uneven in a modulus if that happens three times in a row, which chance does once in
# 10^9 (for each modulus and kind of sample).
sub is_even
{
	my ($node, $name, $sample_query) = @_;
	my @suspects = keys %critical;

	foreach (1 .. 3)
	{
		my %uneven = map { $_ => 1 } uneven($node, $sample_query);
		@suspects = grep { $uneven{$_} } @suspects;
		last if !@suspects;
	}
	is("@suspects", '', $name);
	return;
}

# The clock stands still except that each reading moves it on by a fixed time, and
# making an id takes one reading, unless the mark is written.  Since ids only increase,
# each start is on a later day.
my $day = 0;

sub start_with_spacing
{
	my ($node, $ms) = @_;

	$node->stop;
	set_clock($node, ++$day * 86400, $ms * 1000);
	start_with_clock($node);
	return;
}

my $fixed = "SELECT snowflake_nextval() AS id FROM generate_series(1, $sample)";
my $node = new_server('spaced', clock => 1);
foreach my $ms (1, 6, 11)
{
	start_with_spacing($node, $ms);
	sql_is(
		$node, qq{
SELECT mode() WITHIN GROUP (ORDER BY spacing), count(*) FILTER (WHERE spacing = interval '$ms ms') > 0.98 * count(*)
FROM (SELECT snowflake_timestamp(id) - lag(snowflake_timestamp(id)) OVER (ORDER BY id) AS spacing FROM ($fixed) AS s) AS t},
		sprintf('00:00:00.%03d|t', $ms), "ids are made every $ms ms");
	is_even($node, "ids every $ms ms are even", $fixed);
}

# The same test finds that ids are uneven if each tick starts with sequence 0.
$node->append_conf('postgresql.conf', 'snowflake.sequence_start = zero');
start_with_spacing($node, 6);
cmp_ok(scalar(uneven($node, $fixed)), '>=', 5, 'with sequence_start = zero they are not');
$node->stop;

# Eight sessions that make an id about every 4 ms, in real time.
$node = new_server('irregular');
sql($node, 'CREATE UNLOGGED TABLE ids (id bigint PRIMARY KEY)');
foreach my $try (1 .. 3)
{
	sql($node, 'TRUNCATE ids');
	run_clients(
		$node, '--client=8 --jobs=2 --protocol=prepared --transactions=' . $sample / 8,
		"irregular ids, try $try",
		"\\set us random(0, 7000)\n\\sleep :us us\nINSERT INTO ids VALUES (snowflake_nextval())");
	my @uneven = uneven($node, 'SELECT id FROM ids');
	next if @uneven && $try < 3;
	is("@uneven", '', 'ids at irregular times are even');
	last;
}

done_testing();
