# Tests that depend on the kind of machine, small enough for slow or emulated ones:
# lanes and windows with many clients while windows are closed, blocks, parallel
# workers, and crashes after which the same seconds pass again.  Try it on a machine of
# your own: script/check VERSION t/world/machine.pl

use SnowflakeTest;

# 16 clients make ids, while an owner keeps advancing them, which closes the windows of
# all clients.  In a narrow layout they wait for each other most of the time.
foreach my $layout ('snowflake', 'snowflake lane:0')
{
	my $name = $layout =~ tr/a-z0-9/_/cr;
	my $node = new_server(
		$name, 'snowflake.layout' => $layout, 'snowflake.max_ahead' => '10min',
		'snowflake.max_wait' => '10min');

	sql($node, <<'EOC');
CREATE UNLOGGED TABLE ids (id bigint PRIMARY KEY, client int, xid bigint, n int);
CREATE UNLOGGED TABLE advanced (id bigint);
EOC
	my $advances = start_clients($node, '--client=1 --transactions=1000', <<'EOC');
WITH next AS MATERIALIZED (SELECT snowflake_nextval() + 4096 AS id),
	advance AS MATERIALIZED (SELECT id, snowflake_advance(id)::text FROM next)
INSERT INTO advanced SELECT id FROM advance WHERE advance IS NOT NULL;
EOC
	my $takers = start_clients($node, '--client=16 --jobs=2 --transactions=50', <<'EOC');
INSERT INTO ids SELECT snowflake_nextval(), :client_id, txid_current(), i FROM generate_series(1, 200) AS i;
EOC
	my $blocks = start_clients($node, '--client=4 --transactions=50', <<'EOC');
INSERT INTO ids SELECT generate_series(first_id, last_id), -1, 0, 0 FROM snowflake_reserve(500);
EOC
	finish_clients($takers, "$layout: 16 clients make 160000 ids without a duplicate");
	finish_clients($blocks, "$layout: 4 clients that take blocks succeed, too");
	finish_clients($advances, "$layout: and ids are advanced meanwhile");
	sql_is($node, 'SELECT count(*) FROM ids', 260_000, "$layout: all ids are in the table");
	sql_is($node, <<'EOC', 0, "$layout: the ids of each client increase");
SELECT count(*) FROM (SELECT id <= lag(id) OVER (PARTITION BY client ORDER BY xid, n) AS is_wrong FROM ids WHERE client >= 0) AS i
WHERE is_wrong
EOC
	sql_is($node, 'SELECT count(*) FROM advanced', 1000, "$layout: ids were advanced 1000 times");
	my $force = $node->pg_version < 16 ? 'force_parallel_mode' : 'debug_parallel_query';
	sql_is($node, <<"EOC", '20000|20000', "$layout: ids of parallel workers are unique");
SET $force = on;
CREATE TABLE forced AS SELECT snowflake_nextval() AS id FROM generate_series(1, 20000);
SELECT count(*), count(DISTINCT id) FROM forced;
EOC
	$node->stop;
}

# The clock falls back by a minute at each crash, so that the same time passes again;
# ids continue, ahead of the clock.
my $node = new_server(
	'crash', clock => 1, 'snowflake.layout' => 'snowflake lane:1', 'snowflake.max_ahead' => '1h',
	'wal_writer_delay' => '10s');
my ($highest, $offset, @all) = (0, 0);
foreach my $round (1 .. 3)
{
	my @collectors = start_collectors($node, 16);
	wait_for_collectors($node, 16);
	$node->stop('immediate');
	$offset -= 60;
	start_with_clock($node, $offset);
	stop_collectors(@collectors);
	push @all, @collectors;

	my @ids = sort { $a <=> $b } map { /^(\d+)\n/mg } map { slurp_file($_->{ids}) } @collectors;
	cmp_ok(scalar @ids, '>', 100, "crash $round: many ids were made");
	cmp_ok($ids[0], '>', $highest, "crash $round: they are greater than before");
	$highest = $ids[-1];
}
my ($ids, $duplicates) = count_duplicates(@all);
is($duplicates, 0, "crashes: none of $ids ids is made twice");
crash($node);
cmp_ok(sql($node, 'SELECT snowflake_nextval()'), '>', $highest, 'ids are greater after a backend was killed, too');

done_testing();
