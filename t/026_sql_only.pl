# Snowflake ids in SQL and PL/pgSQL: installed in each way, with the same answers as the
# extension, and with ids that are unique with 32 clients, stepped clocks, a crash, a
# dump, a leased worker id, and a move to the extension.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use Cwd   qw(abs_path);
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $script = abs_path('sql-only/snowflake_sql--1.0.sql');
my $dir = abs_path(PostgreSQL::Test::Utils::tempdir());
my $node = new_server('main', clock => 1, synchronous_commit => 'on');
my ($code, $message, $id);

# Create a database with the script, and call snowflake_configure() with some settings.
sub new_database
{
	my ($node, $name, $settings, %options) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name, slurp_file($options{script} // $script));
	configure($node, $name, $settings);
	return;
}

sub configure
{
	my ($node, $database, $settings) = @_;

	$node->safe_psql($database, "SELECT snowflake_configure($settings)");
	return;
}

#
# Ways to install it, as an ordinary role
#

$node->safe_psql('postgres', 'CREATE ROLE owner LOGIN; CREATE ROLE visitor LOGIN');
my %owner = (user => 'owner');
my %as_owner = (extra_params => [ '--username', 'owner' ]);
my %as_visitor = (extra_params => [ '--username', 'visitor' ]);
my @psql = ('psql', '--no-psqlrc', '--quiet', '--username', 'owner');
my %ways = (
	extension => [ '--set=ON_ERROR_STOP=1', '--command', 'CREATE EXTENSION snowflake_sql SCHEMA ids' ],
	psql => [ '--set=ON_ERROR_STOP=1', '--file', $script ],
	# as pg_tle does
	string => [ '--command', slurp_file($script) ]);
foreach my $way (sort keys %ways)
{
	$node->safe_psql('postgres', "CREATE DATABASE $way OWNER owner");
	$node->safe_psql($way, "CREATE SCHEMA ids; ALTER DATABASE $way SET search_path = ids", %as_owner);
	command_ok([ @psql, @{ $ways{$way} }, '--dbname', $node->connstr($way) ], "$way: an owner can install it");
	$node->safe_psql($way, "SELECT snowflake_configure('snowflake', 3)", %as_owner);
	$node->safe_psql($way, 'GRANT USAGE ON SCHEMA ids TO visitor', %as_owner);
	is( $node->safe_psql($way, 'SELECT snowflake_worker_id(snowflake_nextval())', %as_visitor),
		3, "$way: any role can make ids");
	is( $node->safe_psql(
			$way, "SELECT proname FROM pg_proc WHERE proname LIKE 'snowflake%' AND pronamespace <> 'ids'::regnamespace"
		),
		'',
		"$way: functions for users are in the given schema");
	is( $node->safe_psql(
			$way, q{
SELECT proname FROM pg_proc
WHERE pronamespace = 'ids'::regnamespace AND obj_description(oid, 'pg_proc') IS NULL}
		),
		'',
		"$way: all functions for users have comments");
}

# Calls that are not for visitors
foreach my $call (
	'snowflake_configure(\'snowflake\', 4)',
	'snowflake_advance(5)',
	'snowflake_lease()',
	'nextval(\'snowflake_sql.word\')',
	'setval(\'snowflake_sql.opened\', 1)',
	'setval(\'snowflake_sql.reserved\', 1)',
	'snowflake_sql.flush()',
	'snowflake_sql.reserve(1, snowflake_sql.settings())')
{
	($code) = sqlstate_of($node, "SELECT $call", database => 'psql', user => 'visitor');
	is($code, '42501', "other roles may not call $call");
}
($code) =
  sqlstate_of($node, 'BEGIN; LOCK TABLE snowflake_sql.door IN SHARE MODE', database => 'psql', user => 'visitor');
is($code, '42501', 'other roles may not shut the door');

# Parsing a statement locks its tables before privileges are checked.
my $visitor = $node->background_psql('psql', extra_params => [ '--username', 'visitor' ]);
$visitor->query_safe(<<'EOC');
BEGIN;
PREPARE locks AS SELECT FROM snowflake_sql.door, snowflake_sql.lease FOR UPDATE;
PREPARE locks_too AS INSERT INTO snowflake_sql.lease DEFAULT VALUES;
EOC
is( $node->safe_psql(
		'psql',
		q{SET lock_timeout = '5s'; SELECT snowflake_configure('snowflake', 3); SELECT snowflake_worker_id(snowflake_nextval())},
		%as_owner),
	"\n3",
	'nor with locks from parsing');
$visitor->quit;

# Errors
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
	[ '22003', q{snowflake_decode(-1)} ])
{
	($code, $message) = sqlstate_of($node, "SELECT $case->[1]", database => 'psql', user => 'owner');
	is($code, $case->[0], "$case->[1] fails");
}
($code, $message) =
  sqlstate_of($node, "SET search_path = public, pg_catalog;\n" . slurp_file($script), database => 'postgres');
