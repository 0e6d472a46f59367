# No id is made twice: many sessions, few lanes, parallel plans, sessions that
# come and go, several databases.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use Cwd qw(abs_path);
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

# 32 clients share 8 lanes, or 2, or 1, so PIDs collide in their low bits.
# Ten times as many ids with SNOWFLAKE_LONG_TESTS.
my $clients = 32;
my $factor = $ENV{SNOWFLAKE_LONG_TESTS} ? 10 : 1;
my $per_transaction = 1000;
my %servers = (
	'default' => { 'snowflake.layout' => 'snowflake' },
	'lane0' => { 'snowflake.layout' => 'snowflake lane:0' },
	'lane1' => { 'snowflake.layout' => 'snowflake lane:1' },
	'tick1s' => { 'snowflake.layout' => 'snowflake time:31 tick:1s sequence:22' },
	'preloaded' => { preload => 1 });

foreach my $name (sort keys %servers)
{
	my $node = new_server($name, %{ $servers{$name} });

	# half a million at least, but where the layout is one that we have had
	my $transactions = ($name eq 'preloaded' ? 2 : 16) * $factor;
	my $total = $clients * $transactions * $per_transaction;

	$node->safe_psql(
		'postgres',
		'CREATE UNLOGGED TABLE ids (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), pid int)');
	run_clients(
		$node,
		"--client=$clients --jobs=2 --protocol=prepared --transactions=$transactions",
		"$name: $clients clients insert $total ids without a duplicate",
		"INSERT INTO ids (pid) SELECT pg_backend_pid() FROM generate_series(1, $per_transaction)");
	is( $node->safe_psql('postgres', 'SELECT count(*) FROM ids'),
		$total, "$name: all ids are there");
	# else the test above would not have tried what it is for
	cmp_ok(
		$node->safe_psql(
			'postgres',
			'SELECT max(pids) FROM (SELECT count(DISTINCT pid) AS pids FROM ids GROUP BY snowflake_lane(id)) AS l'),
		'>', 1,
		"$name: sessions shared lanes");
	$node->stop;
}

