# Malicious roles.  One that may create objects in a schema plants functions, operators
# and types there with names that our scripts use; then a superuser calls all functions
# that are not written in C.  Nothing planted may run.  Another role creates in advance
# what an extension is about to create.

use SnowflakeTest;

my $scripts = join '', map { slurp_file($_) } 'snowflake--1.0.sql', 'registry/snowflake_registry--1.0.sql',
  'adopt/snowflake_adopt--1.0.sql',
  'sql-only/snowflake_sql--1.0.sql', 'doc/mask.sql';

# All words of the scripts; the catalogs tell which of them are functions and types.
my $words = join ',', do
{
	my %seen;
	grep { !$seen{$_}++ } $scripts =~ /\b[a-z_][a-z_0-9]*\b/g;
};

my $harm = <<'EOC';
CREATE FUNCTION public.harm(what pg_catalog.text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
	IF current_user <> 'mallory' THEN
		RAISE WARNING 'harm: %', what;
	END IF;
	IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
		ALTER ROLE mallory SUPERUSER;
	END IF;
	RETURN NULL;
END
$$;
CREATE TYPE public.caught AS (a integer);
CREATE FUNCTION public.create_harm(function pg_catalog.text, arguments pg_catalog.text, result pg_catalog.text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
	EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', function, arguments, result,
		format('BEGIN PERFORM public.harm(%L); RETURN%s; END', function || '(' || arguments || ')',
			CASE WHEN result LIKE 'SETOF %' THEN '' ELSE ' NULL' END));
-- a function with exactly these arguments exists, or such a function is not possible
EXCEPTION WHEN duplicate_function OR feature_not_supported OR invalid_function_definition OR datatype_mismatch OR undefined_object THEN
	NULL;
END
$$;
EOC

# Functions that match better if an argument has no type, or would be cast, including
# calls with the types of those in pg_catalog.
my $overloads = <<'EOC';
DO $$
DECLARE
	types CONSTANT text[] := '{text,bigint,integer,numeric,timestamptz,interval,regclass,anyelement,public.caught}';
	function record;
	name text;
BEGIN
	FOREACH name IN ARRAY '{text,bigint,integer,numeric,timestamptz,interval,regclass}'::text[] LOOP
		PERFORM public.create_harm('to_caught', name, 'public.caught');
		EXECUTE format('CREATE CAST (%1$s AS public.caught) WITH FUNCTION public.to_caught(%1$s) AS IMPLICIT', name);
	END LOOP;
	FOR function IN
		SELECT DISTINCT proname, oidvectortypes(proargtypes) AS arguments, pronargs,
			CASE WHEN proretset THEN 'SETOF ' ELSE '' END || prorettype::regtype AS result
		FROM pg_proc
		WHERE proname = ANY (string_to_array('WORDS', ',')) AND prokind <> 'a'
			AND pronamespace IN ('pg_catalog'::regnamespace, 'public'::regnamespace)
	LOOP
		PERFORM public.create_harm(function.proname, function.arguments, function.result);
		PERFORM public.create_harm(function.proname, array_to_string(array_fill('text'::text, ARRAY[function.pronargs::integer]), ', '),
			function.result);
		PERFORM public.create_harm(function.proname, overlay(function.arguments PLACING 'text' FROM strpos(function.arguments, arg) FOR length(arg)),
			function.result)
		FROM unnest(string_to_array(function.arguments, ', ')) AS arg;
		PERFORM public.create_harm(function.proname, a, function.result)
		FROM unnest(types) AS a WHERE function.pronargs = 1;
		PERFORM public.create_harm(function.proname, a || ', ' || b, function.result)
		FROM unnest(types) AS a, unnest(types) AS b WHERE function.pronargs = 2;
	END LOOP;
END
$$;
EOC

my $operators = <<'EOC';
DO $$
DECLARE
	types CONSTANT text[] := '{text,name,"char",boolean,bigint,integer,smallint,numeric,double precision,timestamptz,timestamp,date,interval,
		oid,regclass,regtype,regprocedure,regnamespace,regrole,uuid,text[],oid[]}';
	name text;
	operand record;