like(
	$message, qr/search_path has a schema before pg_catalog/,
	'a search_path with a schema before pg_catalog is refused');

# Durable settings are the default from 17 on; before, wal_level must be higher than here,
# although the WAL writer may flush in time, too.
my $is_new = $node->pg_version >= 17;
is( $node->safe_psql('psql', 'SELECT durable FROM snowflake_status()', %as_visitor),
	$is_new ? 't' : 'f', 'the status shows whether settings are durable');
$node->safe_psql('postgres', 'ALTER SYSTEM SET wal_writer_delay = 1');
$node->reload;
($code, $message) = sqlstate_of(
	$node, q{SELECT snowflake_configure('snowflake', 3, durable => true)},
	database => 'psql',
	user => 'owner');
is($code, $is_new ? '00000' : '55000', 'durable settings, with a low wal_level');
like($message, qr/DETAIL: .*wal_level is "minimal"/, 'are refused with the reason') if !$is_new;
$node->safe_psql('postgres', 'ALTER SYSTEM RESET wal_writer_delay');
$node->reload;

#
# The same answers as the extension
#

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
	s/^ +QUERY PLAN +\n-+$/ QUERY PLAN/mg foreach $got, $expected;
	append_to_file("$dir/$name.expected", $expected);
	append_to_file("$dir/$name.got", $got);
	my ($diff) = run_command([ 'diff', '-U3', "$dir/$name.expected", "$dir/$name.got" ]);
	is($diff, '', "SQL test $name");
	return;
}

new_database($node, 'answers', "'snowflake', 0");
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
		s/^SELECT pg_current_xact_id_if_assigned.*\n( no_xid \n(.+\n)*\n)?//m;
		s/set "snowflake.layout" to a layout that has the field and restart the server/call snowflake_configure() with a layout that has the field/;
		s/^-- The extension can be dropped and created again.*//ms;
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
is( $node->safe_psql(
		'answers',
		'CREATE TABLE plain (id bigint); EXPLAIN (COSTS OFF, VERBOSE) SELECT snowflake_worker_id(id) FROM plain'),
	q{Seq Scan on public.plain
  Output: CASE WHEN ((id >= '0'::bigint) AND (id <= '9223372036854775807'::bigint)) THEN (((id >> 17) & '31'::bigint))::integer ELSE snowflake_sql.refuse(id, '9223372036854775807'::bigint, 'time:41 worker:5 timeline:2 lane:3 sequence:12 tick:1ms epoch:2026-01-01T00:00:00Z'::text, NULL::integer) END},
	'a field is inlined');
foreach my $call (
	'snowflake_timestamp(id)', '(snowflake_decode(id)).lane',
	"snowflake_worker_id(id, 'twitter')", 'snowflake_between(id, NULL, NULL)')
{
	unlike(
		$node->safe_psql('answers', "EXPLAIN (COSTS OFF, VERBOSE) SELECT $call FROM plain"),
		qr/snowflake_(?!sql\.(?:refuse|decoded))/,
		"$call is inlined");
}

#
# Making ids
#

is( $node->safe_psql(
		'answers', q{
SELECT snowflake_nextval() AS id \gset
SELECT snowflake_currval() = :id, snowflake_id() > :id, snowflake_currval() > :id;
SELECT datacenter_id IS NULL, worker_id, timeline = (SELECT timeline_id FROM pg_control_checkpoint()) & 3, tag IS NULL
FROM snowflake_decode(:id);
BEGIN;
SELECT snowflake_nextval() AS id \gset
ROLLBACK;
SELECT snowflake_currval() = :id, snowflake_nextval() > :id;
SELECT snowflake_nextval(NULL) IS NULL}),
	"t|t|t\nt|0|t|t\nt|t\nt",
	'ids, currval and transactions');
is( $node->safe_psql(
		'answers', q{
SELECT count(*), count(DISTINCT id), bool_and(id > previous),
	count(*) FILTER (WHERE snowflake_timestamp(id) NOT BETWEEN before - interval '1 ms' AND after)
FROM (SELECT before, id, after, lag(id, 1, 0::bigint) OVER (ORDER BY i) AS previous
	FROM (SELECT i, clock_timestamp() AS before, snowflake_nextval() AS id, clock_timestamp() AS after
		FROM generate_series(1, 20000) AS i) AS made) AS pairs}),
	'20000|20000|t|0',
	'ids of a statement increase, and their time is that of the clock');
($code) = sqlstate_of($node, 'BEGIN READ ONLY; SELECT snowflake_nextval()', database => 'answers');
is($code, '25006', 'a read-only transaction makes no ids');
is( $node->safe_psql(
		'answers',
		'BEGIN; SELECT snowflake_nextval() > 0; ' . <<'EOC'), "t\n0", 'the door is released at once');
SELECT count(*) FROM pg_locks WHERE relation = 'snowflake_sql.door'::regclass;
EOC
is( $node->safe_psql(
		'answers',
		'BEGIN; SELECT snowflake_advance(snowflake_nextval()); ' . <<'EOC'), "\n0", 'also by an advance');
