# What tools and people do to schemas: the extension stays complete or disappears
# completely, and no id is made twice, even if the clock is set back in between.  All of
# it is done by an owner of the database who is not a superuser.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('schemas', clock => 1, 'snowflake.max_ahead' => -1);
$node->safe_psql('postgres', 'CREATE ROLE shop LOGIN');
my @owner = (extra_params => [ '--username' => 'shop' ]);

# What is left of the extension: itself, a function, and its schema
my $parts = q{
SELECT (SELECT count(*) FROM pg_extension WHERE extname = 'snowflake'),
	(SELECT count(*) FROM pg_proc WHERE proname = 'snowflake_id' AND pronargs = 0),
	(SELECT count(*) FROM pg_namespace WHERE nspname = 'snowflake_internal')};

# All objects outside the extension's own schema that are not functions
my $listed = q{
SELECT count(*) FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e' AND classid <> 'pg_proc'::regclass
	AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake')
	AND (pg_identify_object(classid, objid, 0)).identity !~ '^snowflake_internal'};

# Create a database for the owner, with the extension in a schema, and tables that use
# it.
sub new_database
{
	my ($name, $schema, $path) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $name OWNER shop");
	$node->safe_psql(
		$name, "
CREATE SCHEMA IF NOT EXISTS $schema;
CREATE EXTENSION snowflake SCHEMA $schema;
CREATE TABLE qualified (id bigint PRIMARY KEY DEFAULT $schema.snowflake_id());
ALTER DATABASE $name SET search_path = $path;
SET search_path = $path;
CREATE TABLE unqualified (id bigint PRIMARY KEY DEFAULT snowflake_nextval());", @owner);
}

# The extension in a schema of its own
new_database('own', 'ids', 'public, ids');
is($node->safe_psql('own', $listed, @owner), 0, 'the schema has only functions');
is( $node->safe_psql(
		'own',
		'INSERT INTO unqualified SELECT FROM generate_series(1, 10); SET search_path = pg_catalog;
INSERT INTO public.qualified SELECT FROM generate_series(1, 10);
INSERT INTO public.unqualified DEFAULT VALUES;
SELECT (SELECT count(*) FROM public.qualified), (SELECT count(*) FROM public.unqualified)',
		@owner),
	'10|11',
	'defaults do not depend on the path');

# Ways to drop objects, and what is left afterwards
my $step = 0;
foreach my $way (
	[ 'public', 'DROP OWNED BY shop', '0|0|0' ],
	[ 'public', 'DROP SCHEMA public CASCADE; CREATE SCHEMA public', '0|0|0' ],
	[ 'ids', 'DROP SCHEMA public CASCADE; CREATE SCHEMA public', '1|1|1' ],
	[ 'ids', 'DROP SCHEMA ids CASCADE', '0|0|0' ],
	[ 'ids', 'DROP OWNED BY shop CASCADE', '0|0|0' ],
	[ 'public', 'DROP EXTENSION snowflake CASCADE', '0|0|0' ])
{
	my ($schema, $sql, $left) = @$way;
	my $name = 'taken' . $step++;
	my $then =
	  $left eq '1|1|1' ? '' : "CREATE SCHEMA IF NOT EXISTS $schema; CREATE EXTENSION snowflake SCHEMA $schema;";

	new_database($name, $schema, "public, $schema");
	my $make_ids = "SELECT $schema.snowflake_id() FROM generate_series(1, 1000)";
	my %seen = map { $_ => 1 } split /\n/, $node->safe_psql($name, $make_ids, @owner);
	$node->safe_psql($name, $sql, @owner);
	is($node->safe_psql($name, $parts, @owner), $left, "$sql, extension in $schema: it is complete or gone");

	# let the same seconds pass again
	set_clock($node, -2 * $step);
	my @again = split /\n/, $node->safe_psql($name, "$then $make_ids", @owner);
	is(scalar @again, 1000, 'ids are made');
	is(scalar(grep { $seen{$_} } @again), 0, 'no id is made twice');
}

# Dropping only a part of the extension is refused.
new_database('part', 'ids', 'public, ids');
foreach my $sql (
	'DROP SEQUENCE snowflake_internal.mark CASCADE',
	'DROP MATERIALIZED VIEW snowflake_internal.guard CASCADE',
	'DROP SCHEMA snowflake_internal CASCADE',
	'DROP FUNCTION ids.snowflake_id() CASCADE')
{
	my ($code) = sqlstate_of($node, $sql, database => 'part', user => 'shop');
	isnt($code, '00000', "$sql: refused");
	is($node->safe_psql('part', $parts, @owner), '1|1|1', 'the extension stays complete');
}
$node->stop;

done_testing();