BEGIN
	FOR operand IN SELECT a, b FROM unnest(types) AS a, unnest(types) AS b LOOP
		PERFORM public.create_harm('harm_boolean', operand.a || ', ' || operand.b, 'boolean');
		PERFORM public.create_harm('harm_number', operand.a || ', ' || operand.b,
			CASE WHEN operand.b = 'interval' AND operand.a ~ '^(bigint|integer|numeric)$' THEN operand.b ELSE operand.a END);
		FOREACH name IN ARRAY '{=,<>,<,<=,>,>=,~,~~,+,-,*,/,||}'::text[] LOOP
			EXECUTE format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.%s)',
				name, operand.a, operand.b, CASE WHEN name ~ '^[-+*/|]' THEN 'harm_number' ELSE 'harm_boolean' END);
		END LOOP;
	END LOOP;
END
$$;
EOC

# Types that are found if public comes before pg_catalog in the search_path.
my $types = <<'EOC';
DO $$
DECLARE
	name text;
BEGIN
	FOR name IN
		SELECT typname FROM pg_type
		WHERE typnamespace = 'pg_catalog'::regnamespace AND typname = ANY (string_to_array('WORDS', ','))
			AND (typtype = 'b' OR typname = 'record')
	LOOP
		IF name = 'record' THEN
			CREATE TYPE public.record AS (a integer);
		ELSE
			EXECUTE format('CREATE DOMAIN public.%1$I AS pg_catalog.%1$I CHECK (public.harm(%2$L))', name, 'type ' || name);
		END IF;
	END LOOP;
END
$$;
EOC

# Functions with a default, which match a call as well.
my $defaults = <<'EOC';
DO $$
DECLARE
	function record;
BEGIN
	PERFORM public.create_harm('snowflake_restore_mark', 'a integer DEFAULT public.harm(''default'')::integer', 'void');
	FOR function IN
		SELECT proname, coalesce(nullif(oidvectortypes(proargtypes), '') || ', ', '') AS arguments,
			CASE WHEN proretset THEN 'SETOF ' ELSE '' END || prorettype::regtype AS result
		FROM pg_proc WHERE proname LIKE 'snowflake%' AND proowner <> 'mallory'::regrole
	LOOP
		PERFORM public.create_harm(function.proname, function.arguments || 'x name DEFAULT public.harm(''default'')::text', function.result);
	END LOOP;
END
$$;
EOC
s/WORDS/$words/ foreach $overloads, $types;

# The functions that are not written in C, with arguments to call them with.
my $table = q{'public.events'::pg_catalog.regclass};
my $instant = q{'2026-11-21 00:00:00+00'::pg_catalog.timestamptz};
my $later = q{'2026-11-23 00:00:00+00'::pg_catalog.timestamptz};
my $id = '5::bigint';
my $layout = q{'snowflake'::pg_catalog.text};
my $none = 'NULL::pg_catalog.text';
my $clock = 'pg_catalog.clock_timestamp()';
my %calls = (
	snowflake_between => [ "$id, $instant, $later", "$id, $instant, $later, $layout" ],
	snowflake_create_partitions => [
		"$table, '1 day'::interval, $instant, $later, 'UTC'::pg_catalog.text, $none",
		"$table, '6 hours'::interval, $later, '2026-11-24 00:00:00+00'::pg_catalog.timestamptz, 'UTC'::pg_catalog.text, $layout",
	],
	snowflake_from_text => [q{'1'::pg_catalog.text, 'hex'::pg_catalog.text}],
	snowflake_inspect => [ "$id, $none", "$id, $layout" ],
	snowflake_partitions => [ "$table, $none", "$table, $layout" ],
	snowflake_partitions_before => [ "$table, $later, $none", "$table, $later, $layout" ],
	snowflake_to_text => ["$id, 'hex'::pg_catalog.text"],
	snowflake_worker_id => [ $id, "$id, $layout" ]);
