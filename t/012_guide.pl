# The statements of the guides and of the README's first example, as they stand
# there, section by section.  What stands behind a statement after a comment
# sign is what it returns.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('guide', TimeZone => 'UTC', preload => 1);

# Run SQL, and compare what is said to come out.
sub run_sql
{
	my ($node, $name, $sql) = @_;
	my $answers = 0;

	# the answer follows in a line of its own
	$answers++ while $sql =~ s/;[ \t]+-- (.+)$/;\n\\echo said: $1/m;
	my ($ret, $out, $err) = $node->psql('postgres', $sql, on_error_stop => 1);
	is($ret, 0, "$name: statements run") or diag($err);
	my @lines = split /\n/, $out;
	foreach my $i (1 .. $#lines)
	{
		is($lines[ $i - 1 ], $1, "$name: $1") if $lines[$i] =~ /^said: (.*)/;
	}
	is(scalar(grep { /^said: / } @lines), $answers, "$name: all $answers answers");
	return;
}

foreach my $section (
	map { split /^(?=## )/m, slurp_file($_) } 'doc/guide.md', 'doc/registry.md', 'doc/scale.md',
	'doc/monitoring.md')
{
	my ($name) = $section =~ /^## (.*)/ or next;
	my $sql = join '', $section =~ /^```sql\n(.*?)^```/msg;
	run_sql($node, $name, $sql) if $sql ne '';

	# what needs a layout of its own
	if (my ($layout, $other_sql) = $section =~ /^```sql with the layout (.*?)\n(.*?)^```/ms)
	{
		my $other = new_server('other', 'snowflake.layout' => $layout);
		run_sql($other, "$name, layout $layout", $other_sql);
		$other->stop;
	}
}
$node->safe_psql('postgres', 'DROP TABLE orders CASCADE');
my ($first) = slurp_file('README.md') =~ /^```sql\n(CREATE EXTENSION.*?)^```/ms;
$node->safe_psql('postgres', 'DROP EXTENSION snowflake CASCADE');
$first =~ s/ +-- \d+$//m;
run_sql($node, 'README', $first);

# without the extension
$node->safe_psql(
	'postgres',
	'DROP EXTENSION snowflake CASCADE; DROP EXTENSION snowflake_registry; CREATE EXTENSION snowflake_registry');
foreach my $section (split /^(?=## )/m, slurp_file('doc/managed.md'))
{
	my ($name) = $section =~ /^## (.*)/ or next;
	my $sql = join '', $section =~ /^ *```sql\n(.*?)^ *```/msg;
	run_sql($node, "managed: $name", $sql) if $sql ne '';
}
$node->stop;

done_testing();
