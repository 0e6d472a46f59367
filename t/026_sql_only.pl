# Snowflake ids in SQL and PL/pgSQL: installed in each way, with the same answers as the
# extension, and with ids that are unique with 32 clients, stepped clocks, a crash, a
# dump, a leased worker id, and a move to the extension.

use Cwd qw(abs_path);
use SnowflakeTest;

my $script = abs_path('sql-only/snowflake_sql--1.0.sql');
my $dir = abs_path(PostgreSQL::Test::Utils::tempdir());
my $node = new_server('main', clock => 1, synchronous_commit => 'on');
my $id;

# Ways to install it, as an ordinary role

sql($node, 'CREATE ROLE owner LOGIN; CREATE ROLE visitor LOGIN');
my @psql = ('psql', '--no-psqlrc', '--quiet', '--username', 'owner');
my %ways = (
	extension => [ '--set=ON_ERROR_STOP=1', '--command', 'CREATE EXTENSION snowflake_sql SCHEMA ids' ],
	psql => [ '--set=ON_ERROR_STOP=1', '--file', $script ],
	# as pg_tle does
	string => [ '--command', slurp_file($script) ]);
foreach my $way (sort keys %ways)
{
	sql($node, "CREATE DATABASE $way OWNER owner");
	sql([ $node, $way, 'owner' ], "CREATE SCHEMA ids; ALTER DATABASE $way SET search_path = ids");
	command_ok([ @psql, @{ $ways{$way} }, '--dbname', $node->connstr($way) ], "$way: an owner can install it");
	sql([ $node, $way, 'owner' ], "SELECT snowflake_configure('snowflake', 3); GRANT USAGE ON SCHEMA ids TO visitor");
	sql_is(
		[ $node, $way, 'visitor' ], 'SELECT snowflake_worker_id(snowflake_nextval())', 3,
		"$way: any role can make ids");
	sql_is(
		[ $node, $way ], q{
SELECT proname FROM pg_proc WHERE proname LIKE 'snowflake%' AND pronamespace <> 'ids'::regnamespace
	OR pronamespace = 'ids'::regnamespace AND obj_description(oid, 'pg_proc') IS NULL}, '',
		"$way: functions for users are in the given schema, and have comments");
}