my @mask = map { "SELECT public.${_}_id($id, 'k'::pg_catalog.bytea, 't'::pg_catalog.text)" } 'mask', 'unmask';
my @statements = (
	'SELECT public.snowflake_nextval()',
	'SELECT * FROM public.snowflake_stat()',
	'SELECT * FROM public.snowflake_status()',
	'REFRESH MATERIALIZED VIEW snowflake_internal.guard',
	@mask,
	(   map {
			my $function = $_;
			map { "SELECT * FROM public.$function($_)" } @{ $calls{$function} }
		} sort keys %calls),
	(   map {
			my $options = "$_, false, false, '{*,noted.true_id}'::pg_catalog.text[], false";
			"CALL public.snowflake_adopt('public.$_'::pg_catalog.regclass, 'id'::pg_catalog.name, $options)"
		} 'true',
		'false'),
	q{CALL public.snowflake_adopt_all('public'::pg_catalog.regnamespace, false, false, '{other}'::pg_catalog.text[], '{*}'::pg_catalog.text[], false)}
);
my $no_tables = 'DROP TABLE IF EXISTS events, "true", "false", refers, "all", noted, other CASCADE';
my $tables = <<"EOC";
SET client_min_messages = error;
$no_tables;
CREATE TABLE events (id bigint) PARTITION BY RANGE (id);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (5) TO (10);
CREATE TABLE "true" (id serial PRIMARY KEY);
CREATE TABLE refers (id integer REFERENCES "true");
CREATE TABLE "false" (id bigserial PRIMARY KEY);
INSERT INTO "false" DEFAULT VALUES;
CREATE TABLE "all" (id serial PRIMARY KEY, parent integer REFERENCES "all");
CREATE TABLE noted (true_id integer, all_id integer, CHECK (true_id OPERATOR(pg_catalog.>) 0));
CREATE TABLE other (id serial PRIMARY KEY);
EOC

# durable settings of the edition in SQL need such a wal_level before PostgreSQL 17
my $node = new_server('hostile', wal_level => 'replica');
my $database = 'postgres';

sub as_mallory
{
	my ($sql) = @_;

	return sql([ $node, $database, 'mallory' ], $sql);
}

# Run statements as a role, by default the superuser.  Returns the errors.  Nothing
# planted may run.
sub no_harm
{
	my ($name, $sql, $role) = @_;
	my (undef, $messages) = sqlstate_of([ $node, $database, $role ], $sql);

	is(join("\n", $messages =~ /^.*(harm: .*)/mg), '', "$name: nothing planted runs");
	sql_is(
		$node, "SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = 'mallory'; ALTER ROLE mallory NOSUPERUSER",
		'f', "$name: the role does not become a superuser");
	return join "\n", $messages =~ /^.*(ERROR: .*)/mg;
}

# Prepare, and run statements as a superuser whose search_path is the default, or has
# pg_catalog after schemas in which others can create objects.
sub call_all
{
	my ($name, $prepare, @statements) = @_;

	foreach my $path ('public', 'public, pg_catalog, pg_temp')
	{
		sql([ $node, $database ], $prepare);
		is( no_harm("$name, path $path", join(";\n", "SET search_path = $path", @statements)), '',
			"$name, path $path: no errors");
	}
	return;
}

# The functions of an extension that users can call, and that are not written in C
sub functions_of
{
	my ($extension) = @_;

	return sql(
		[ $node, $database ], qq{
SELECT string_agg(DISTINCT proname, ' ' ORDER BY proname)
FROM pg_depend JOIN pg_proc ON pg_proc.oid = objid JOIN pg_language ON pg_language.oid = prolang
WHERE classid = 'pg_proc'::regclass AND refclassid = 'pg_extension'::regclass AND lanname <> 'c'
	AND pronamespace::regnamespace::text NOT IN ('snowflake_internal', 'snowflake_adopt')
	AND refobjid = (SELECT oid FROM pg_extension WHERE extname = '$extension')});
}

# The extension

