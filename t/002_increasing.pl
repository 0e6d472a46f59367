# The ids of a session strictly increase, in layouts of all kinds, with tags, and whatever
# other sessions do.  With one lane, ids increase across all sessions.  The simulator has
# all orders of events; this shows on real servers that the pieces fit.

use SnowflakeTest;

# Sessions take bursts of ids at random times, in layouts so narrow that they keep
# colliding, pushing lanes ahead and waiting for the clock.
foreach my $layout (
	'time:41 worker:5 sequence:3 lane:2',
	'time:41 lane:2 tag:4 worker:5 sequence:3',
	'time:41 lane:2 sequence:3 worker:5 tag:4',
	'time:51 sequence:3 lane:2 tick:1us')
{
	my $node = new_server(
		'narrow' . $layout =~ s/\W/_/gr, 'snowflake.layout' => $layout, 'snowflake.max_ahead' => '1s',
		'snowflake.max_wait' => '60s');
	my $nextval = $layout =~ /tag/ ? 'snowflake_nextval(tag)' : 'snowflake_nextval()';
	# if tag is above sequence, ids increase only per tag
	my $series = $layout =~ /tag.*sequence/ ? 'pid, tag' : 'pid';

	sql($node, 'CREATE UNLOGGED TABLE ids (n bigserial, id bigint PRIMARY KEY, pid int, tag int)');
	run_clients(
		$node, '--client=12 --jobs=2 --protocol=prepared --transactions=60',
		"no id is made twice in '$layout'", <<"EOC");
\\set size random(1, 100)
INSERT INTO ids (id, pid, tag) SELECT $nextval, pg_backend_pid(), tag
FROM (SELECT floor(random() * 16)::int AS tag FROM generate_series(1, :size) OFFSET 0) AS burst;
SELECT pg_sleep(random() * 0.002);
EOC
	sql_is(
		$node,
		"SELECT count(*) > 10000, count(*) FILTER (WHERE id <= previous) FROM (SELECT id, lag(id) OVER (PARTITION BY $series ORDER BY n) AS previous FROM ids) AS pairs",
		't|0', "ids of sessions increase in '$layout'");
	$node->stop;
}

# One lane: ids increase across sessions.  A row lock orders the sessions.
my $node = new_server('lane0', 'snowflake.layout' => 'snowflake lane:0');
sql($node, <<'EOC');
CREATE TABLE counter AS SELECT 0 AS n;
CREATE UNLOGGED TABLE log (n int, id bigint);
EOC
run_clients(
	$node, '--client=16 --jobs=2 --protocol=prepared --transactions=1000', 'sessions make ids in turns',
	<<'EOC');
BEGIN;
UPDATE counter SET n = n + 1 RETURNING n \gset
INSERT INTO log VALUES (:n, snowflake_nextval());
END;
EOC
sql_is(
	$node,
	'SELECT count(*), count(*) FILTER (WHERE id <= previous) FROM (SELECT id, lag(id) OVER (ORDER BY n) AS previous FROM log) AS l',
	'16000|0', 'ids increase across sessions with lane:0');
$node->stop;

# The memory of a session does not grow with the ids that it makes.
$node = new_server('memory');
my $memory = $node->background_psql('postgres');
my $used = 'SELECT sum(used_bytes) FROM pg_backend_memory_contexts';
my $burst = 'SELECT count(snowflake_nextval()) FROM (SELECT generate_series(1, 3000000)) AS g';
$memory->query_safe($burst);
$memory->query_safe($used);
my $used_before = $memory->query_safe($used);
$memory->query_safe($burst) foreach 1 .. 3;
# caches may grow a little, but not by anything per id
cmp_ok($memory->query_safe($used), '<', $used_before + 100_000, 'memory does not grow with ids');
$memory->quit;

# Even a few ids are spread evenly modulo 16: chi-square with 15 degrees of freedom, which
# chance takes above 60 once in 4 million times.  They are not if they begin at 0.
foreach my $start ('random', 'zero')
{
	set_and_reload($node, "snowflake.sequence_start = $start");
	sql_is($node, <<'EOC', $start eq 'random' ? 't' : 'f', "ids are even if their sequences begin at $start");
SELECT sum(n * n) / 50 - 800 < 60
FROM (SELECT count(*) AS n FROM (SELECT snowflake_nextval() AS id, pg_sleep(0.0011) FROM generate_series(1, 800)) AS ids
	GROUP BY id % 16) AS counts
EOC
}
$node->stop;

done_testing();