SELECT count(*) FROM pg_locks WHERE relation = 'snowflake_sql.door'::regclass;
EOC

# A client that does not read what the server sends keeps nobody from the door.
my ($ret, $out, $err) = $node->psql('answers', 'SET client_min_messages = debug5; SELECT snowflake_nextval()');
like($err, qr/DEBUG: /, 'a client can ask for messages');
unlike($err, qr/SubTransaction/, 'but gets none from behind the door');

# Layouts of few or many bits, with settings that change before any id is made
foreach
  my $layout ('time:41 worker:5', 'time:62 sequence:1 tick:1us', 'mastodon', 'time:31 sequence:31 worker:1 tick:1s')
{
	my $name = 'bits_' . ($layout =~ tr/a-z0-9/_/cr);

	new_database($node, $name, "'$layout', NULL");
	configure($node, $name, "'$layout', 0, max_ahead => '1 hour'") foreach 1 .. 3;
	is( $node->safe_psql($name, 'SELECT snowflake_nextval() < snowflake_nextval()'),
		't', "settings change in the layout '$layout'");
}

# An advance to the end of a layout leaves no ids, and none is made again.
my $near_end = POSIX::strftime('%Y-%m-%dT%H:%M:%SZ', gmtime(time + 60 - (1 << 20) / 1000));
new_database($node, 'ends', "'time:20 worker:4 sequence:4 epoch:$near_end', 1, max_ahead => '1 hour'");
($code) = sqlstate_of(
	$node,
	'SELECT snowflake_advance((1 << 28) - 1); SELECT snowflake_advance((1 << 28) - 1); SELECT snowflake_nextval()',
	database => 'ends');
is($code, 'SF003', 'after an advance to the last tick, none is left');

# Fields in any order: lanes below the sequence, more lanes than are used, a tag
foreach my $layout (
	'twitter', 'discord', 'sonyflake', 'mastodon', 'js53',
	'time:41 sequence:3 worker:5 lane:4 tag:2',
	'time:41 worker:5', 'time:41 lane:9 timeline:3 sequence:2', 'time:52 sequence:5 tick:1us')
{
	my $name = 'layout_' . ($layout =~ tr/a-z0-9/_/cr);

	new_database(
		$node, $name,
		"'$layout', " . ($layout =~ /^(?:mastodon|time:52|time:41 lane)/ ? 0 : 1) . ", max_ahead => '1 hour'");
	is( $node->safe_psql(
			$name, q{
SELECT count(*), count(DISTINCT id), bool_and(id > previous),
	bool_and(id = snowflake_compose(generated_at, datacenter_id, worker_id, timeline, lane, sequence, tag))
FROM (SELECT id, lag(id, 1, 0::bigint) OVER (ORDER BY i) AS previous
	FROM (SELECT i, snowflake_nextval() AS id FROM generate_series(1, 500) AS i) AS made) AS pairs,
	snowflake_decode(id)}),
		'500|500|t|t',
		"ids increase and decode in the layout '$layout'");
}
is( $node->safe_psql(
		'layout_time_41_sequence_3_worker_5_lane_4_tag_2',
		'SELECT snowflake_tag(snowflake_nextval(3)), snowflake_worker_id(snowflake_nextval(2))'),
	'3|1',
	'ids carry their tags');
($code) =
  sqlstate_of($node, 'SELECT snowflake_nextval(4)', database => 'layout_time_41_sequence_3_worker_5_lane_4_tag_2');
is($code, '22003', 'a tag must fit its field');
($code) = sqlstate_of(
	$node,
	'SELECT snowflake_nextval(1); SELECT snowflake_currval()',
	database => 'layout_time_41_sequence_3_worker_5_lane_4_tag_2');
is($code, '0A000', 'currval is not available with a tag');

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
	my ($database, $settings, %options) = @_;

	new_database($node, $database, $settings, %options);
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
	is( $node->safe_psql($name, "SELECT count(*) FROM ids; $duplicates; $not_increasing"),
		"32000\n0\n0", 'no id is made twice, and all increase');
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
	configure($node, 'changes', "$settings, max_ahead => '1 hour'");
}
finish_clients($clients, 'settings change while 32 clients make ids');
is( $node->safe_psql('changes', "SELECT count(*) FROM ids; $duplicates; $not_increasing_in_session"),
	"32000\n0\n0", 'no id is made twice, and those of a session increase');