sql([ $node, $database ], 'CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory');
is(functions_of('snowflake'), join(' ', sort keys %calls), 'the test calls all functions of the extension');
sql([ $node, $database ], $_) foreach 'CREATE EXTENSION snowflake_adopt', slurp_file('doc/mask.sql');
is(functions_of('snowflake_adopt'), 'snowflake_adopt snowflake_adopt_all', 'and of the one that converts tables');

sql([ $node, $database ], $tables);

as_mallory("SET search_path = pg_catalog;\n$harm$overloads$operators$types");
cmp_ok(
	sql([ $node, $database ], "SELECT count(*) FROM pg_catalog.pg_proc WHERE proname = 'snowflake_last_before'"),
	'>', 10, 'there are planted functions');
like(
	(sqlstate_of($node, "SET search_path = public, pg_catalog; SELECT format('x'::pg_catalog.text)"))[1],
	qr/harm: format\(text\)/, 'which would run if they were called');
sql($node, 'ALTER ROLE mallory NOSUPERUSER');
call_all('planted after', $tables, @statements);

sql([ $node, $database ], $no_tables);
is( no_harm(
		'created by a superuser',
		'DROP EXTENSION snowflake; CREATE EXTENSION snowflake; DROP EXTENSION snowflake_adopt; CREATE EXTENSION snowflake_adopt'
	),
	'',
	'the extension can be created');
call_all('planted before', $tables, @statements);

# the extension is trusted: a superuser runs its script on behalf of an ordinary role
sql([ $node, $database ], $no_tables);
sql([ $node, $database ],
	'DROP EXTENSION snowflake; DROP EXTENSION snowflake_adopt; ALTER SCHEMA public OWNER TO mallory; GRANT CREATE ON DATABASE postgres TO mallory'
);
is( no_harm('created by the role', 'CREATE EXTENSION snowflake; CREATE EXTENSION snowflake_adopt', 'mallory'), '',
	'the role can create the extensions');
call_all('created by the role', $tables, @statements);

# a call that matches two functions must fail
as_mallory("SET search_path = pg_catalog;\n$defaults");
no_harm('defaults', join(";\n", @statements));
sql([ $node, $database ], $no_tables);
like(
	no_harm('defaults, created', 'DROP EXTENSION snowflake; CREATE EXTENSION snowflake'), qr/is not unique/,
	'an ambiguous call fails');

# The owner of the schema renames it, and gives its name to another one with functions of
# the same names.

$database = 'renamed';
sql($node, "CREATE DATABASE $database OWNER mallory; ALTER ROLE mallory NOSUPERUSER");
as_mallory(
	"$harm CREATE SCHEMA hers; CREATE EXTENSION snowflake SCHEMA hers; CREATE EXTENSION snowflake_adopt SCHEMA hers");
my $rename = 'ALTER SCHEMA hers RENAME TO moved; CREATE SCHEMA hers; ' . sql([ $node, $database ], <<'EOC');
SELECT string_agg(format('CREATE %s hers.%I(%s)%s LANGUAGE plpgsql%s AS %L;',
	CASE prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END, proname, pg_get_function_arguments(oid),
	' RETURNS ' || pg_get_function_result(oid), CASE prokind WHEN 'f' THEN ' IMMUTABLE' END,
	format('BEGIN PERFORM public.harm(%L); RETURN%s; END', proname,
		CASE WHEN prokind = 'f' AND NOT proretset AND prorettype NOT IN ('record'::regtype, 'void'::regtype) THEN ' NULL' END)),
	E'\n')
FROM pg_proc WHERE pronamespace = 'hers'::regnamespace
EOC
as_mallory($rename);
like(
	(sqlstate_of([ $node, $database ], 'SELECT hers.snowflake_nextval()'))[1], qr/harm: snowflake_nextval/,
	'there are imposters');
sql($node, 'ALTER ROLE mallory NOSUPERUSER');
call_all('renamed', $tables, map { s/public\.snowflake/moved.snowflake/r } grep { !/mask_id/ } @statements);
sql_is(
	[ $node, $database ],
	q{SELECT column_default FROM information_schema.columns WHERE table_name = 'true' AND column_name = 'id'},
	'moved.snowflake_id()', 'an adopted key has the genuine default');

