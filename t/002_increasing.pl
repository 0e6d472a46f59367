# The ids of a session strictly increase, in layouts of all kinds, with tags, and whatever
# other sessions do.  With one lane, ids increase across all sessions.  The simulator has
# all orders of events; this shows on real servers that the pieces fit.

use FindBin;
use lib $FindBin::RealBin;
use SnowflakeTest;

# Sessions take bursts of ids at random times, in layouts so narrow that they keep
# colliding, pushing lanes ahead and waiting for the clock.  Each checks that its own
# ids increase from one statement to the next, per tag if there is one.  A primary key
# over the ids of all finds duplicates.
my @narrow = (
	'time:41 worker:5 timeline:2 lane:1 sequence:2',
	'time:41 lane:2 worker:5',
	'time:41 worker:5 sequence:3 lane:2',
	'time:41 sequence:4',
	'time:41 lane:2 tag:4 worker:5 sequence:3',
	'time:41 lane:2 sequence:3 worker:5 tag:4',
	'time:51 sequence:3 lane:2 tick:1us');

foreach my $layout (@narrow)
{
	my $node = new_server(
		'narrow' . $layout =~ s/\W/_/gr, 'snowflake.layout' => $layout, 'snowflake.max_ahead' => '1s',
		'snowflake.max_wait' => '60s');
	my $tags = $layout =~ /tag/ ? 16 : 1;
	my $nextval = $tags > 1 ? 'snowflake_nextval(tag)' : 'snowflake_nextval()';

	# if tag is above sequence, ids increase only per tag
	my $per_tag = $layout =~ /tag.*sequence/ ? 'tag' : '0';
	sql($node, qq{
CREATE UNLOGGED TABLE ids (id bigint PRIMARY KEY);
CREATE FUNCTION burst(size int) RETURNS void LANGUAGE plpgsql AS \$\$
DECLARE
	made bigint[];
	last_ids bigint[] := coalesce(current_setting('test.last_ids', true), '')::text::bigint[];
	id bigint;
	tag int;
	key int;
BEGIN
	FOR i IN 1..size LOOP
		tag := floor(random() * $tags);
		key := $per_tag + 1;
		id := $nextval;
		IF id <= last_ids[key] THEN
			RAISE EXCEPTION 'id % does not follow %', id, last_ids[key];
		END IF;
		last_ids[key] := id;
		made := made || id;
	END LOOP;
	PERFORM set_config('test.last_ids', last_ids::text, false);
	INSERT INTO ids SELECT unnest(made);
	PERFORM pg_sleep(random() * 0.002);
END \$\$;
ALTER DATABASE postgres SET test.last_ids = '{}';
});
	run_clients(
		$node, '--client=12 --jobs=2 --protocol=prepared --transactions=60',
		"ids of sessions in bursts increase in '$layout'", "\\set size random(1, 100)\nSELECT burst(:size)");
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
$node->stop;

done_testing();
