# Mark and guard in transactions: created again and rolled back, the extension created.

use SnowflakeTest;

# Have a parallel worker run a statement.
sub parallel
{
	my ($node, $sql) = @_;
	my $force = $node->pg_version < 16 ? 'force_parallel_mode' : 'debug_parallel_query';

	return "SET LOCAL $force = on; $sql; RESET $force";
}

# The extension is created and used in one transaction, with wal_level = minimal, by
# parallel workers, too, and committed or rolled back.  In either case ids continue, at
# once and after a crash.  All sessions share one lane, so that each id is above all
# earlier ones.
my $node = new_server(
	'created', clock => 1, 'snowflake.layout' => 'snowflake lane:0', wal_level => 'minimal',
	max_wal_senders => 0, 'snowflake.max_set_back' => 0, 'snowflake.max_ahead' => '1s', 'snowflake.max_wait' => '10s');
sql($node, 'DROP EXTENSION snowflake');
foreach my $outcome ('ROLLBACK', 'COMMIT')
{
	my $worker = parallel(
		$node,
		'CREATE TABLE made AS SELECT snowflake_nextval() AS id, pg_sleep(0.1)::text FROM generate_series(1, 10)');
	my $id = sql(
		$node, qq{
BEGIN;
CREATE EXTENSION snowflake;
$worker;
SELECT max(id) FROM (SELECT id FROM made UNION ALL SELECT snowflake_nextval()) AS m;
$outcome;
});
	sql($node, 'CREATE EXTENSION IF NOT EXISTS snowflake');
	my $next = sql($node, 'SELECT snowflake_nextval()');
	cmp_ok($next, '>', $id, "created and used in one transaction, $outcome: ids continue");
	restart_with($node, stop => 'immediate', clock => -1.5);
	cmp_ok(
		sql($node, 'SELECT snowflake_nextval()'), '>', $next,
		"created and used in one transaction, $outcome, crash: ids continue");
	sql($node, 'DROP EXTENSION snowflake') if $outcome eq 'ROLLBACK';
	set_clock($node, 0);
}
$node->stop;

# A transaction that may fail makes the relations or the extension anew: ids are made only
# after its end, because the old mark would come back and not cover them.
$node = new_server(
	'recreated', clock => 1, 'snowflake.layout' => 'snowflake lane:0', 'snowflake.max_ahead' => '1min',
	'snowflake.max_set_back' => 0);
my $next = 'SELECT snowflake_nextval()';
my $id = sql($node, $next);
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
foreach my $case (
	[ 'created again', $guard_anew . $mark_anew ],
	[
		'rewritten',
		'ALTER SEQUENCE snowflake_internal.mark RESTART; REFRESH MATERIALIZED VIEW snowflake_internal.guard;'
	])
{
	my ($name, $transaction) = @$case;

	# until the reservation is used up
	sleep 2.5;
	foreach my $sql ($next, parallel($node, $next))
	{
		sql_fails($node, "BEGIN; $transaction $sql; ROLLBACK", '55000', "$name: no ids by $sql");
	}
	cmp_ok(sql($node, $next), '>', $id, "$name: ids continue when it is rolled back");
	$id = sql($node, $next);
	next if $name eq 'created again';
	$id = sql($node, "BEGIN; $transaction COMMIT; $next");
	cmp_ok(sql($node, $next), '>', $id, 'and when it is committed');
	$id = sql($node, $next);
}
restart_with($node, stop => 'immediate', clock => -3);
cmp_ok(sql($node, $next), '>', $id, 'even after a crash');

set_clock($node, 0);

# Commands that write a new file for the guard keep its contents, even if the mark was
# set back.
foreach my $sql (
	'REFRESH MATERIALIZED VIEW snowflake_internal.guard',
	'VACUUM FULL snowflake_internal.guard',
	'VACUUM FREEZE snowflake_internal.guard',
	'BEGIN; REFRESH MATERIALIZED VIEW snowflake_internal.guard WITH NO DATA; ROLLBACK')
{
	$id = sql($node, "SELECT max(snowflake_nextval()) FROM generate_series(1, 100)");
	sql($node, "SELECT setval('snowflake_internal.mark', 0, false)");
	sql_succeeds($node, $sql, $sql);
	restart_with($node, stop => 'immediate', clock => -3);
	cmp_ok(sql($node, $next), '>', $id, 'ids continue after a crash');
	set_clock($node, 0);
}

done_testing();