# While the extension is created, its script has to wait for a transaction that creates a
# schema of the same name.
$database = 'raced';
sql($node, "CREATE DATABASE $database OWNER mallory");
as_mallory("$harm CREATE SCHEMA hers");
my ($pause, $creation) =
  map { $node->background_psql($database, on_error_stop => 0, extra_params => [ '--username', 'mallory' ]) } 1 .. 2;
$pause->query_safe('BEGIN; CREATE SCHEMA snowflake_internal');
my $pid = $creation->query_safe('SELECT pg_backend_pid()');
begin_query($creation, 'CREATE EXTENSION snowflake SCHEMA hers;');
wait_until($node, $pid, "wait_event_type = 'Lock'", 'CREATE EXTENSION waits');
sql_succeeds(
	[ $node, $database ],
	"SET lock_timeout = '1s'; CREATE TEMP TABLE t (); CREATE SCHEMA others; DROP SCHEMA others;\nVACUUM pg_namespace",
	'meanwhile: others can create schemas and temporary tables');
my ($renamed) =
  sqlstate_of([ $node, $database, 'mallory' ], "BEGIN; SET lock_timeout = '1s'; $rename COMMIT");
$pause->query_safe('ROLLBACK');
$creation->query('SELECT 1');
is(take_errors($creation), '', 'meanwhile: CREATE EXTENSION succeeds');
is($renamed, '55P03', 'meanwhile: the schema cannot be renamed');
sql_is(
	[ $node, $database ], "SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'; ALTER ROLE mallory NOSUPERUSER",
	'f', 'meanwhile: the role does not become a superuser');
$_->quit foreach $creation, $pause;

# The owner of the database drops the extension while a statement makes ids, and puts
# relations of the same names in the place of the mark and its guard.

foreach my $mutant (undef, with_mutants() ? 'takes any schema' : ())
{
	my $swapped = $mutant ? new_server('swapped', mutant => $mutant) : $node;
	sql($swapped, 'CREATE ROLE mallory LOGIN') if $mutant;
	sql($swapped, 'CREATE DATABASE swapped OWNER mallory');
	sql([ $swapped, 'swapped', 'mallory' ], 'CREATE EXTENSION snowflake');
	my $statement =
	  $swapped->background_psql('swapped', on_error_stop => 0, extra_params => [ '--username', 'mallory' ]);
	my $pid = $statement->query_safe('SELECT pg_backend_pid()');
	begin_query($statement, 'SELECT count(snowflake_nextval()), count(pg_sleep(0.1)) FROM generate_series(1, 600);');
	wait_until($swapped, $pid, "wait_event = 'PgSleep'", 'a statement makes ids');
	sql([ $swapped, 'swapped', 'mallory' ], <<'EOC');
DROP EXTENSION snowflake;
CREATE SCHEMA snowflake_internal;
CREATE SEQUENCE snowflake_internal.mark;
CREATE MATERIALIZED VIEW snowflake_internal.guard AS SELECT 0::bigint AS bound, 0::bigint AS clock, 0::bigint AS database, 0::bigint AS system;
EOC

	if ($mutant)
	{
		sql_becomes_true(
			[ $swapped, 'swapped' ], 'SELECT bound > 0 FROM snowflake_internal.guard',
			"mutant that $mutant: writes to another relation");
		sql($swapped, "SELECT pg_cancel_backend($pid)");
	}
	else
	{
		$statement->query('SELECT 1');
		like(take_errors($statement), qr/snowflake mark does not exist/, 'without the extension no ids are made');
		sql_is([ $swapped, 'swapped' ], 'SELECT bound FROM snowflake_internal.guard', 0, 'and nothing is written');
	}
	$statement->quit;
	$swapped->stop if $mutant;
}

# SQL only: what is planted before or after

