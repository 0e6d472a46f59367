# No id is made twice: by many sessions on few lanes, parallel plans, COPY.
# The simulator has several databases, too, and sessions that come and go.

use Cwd qw(abs_path);
use SnowflakeTest;

# 32 clients share two lanes, so that their PIDs collide in the low bits.
# SNOWFLAKE_LONG_TESTS makes ten times as many ids.
my $factor = $ENV{SNOWFLAKE_LONG_TESTS} ? 10 : 1;
my $node = new_server('lane1', 'snowflake.layout' => 'snowflake lane:1');
sql($node, 'CREATE UNLOGGED TABLE ids (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), pid int)');
run_clients(
	$node, '--client=32 --jobs=2 --protocol=prepared --transactions=' . 32 * $factor,
	'32 clients insert ids without a duplicate',
	'INSERT INTO ids (pid) SELECT pg_backend_pid() FROM generate_series(1, 1000)');
sql_is(
	$node,
	'SELECT sum(ids), max(pids) > 1 FROM (SELECT count(*) AS ids, count(DISTINCT pid) AS pids FROM ids GROUP BY (snowflake_decode(id)).lane) AS l',
	1024000 * $factor . '|t', 'all ids are in the table, and sessions share lanes');
$node->stop;

$node = new_server('main');
sql($node, <<'EOC');
CREATE TABLE rows AS SELECT FROM generate_series(1, 1000000);
ANALYZE rows;
EOC

# Parallel workers make ids.
my $settings = qq{
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 4;
};
like(
	sql($node, "$settings EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT snowflake_nextval() FROM rows"),
	qr/Workers Launched: [2-9]/, 'a plan uses several workers');
sql_is(
	$node, qq{
$settings
CREATE TABLE parallel AS SELECT snowflake_nextval() AS id FROM rows;
SELECT count(*), count(DISTINCT id) FROM parallel;
SELECT count(*), count(DISTINCT snowflake_timestamp(id)) > 1 FROM parallel WHERE snowflake_worker_id(id) = 0;
}, "1000000|1000000\n1000000|t", 'ids of a parallel plan are unique');

# COPY inserts in batches, as it does for nextval().  Row by row it would write half as
# much WAL again.
my $rows = abs_path($node->basedir) . '/rows';
sql($node, "COPY (SELECT generate_series(1, 200000)) TO '$rows'");
my %wal;
my @defaults = map { "bigint DEFAULT $_()" } 'snowflake_nextval', 'snowflake_id';
foreach my $type ('bigserial', @defaults)
{
	$wal{$type} = sql(
		$node, qq{
CREATE TABLE copied (id $type PRIMARY KEY, v int);
SELECT pg_current_wal_insert_lsn() AS start \\gset
COPY copied (v) FROM '$rows';
SELECT pg_current_wal_insert_lsn() - :'start';
DO 'BEGIN ASSERT (SELECT count(DISTINCT id) = 200000 FROM copied); END';
DROP TABLE copied;
});
}
cmp_ok($wal{$_}, '<', 1.1 * $wal{bigserial}, "COPY takes no more WAL for $_ than for bigserial") foreach @defaults;

$node->stop;
done_testing();