# The hunt finds the duplicates of mutants.
foreach my $mutant (with_mutants() ? ('uses any word', 'opens ticks at once with others') : ())
{
	my $name = $mutant =~ tr/ /_/r;
	my $mutated = "$dir/$name.sql";
	my $found = 0;

	system_or_bail('cp', $script, $mutated);
	system_log('patch', '--fuzz=0', '--force', $mutated, abs_path('t/mutants/' . ($mutant =~ tr/ /-/r) . '.patch')) == 0
	  or BAIL_OUT("mutant '$mutant' does not apply");
	new_hunt($name, "'time:41 worker:5', 1, max_ahead => '1 hour'", script => $mutated);
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
new_database($node, 'rollbacks', "'snowflake', 1");
my $fails_until_commit = qr/ERROR:  55000: unsafe use of new settings.*DETAIL: .*HINT: /s;
foreach my $case (
	[ 'a transaction', 'BEGIN; SELECT snowflake_configure(\'snowflake\', 1)' ],
	[ 'a subtransaction', 'BEGIN; SAVEPOINT a; SELECT snowflake_configure(\'snowflake\', 1)' ],
	[
		'an ended subtransaction',
		'BEGIN; SAVEPOINT a; SELECT snowflake_configure(\'snowflake\', 1); RELEASE a; SAVEPOINT b'
	])
{
	(undef, $message) = sqlstate_of($node, "$case->[1]; SELECT snowflake_nextval()", database => 'rollbacks');
	like($message, $fails_until_commit, "$case->[0] that changes the settings makes no ids");
}
is( $node->safe_psql(
		'rollbacks', q{
SELECT snowflake_advance(snowflake_first_from(clock_timestamp() + interval '4 s'));
BEGIN;
SAVEPOINT a;
SELECT snowflake_configure('snowflake', 2);
ROLLBACK TO a;
SELECT snowflake_worker_id(snowflake_nextval());
SELECT snowflake_configure('snowflake', 2);
COMMIT;
SELECT snowflake_worker_id(snowflake_nextval())}),
	"\n\n1\n\n2",
	'after a rollback of the settings, and after a commit, ids are made');

# A call that cannot get through the door gives up, and leaves it to others.
new_database($node, 'door', "'snowflake', 1");
$node->safe_psql('door', 'SELECT snowflake_nextval()');
my $session = $node->background_psql('door');
$session->query_safe("BEGIN; SELECT snowflake_configure('snowflake', 2)");
foreach my $setting (qw(statement_timeout lock_timeout))
{
	($code) = sqlstate_of($node, "SET $setting = 100; SELECT snowflake_nextval()", database => 'door');
	is( $code, { statement_timeout => '57014', lock_timeout => '55P03' }->{$setting},
		"$setting ends a wait at the door");
}
$session->query_safe('ROLLBACK; SELECT snowflake_nextval()');
$session->quit;
is( $node->safe_psql('door', 'SELECT snowflake_worker_id(snowflake_nextval())'),
	1, 'after a rollback, ids are made as before');

#
# Clocks
#

# Return the warnings of a statement.
sub warnings_of
{
	my ($database, $sql) = @_;
	my ($ret, $out, $err) = $node->psql($database, "SET client_min_messages = warning; $sql");
	return $err;
}

my $ahead = "snowflake_timestamp(snowflake_nextval()) > clock_timestamp()";
new_database($node, 'clocks', "'snowflake', 1, max_ahead => '1 hour', max_wait => '200 ms'");
$id = $node->safe_psql('clocks', 'SELECT snowflake_nextval()');
set_clock($node, -1800);
is( $node->safe_psql('clocks', "SELECT snowflake_nextval() > $id, $ahead + interval '20 min'"),
	't|t', 'after a step back of half an hour, ids continue ahead of the clock');
new_database($node, 'hopeless', "'snowflake', 1, max_wait => '1 hour'");
$node->safe_psql('hopeless', 'SELECT snowflake_nextval()');
set_clock($node, -7200);
($code) = sqlstate_of($node, "SET statement_timeout = '30s'; SELECT snowflake_nextval()", database => 'hopeless');
is($code, 'SF001', 'a call does not begin to wait for longer than it may');
($code, $message) = sqlstate_of($node, 'SELECT snowflake_nextval()', database => 'clocks');
is($code, 'SF001', 'after a step back of two hours, the call fails');
like(
	$message, qr/too far ahead of the clock.*DETAIL: .*another 0[01]:\d\d:.*3600000 ms.*200 ms.*HINT: /s,
	'with detail and hint');
set_clock($node, 0);
is( $node->safe_psql('clocks', "SELECT snowflake_nextval() > $id, NOT $ahead + interval '1 min'"),
	't|t', 'when the clock is right again, ids are made');

# A clock that was far ahead for a moment, and the remedy
set_clock($node, 10 * 365 * 86400);
my $far = $node->safe_psql('clocks', 'SELECT snowflake_nextval()');
set_clock($node, 0);
($code) = sqlstate_of($node, 'SELECT snowflake_nextval()', database => 'clocks');
is($code, 'SF001', 'no ids after a clock that was far ahead');
foreach my $settings ("'snowflake', 1", "'snowflake tick:10ms', 1", "'snowflake', NULL")
{
	($code, $message) = sqlstate_of($node, "SELECT snowflake_configure($settings)", database => 'clocks');
	is($code, '55000', "ids cannot continue with $settings");
	like($message, qr/choose a worker id that has never been used/, 'and the hint shows what to do');
}
like(
	warnings_of('clocks', "SELECT snowflake_configure('snowflake', 2)"), qr/WARNING: .*begin at the clock again/,
	'ids can continue with a fresh worker id');
is( $node->safe_psql('clocks', "SELECT snowflake_nextval() BETWEEN $id AND $far, NOT $ahead + interval '1 min'"),
	't|t', 'at the time of the clock');
($code) = sqlstate_of($node, "SELECT snowflake_configure('snowflake', 1)", database => 'clocks');
is($code, '55000', 'but still not with the old worker id');
configure($node, 'clocks', "'snowflake', 3");
configure($node, 'clocks', "'snowflake', 2");
is($node->safe_psql('clocks', 'SELECT snowflake_worker_id(snowflake_nextval())'), 2, 'worker ids may be changed then');

# Before the epoch, and after the last tick
new_database($node, 'epoch', "'snowflake epoch:2090-01-01T00:00:00Z', 1");
($code) = sqlstate_of($node, 'SELECT snowflake_nextval()', database => 'epoch');
is($code, 'SF002', 'an epoch in the future is an error');
new_database($node, 'ended', "'uid-generator', 1");
($code) = sqlstate_of($node, 'SELECT snowflake_nextval()', database => 'ended');
is($code, 'SF003', 'a layout that has ended is an error');

# A crash, after which the same ticks pass again
my $insert = 'INSERT INTO kept SELECT snowflake_nextval() FROM generate_series(1, 3000)';
new_database($node, 'crashes', "'snowflake lane:0 sequence:4', 1, max_ahead => '1 hour'");
$node->safe_psql('crashes', "CREATE TABLE kept (id bigint PRIMARY KEY); $insert");
foreach my $round (1 .. 3)
{
	$node->safe_psql('crashes', $insert);
	$node->stop('immediate');
	start_with_clock($node, -10 * $round);
	$id = $node->safe_psql('crashes', 'SELECT max(id) FROM kept');
	is( $node->safe_psql('crashes', "$insert; SELECT count(*) FROM kept WHERE id > $id"),
		3000, 'ids of time that passes again are greater than those that were kept');
}

# A crash after ids of the last second of a layout, and a clock beyond it
my $epoch = POSIX::strftime('%Y-%m-%dT%H:%M:%SZ', gmtime(time + 900 - (1 << 20) / 1000));
new_database($node, 'last_tick', "'time:20 worker:4 sequence:4 epoch:$epoch', 1, max_ahead => '1 hour'");
is( $node->safe_psql(
		'last_tick', q{
SELECT last_instant - interval '1 s' AS instant FROM snowflake_capacity() \gset
SELECT snowflake_advance(snowflake_first_from(:'instant'));
SELECT snowflake_timestamp(snowflake_nextval()) - :'instant'}),
	"\n00:00:00.001",
	'a layout has ids up to its end');
foreach my $clock (1000, 10 * 365 * 86400, 0)
{
	$node->stop('immediate');
	start_with_clock($node, $clock);
	($code) = sqlstate_of($node, 'SELECT snowflake_nextval()', database => 'last_tick');
	is($code, 'SF003', "a crash, and a clock $clock s ahead: no id is left above the mark");
}
set_clock($node, 0);

#
# Dumps
#

foreach my $way (sort keys %ways)
{
	$node->safe_psql($way, <<'EOC', %as_owner);
SELECT snowflake_configure('snowflake', 7);
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), CHECK (snowflake_worker_id(id) = 7));
INSERT INTO orders SELECT FROM generate_series(1, 100);
CREATE VIEW workers AS SELECT snowflake_worker_id(id) FROM orders;
EOC
	command_ok(
		[ 'pg_dump', '--username', 'owner', '--dbname', $node->connstr($way), '--file', "$dir/$way.dump" ],
		"$way: its owner can dump it");
	$node->safe_psql('postgres', "CREATE DATABASE ${way}_restored OWNER owner");
	# let the same ticks pass again
	set_clock($node, -2);
	command_ok(
		[
			@psql, '--set=ON_ERROR_STOP=1', '--output=/dev/null', '--file', "$dir/$way.dump", '--dbname',
			$node->connstr("${way}_restored")
		],
		"$way: and restore it");
	is( $node->safe_psql(
			"${way}_restored", q{
SET search_path = ids;
INSERT INTO orders SELECT FROM generate_series(1, 100);
SELECT count(DISTINCT id), bool_and(snowflake_worker_id(id) = 7) FROM orders;
SELECT bool_and(id > previous) FROM (SELECT id, lag(id) OVER (ORDER BY ctid) AS previous FROM orders) AS pairs;
SELECT snowflake_configure('snowflake', 9);
SELECT snowflake_worker_id(snowflake_nextval())}, %as_owner),
		"200|t\nt\n\n9",
		"$way: ids continue");
	set_clock($node, 0);
}