my $node = new_server('main');
$node->safe_psql('postgres', <<'EOC');
CREATE UNLOGGED TABLE ids (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
CREATE TABLE rows AS SELECT FROM generate_series(1, 1000000);
ANALYZE rows;
EOC

# Parallel workers make ids, also when all of a query is forced into one.
my $force = $node->pg_version < 16 ? 'force_parallel_mode' : 'debug_parallel_query';
is( $node->safe_psql(
		'postgres', qq{
SET $force = on;
CREATE TEMP TABLE forced AS SELECT i, snowflake_nextval() AS id FROM generate_series(1, 100000) AS i;
SELECT count(*), count(DISTINCT id) FROM forced;
SELECT snowflake_worker_id(snowflake_nextval());
}),
	"100000|100000\n0",
	'forced parallel mode');

my $settings = qq{
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 4;
};
like(
	$node->safe_psql(
		'postgres',
		"$settings EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT snowflake_nextval() FROM rows"),
	qr/Workers Launched: [2-9]/,
	'a plan with several workers');
is( $node->safe_psql(
		'postgres', qq{
$settings
CREATE TABLE parallel AS SELECT snowflake_nextval() AS id FROM rows;
SELECT count(*), count(DISTINCT id), count(DISTINCT snowflake_lane(id)) > 1 FROM parallel;
SELECT count(*), count(DISTINCT snowflake_timestamp(id)) > 1 FROM parallel WHERE snowflake_worker_id(id) = 0;
}),
	"1000000|1000000|t\n1000000|t",
	'ids made by a parallel plan');

# COPY adds rows in batches, as it does for nextval(); one by one they would
# take half as much WAL again.
my $rows = abs_path($node->basedir) . '/rows';
$node->safe_psql('postgres', "COPY (SELECT generate_series(1, 200000)) TO '$rows'");
my %wal;
my @defaults = map { "bigint DEFAULT $_()" } 'snowflake_nextval', 'snowflake_id';
foreach my $type ('bigserial', @defaults)
{
	$wal{$type} = $node->safe_psql(
		'postgres', qq{
CREATE TABLE copied (id $type PRIMARY KEY, v int);
SELECT pg_current_wal_insert_lsn() AS start \\gset
COPY copied (v) FROM '$rows';
SELECT pg_current_wal_insert_lsn() - :'start';
DO 'BEGIN ASSERT (SELECT count(DISTINCT id) = 200000 FROM copied); END';
DROP TABLE copied;
});
}
cmp_ok($wal{$_}, '<', 1.1 * $wal{bigserial}, "COPY takes no more WAL for $_ than for bigserial") foreach @defaults;

# Sessions that take one id and leave.
my $each = 200 * $factor;
run_clients(
	$node,
	"--client=16 --jobs=2 --connect --transactions=$each",
	16 * $each . ' sessions with one id each',
	'INSERT INTO ids DEFAULT VALUES');
is( $node->safe_psql('postgres', 'SELECT count(*) FROM ids'),
	16 * $each, 'all of their ids are there');

# They gave their lanes back: a session alone gets the lane that its PID names.
my $at_home = 0;
foreach (1 .. 20)
{
	my $session = $node->background_psql('postgres');

	wait_until_alone($session);
	$at_home += $session->query_safe('SELECT (snowflake_lane(snowflake_nextval()) = pg_backend_pid() & 7)::int');
	$session->quit;
}
is($at_home, 20, 'lanes are free again');

# And when there are as many sessions as lanes, each has its own.
my @sessions = $node->background_psql('postgres');
wait_until_alone($sessions[0]);
push @sessions, $node->background_psql('postgres') foreach 2 .. 8;
my %lanes;
$lanes{ $_->query_safe('SELECT snowflake_lane(snowflake_nextval())') }++ foreach @sessions;
is(join(' ', sort keys %lanes), '0 1 2 3 4 5 6 7', 'eight sessions live in eight lanes');
$_->quit foreach @sessions;

# Two databases at once.  The ids of one are loaded into the other.
$node->safe_psql('postgres', 'CREATE DATABASE other');
add_extension($node, 'other');
my $script = PostgreSQL::Test::Utils::tempdir() . '/two.sql';
append_to_file(
	$script,
	'INSERT INTO two SELECT snowflake_nextval() FROM generate_series(1, 1000)');
my @runs;
foreach my $database ('postgres', 'other')
{
	$node->safe_psql($database, 'CREATE UNLOGGED TABLE two (id bigint PRIMARY KEY)');
	push @runs,
	  IPC::Run::start(
		[
			$node->installed_command('pgbench'), '--no-vacuum',
			'--client=8', '--transactions=50',
			"--file=$script", '--host=' . $node->host,
			'--port=' . $node->port, $database
		],
		'>' => '/dev/null',
		'2>' => '/dev/null');
}
is(scalar(grep { $_->finish } @runs), 2, 'clients of two databases at once');
my $dump = abs_path($node->basedir) . '/two.copy';
$node->safe_psql('other', "COPY two TO '$dump'");
is( $node->safe_psql('postgres', "COPY two FROM '$dump'; SELECT count(*) FROM two"),
	800000,
	'no id is in both databases');

# A backend that is killed takes the server down, which begins with new lanes.
$node->safe_psql(
	'postgres',
	'CREATE TABLE before_crash AS SELECT snowflake_nextval() AS id FROM generate_series(1, 100000); CHECKPOINT');
crash($node);
is( $node->safe_psql(
		'postgres', q{
WITH after_crash AS MATERIALIZED (SELECT snowflake_nextval() AS id FROM generate_series(1, 100000))
SELECT count(*), count(DISTINCT id), (SELECT min(id) FROM after_crash) > (SELECT max(id) FROM before_crash)
FROM (SELECT id FROM before_crash UNION ALL SELECT id FROM after_crash) AS u
}),
	'200000|200000|t',
	'ids go on after a crash restart');

$node->stop;
done_testing();
