# Run the SQL of README and of the pages in doc, section by section, and compare the
# answers.  A comment at the end of a statement is the last row that it returns.  Comments
# on lines of their own, indented by four blanks, are all of its rows.  "ERROR" and an
# SQLSTATE mean that it fails with that.

use SnowflakeTest;

my $node = new_server('guide', TimeZone => 'UTC', preload => 1);
my $others = 0;

# The statements in a text, of plain blocks or those of a given kind.
sub statements
{
	my ($text, $kind) = @_;
	my $after = defined $kind ? " $kind" : '';

	return join '', $text =~ /^ *```sql\Q$after\E\n(.*?)^ *```/msg;
}

# Run SQL, and compare the answers.
sub run_sql
{
	my ($node, $database, $name, $sql) = @_;
	my (@answers, @has_all_rows);

	# print a line before and after each statement that has an answer
	$sql =~ s{^(.*?;)((?:[ \t]+-- .+|\n {4}-- .+)+)$}{
		my ($statement, $comment) = ($1, $2);
		push @answers, join("\n", $comment =~ /^[ \t]+-- (.+)$/mg);
		push @has_all_rows, $comment =~ /^\n/ ? 1 : 0;
		$statement = "\\set ON_ERROR_STOP 0\n$statement\n\\set ON_ERROR_STOP 1\n\\echo ERROR :SQLSTATE"
		  if $answers[-1] =~ /^ERROR \w{5}$/;
		"\\echo rows $#answers\n$statement\n\\echo answer $#answers";
	}gme;

	my ($ret, $out, $err) = $node->psql($database, $sql, on_error_stop => 1);
	is($ret, 0, "$name: statements run") or diag($err);
	foreach my $i (0 .. $#answers)
	{
		my ($rows) = $out =~ /^rows $i\n(.*?)^answer $i$/ms;
		my @rows = split /\n/, $rows // 'no answer';

		@rows = $rows[-1] if @rows && !$has_all_rows[$i];
		is(join("\n", @rows), $answers[$i], "$name: " . $answers[$i] =~ s/\n.*/ .../sr);
	}
	return;
}

foreach my $section (
	map  { split /^(?=## )/m, slurp_file($_) } 'doc/reference.md', 'doc/guide.md',
	grep { !/reference|guide|managed/ } glob 'doc/*.md')
{
	my ($name) = $section =~ /^## (.*)/ or next;
	my $sql = statements($section);
	run_sql($node, 'postgres', $name, $sql) if $sql ne '';

	# on a server that leases its worker id; 0 is set aside, as in the section
	$sql = statements($section, 'with a lease');
	if ($sql ne '')
	{
		my $registry = new_registry('registry');

		sql($registry, "SELECT snowflake_registry.reserve(0, 'the old server')");
		my $server = new_server('leasing', lease_from($registry, 'snowflake.registry_lease' => '9s'));
		$server->poll_query_until('postgres', "SELECT lease_state = 'held' FROM snowflake_status()");
		run_sql($server, 'postgres', $name, $sql);
		$_->stop foreach $server, $registry;
	}

	# what needs a layout of its own
	while ($section =~ /^```sql with the layout (.*?)\n(.*?)^```/msg)
	{
		my ($layout, $other_sql) = ($1, $2);
		my $other = new_server('other' . ++$others, 'snowflake.layout' => $layout);
		run_sql($other, 'postgres', "$name, layout $layout", $other_sql);
		$other->stop;
	}
}

run_sql($node, 'postgres', 'uuidv7.sql', slurp_file('doc/convert/uuidv7.sql'));

# The condition for readers that poll for new rows, beside a transaction that commits late.
my ($late) = statements(slurp_file('doc/guide.md') =~ s/^.*?^## Read new rows$//msr) =~ /(id > 0 AND id <= .*?);/s
  or BAIL_OUT('the guide has no condition for readers');
sql($node, 'CREATE TABLE outbox (id bigint PRIMARY KEY DEFAULT snowflake_id())');
my ($writer) = open_session($node);
$writer->query_safe('BEGIN');
my $late_id = $writer->query_safe('INSERT INTO outbox DEFAULT VALUES RETURNING id');
sql($node, "INSERT INTO outbox VALUES ($late_id + 1)");
# the transaction is as long as the test takes to get here, so give it time
(my $careful = $late) =~ s/10 seconds/10 minutes/ or BAIL_OUT('the guide has another interval');
my $rows = "SELECT count(*) FROM outbox WHERE $careful";
sql_is($node, $rows, 0, 'a reader with the condition of the guide reads no row too early');
$writer->query_safe('COMMIT');
$writer->quit;
# ten minutes later
$rows =~ s/now\(\)/(now() + interval '11 minutes')/;
sql_is($node, $rows, 2, 'and misses none');

# The reference has everything that users may call or set; t/world/errors.pl looks for errors.
my $reference = slurp_file('doc/reference.md');
my @functions = split /\n/, sql($node, <<'EOC');
SELECT DISTINCT proname
FROM pg_depend JOIN pg_proc ON objid = pg_proc.oid
WHERE classid = 'pg_proc'::regclass AND deptype = 'e' AND pronamespace <> 'snowflake_internal'::regnamespace
	AND refobjid IN (SELECT oid FROM pg_extension WHERE extname IN ('snowflake', 'snowflake_adopt'))
	AND pronamespace <> 'snowflake_adopt'::regnamespace
EOC
cmp_ok(scalar(@functions), '>', 20, 'functions');
is_deeply([ grep { $reference !~ /^\| [^|]*`\Q$_\E\(/m } @functions ], [], 'all of them are in the reference');

my @settings = split /\n/,
  sql($node, "SELECT name FROM pg_settings WHERE name LIKE 'snowflake.%'");
cmp_ok(scalar(@settings), '>=', 10, 'settings');
is_deeply([ grep { $reference !~ /^\| `\Q$_\E` \|.*\|$/m } @settings ], [], 'all of them are in the reference');

my @presets = slurp_file('src/layout.c') =~ /^\t\{"([\w-]+)", "time:/mg;
cmp_ok(scalar(@presets), '>=', 12, 'presets');
is_deeply([ grep { $reference !~ /^\| `\Q$_\E` \| time:/m } @presets ], [], 'all of them are in the reference');

# The layouts of other generators can be read, and have not ended.
my @others = slurp_file('doc/coming-from.md') =~ /^\| [^|]+ \| `(\S+ .*?epoch:\S+)` \|$/mg;
cmp_ok(scalar(@others), '>=', 6, 'layouts of other generators');
foreach my $layout (@others)
{
	is(sql($node, "SELECT last_instant > '2080-01-01' FROM snowflake_capacity('$layout')"), 't', "layout $layout");
}

# as a newcomer would; the id is another one each time
sql($node, 'CREATE DATABASE newcomer');
my $first = statements(slurp_file('README.md'));
my ($id, $fields) = $first =~ /RETURNING id; +-- (\d+)\n.*? \\gx\n((?:-- [^\n]+\n)+)/s
  or BAIL_OUT('README shows no id');
run_sql($node, 'newcomer', 'README', $first =~ s/(RETURNING id;) +-- \d+$/$1/mr);
is( $node->safe_psql('newcomer', "SELECT (snowflake_decode($id)).* \\gx") . "\n", $fields =~ s/^-- (\w+) +\| ?/$1|/mgr,
	'README shows its fields');

# without the extension
sql($node, 'DROP EXTENSION snowflake CASCADE; DROP EXTENSION snowflake_registry; CREATE EXTENSION snowflake_registry');
foreach my $section (split /^(?=## )/m, slurp_file('doc/managed.md'))
{
	my ($name) = $section =~ /^## (.*)/ or next;
	my $sql = statements($section);
	run_sql($node, 'postgres', "managed: $name", $sql) if $sql ne '';
}

done_testing();
