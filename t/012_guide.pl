# The statements of README and of the pages in doc, as they stand there, section by
# section.  What stands behind a statement after a comment sign is what it returns: the
# last of its rows or, in lines of their own that begin with four blanks, all of them.
# "ERROR" and an SQLSTATE is how it fails.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use List::Util qw(max);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('guide', TimeZone => 'UTC', preload => 1);
my $others = 0;

# Run SQL, and compare what is said to come out.
sub run_sql
{
	my ($node, $database, $name, $sql) = @_;
	my @answers;

	# what comes out is followed by the number of its answer
	$sql =~ s{^(.*?;)((?:[ \t]+-- .+|\n {4}-- .+)+)$}{
		my ($statement, $comment) = ($1, $2);
		push @answers, join("\n", $comment =~ /^[ \t]+-- (.+)$/mg);
		$statement = "\\set ON_ERROR_STOP 0\n$statement\n\\set ON_ERROR_STOP 1\n\\echo ERROR :SQLSTATE"
		  if $answers[-1] =~ /^ERROR \w{5}$/;
		"$statement\n\\echo answer $#answers";
	}gme;

	my ($ret, $out, $err) = $node->psql($database, $sql, on_error_stop => 1);
	is($ret, 0, "$name: statements run") or diag($err);
	my @lines = split /\n/, $out;
	foreach my $i (1 .. $#lines)
	{
		next unless $lines[$i] =~ /^answer (\d+)$/;
		my $answer = $answers[$1];
		my $first = max($i - split(/\n/, $answer), 0);
		is(join("\n", @lines[ $first .. $i - 1 ]), $answer, "$name: " . $answer =~ s/\n.*/ .../sr);
	}
	is(scalar(grep { /^answer \d+$/ } @lines), scalar(@answers), "$name: all " . @answers . ' answers');
	return;
}

foreach my $section (
	map  { split /^(?=## )/m, slurp_file($_) } 'doc/reference.md', 'doc/guide.md',
	grep { !/reference|guide|managed/ } glob 'doc/*.md')
{
	my ($name) = $section =~ /^## (.*)/ or next;
	my $sql = join '', $section =~ /^```sql\n(.*?)^```/msg;
	run_sql($node, 'postgres', $name, $sql) if $sql ne '';

	# what needs a layout of its own
	while ($section =~ /^```sql with the layout (.*?)\n(.*?)^```/msg)
	{
		my ($layout, $other_sql) = ($1, $2);
		my $other = new_server('other' . ++$others, 'snowflake.layout' => $layout);
		run_sql($other, 'postgres', "$name, layout $layout", $other_sql);
		$other->stop;
	}
}

# The reference has everything that users may call or set, and every SQLSTATE.
my $reference = slurp_file('doc/reference.md');
my @functions = split /\n/, $node->safe_psql('postgres', <<'EOC');
SELECT DISTINCT proname
FROM pg_depend JOIN pg_proc ON objid = pg_proc.oid
WHERE classid = 'pg_proc'::regclass AND deptype = 'e' AND pronamespace <> 'snowflake_internal'::regnamespace
	AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake')
EOC
cmp_ok(scalar(@functions), '>', 30, 'functions');
is_deeply([ grep { $reference !~ /^\| `\Q$_\E\(.*\|$/m } @functions ], [], 'all of them are in the reference');

my @settings = split /\n/,
  $node->safe_psql('postgres', "SELECT name FROM pg_settings WHERE name LIKE 'snowflake.%'");
cmp_ok(scalar(@settings), '>=', 10, 'settings');
is_deeply([ grep { $reference !~ /^\| `\Q$_\E` \|.*\|$/m } @settings ], [], 'all of them are in the reference');

my @presets = slurp_file('src/layout.c') =~ /^\t\{"([\w-]+)", "time:/mg;
cmp_ok(scalar(@presets), '>=', 12, 'presets');
is_deeply([ grep { $reference !~ /^\| `\Q$_\E` \| time:/m } @presets ], [], 'all of them are in the reference');

chomp(my $include = qx("$ENV{PG_CONFIG}" --includedir-server));
my %sqlstate;
foreach (split /\n/, slurp_file("$include/utils/errcodes.h") . slurp_file('src/errors.h'))
{
	$sqlstate{$1} = $2 =~ tr/',//dr if /^#define (ERRCODE_\w+)\s+MAKE_SQLSTATE\(([^)]*)\)/;
}
my %raised;
foreach (map { slurp_file($_) } glob('snowflake.c src/*.c'))
{
	$raised{$1} = 1 while /\b(ERRCODE_\w+)/g;
}
foreach (slurp_file('snowflake--1.0.sql'))
{
	# macros of class 40 have a longer name than their condition
	$raised{ ($1 eq 'serialization_failure' ? 'ERRCODE_T_R_' : 'ERRCODE_') . uc $1 } = 1 while /\bRAISE (\w+) USING\b/g;
}
cmp_ok(scalar(keys %raised), '>', 20, 'kinds of errors');
my ($errors) = $reference =~ /^## Errors\n(.*?)^## /ms;
is_deeply(
	[ grep { !defined $sqlstate{$_} || $errors !~ /`$sqlstate{$_}`/ } sort keys %raised ],
	[], 'all of them are in the reference');

# as a newcomer would; the id is another one each time
$node->safe_psql('postgres', 'CREATE DATABASE newcomer');
my $first = join '', slurp_file('README.md') =~ /^```sql\n(.*?)^```/msg;
is($first =~ s/(RETURNING id;) +-- \d+$/$1/m, 1, 'README shows an id');
run_sql($node, 'newcomer', 'README', $first);

# without the extension
$node->safe_psql(
	'postgres',
	'DROP EXTENSION snowflake CASCADE; DROP EXTENSION snowflake_registry; CREATE EXTENSION snowflake_registry');
foreach my $section (split /^(?=## )/m, slurp_file('doc/managed.md'))
{
	my ($name) = $section =~ /^## (.*)/ or next;
	my $sql = join '', $section =~ /^ *```sql\n(.*?)^ *```/msg;
	run_sql($node, 'postgres', "managed: $name", $sql) if $sql ne '';
}
$node->stop;

done_testing();