#
# Moving to the extension
#

foreach my $way ('psql', 'extension')
{
	my $drop = $way eq 'extension' ? 'DROP EXTENSION snowflake_sql CASCADE' : 'DROP SCHEMA snowflake_sql CASCADE';

	($code) = sqlstate_of($node, 'CREATE EXTENSION snowflake', database => $way);
	is($code, '42723', "$way: the extension cannot be created along with it");
	$node->safe_psql(
		$way, qq{
ALTER TABLE orders DROP CONSTRAINT orders_id_check;
SELECT snowflake_nextval() AS last \\gset
BEGIN;
$drop;
CREATE EXTENSION snowflake;
SELECT snowflake_advance(:last);
CALL snowflake_adopt('orders', 'id');
COMMIT;
INSERT INTO orders SELECT FROM generate_series(1, 100)});
	is( $node->safe_psql(
			$way,
			'SELECT count(*), count(*) FILTER (WHERE id <= previous) FROM (SELECT id, lag(id) OVER (ORDER BY ctid) AS previous FROM orders) AS pairs'
		),
		'200|0',
		"$way: a table gets greater ids");
	is( $node->safe_psql($way, "SELECT count(*) FROM pg_namespace WHERE nspname = 'snowflake_sql'"), 0,
		"$way: nothing is left");
}

