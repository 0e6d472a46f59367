# Upgrades: version 1.0, updated to the newest version, equals a fresh install of that
# version, object by object, and so does one updated to a version to come, of each of our
# extensions.  That the comparison finds differences is tried with a version 99.0 that
# introduces some.

use Cwd qw(abs_path);
use SnowflakeTest;

my @extensions = qw(snowflake snowflake_adopt snowflake_registry snowflake_sql);

# Describe all objects of an extension as text: definition, privileges and comment.
my $objects = <<'EOC';
WITH member AS (
	SELECT classid, objid FROM pg_depend
	WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
		AND refobjid = (SELECT oid FROM pg_extension WHERE extname = :'extension'))
SELECT identity || E'\n' || coalesce(definition, '') || E'\n' || coalesce(acl, '') || E'\n' || coalesce(comment, '') AS object
FROM (
	SELECT (pg_identify_object(classid, objid, 0)).identity AS identity,
		CASE classid
			WHEN 'pg_proc'::regclass THEN pg_get_functiondef(objid)
			WHEN 'pg_class'::regclass THEN
				coalesce(pg_get_viewdef(objid), '') || (SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod)
					|| coalesce(' ' || col_description(attrelid, attnum), ''), ', ' ORDER BY attnum)
				FROM pg_attribute WHERE attrelid = objid AND attnum > 0)
				|| (SELECT relkind::text || relpersistence::text FROM pg_class WHERE oid = objid)
				|| coalesce((SELECT row(seqtypid::regtype, seqstart, seqincrement, seqmax, seqmin, seqcache, seqcycle)::text
				FROM pg_sequence WHERE seqrelid = objid), '')
		END AS definition,
		CASE classid
			WHEN 'pg_proc'::regclass THEN (SELECT proacl::text FROM pg_proc WHERE oid = objid)
			WHEN 'pg_class'::regclass THEN (SELECT relacl::text FROM pg_class WHERE oid = objid)
			WHEN 'pg_namespace'::regclass THEN (SELECT nspacl::text FROM pg_namespace WHERE oid = objid)
		END AS acl,
		obj_description(objid, classid::regclass::text) AS comment
	FROM member) AS described
UNION ALL
SELECT 'dumped: ' || (SELECT string_agg(c.relname, ', ' ORDER BY c.relname) FROM unnest(extconfig) AS config JOIN pg_class AS c ON c.oid = config)
FROM pg_extension WHERE extname = :'extension'
ORDER BY 1
EOC

my $node = new_server('node');

# Describe the objects of an extension in a new database, after some statements.
sub objects_of
{
	my ($database, $extension, @statements) = @_;

	sql($node, "CREATE DATABASE $database");
	$node->safe_psql($database, $_) foreach @statements;
	return $node->safe_psql($database, $objects =~ s/:'extension'/'$extension'/gr);
}

my $fresh = objects_of('fresh', 'snowflake', 'CREATE EXTENSION snowflake');
cmp_ok(scalar(my @lines = $fresh =~ /^(?:public\.)?snowflake_/mg), '>', 40, 'there are objects to compare');
is( objects_of(
		'updated', 'snowflake', "CREATE EXTENSION snowflake VERSION '1.0'", 'SELECT snowflake_nextval()',
		'ALTER EXTENSION snowflake UPDATE'),
	$fresh,
	'1.0, updated to the newest version, equals a fresh install');
sql_is(
	[ $node, 'updated' ],
	"SELECT extversion = library_version FROM snowflake_status(), pg_extension WHERE extname = 'snowflake'", 't',
	'its version is that of the library');
sql_is($node, <<'EOC', '', 'each older version can be updated to the newest');
SELECT source FROM pg_extension_update_paths('snowflake'), pg_available_extensions
WHERE name = 'snowflake' AND target = default_version AND path IS NULL
EOC

# A future version, in a copy of the extension's directory, where a server can be told to
# look for it, as for mutants

if (!can_use_mutants())
{
	$node->stop;
	done_testing();
	exit;
}
my $settings = slurp_file($ENV{TEMP_CONFIG});
my $stage = stage_directory();
my $copy = abs_path(PostgreSQL::Test::Utils::tempdir()) . '/stage';
system_or_bail('cp', '-r', $stage, $copy);
my ($dir) = glob "$copy/usr/share/postgresql/*/extension";
my $script = slurp_file("$dir/snowflake--1.0.sql");

sub write_file
{
	my ($name, $content) = @_;
	unlink "$dir/$name";
	append_to_file("$dir/$name", $content);
	return;
}

# a version to come that changes nothing in the database
foreach my $extension (@extensions)
{
	write_file("$extension--1.1.sql", slurp_file("$dir/$extension--1.0.sql"));
	write_file("$extension--1.0--1.1.sql", '');
}
$node->append_conf('postgresql.conf', $settings =~ s/\Q$stage\E/$copy/gr);
$node->reload;
foreach my $extension (@extensions)
{
	my @before = $extension eq 'snowflake_adopt' ? 'CREATE EXTENSION snowflake' : ();
	my $fresh_one = objects_of("fresh_$extension", $extension, @before, "CREATE EXTENSION $extension VERSION '1.1'");

	cmp_ok(scalar(my @lines_of_one = $fresh_one =~ /\n/g), '>', 100, "$extension: there are objects to compare");
	is( objects_of(
			"updated_$extension", $extension, @before, "CREATE EXTENSION $extension VERSION '1.0'",
			"ALTER EXTENSION $extension UPDATE TO '1.1'"),
		$fresh_one,
		"$extension: 1.0, updated to 1.1, equals a fresh 1.1");
}

my $function = "CREATE FUNCTION snowflake_to_come() RETURNS bigint LANGUAGE sql AS 'SELECT 1';\n";
my $comment = "COMMENT ON FUNCTION snowflake_to_come() IS 'is to come';\n";
my $grant = "REVOKE EXECUTE ON FUNCTION snowflake_to_come() FROM PUBLIC;\n";
write_file('snowflake--99.0.sql', $script . $function . $comment . $grant);

$fresh = objects_of('fresh_99', 'snowflake', "CREATE EXTENSION snowflake VERSION '99.0'");
my %deltas = (
	'all of it' => $function . $comment . $grant,
	'no comment' => $function . $grant,
	'no grant' => $function . $comment,
	'nothing' => '',
	'another body' => $function =~ s/SELECT 1/SELECT 2/r . $comment . $grant);
my $number = 0;
foreach my $delta (sort keys %deltas)
{
	write_file('snowflake--1.0--99.0.sql', $deltas{$delta});
	my $updated = objects_of(
		'updated_' . $number++, 'snowflake', "CREATE EXTENSION snowflake VERSION '1.0'",
		"ALTER EXTENSION snowflake UPDATE TO '99.0'");
	$delta eq 'all of it'
	  ? is($updated, $fresh, 'a full update equals a fresh install')
	  : isnt($updated, $fresh, "an update with $delta differs from a fresh install");
}

done_testing();
