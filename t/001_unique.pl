# No id is made twice: by many sessions on few lanes, parallel plans, sessions that come
# and go, several databases.

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

# 32 clients share 8, 2 or 1 lanes, so that their PIDs collide in the low bits.
# SNOWFLAKE_LONG_TESTS makes ten times as many ids.
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

	# at least half a million, unless another server had the same layout
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
		$total, "$name: all ids are in the table");
	# otherwise the test above would have tested nothing
	cmp_ok(
		$node->safe_psql(
			'postgres',
			'SELECT max(pids) FROM (SELECT count(DISTINCT pid) AS pids FROM ids GROUP BY snowflake_lane(id)) AS l'),
		'>', 1,
		"$name: sessions share lanes");
	$node->stop;
}

my $node = new_server('main');
$node->safe_psql('postgres', <<'EOC');
CREATE UNLOGGED TABLE ids (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
CREATE TABLE rows AS SELECT FROM generate_series(1, 1000000);
ANALYZE rows;
EOC

# Parallel workers make ids, even when a whole query is forced into one.
my $force = $node->pg_version < 16 ? 'force_parallel_mode' : 'debug_parallel_query';
is( $node->safe_psql(
		'postgres', qq{
SET $force = on;
CREATE TEMP TABLE forced AS SELECT i, snowflake_nextval() AS id FROM generate_series(1, 100000) AS i;
SELECT count(*), count(DISTINCT id) FROM forced;
SELECT snowflake_worker_id(snowflake_nextval());
}),
	"100000|100000\n0",
	'ids of a forced parallel worker are unique');

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
	'a plan uses several workers');
is( $node->safe_psql(
		'postgres', qq{
$settings
CREATE TABLE parallel AS SELECT snowflake_nextval() AS id FROM rows;
SELECT count(*), count(DISTINCT id), count(DISTINCT snowflake_lane(id)) > 1 FROM parallel;
SELECT count(*), count(DISTINCT snowflake_timestamp(id)) > 1 FROM parallel WHERE snowflake_worker_id(id) = 0;
}),
	"1000000|1000000|t\n1000000|t",
	'ids of a parallel plan are unique');

# COPY inserts in batches, as it does for nextval().  Row by row it would write half as
# much WAL again.
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

# Sessions that each take one id and leave.
my $each = 200 * $factor;
run_clients(
	$node,
	"--client=16 --jobs=2 --connect --transactions=$each",
	16 * $each . ' sessions take one id each',
	'INSERT INTO ids DEFAULT VALUES');
is( $node->safe_psql('postgres', 'SELECT count(*) FROM ids'),
	16 * $each, 'all of their ids are in the table');

# They returned their lanes: a lone session gets the lane that matches its PID.
my $at_home = 0;
foreach (1 .. 20)
{
	my $session = $node->background_psql('postgres');

	wait_until_alone($session);
	$at_home += $session->query_safe('SELECT (snowflake_lane(snowflake_nextval()) = pg_backend_pid() & 7)::int');
	$session->quit;
}
is($at_home, 20, 'lanes are free again');

# With as many sessions as lanes, each session has a lane to itself.
my @sessions = $node->background_psql('postgres');
wait_until_alone($sessions[0]);
push @sessions, $node->background_psql('postgres') foreach 2 .. 8;
my %lanes;
$lanes{ $_->query_safe('SELECT snowflake_lane(snowflake_nextval())') }++ foreach @sessions;
is(join(' ', sort keys %lanes), '0 1 2 3 4 5 6 7', 'eight sessions use eight lanes');
$_->quit foreach @sessions;

# Two databases at the same time.  The ids of one are loaded into the other.
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
is(scalar(grep { $_->finish } @runs), 2, 'clients make ids in two databases at once');
my $dump = abs_path($node->basedir) . '/two.copy';
$node->safe_psql('other', "COPY two TO '$dump'");
is( $node->safe_psql('postgres', "COPY two FROM '$dump'; SELECT count(*) FROM two"),
	800000,
	'no id is in both databases');

# A killed backend takes the server down, which starts with new lanes.
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
	'ids continue above the earlier ones after a crash restart');

$node->stop;
done_testing();