# and ids from elsewhere
new_database($node, 'advances', "'snowflake', 1");
is( $node->safe_psql(
		'advances', q{
SELECT snowflake_last_before(clock_timestamp() + interval '2 s') AS id \gset
SELECT snowflake_advance(:id);
SELECT snowflake_nextval() > :id;
SELECT snowflake_advance(snowflake_currval() + 100000);
SELECT snowflake_advance(:id);
SELECT snowflake_nextval() > :id}),
	"\nt\n\n\nt",
	'ids are above those from elsewhere');

#
# Leased worker ids
#

my $make = 'SELECT snowflake_worker_id(snowflake_nextval())';
new_database($node, 'leases', "'time:41 worker:2 sequence:4', NULL, max_wait => '0'");
# what another role has put there is no registry
$node->safe_psql('leases', 'CREATE SCHEMA snowflake_registry');
($code) = sqlstate_of($node, 'SELECT snowflake_lease()', database => 'leases');
is($code, '42704', 'a schema alone is no registry');
$node->safe_psql('leases', 'DROP SCHEMA snowflake_registry; CREATE EXTENSION snowflake_registry');
($code) = sqlstate_of($node, $make, database => 'leases');
is($code, 'SF004', 'no id without a lease');
is( $node->safe_psql(
		'leases', "SELECT snowflake_lease() BETWEEN now() + interval '50 s' AND now() + interval '70 s'; $make"),
	"t\n0",
	'a lease is acquired');
is( $node->safe_psql(
		'leases', "SELECT snowflake_lease() > now(); $make; SELECT count(*) FROM snowflake_registry.leases"),
	"t\n0\n1",
	'and renewed');
is( $node->safe_psql('leases', "BEGIN; SELECT snowflake_lease() > now(); ROLLBACK; $make"), "t\n0",
	'but not by a transaction that rolls back');

# a worker id of before, while the clock is behind its ids
new_database($node, 'returns', "'time:41 worker:2 sequence:4', 0, max_wait => '0'");
$node->safe_psql('returns', <<'EOC');
CREATE EXTENSION snowflake_registry;
SELECT snowflake_nextval();
SELECT snowflake_configure('time:41 worker:2 sequence:4', NULL, max_wait => '0');
EOC
set_clock($node, -3600);
is( $node->safe_psql('returns', 'SELECT snowflake_lease() > now()'), 't',
	'a worker id is leased that was configured before');
is((sqlstate_of($node, $make, database => 'returns'))[0], 'SF001', 'it makes no ids of the time that it lived');
set_clock($node, 0);

