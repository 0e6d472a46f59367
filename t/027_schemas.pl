# What tools and people do to schemas: the extension stays complete or disappears
# completely, and no id is made twice, even if the clock is set back in between and the
# server crashes.  All of it is done by an owner of the database who is not a superuser.

use SnowflakeTest;

# Create a server with the owner, on which all ids are in one order.
sub server_with_owner
{
	my ($name, %settings) = @_;
	my $node = new_server(
		$name, clock => 1, 'snowflake.layout' => 'snowflake lane:0', 'snowflake.max_ahead' => -1,
		'snowflake.max_set_back' => 0,
		synchronous_commit => 'on', %settings);

	sql($node, 'CREATE ROLE shop LOGIN');
	return $node;
}

my $node = server_with_owner('schemas');

# What is left of the extension: itself, a function, and its schema
my $parts = q{
SELECT (SELECT count(*) FROM pg_extension WHERE extname = 'snowflake'),
	(SELECT count(*) FROM pg_proc WHERE proname = 'snowflake_id' AND pronargs = 0),
	(SELECT count(*) FROM pg_namespace WHERE nspname = 'snowflake_internal')};

# Create a database for the owner, with the extension in a schema, and tables that use
# it.
sub new_database
{
	my ($name, $schema, $path) = @_;

	sql($node, "CREATE DATABASE $name OWNER shop");
	sql([ $node, $name, 'shop' ], "
CREATE SCHEMA IF NOT EXISTS $schema;
CREATE EXTENSION snowflake SCHEMA $schema;
CREATE TABLE qualified (id bigint PRIMARY KEY DEFAULT $schema.snowflake_id());
ALTER DATABASE $name SET search_path = $path;
SET search_path = $path;
CREATE TABLE unqualified (id bigint PRIMARY KEY DEFAULT snowflake_nextval());");
}

# Ways to drop objects, and what is left afterwards
my @ways = (
	[ 'public', 'DROP OWNED BY shop', '0|0|0' ],
	[ 'public', 'DROP SCHEMA public CASCADE; CREATE SCHEMA public', '0|0|0' ],
	[ 'ids', 'DROP SCHEMA public CASCADE; CREATE SCHEMA public', '1|1|1' ],
	[ 'ids', 'DROP SCHEMA ids CASCADE', '0|0|0' ],
	[ 'ids', 'DROP OWNED BY shop CASCADE', '0|0|0' ],
	[ 'public', 'DROP EXTENSION snowflake CASCADE', '0|0|0' ]);
my $step = 0;

# Go one of the ways in a new database, and create the extension again if it is gone.
# Then let the same seconds pass again, on request after a crash.  Returns what was left,
# and whether the ids made then are above the earlier ones.
sub take_away
{
	my ($way, $crash) = @_;
	my ($schema, $sql, $left) = @$way;
	my $name = 'taken' . $step++;

	new_database($name, $schema, "public, $schema");
	my $last = sql([ $node, $name, 'shop' ], "SELECT max($schema.snowflake_id()) FROM generate_series(1, 1000)");
	sql([ $node, $name, 'shop' ], $sql);
	my $found = sql([ $node, $name, 'shop' ], $parts);
	my $create = "CREATE SCHEMA IF NOT EXISTS $schema; CREATE EXTENSION snowflake SCHEMA $schema";
	my $above = "SELECT min($schema.snowflake_id()) > $last FROM generate_series(1, 1000)";

	sql([ $node, $name, 'shop' ], $create) if $found eq '0|0|0';
	# further back than all of this takes
	if ($crash)
	{
		restart_with($node, stop => 'immediate', clock => -10 * $step);
	}
	else
	{
		set_clock($node, -10 * $step);
	}
	return ($found, sql([ $node, $name, 'shop' ], $above));
}

foreach my $way (@ways)
{
	my ($schema, $sql, $left) = @$way;

	foreach my $crash (0, 1)
	{
		my $case = "$sql, extension in $schema" . ($crash ? ', crash' : '');
		my ($found, $above) = take_away($way, $crash);

		is($found, $left, "$case: it is complete or gone");
		is($above, 't', "$case: ids continue above the earlier ones");
	}
}

$node->stop;

if (with_mutants())
{
	my $mutant = 'forgets what was dropped';

	$node = server_with_owner('mutant', mutant => $mutant);
	foreach my $way (@ways[ 0, 3 ])
	{
		is((take_away($way, 1))[1], 'f', "mutant that $mutant: ids are below earlier ones ($way->[1])");
	}
	$node->stop;
}

done_testing();