my $interval = "'1 minute'::interval";
my @sql_statements = (
	"SELECT public.snowflake_configure($layout, 1, 0, $interval, $interval)",
	'SELECT public.snowflake_nextval()',
	'SELECT public.snowflake_id()',
	'SELECT public.snowflake_currval()',
	'SELECT public.snowflake_status()',
	"SELECT public.snowflake_configure('snowflake lane:0 sequence:12 tag:3'::pg_catalog.text, 1, 0, $interval, $interval)",
	'SELECT public.snowflake_nextval(2)',
	"SELECT public.snowflake_advance(public.snowflake_first_from($clock))",
	(   map {
			my $arguments = $_;
			(   (map { "SELECT * FROM public.snowflake_$_($id$arguments)" } qw(decode timestamp worker_id)),
				(map { "SELECT public.snowflake_$_($instant$arguments)" } qw(first_from last_before)),
				"SELECT public.snowflake_between($id, $instant, $later$arguments)",
				map { "SELECT * FROM public.snowflake_$_(" . ($arguments =~ s/^, //r) . ')' } qw(layout capacity))
		} '',
		", $layout"),
	"SELECT public.snowflake_decode($id, 'time:41 lane:3 epoch:2026-01-01T00:00:00.500Z'::pg_catalog.text)",
	"SELECT public.snowflake_compose($instant, 0, 2, 0, 0, 5, 1)",
	"SELECT public.snowflake_compose($instant, $layout, 0, 2, 3, 1, 5, 0)",
	"SELECT public.snowflake_configure($layout, NULL::integer, 0, $interval, $interval, true)",
	("SELECT public.snowflake_lease(NULL::pg_catalog.text, $interval, 'a'::pg_catalog.text)") x 2,
	'SELECT public.snowflake_nextval()');
my $plant = "SET search_path = pg_catalog;\n$harm$overloads$operators$types";
my $install = 'CREATE EXTENSION snowflake_registry; CREATE EXTENSION snowflake_sql';
foreach my $when ('before', 'afterwards')
{
	$database = "managed_$when";
	sql($node, "CREATE DATABASE $database; ALTER ROLE mallory NOSUPERUSER");
	sql([ $node, $database ], 'GRANT CREATE ON SCHEMA public TO mallory');
	sql([ $node, $database, 'mallory' ], $plant) if $when eq 'before';
	is( no_harm(
			"SQL only, planted $when",
			"$install; SELECT public.snowflake_configure($layout, 1, 0, $interval, $interval, true)"),
		'',
		'the extensions can be created');
	my %calls_it;
	$calls_it{$_} = 1 foreach map { /public\.(snowflake_\w+)\(/g } @sql_statements;
	sql_is(
		[ $node, $database ],
		"SET search_path = pg_catalog; SELECT string_agg(DISTINCT proname, ' ' ORDER BY proname) FROM pg_proc WHERE proname LIKE 'snowflake%' AND pronamespace = 'public'::regnamespace AND proowner <> 'mallory'::regrole",
		join(' ', sort keys %calls_it), 'the test calls all functions of the extension');
	sql([ $node, $database, 'mallory' ], $plant) if $when eq 'afterwards';
	call_all("SQL only, planted $when", 'SELECT', @sql_statements);
}

# A planted function keeps its owner, who could replace it later.
$database = 'managed_owners';
sql($node, "CREATE DATABASE $database");
sql([ $node, $database ], 'GRANT CREATE ON SCHEMA public TO mallory; CREATE EXTENSION snowflake_sql');
my $configure = "SELECT snowflake_configure('snowflake', 1)";
foreach my $case (
	[ 'snowflake_nextval()', 'bigint' ],
	[ 'snowflake_between(id bigint, lower_bound timestamptz, upper_bound timestamptz)', 'boolean' ],
	[
		'snowflake_compose(generated_at timestamptz, datacenter_id integer DEFAULT 0, worker_id integer DEFAULT 0, timeline integer DEFAULT 0, lane integer DEFAULT 0, sequence integer DEFAULT 0, tag integer DEFAULT 0)',
		'bigint'
	])
{
	my ($function, $result) = @$case;
	my ($name) = $function =~ /(\w+)/;

	as_mallory("CREATE FUNCTION public.$function RETURNS $result LANGUAGE sql AS 'SELECT NULL::$result'");
	like(
		no_harm("owner of $name()", $configure),
		qr/^ERROR:  \w+: function (?:public\.)?$name\(.*\) belongs to another role$/,
		"a planted $name() is not adopted");
	sql([ $node, $database ], 'DROP OWNED BY mallory; GRANT CREATE ON SCHEMA public TO mallory');
}
is(no_harm('owners', $configure), '', 'without them, the functions are created');
is(no_harm('owners again', $configure), '', 'and replaced');

# The registry

$database = 'registry';
sql($node, 'CREATE DATABASE registry');
sql([ $node, $database ],
	'GRANT CREATE ON DATABASE registry TO mallory; GRANT CREATE ON SCHEMA public TO mallory; CREATE ROLE server LOGIN');

# the schema exists already
my $acquire = <<'EOC';
CREATE FUNCTION snowflake_registry.acquire(text, text, text, text, timestamptz, interval,
	OUT worker_id bigint, OUT starts timestamptz, OUT ends timestamptz) RETURNS SETOF record LANGUAGE sql AS
$$ SELECT 7, '-infinity'::timestamptz, clock_timestamp() + interval '10 years' $$;
EOC
as_mallory("CREATE SCHEMA snowflake_registry; $acquire");
like(
	no_harm('schema of another', 'CREATE EXTENSION snowflake_registry'),
	qr/schema "snowflake_registry" already exists/, 'an existing schema is not trusted');
as_mallory('DROP FUNCTION snowflake_registry.acquire(text, text, text, text, timestamptz, interval)');
like(
	no_harm('empty schema of another', 'CREATE EXTENSION snowflake_registry'),
	qr/schema "snowflake_registry" already exists/, 'nor is an empty schema');

my $registry = <<'EOC';
SET client_min_messages = error;
DROP EXTENSION IF EXISTS snowflake_registry;
DROP SCHEMA IF EXISTS snowflake_registry;
CREATE EXTENSION snowflake_registry;
GRANT USAGE ON SCHEMA snowflake_registry TO server;
GRANT EXECUTE ON FUNCTION snowflake_registry.acquire, snowflake_registry.renew, snowflake_registry.release TO server;
EOC
sql([ $node, $database ], $registry);
foreach my $statement (
	$acquire, 'ALTER SCHEMA snowflake_registry RENAME TO mine', 'DROP SCHEMA snowflake_registry CASCADE',
	'ALTER EXTENSION snowflake_registry ADD TABLE public.mine')
{
	like(
		no_harm('later', $statement, 'mallory'), qr/permission denied|must be owner/,
		"later the role cannot: $statement");
}

# a dump includes the registry, but cannot be restored into another role's schema
my $dump = PostgreSQL::Test::Utils::tempdir() . '/registry.sql';
my $lease =
  'SELECT settings.layout, settings.worker_ids, settings.max_lease, lease FROM snowflake_registry.registry AS settings, snowflake_registry.lease';
sql([ $node, $database ], "UPDATE snowflake_registry.registry SET max_lease = '3 minutes'");
sql([ $node, $database, 'server' ],
	"SELECT snowflake_registry.acquire('a', gen_random_uuid(), 'time:41 worker:10 sequence:12 tick:1ms epoch:2026-01-01T00:00:00Z', 1024, now(), '1 minute')"
);
$lease = [ $lease, sql([ $node, $database ], $lease) ];
command_ok([ 'pg_dump', '--dbname', $node->connstr($database), '--file', $dump ], 'a registry can be dumped');
my @restore = ('psql', '--no-psqlrc', '--quiet', '--set=ON_ERROR_STOP=1', '--output=/dev/null', '--file', $dump);
sql($node, 'CREATE DATABASE restored; GRANT CREATE ON DATABASE restored TO mallory');
sql([ $node, 'restored', 'mallory' ], 'CREATE SCHEMA snowflake_registry');
command_fails(
	[ @restore, '--dbname', $node->connstr('restored') ],
	'and cannot be restored into another role\'s schema');
sql([ $node, 'restored', 'mallory' ], 'DROP SCHEMA snowflake_registry');
command_ok([ @restore, '--dbname', $node->connstr('restored') ], 'but can be restored without such a schema');
sql_is([ $node, 'restored' ], $lease->[0], $lease->[1], 'with its settings and leases');
sql_is(
	[ $node, 'restored', 'server' ],
	"SELECT worker_id FROM snowflake_registry.acquire('b', gen_random_uuid(), 'time:41 worker:10 sequence:12 tick:1ms epoch:2026-01-01T00:00:00Z', 1024, now(), '1 minute')",
	1,
	'and its privileges');

# functions, operators and types planted in the same database
my $uuid = q{'00000000-0000-0000-0000-00000000000a'::pg_catalog.uuid};
my $leased_layout = q{'time:41 worker:2 sequence:12 tick:1ms epoch:2026-01-01T00:00:00Z'::pg_catalog.text};
my @registry_statements = (
	'INSERT INTO snowflake_registry.registry DEFAULT VALUES',
	"UPDATE snowflake_registry.registry SET max_lease = '1 minute'",
	'SELECT * FROM snowflake_registry.own_history()',
	"SELECT * FROM snowflake_registry.begin_call('1 second'::interval, true)",
	"SELECT * FROM snowflake_registry.check_call($clock, '1 second'::interval, true)",
	"SELECT * FROM snowflake_registry.fields_of_servers($leased_layout)",
	"SELECT * FROM snowflake_registry.acquire('a'::pg_catalog.text, $uuid, $leased_layout, 4::bigint, $clock, '1 second'::interval)",
	"SELECT * FROM snowflake_registry.renew(0::bigint, $uuid, $later, $clock, '1 second'::interval)",
	"SELECT * FROM snowflake_registry.release(0::bigint, $uuid, $clock)",
	"SELECT * FROM snowflake_registry.reserve(1::bigint, 'b'::pg_catalog.text)",
	"SELECT * FROM snowflake_registry.unreserve(1::bigint, $later)",
	'SELECT * FROM snowflake_registry.leases',
	'SELECT * FROM snowflake_registry.accept_clock()',
	"UPDATE snowflake_registry.registry SET history = 'another/00000001'",
	"SELECT * FROM snowflake_registry.acquire('a'::pg_catalog.text, $uuid, $leased_layout, 4::bigint, $clock, '1 second'::interval)",
	'SELECT * FROM snowflake_registry.revoke_leases()');
my $called = join ' ', @registry_statements, 'snowflake_registry.keep_settings(';
is( functions_of('snowflake_registry'),
	join(' ', sort keys %{ { map { $_ => 1 } $called =~ /snowflake_registry\.(\w+)\(/g } }),
	'the test calls all functions of the registry, one through a trigger');
as_mallory("SET search_path = pg_catalog;\n$harm$overloads$operators$types");
call_all('registry', $registry, @registry_statements);

# a server that leases from this registry
sql([ $node, $database ], "$registry; ALTER DATABASE registry SET search_path = public, pg_catalog");
my $log_end = -s $node->logfile;
my $leasing = new_server(
	'leasing',
	lease_from(
		$node,
		'snowflake.registry' => sprintf('host=%s port=%s dbname=registry user=server', $node->host, $node->port),
		'snowflake.registry_lease' => '9s'));
sql_becomes_true($leasing, "SELECT state = 'ready' FROM snowflake_status()", 'a server leases a worker id');
my $ends = sql($leasing, 'SELECT lease_ends FROM snowflake_status()');
sql_becomes_true($leasing, "SELECT lease_ends > '$ends' FROM snowflake_status()", 'it renews its lease');
$leasing->stop;
sql_is(
	[ $node, $database ], 'SET search_path = pg_catalog; SELECT worker_id, state FROM snowflake_registry.leases',
	'0|released', 'the server releases the lease when it stops');
ok(!$node->log_contains(qr/harm: /, $log_end), 'nothing planted runs for this server');

done_testing();
