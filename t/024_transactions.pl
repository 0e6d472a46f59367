# Mark and guard in transactions: created again and rolled back, the extension created
# or dropped, and other attacks on the guard.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep time);

my ($code, $message);

# Have a parallel worker run a statement.
sub parallel
{
	my ($node, $sql) = @_;
	my $force = $node->pg_version < 16 ? 'force_parallel_mode' : 'debug_parallel_query';

	return "SET LOCAL $force = on; $sql; RESET $force";
}

#
# A transaction creates the mark or the guard again, and makes ids, so that the limit
# moves.  Other sessions make ids up to the limit, too.  Then the transaction is rolled
# back, the server crashes, and the same seconds pass again.
#
my $mark_anew = <<'EOC';
ALTER EXTENSION snowflake DROP SEQUENCE snowflake_internal.mark;
DROP SEQUENCE snowflake_internal.mark;
CREATE SEQUENCE snowflake_internal.mark MINVALUE 0 START 0;
ALTER EXTENSION snowflake ADD SEQUENCE snowflake_internal.mark;
EOC
my $guard_anew = <<'EOC';
SELECT pg_get_viewdef('snowflake_internal.guard') AS definition \gset
ALTER EXTENSION snowflake DROP MATERIALIZED VIEW snowflake_internal.guard;
ALTER MATERIALIZED VIEW snowflake_internal.guard RENAME TO old_guard;
CREATE MATERIALIZED VIEW snowflake_internal.guard AS :definition
ALTER EXTENSION snowflake ADD MATERIALIZED VIEW snowflake_internal.guard;
EOC
my $mark_rewritten = 'ALTER SEQUENCE snowflake_internal.mark RESTART;';
my $guard_rewritten = 'REFRESH MATERIALIZED VIEW snowflake_internal.guard;';

# the last element tells whether a parallel worker makes the ids
my @transactions = (
	[ 'mark and guard created again', $guard_anew . $mark_anew, 0 ],
	[ 'mark and guard rewritten, parallel worker', $mark_rewritten . $guard_rewritten, 1 ]);

# Return the SQLSTATE that the transaction ends with, and the numbers of ids and
# duplicates.
sub hunt_rolled_back
{
	my ($node, $transaction, $worker) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $file = PostgreSQL::Test::Utils::tempdir() . '/session.ids';
	my $next =
	  "SELECT 'id', snowflake_nextval() FROM generate_series(1, 6000) AS i WHERE i % 20 > 0 OR pg_sleep(0.001) IS NOT NULL";
	my @collectors = start_collectors($node, 4);

	# until the reservation is used up, as no other session can move the mark
	wait_for_collectors($node, 4);
	wait_for_lines(10_000, map { $_->{ids} } @collectors);
	$session->query('SELECT snowflake_nextval()');
	$session->query("BEGIN;\n\\set VERBOSITY verbose\n$transaction");
	sleep 2.5;
	my $began = time;
	my $code = '00000';
	my $out = $session->query(($worker ? parallel($node, $next) : $next) . ';');
	$code = $1 if take_errors($session) =~ /ERROR:  (\w{5}):/;
	append_to_file($file, join '', map { "$_\n" } $out =~ /^id\|(\d+)$/mg);

	# before these move the limit themselves
	stop_collectors(@collectors);
	$session->query('ROLLBACK');
	$node->stop('immediate');
	eval { $session->quit };

	start_with_clock($node, $began - time);
	my ($again) = live_from($node, $began, $began + 2);
	my ($ids, $duplicates) = count_duplicates(@collectors, { ids => $file }, @$again);
	$node->stop('immediate');
	start_with_clock($node, 0);
	return ($code, $ids, $duplicates);
}

my $node = new_hunting_server('rolled_back', 'snowflake.sequence_start' => 'zero');
foreach my $case (@transactions)
{
	my ($name, $transaction, $worker) = @$case;
	my ($found, $ids, $duplicates) = hunt_rolled_back($node, $transaction, $worker);

	# the statements themselves may be refused, too
	like($found, qr/^(55000|25P02)$/, "$name: no ids in the transaction");
	is($duplicates, 0, "$name: rolled back, crashed: none of $ids ids is made twice");
	cmp_ok($ids, '>', 10_000, "$name: many ids were made");
}
$node->stop;

#
# The extension is created and used in one transaction, with wal_level = minimal, by
# parallel workers, too, and committed or rolled back.  In either case ids continue, at
# once and after a crash.  All sessions share one lane, so that each id is above all
# earlier ones.
#
$node = new_server(
	'created', clock => 1, 'snowflake.layout' => 'snowflake lane:0', wal_level => 'minimal', max_wal_senders => 0,
	'snowflake.max_ahead' => '1s',
	'snowflake.max_wait' => '10s');