# another database, through dblink
new_database($node, 'leases_by_dblink', "'time:41 worker:2 sequence:4', NULL, max_wait => '0'");
my $lease = sprintf('SELECT snowflake_lease(%s) > now()', "'" . $node->connstr('leases') =~ s/'/''/gr . "'");
($code, $message) = sqlstate_of($node, $lease, database => 'leases_by_dblink');
is($code, '42704', 'without dblink there is no lease');
$node->safe_psql('leases_by_dblink', 'CREATE EXTENSION dblink');
is( $node->safe_psql('leases_by_dblink', "$lease; $lease; $make"), "t\nt\n1",
	'another database leases another worker id');

# the end of a lease
set_clock($node, 3600);
($code, $message) = sqlstate_of($node, $make, database => 'leases');
is($code, 'SF004', 'ids end with the lease');
like($message, qr/lease of worker id 0 is for ids before.*HINT: .*snowflake_lease/s, 'with detail and hint');
is($node->safe_psql('leases', "SELECT snowflake_lease() > now(); $make"), "t\n0", 'ids are made when it is renewed');
# another server leases that worker id
is( $node->safe_psql(
		'leases',
		"SELECT worker_id FROM snowflake_registry.acquire('b', gen_random_uuid(), (snowflake_capacity()).layout, 4, clock_timestamp(), '1 min')"
	),
	1,
	'an expired lease goes to another server');
is($node->safe_psql('leases_by_dblink', "$lease; $make"), "t\n2", 'and its last holder gets another worker id');

# A copy of the database has the lease from before its start, too.
$node->stop;
start_with_clock($node, 3600);
($code) = sqlstate_of($node, $make, database => 'leases');
is($code, 'SF004', 'after a start, a lease must be acquired again');
is($node->safe_psql('leases', "SELECT snowflake_lease() > now(); $make"), "t\n3", 'with another worker id');
like(warnings_of('leases_by_dblink', $lease), qr/WARNING: .*no free worker id/, 'unless no worker id is free');
($code) = sqlstate_of($node, $make, database => 'leases_by_dblink');
is($code, 'SF004', 'then no ids are made');

# A lease that is being renewed does not replace settings that are made meanwhile.
my $holder = $node->background_psql('leases');
my $renewing = $node->background_psql('leases');
my $configuring = $node->background_psql('leases');
my $pid = $renewing->query_safe('SELECT pg_backend_pid()');
my $configuring_pid = $configuring->query_safe('SELECT pg_backend_pid()');
$holder->query_safe('BEGIN; LOCK TABLE snowflake_registry.lease');
begin_query($renewing, 'SELECT snowflake_lease() > now();');
wait_until($node, $pid, "wait_event_type = 'Lock'", 'a lease is being renewed');
begin_query($configuring, q{SELECT snowflake_configure('time:41 worker:2 sequence:4', 0);});
wait_until(
	$node, $configuring_pid, q{(wait_event_type = 'Lock' OR state = 'idle' AND query LIKE '%configure%')},
	'the settings are changed meanwhile');
$holder->query_safe('COMMIT');
is($renewing->query_safe('SELECT 1'), "t\n1", 'the lease is renewed');
$configuring->query_safe('SELECT 1');
$_->quit foreach $holder, $renewing, $configuring;
is($node->safe_psql('leases', 'SELECT (snowflake_sql.settings()).is_leased'), 'f', 'and the settings are in force');
($code) = sqlstate_of($node, 'SELECT snowflake_lease()', database => 'leases');
is($code, '55000', 'a worker id that was configured is not leased');

# Copies of a database on the same server
$node->safe_psql('postgres', 'CREATE DATABASE registry');
$node->safe_psql('registry', 'CREATE EXTENSION snowflake_registry');
$lease = sprintf('SELECT snowflake_lease(%s) > now()', "'" . $node->connstr('registry') =~ s/'/''/gr . "'");
new_database($node, 'original', "'snowflake', NULL, max_wait => '0'");
$node->safe_psql('original', 'CREATE EXTENSION dblink');
is($node->safe_psql('original', "$lease; $make"), "t\n0", 'a database leases a worker id');
$node->safe_psql('postgres', 'CREATE DATABASE template_copy TEMPLATE original; CREATE DATABASE restored_copy');
command_ok([ 'pg_dump', '--dbname', $node->connstr('original'), '--file', "$dir/original.dump" ], 'it can be dumped');
command_ok(
	[
		'psql', '--no-psqlrc', '--quiet', '--set=ON_ERROR_STOP=1', '--output=/dev/null', '--file',
		"$dir/original.dump", '--dbname', $node->connstr('restored_copy')
	],
	'and restored');
foreach my $copy ('template_copy', 'restored_copy')
{
	($code, $message) = sqlstate_of($node, $make, database => $copy);
	is($code, 'SF004', "$copy does not use the lease of the original");
	like($message, qr/DETAIL: .*for the database with OID \d+/, 'and the detail shows why');
}
is($node->safe_psql('template_copy', "$lease; $make"), "t\n1", 'a copy leases another worker id');
is($node->safe_psql('original', "$lease; $make"), "t\n0", 'the original keeps its own');
$node->stop;

#
# A standby that has not received everything, and passes the same ticks again
#

my $primary = new_server(
	'primary',
	clock => 1,
	synchronous_commit => 'on',
	wal_level => 'replica',
	max_wal_senders => 5);
new_database($primary, 'fails_over', "'snowflake lane:0 sequence:4', 1, max_ahead => '1 hour'");
$id = $primary->safe_psql('fails_over', 'SELECT snowflake_nextval()');
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;
($code) = sqlstate_of($standby, 'SELECT snowflake_nextval()', database => 'fails_over');
is($code, '25006', 'a standby makes no ids');
is($standby->safe_psql('fails_over', "SELECT snowflake_worker_id($id)"), 1, 'but decodes them');
$primary->wait_for_catchup($standby);
$standby->stop;

my $begin = time + 30;
set_clock($primary, 30);
my $seen = $primary->safe_psql('fails_over', 'SELECT snowflake_nextval() FROM generate_series(1, 2000)');
$primary->stop('immediate');
start_with_clock($standby, $begin - 25 - time);
$standby->promote;
is( $standby->safe_psql(
		'fails_over', qq{
CREATE TABLE seen (id bigint);
INSERT INTO seen SELECT unnest('{@{[ join ',', split /\n/, $seen ]}}'::bigint[]);
CREATE TABLE made AS SELECT snowflake_nextval() AS id FROM generate_series(1, 450000);
SELECT count(DISTINCT id), min(id) > $id, (SELECT count(*) FROM seen JOIN made USING (id)) FROM made;
SELECT count(*) > 0 FROM made WHERE id >> 11 IN (SELECT id >> 11 FROM seen)}),
	"450000|t|0\nt",
	'a promoted standby makes none of the ids that its primary made in the same ticks');
$standby->stop;

# The same when ids were ahead of the clock, and committed.  Without timeline bits, the
# standby has the mark, as it lags by less than a reservation.
$primary = new_server(
	'ahead',
	clock => 1,
	synchronous_commit => 'on',
	wal_level => 'replica',
	wal_writer_delay => '10s',
	max_wal_senders => 5);
my @layouts = ('snowflake', 'leaf');
foreach my $layout (@layouts)
{
	new_database($primary, "lags_$layout", "'$layout', 1, max_ahead => '1 hour'");
	$primary->safe_psql("lags_$layout", 'CREATE TABLE seen (id bigint)');
}
# a flush that fails, again and again, does not take ids ahead
if (!$is_new)
{
	new_database($primary, 'fails', "'leaf', 1, max_ahead => '1 hour', durable => true");
	is( $primary->safe_psql(
			'fails', q{
CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS
'BEGIN IF current_setting(''test.refuse'', true) = ''on'' THEN RAISE ''no DDL''; END IF; END';
CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('CREATE TABLE AS') EXECUTE FUNCTION refuse();
SET test.refuse = on;
DO $$
BEGIN
	FOR i IN 1..20 LOOP
		BEGIN
			PERFORM snowflake_nextval();
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	END LOOP;
END
$$;
RESET test.refuse;
SELECT snowflake_nextval() > 0;
SELECT durable, mark_ahead < '3 s' FROM snowflake_status();
SELECT snowflake_advance(snowflake_first_from(clock_timestamp() + interval '30 min'));
SELECT snowflake_nextval() > 0}),
		"t\nt|t\n\nt",
		'calls fail if the flush does, and ids stay at the clock');
	# nor does one that fails after a crash leave the next call without a flush
	$primary->stop('immediate');
	start_with_clock($primary, 0);
	($code) = sqlstate_of($primary, 'SET test.refuse = on; SELECT snowflake_nextval()', database => 'fails');
	is($code, 'P0001', 'a flush fails after a crash');
	$id = $primary->safe_psql('fails', 'SELECT max(snowflake_nextval()) FROM generate_series(1, 3)');
	$primary->stop('immediate');
	start_with_clock($primary, 0);
	is($primary->safe_psql('fails', "SELECT snowflake_nextval() > $id"), 't', 'but the next one is not forgotten');
	# durable settings can be left although the flush fails
	is( $primary->safe_psql(
			'fails', q{
SET test.refuse = on;
SELECT snowflake_configure('leaf', 1, max_ahead => '1 hour', durable => false)}
		),
		'',
		'settings that are not durable need no flush');
	is( $primary->safe_psql(
			'fails', "SET test.refuse = on; SELECT snowflake_nextval() > $id; SELECT durable FROM snowflake_status()"),
		"t\nf",
		'and their ids are greater');
}
$primary->backup('backup');
$standby = PostgreSQL::Test::Cluster->new('lagging');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
start_with_clock($standby, 0);
set_clock($primary, 1800);
$primary->safe_psql("lags_$_", 'INSERT INTO seen SELECT snowflake_nextval() FROM generate_series(1, 10)')
  foreach @layouts;
set_clock($primary, 0);
$primary->wait_for_catchup($standby);
$standby->safe_psql('postgres', $_) foreach q{ALTER SYSTEM SET primary_conninfo = ''}, 'SELECT pg_reload_conf()';
$standby->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_wal_receiver')
  or BAIL_OUT('the standby does not stop to receive');
my %committed;
$committed{$_} = $primary->safe_psql(
	"lags_$_",
	'INSERT INTO seen SELECT snowflake_nextval() FROM generate_series(1, 300) RETURNING id') foreach @layouts;
$primary->stop('immediate');
$standby->promote;
foreach my $layout (@layouts)
{
	is($standby->safe_psql("lags_$layout", 'SELECT count(*) FROM seen'), 10, "$layout: the standby lags");
	is( $standby->safe_psql(
			"lags_$layout", qq{
CREATE TABLE made AS SELECT snowflake_nextval() AS id FROM generate_series(1, 100000);
SELECT count(*) FROM made WHERE id = ANY ('{@{[ join ',', split /\n/, $committed{$layout} ]}}')}),
		0,
		"$layout: when it is promoted, it makes none of the committed ids again");
}
$standby->stop;

done_testing();