# Errors, and calls that are not for visitors
foreach my $case (
	[ '22023', q{snowflake_configure('nonsense', 1)} ],
	[ '22003', q{snowflake_configure('snowflake', 32)} ],
	[ '22003', q{snowflake_configure('snowflake', 1, datacenter_id => 1)} ],
	[ '22023', q{snowflake_configure('snowflake', 1, max_ahead => '-1 s')} ],
	[ '22023', q{snowflake_configure('snowflake', 1, max_wait => NULL)} ],
	[ '55000', q{snowflake_configure('snowflake epoch:2026-10-01T00:00:00Z', 3, max_ahead => '0')} ],
	[ '22023', q{snowflake_nextval(1)} ],
	[ '55000', q{snowflake_currval()} ],
	[ '55000', q{snowflake_lease()} ],
	[ '55000', q{snowflake_advance(9223372036854775807)} ],
	[ '22003', q{snowflake_advance(-1)} ],
	[ '22003', q{snowflake_worker_id(-1)} ],
	[ '22003', q{snowflake_decode(-1)} ],
	[ '42501', q{snowflake_configure('snowflake', 4)}, 'visitor' ],
	[ '42501', q{snowflake_advance(5)}, 'visitor' ],
	[ '42501', q{snowflake_lease()}, 'visitor' ],
	[ '42501', q{nextval('snowflake_sql.word')}, 'visitor' ],
	[ '42501', q{setval('snowflake_sql.opened', 1)}, 'visitor' ],
	[ '42501', q{setval('snowflake_sql.reserved', 1)}, 'visitor' ],
	[ '42501', q{snowflake_sql.flush()}, 'visitor' ],
	[ '42501', q{snowflake_sql.reserve(1, snowflake_sql.settings())}, 'visitor' ],
	[ '42501', q{1; BEGIN; LOCK TABLE snowflake_sql.door IN SHARE MODE}, 'visitor' ])
{
	my ($code, $call, $role) = @$case;

	sql_fails([ $node, 'psql', $role // 'owner' ], "SELECT $call", $code, ($role // 'owner') . ": $call fails");
}
sql_fails(
	$node, "SET search_path = public, pg_catalog;\n" . slurp_file($script), '55000',
	'a search_path with a schema before pg_catalog is refused', qr/search_path has a schema before pg_catalog/);

# Parsing a statement locks its tables before privileges are checked.
my $visitor = $node->background_psql('psql', extra_params => [ '--username', 'visitor' ]);
$visitor->query_safe(<<'EOC');
BEGIN;
PREPARE locks AS SELECT FROM snowflake_sql.door, snowflake_sql.lease FOR UPDATE;
PREPARE locks_too AS INSERT INTO snowflake_sql.lease DEFAULT VALUES;
EOC
sql_is(
	[ $node, 'psql', 'owner' ],
	q{SET lock_timeout = '5s'; SELECT snowflake_configure('snowflake', 3); SELECT snowflake_worker_id(snowflake_nextval())},
	"\n3", 'nor with locks from parsing');
$visitor->quit;

# Durable settings are the default from 17 on; before, wal_level must be higher than here,
# although the WAL writer may flush in time, too.
my $is_new = $node->pg_version >= 17;
sql_is(
	[ $node, 'psql', 'visitor' ], 'SELECT durable FROM snowflake_status()', $is_new ? 't' : 'f',
	'the status shows whether settings are durable');
sql($node, 'ALTER SYSTEM SET wal_writer_delay = 1');
$node->reload;
sql_fails(
	[ $node, 'psql', 'owner' ], q{SELECT snowflake_configure('snowflake', 3, durable => true)},
	$is_new ? '00000' : '55000', 'durable settings, with a low wal_level',
	$is_new ? undef   : qr/DETAIL: .*while wal_level is "minimal"/);
sql($node, 'ALTER SYSTEM RESET wal_writer_delay');
$node->reload;

# The same answers as the extension

# Run a file of the SQL tests as pg_regress does, and compare the output.  A function
# may cut and edit both the file and the expected output.
sub run_sql_test
{
	my ($name, $edit) = @_;
	my ($sql, $expected) = (slurp_file("sql/$name.sql"), slurp_file("expected/$name.out"));

	foreach ($sql, $expected)
	{
		$edit->() if $edit;
	}
	append_to_file("$dir/$name.sql", $sql);
	local %ENV = (
		%ENV,
		PGTZ => 'America/Los_Angeles',
		PGDATESTYLE => 'Postgres, MDY',
		PGOPTIONS => '-c intervalstyle=postgres_verbose -c client_min_messages=notice',
		PG_ABS_SRCDIR => abs_path('.'),
		PGHOST => $node->host,
		PGPORT => $node->port);
	system("psql -X -a -q -v SHOW_CONTEXT=never -v HIDE_TABLEAM=on answers <$dir/$name.sql >$dir/$name.out 2>&1");
	my $got = slurp_file("$dir/$name.out");
	# one of our functions, with the layout in force as a constant, replaces the
	# extension's
	$got =~
	  s/snowflake_sql\.(\w+)\(((?:[^()]|\([^()]*\))*), '\("time.*?"\)?[^']*'::snowflake_sql\.layout\)/snowflake_$1($2)/g;
	append_to_file("$dir/$name.expected", $expected);
	append_to_file("$dir/$name.got", $got);
	my ($diff) = run_command([ 'diff', '-U3', "$dir/$name.expected", "$dir/$name.got" ]);
	is($diff, '', "SQL test $name");
	return;
}

add_sql_database($node, 'answers', "'snowflake', 0");
run_sql_test('layout');
run_sql_test('compose');
run_sql_test('vectors');
# without labels, which are the extension's, and expression indexes, which accept inlined
# functions as they are
run_sql_test('decode', sub { s/^-- An expression index.*//ms });
# without partitions
run_sql_test(
	'time',
	sub {
		s/^-- Partitions:.*//ms;
		s/generate_series\(1, 20000\)/generate_series(1, 2000)/;
		s/snowflake_compose\(.*interval '50 s', layout => 'snowflake'\)/(i * 50000::bigint) << 22/;
	});
# a layout that changes from row to row is parsed for each row
run_sql_test(
	'roundtrip',
	sub {
		s/generate_series\(1, 2000\)/generate_series(1, 12)/;
		s/>= 100000 AS/>= 600 AS/;
		s/>= 1900 AS/>= 12 AS/;
	});
# where a read-only transaction makes no ids, and without dropping the extension
run_sql_test(
	'generate',
	sub {
		s/^BEGIN READ ONLY;/BEGIN;/m;
		s/^SELECT pg_current_xact_id_if_assigned.*\n(t\n)?//m;
		s/set "snowflake.layout" to a layout that has the field and restart the server/call snowflake_configure() with a layout that has the field/;
		s/^-- The extension stays in its schema.*//ms;
	});
# without the function that COPY calls for the extension
run_sql_test(
	'tables',
	sub {
		s/^-- and COPY needs no other privilege\n//m;
		s/^(REVOKE|GRANT) EXECUTE ON FUNCTION snowflake_internal.*\n//mg;
		s/^-- The default protects the extension.*?^(?=DROP TABLE)//ms;
	});
# The other tests are about functions and settings that this script does not have.

# Of a field, only shifts and masks are left.
sql_is(
	[ $node, 'answers' ],
	'CREATE TABLE plain (id bigint); EXPLAIN (COSTS OFF, VERBOSE) SELECT snowflake_worker_id(id) FROM plain',
	q{Seq Scan on public.plain
  Output: CASE WHEN ((id >= '0'::bigint) AND (id <= '9223372036854775807'::bigint)) THEN (((id >> 17) & '31'::bigint))::integer ELSE snowflake_sql.refuse(id, '9223372036854775807'::bigint, 'time:41 worker:5 timeline:2 lane:2 sequence:13 tick:1ms epoch:2026-01-01T00:00:00Z'::text, NULL::integer) END},
	'a field is inlined');
foreach my $call (
	'snowflake_timestamp(id)', '(snowflake_decode(id)).lane',
	"snowflake_worker_id(id, 'twitter')", 'snowflake_between(id, NULL, NULL)')
{
	unlike(
		$node->safe_psql('answers', "EXPLAIN (COSTS OFF, VERBOSE) SELECT $call FROM plain"),
		qr/snowflake_(?!sql\.(?:refuse|decoded))/, "$call is inlined");
}

# Making ids

sql_fails(
	[ $node, 'answers' ], 'BEGIN READ ONLY; SELECT snowflake_nextval()', '25006',
	'a read-only transaction makes no ids');
foreach my $call ('snowflake_nextval() > 0', 'snowflake_advance(snowflake_nextval()) IS NOT NULL')
{
	sql_is(
		[ $node, 'answers' ],
		"BEGIN; SELECT $call; SELECT count(*) FROM pg_locks WHERE relation = 'snowflake_sql.door'::regclass", "t\n0",
		"the door is released at once: $call");
}

# A client that does not read what the server sends keeps nobody from the door.
my ($ret, $out, $err) = $node->psql('answers', 'SET client_min_messages = debug5; SELECT snowflake_nextval()');
like($err, qr/DEBUG: /, 'a client can ask for messages');
unlike($err, qr/SubTransaction/, 'but gets none from behind the door');

# Layouts of few or many bits, with fields in any order, more lanes than are used, and a tag;
# settings that change before any id is made
foreach my $layout (
	'twitter', 'discord', 'sonyflake', 'mastodon', 'js53',
	'time:41 sequence:3 worker:5 lane:4 tag:2',
	'time:41 worker:5', 'time:41 lane:9 timeline:3 sequence:2', 'time:52 sequence:5 tick:1us',
	'time:62 sequence:1 tick:1us', 'time:31 sequence:31 worker:1 tick:1s')
{
	my $name = 'layout_' . ($layout =~ tr/a-z0-9/_/cr);
	my $worker_id = $layout =~ /^(?:mastodon|time:52|time:62|time:41 lane)/ ? 0 : 1;

	add_sql_database($node, $name, "'$layout', NULL");
	sql([ $node, $name ], "SELECT snowflake_configure('$layout', $worker_id, max_ahead => '1 hour')") foreach 1 .. 3;
	sql_is(
		[ $node, $name ], q{
SELECT count(*), count(DISTINCT id), bool_and(id > previous),
	bool_and(id = snowflake_compose(generated_at, datacenter_id, worker_id, timeline, lane, sequence, tag))
FROM (SELECT id, lag(id, 1, 0::bigint) OVER (ORDER BY i) AS previous
	FROM (SELECT i, snowflake_nextval() AS id FROM generate_series(1, 500) AS i) AS made) AS pairs,
	snowflake_decode(id)}, '500|500|t|t', "ids increase and decode in the layout '$layout'");
}
my $tagged = [ $node, 'layout_time_41_sequence_3_worker_5_lane_4_tag_2' ];
sql_is(
	$tagged, 'SELECT (snowflake_decode(snowflake_nextval(3))).tag, snowflake_worker_id(snowflake_nextval(2))', '3|1',
	'ids carry their tags');
sql_fails($tagged, 'SELECT snowflake_nextval(4)', '22003', 'a tag must fit its field');
sql_fails(
	$tagged, 'SELECT snowflake_nextval(1); SELECT snowflake_currval()', '0A000',
	'currval is not available with a tag');

# 32 clients, and few ids per tick, so that ticks are opened all the time
sub start_hunt
{
	my ($database) = @_;

	return start_clients($node, '--client=32 --jobs=2 --transactions=20', <<'EOC', $database);
INSERT INTO ids SELECT nextval('calls'), snowflake_nextval(), nextval('calls'), pg_backend_pid() FROM generate_series(1, 50)
EOC
}

sub new_hunt
{
	my ($database, $settings, $script) = @_;

	add_sql_database($node, $database, $settings, $script);
	$node->safe_psql($database, <<'EOC');
CREATE TABLE ids (before bigint, id bigint, after bigint, pid int);
CREATE SEQUENCE calls;
EOC
	return;
}

my $duplicates = 'SELECT count(*) - count(DISTINCT id) FROM ids';
# ids that are not above all those returned before the call
my $not_increasing = q{
SELECT count(*) FROM (
	SELECT id, max(made) OVER (ORDER BY call) AS greatest
	FROM (SELECT before AS call, id, NULL::bigint AS made FROM ids UNION ALL SELECT after, NULL, id FROM ids) AS calls) AS looks
WHERE id <= greatest};
my $not_increasing_in_session =
  'SELECT count(*) FROM (SELECT id, lag(id) OVER (PARTITION BY pid ORDER BY before) AS previous FROM ids) AS pairs WHERE id <= previous';

foreach my $layout ('snowflake', 'time:41 worker:5 sequence:2')
{
	my $name = 'clients_' . ($layout =~ tr/a-z0-9/_/cr);

	new_hunt($name, "'$layout', 1, max_ahead => '1 hour'");
	finish_clients(start_hunt($name), "32 clients make ids in the layout '$layout'");
	sql_is(
		[ $node, $name ], "SELECT count(*) FROM ids; $duplicates; $not_increasing", "32000\n0\n0",
		'no id is made twice, and all increase');
}

# The same, while settings change, and waits for locks soon look for deadlocks
new_hunt('changes', "'time:41 worker:5 sequence:2', 1, max_ahead => '1 hour'");
$node->safe_psql('changes', "ALTER DATABASE changes SET deadlock_timeout = '10ms'");
my $clients = start_hunt('changes');
foreach my $settings (
	"'time:41 worker:5 sequence:2', 2",
	"'time:41 worker:5 sequence:2', 1",
	"'time:41 sequence:2 worker:4 tag:1', 3",
	"'time:41 worker:4 tag:1 sequence:2', 0")
{
	sql([ $node, 'changes' ], "SELECT snowflake_configure($settings, max_ahead => '1 hour')");
}
finish_clients($clients, 'settings change while 32 clients make ids');
sql_is(
	[ $node, 'changes' ], "SELECT count(*) FROM ids; $duplicates; $not_increasing_in_session", "32000\n0\n0",
	'no id is made twice, and those of a session increase');
# The hunt finds the duplicates of mutants.
foreach my $mutant (with_mutants() ? ('uses any word', 'opens ticks at once with others') : ())
{
	my $name = $mutant =~ tr/ /_/r;
	my $found = 0;

	system_or_bail('sh', '-c', "mkdir -p '$dir/$name' && cp -R sql-only '$dir/$name'");
	mutate($mutant, "$dir/$name");
	new_hunt($name, "'time:41 worker:5', 1, max_ahead => '1 hour'", "$dir/$name/sql-only/snowflake_sql--1.0.sql");
	foreach (1 .. 10)
	{
		start_hunt($name)->{run}->finish;
		$found = $node->safe_psql($name, $duplicates);
		last if $found > 0;
	}
	cmp_ok($found, '>', 0, "mutant that $mutant makes ids twice");
}

# New settings make no ids before they are committed: a rollback drops their sequences,
# and the next settings would begin at the same tick.
add_sql_database($node, 'rollbacks', "'snowflake', 1");
my $fails_until_commit = qr/unsafe use of new settings.*DETAIL: .*HINT: /s;
foreach my $case (
	[ 'a transaction', 'BEGIN; SELECT snowflake_configure(\'snowflake\', 1)' ],
	[ 'a subtransaction', 'BEGIN; SAVEPOINT a; SELECT snowflake_configure(\'snowflake\', 1)' ],
	[
		'an ended subtransaction',
		'BEGIN; SAVEPOINT a; SELECT snowflake_configure(\'snowflake\', 1); RELEASE a; SAVEPOINT b'
	])
{
	sql_fails(
		[ $node, 'rollbacks' ], "$case->[1]; SELECT snowflake_nextval()", '55000',
		"$case->[0] that changes the settings makes no ids", $fails_until_commit);
}
sql_is(
	[ $node, 'rollbacks' ], q{
SELECT snowflake_advance(snowflake_first_from(clock_timestamp() + interval '4 s'));
BEGIN;
SAVEPOINT a;
SELECT snowflake_configure('snowflake', 2);
ROLLBACK TO a;
SELECT snowflake_worker_id(snowflake_nextval());
SELECT snowflake_configure('snowflake', 2);
COMMIT;
SELECT snowflake_worker_id(snowflake_nextval())}, "\n\n1\n\n2",
	'after a rollback of the settings, and after a commit, ids are made');

# A call that cannot get through the door gives up, and leaves it to others.
add_sql_database($node, 'door', "'snowflake', 1");
$node->safe_psql('door', 'SELECT snowflake_nextval()');
my $session = $node->background_psql('door');
$session->query_safe("BEGIN; SELECT snowflake_configure('snowflake', 2)");
foreach my $case ([ 'statement_timeout', '57014' ], [ 'lock_timeout', '55P03' ])
{
	my ($setting, $code) = @$case;

	sql_fails(
		[ $node, 'door' ], "SET $setting = 100; SELECT snowflake_nextval()", $code,
		"$setting ends a wait at the door");
}
$session->query_safe('ROLLBACK; SELECT snowflake_nextval()');
$session->quit;
sql_is(
	[ $node, 'door' ], 'SELECT snowflake_worker_id(snowflake_nextval())', 1,
	'after a rollback, ids are made as before');

# Dumps

foreach my $way (sort keys %ways)
{
	sql([ $node, $way, 'owner' ], <<'EOC');
SELECT snowflake_configure('snowflake', 7);
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), CHECK (snowflake_worker_id(id) = 7));
INSERT INTO orders SELECT FROM generate_series(1, 100);
CREATE VIEW workers AS SELECT snowflake_worker_id(id) FROM orders;
EOC
	command_ok(
		[ 'pg_dump', '--username', 'owner', '--dbname', $node->connstr($way), '--file', "$dir/$way.dump" ],
		"$way: its owner can dump it");
	sql($node, "CREATE DATABASE ${way}_restored OWNER owner");
	# let the same ticks pass again
	set_clock($node, -2);
	command_ok(
		[
			@psql, '--set=ON_ERROR_STOP=1', '--output=/dev/null', '--file', "$dir/$way.dump", '--dbname',
			$node->connstr("${way}_restored")
		],
		"$way: and restore it");
	sql_is(
		[ $node, "${way}_restored", 'owner' ], q{
SET search_path = ids;
INSERT INTO orders SELECT FROM generate_series(1, 100);
SELECT count(DISTINCT id), bool_and(snowflake_worker_id(id) = 7) FROM orders;
SELECT bool_and(id > previous) FROM (SELECT id, lag(id) OVER (ORDER BY ctid) AS previous FROM orders) AS pairs;
SELECT snowflake_configure('snowflake', 9);
SELECT snowflake_worker_id(snowflake_nextval())}, "200|t\nt\n\n9", "$way: ids continue");
	set_clock($node, 0);
}

# Converting a table, with the script that its owner loads for that

$node->command_ok(
	[
		@psql, '--set=ON_ERROR_STOP=1', '--single-transaction', '--file=adopt/snowflake_adopt--1.0.sql', '--dbname',
		$node->connstr('psql')
	],
	'the owner can load the script that converts tables');
sql_is(
	[ $node, 'psql', 'owner' ], q{
SET client_min_messages = warning;
CREATE TABLE people (id serial PRIMARY KEY, boss int REFERENCES people);
CREATE TABLE pets (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner int REFERENCES people);
INSERT INTO people (boss) VALUES (NULL), (1);
CALL snowflake_adopt('people', 'id', widen_references => true);
CALL snowflake_adopt_all('ids');
INSERT INTO people SELECT FROM generate_series(1, 10);
INSERT INTO pets (owner) SELECT max(id) FROM people;
SELECT count(DISTINCT id), count(*) FILTER (WHERE id > 1000000) FROM people;
SELECT owner > 1000000, id > 1000000 FROM pets;
DROP SCHEMA snowflake_adopt CASCADE; DROP PROCEDURE snowflake_adopt, snowflake_adopt_all;
DROP TABLE people, pets;}, "12|10\nt|t", 'which works, and can be removed');

done_testing();