$node->safe_psql('postgres', 'DROP EXTENSION snowflake');
foreach my $outcome ('ROLLBACK', 'COMMIT')
{
	my $worker = parallel(
		$node,
		'CREATE TABLE made AS SELECT snowflake_nextval() AS id, pg_sleep(0.1)::text FROM generate_series(1, 10)');
	my $id = $node->safe_psql(
		'postgres', qq{
BEGIN;
CREATE EXTENSION snowflake;
$worker;
SELECT max(id) FROM (SELECT id FROM made UNION ALL SELECT snowflake_nextval()) AS m;
$outcome;
});
	$node->safe_psql('postgres', 'CREATE EXTENSION IF NOT EXISTS snowflake');
	my $next = $node->safe_psql('postgres', 'SELECT snowflake_nextval()');
	cmp_ok($next, '>', $id, "created and used in one transaction, $outcome: ids continue");
	$node->stop('immediate');
	start_with_clock($node, -1.5);
	cmp_ok(
		$node->safe_psql('postgres', 'SELECT snowflake_nextval()'),
		'>', $next, "created and used in one transaction, $outcome, crash: ids continue");
	$node->safe_psql('postgres', 'DROP EXTENSION snowflake') if $outcome eq 'ROLLBACK';
	set_clock($node, 0);
}
$node->stop;

#
# The extension is dropped and created in one transaction, which may fail: ids are made
# only after its end.
#
$node = new_server('recreated', clock => 1, 'snowflake.layout' => 'snowflake lane:0', 'snowflake.max_ahead' => '1min');
my $next = 'SELECT snowflake_nextval()';
my $id = $node->safe_psql('postgres', $next);
foreach my $transaction (
	'DROP EXTENSION snowflake; CREATE EXTENSION snowflake',
	'SAVEPOINT s; DROP EXTENSION snowflake; CREATE EXTENSION snowflake; RELEASE s')
{
	foreach my $sql ($next, parallel($node, $next))
	{
		($code, $message) = sqlstate_of($node, "BEGIN; $transaction; $sql; ROLLBACK");
		is($code, '55000', "no ids: $transaction; $sql") or diag($message);
	}
	cmp_ok($node->safe_psql('postgres', $next), '>', $id, 'ids continue when it is rolled back');
	$id = $node->safe_psql('postgres', "BEGIN; $transaction; COMMIT; $next");
	cmp_ok($node->safe_psql('postgres', $next), '>', $id, 'and when it is committed');
	$id = $node->safe_psql('postgres', $next);
}
$node->stop('immediate');
start_with_clock($node, -3);
cmp_ok($node->safe_psql('postgres', $next), '>', $id, 'even after a crash');

#
# Not even a superuser can change the guard.
#
set_clock($node, 0);
foreach my $case (
	[ '42809', 'INSERT INTO snowflake_internal.guard VALUES (0)' ],
	[ '42809', 'UPDATE snowflake_internal.guard SET bound = 0' ],
	[ '42809', 'DELETE FROM snowflake_internal.guard' ],
	[ '42809', 'TRUNCATE snowflake_internal.guard' ],
	[ '42809', "COPY snowflake_internal.guard FROM '/dev/null'" ],
	[ '42809', 'SELECT FROM snowflake_internal.guard FOR UPDATE' ],
	[ '0A000', 'MERGE INTO snowflake_internal.guard USING (VALUES (1)) AS v ON true WHEN MATCHED THEN DELETE' ],
	[ '42809', "SELECT setval('snowflake_internal.guard', 0)" ],
	[ '2BP01', 'DROP MATERIALIZED VIEW snowflake_internal.guard' ],
	[ '2BP01', 'DROP SEQUENCE snowflake_internal.mark' ],
	[ '2BP01', 'DROP SCHEMA snowflake_internal CASCADE' ])
{
	my ($expected, $sql) = @$case;

	($code, $message) = sqlstate_of($node, $sql);
	is($code, $expected, $sql) or diag($message);
}

# Commands that write a new file for the guard keep its contents, even if the mark was
# set back.
foreach my $sql (
	'REFRESH MATERIALIZED VIEW snowflake_internal.guard',
	'VACUUM FULL snowflake_internal.guard',
	'VACUUM FREEZE snowflake_internal.guard',
	'BEGIN; REFRESH MATERIALIZED VIEW snowflake_internal.guard WITH NO DATA; ROLLBACK')
{
	$id = $node->safe_psql('postgres', "SELECT max(snowflake_nextval()) FROM generate_series(1, 100)");
	$node->safe_psql('postgres', "SELECT setval('snowflake_internal.mark', 0, false)");
	($code, $message) = sqlstate_of($node, $sql);
	is($code, '00000', $sql) or diag($message);
	$node->stop('immediate');
	start_with_clock($node, -3);
	cmp_ok($node->safe_psql('postgres', $next), '>', $id, 'ids continue after a crash');
	set_clock($node, 0);
}

# Without the guard's row, ids are not made, or are above all earlier ones.
$id = $node->safe_psql('postgres', $next);
sqlstate_of($node, 'REFRESH MATERIALIZED VIEW snowflake_internal.guard WITH NO DATA');
$node->stop('immediate');
start_with_clock($node, -3);
my ($ret, $out) = $node->psql('postgres', $next);
ok($ret != 0 || $out > $id, 'a guard without its row: no ids, or greater ids');
$node->psql('postgres', 'REFRESH MATERIALIZED VIEW snowflake_internal.guard');
($ret, $out) = $node->psql('postgres', $next);
ok($ret != 0 || $out > $id, 'a guard with a new row: no ids, or greater ids');
$node->stop;

done_testing();
