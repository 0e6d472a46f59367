# What functions do does not depend on the settings of the session that calls them.

use SnowflakeTest;

my $node = new_server('settings');

#
# Settings that change nothing in the output of the SQL tests
#
# from 19 on, strings always conform to the standard
my @old_strings = $node->pg_version->major < 19 ? ('standard_conforming_strings=off', 'escape_string_warning=off') : ();
my @settings = (
	@old_strings, 'backslash_quote=off', 'transform_null_equals=on', 'plan_cache_mode=force_generic_plan',
	'bytea_output=escape', 'check_function_bodies=off', 'row_security=off');
my ($tests) = run_command([ 'make', '--silent', "PG_CONFIG=$ENV{PG_CONFIG}", 'print-REGRESS' ]);
my $dir = PostgreSQL::Test::Utils::tempdir();
{
	local $ENV{PGOPTIONS} = join ' ', map { "-c $_" } @settings;
	my ($out, $err) = run_command(
		[
			$ENV{PG_REGRESS}, '--inputdir=.', "--outputdir=$dir", '--encoding=UTF8', '--load-extension=snowflake',
			'--host=' . $node->host, '--port=' . $node->port, split ' ', $tests
		]);
	like($out, qr/^ ?(?:# )?All \d+ tests passed/m, "the SQL tests pass with @settings")
	  or diag(-e "$dir/regression.diffs" ? slurp_file("$dir/regression.diffs") : "$out$err");
}

# Settings that change how values look: results are the same if they are dumped.
my $forced = $node->pg_version < 16 ? 'force_parallel_mode' : 'debug_parallel_query';
my @hostile = (
	@old_strings, 'DateStyle=German',
	'IntervalStyle=sql_standard', 'TimeZone=Asia/Kathmandu',
	'quote_all_identifiers=on', 'extra_float_digits=-15',
	'bytea_output=escape', 'search_path=pg_catalog',
	'session_replication_role=replica', 'plan_cache_mode=force_generic_plan',
	'default_transaction_isolation=serializable', "$forced=regress");
my $calls = <<'EOC';
CREATE SCHEMA results;
CREATE TABLE results.events (id bigint, note text) PARTITION BY RANGE (id);
-- these do not work at other levels, which they say
SET default_transaction_isolation = 'read committed';
CREATE TABLE results.created AS SELECT public.snowflake_create_partitions('results.events', step, '2026-11-01 00:00+00', '2026-11-04 00:00+00', 'Europe/Berlin') AS partition
FROM pg_catalog.unnest('{"1 day"}'::pg_catalog.interval[]) AS step;
RESET default_transaction_isolation;
CREATE TABLE results.partitions AS SELECT partition, first_id, last_id, lower_bound, upper_bound FROM public.snowflake_partitions('results.events');
CREATE TABLE results.before AS SELECT public.snowflake_partitions_before('results.events', '2026-11-03 00:00+00') AS partition;
CREATE TABLE results.decoded AS SELECT * FROM public.snowflake_decode(123456789012345678);
CREATE TABLE results.shown AS SELECT public.snowflake_to_text(123456789012345678, 'base62') AS text, public.snowflake_between(123456789012345678, '2026-01-01 00:00+00', '2027-01-01 00:00+00') AS between_them,
	public.snowflake_first_from('2026-11-21 10:00+00', 'twitter') AS id;
CREATE TABLE results.layouts AS SELECT * FROM public.snowflake_layout('time:41 sequence:12 worker:5 tick:10ms epoch:2020-02-02T02:02:02Z');
CREATE TABLE results.capacity AS SELECT * FROM public.snowflake_capacity('mastodon');
CREATE TABLE results.lease AS SELECT worker_id, ends - pg_catalog.clock_timestamp() BETWEEN '8 s' AND '11 s' AS lasts
FROM snowflake_registry.acquire('me', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'time:41 worker:5 sequence:17 tick:1ms epoch:2026-01-01T00:00:00Z', 32, pg_catalog.clock_timestamp(), '10 s');
CREATE TABLE results.people (id serial PRIMARY KEY, "the Name" text DEFAULT E'\\', CHECK ("the Name" <> E'a\\b'));
CREATE TABLE results.tagged (id bigint DEFAULT public.snowflake_id(5) PRIMARY KEY);
CREATE TABLE results.notes (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, person_id int, "personIds" int[], person int REFERENCES results.people);
CREATE FUNCTION results.of_person(person_id int) RETURNS int LANGUAGE sql RETURN person_id;
SET default_transaction_isolation = 'read committed';
CALL public.snowflake_adopt_all('results', false, false, '{}', '{*}');
CALL public.snowflake_adopt('results.tagged', 'id');
RESET default_transaction_isolation;
CREATE TABLE results.new_ids AS SELECT public.snowflake_timestamp(id) > pg_catalog.clock_timestamp() - pg_catalog.make_interval(secs => 10) AS new FROM (SELECT public.snowflake_nextval() AS id) AS m;
INSERT INTO results.people DEFAULT VALUES;
UPDATE results.people SET id = 7;
EOC

# Return what the calls leave in a database.
sub results_of
{
	my ($database, @of_session) = @_;

	sql($node, "CREATE DATABASE $database");
	$node->safe_psql($database, 'CREATE EXTENSION snowflake_registry');
	{
		local $ENV{PGOPTIONS} = join ' ', map { "-c $_" } @of_session;
		$node->safe_psql(
			$database,
			"CREATE EXTENSION snowflake SCHEMA public;\nCREATE EXTENSION snowflake_adopt SCHEMA public;\n$calls");
	}
	my ($dump) = run_command([ 'pg_dump', '--inserts', '--schema=results', '--dbname', $node->connstr($database) ]);
	return $dump =~ s/^\\(un)?restrict .*\n//gmr;
}

my $expected = results_of('usual');
like($expected, qr/bigint DEFAULT public\.snowflake_id\(5\)/, 'there are results');
is(results_of('hostile', @hostile), $expected, "results are the same with @hostile");

done_testing();
