\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only
SET TimeZone = 'UTC';

-- The smallest id of an instant's tick, the inverse of extracting the time
SELECT snowflake_compose('2026-11-21 00:49:06.246Z', 'snowflake'),
	snowflake_compose('2026-11-21 00:49:06.246999Z', 'snowflake') AS same_tick,
	snowflake_compose('2026-11-21 00:49:06.247Z', 'snowflake') - 1 AS last_of_it,
	snowflake_compose('2010-11-04 01:42:54.657Z', 'twitter') AS epoch,
	snowflake_compose('2080-07-10 17:30:30.208Z', 'twitter') + 4194303 AS largest;
SELECT snowflake_compose(snowflake_timestamp(id)) <= id AS lower,
	snowflake_compose(snowflake_timestamp(id) + '1 ms') > id AS upper,
	snowflake_compose(snowflake_timestamp(id)) = snowflake_compose(snowflake_timestamp(id), 'snowflake') AS same
FROM (SELECT snowflake_nextval() AS id) AS new;
\set VERBOSITY sqlstate
SELECT snowflake_compose('2025-12-31 23:59:59.999999Z');
SELECT snowflake_compose('2095-09-07 15:47:35.552Z');
SELECT snowflake_compose('infinity');
SELECT snowflake_compose('-infinity', 'twitter');
SELECT snowflake_compose(now(), 'nonsense');
\set VERBOSITY default
SELECT snowflake_compose('2025-12-31 23:59:59.999999Z', 'snowflake');
SELECT snowflake_compose(NULL) IS NULL AS null_instant, snowflake_compose(now(), NULL) IS NULL AS null_layout;

-- Ranges include ids made in the tick of the lower bound, but not those made in the
-- tick of the upper bound
CREATE TABLE edges (name text, instant timestamptz);
INSERT INTO edges VALUES
	('-infinity', '-infinity'), ('before the epoch', '2020-01-01Z'), ('noon', '2026-11-21 12:00Z'),
	('noon + 1 us', '2026-11-21 12:00:00.000001Z'), ('noon + 1 ms', '2026-11-21 12:00:00.001Z'),
	('last tick', '2095-09-07 15:47:35.551Z'), ('beyond', '2095-09-07 15:47:35.552Z'),
	('infinity', 'infinity'), ('no bound', NULL);
SELECT name, snowflake_last_before(instant), snowflake_first_from(instant),
	snowflake_last_before(instant, 'js53') AS last_js53, snowflake_first_from(instant, 'js53') AS first_js53
FROM edges ORDER BY instant, name;
WITH ids (id) AS (
	SELECT 0 UNION ALL SELECT 9223372036854775806 UNION ALL
	SELECT snowflake_first_from('2026-11-21 12:00Z') + d FROM unnest(ARRAY[-1, 0, 4194303, 4194304]) AS d)
SELECT lower, string_agg(found, ' ' ORDER BY instant, upper) AS "found up to each, the last being no bound", bool_and(same) AS same
FROM (SELECT l.name AS lower, u.name AS upper, l.instant AS starts, u.instant,
		string_agg(snowflake_between(id, l.instant, u.instant)::int::text, '' ORDER BY id) AS found,
		bool_and(snowflake_between(id, l.instant, u.instant) = snowflake_between(id, l.instant, u.instant, 'snowflake')) AS same
	FROM ids, edges AS l, edges AS u
	GROUP BY l.name, u.name, l.instant, u.instant) AS pair
GROUP BY lower, starts
ORDER BY starts, lower;
-- compared with arithmetic, for random bounds
SELECT count(*) AS wrong
FROM (SELECT random() * 1e10 AS a, random() * 1e10 AS b, random() * 1e10 AS c FROM generate_series(1, 20000)) AS r,
	LATERAL (SELECT '2026-01-01Z'::timestamptz + a * interval '1 us' * 1e5 AS lower, '2026-01-01Z'::timestamptz + b * interval '1 us' * 1e5 AS upper,
		(floor(c * 100)::bigint << 22) + floor(random() * 4194304)::bigint AS id) AS v
WHERE snowflake_between(id, lower, upper, 'snowflake') <>
	(snowflake_timestamp(id, 'snowflake') >= date_trunc('milliseconds', lower) AND snowflake_timestamp(id, 'snowflake') < date_trunc('milliseconds', upper));
SELECT snowflake_between(NULL, now(), now()), snowflake_between(0, NULL, NULL), snowflake_between(0, NULL, NULL, 'twitter'), snowflake_between(0, NULL, NULL, NULL);

-- Plans: 200,000 ids, one every 50 s
CREATE TABLE events (id bigint PRIMARY KEY, filler text DEFAULT repeat('x', 20));
INSERT INTO events SELECT snowflake_compose('2026-01-01Z'::timestamptz + i * interval '50 s', layout => 'snowflake')
FROM generate_series(0, 199999) AS i;
CREATE INDEX events_brin ON events USING brin (id) WITH (pages_per_range = 16);
VACUUM ANALYZE events;
SET max_parallel_workers_per_gather = 0;

-- the nodes of a plan, and how far its estimate is off
CREATE FUNCTION plan_of(query text, OUT nodes text, OUT conditions text, OUT rows_read bigint, OUT estimate text)
LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
	node jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || query INTO plan;
	node := plan #> '{0,Plan}';
	nodes := concat_ws(' on ', node ->> 'Node Type', node ->> 'Index Name');
	WHILE node ? 'Plans' LOOP
		node := node #> '{Plans,0}';
		nodes := nodes || ', ' || concat_ws(' on ', node ->> 'Node Type', node ->> 'Index Name');
	END LOOP;
	conditions := CASE WHEN node ? 'Index Cond' THEN 'index' ELSE 'filter' END;
	node := plan #> '{0,Plan}';
	rows_read := (node ->> 'Actual Rows')::numeric;
	estimate := CASE WHEN (node ->> 'Plan Rows')::numeric BETWEEN rows_read / 2 AND rows_read * 2
		THEN 'within 2 x' ELSE format('%s for %s', node ->> 'Plan Rows', rows_read) END;
END $$;

SELECT * FROM plan_of($$SELECT * FROM events WHERE snowflake_between(id, '2026-02-01Z', '2026-02-02Z')$$);
SELECT * FROM plan_of($$SELECT * FROM events WHERE snowflake_between(id, '2026-02-01Z', '2026-02-02Z', 'snowflake')$$);
SELECT * FROM plan_of($$SELECT * FROM events WHERE snowflake_between(id, '2026-04-20Z', NULL)$$);
SELECT * FROM plan_of($$SELECT * FROM events WHERE snowflake_between(id, '-infinity', '2026-01-03Z')$$);
SELECT * FROM plan_of($$SELECT * FROM events WHERE id >= snowflake_first_from('2026-02-01Z') AND id < snowflake_first_from('2026-02-02Z')$$);
-- in a generic plan, too
SET plan_cache_mode = force_generic_plan;
PREPARE of_a_day(timestamptz) AS SELECT * FROM events WHERE snowflake_between(id, $1, $1 + interval '1 day');
EXPLAIN (COSTS OFF) EXECUTE of_a_day('2026-02-01Z');
SELECT nodes, conditions, rows_read FROM plan_of($$EXECUTE of_a_day('2026-02-01Z')$$);
PREPARE of_a_range(timestamptz, timestamptz) AS SELECT * FROM events WHERE snowflake_between(id, $1, $2, 'snowflake');
SELECT nodes, conditions, rows_read FROM plan_of($$EXECUTE of_a_range('2026-02-01Z', '2026-02-02Z')$$);
SELECT nodes, conditions, rows_read FROM plan_of($$EXECUTE of_a_range(NULL, '2026-01-01 00:01Z')$$);
RESET plan_cache_mode;
ALTER TABLE events DROP CONSTRAINT events_pkey;
SELECT * FROM plan_of($$SELECT * FROM events WHERE snowflake_between(id, '2026-02-01Z', '2026-02-02Z')$$);
SELECT * FROM plan_of($$SELECT * FROM events WHERE snowflake_between(id, '2026-02-01Z', '2026-02-02Z', 'snowflake')$$);
DROP TABLE events;

-- Partitions: pruned by the planner if a layout is given, otherwise when execution
-- starts
CREATE TABLE days (id bigint) PARTITION BY RANGE (id);
SELECT * FROM snowflake_create_partitions('days', '1 day', '2026-11-20Z', '2026-11-23Z');
CREATE FUNCTION partitions_of(query text, OUT scanned text, OUT removed text)
LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO plan;
	scanned := jsonb_path_query_array(plan, '$.**."Relation Name"');
	removed := jsonb_path_query_first(plan, '$.**."Subplans Removed"');
END $$;
SELECT * FROM partitions_of($$SELECT * FROM days WHERE snowflake_between(id, '2026-11-21Z', '2026-11-22Z', 'snowflake')$$);
SELECT * FROM partitions_of($$SELECT * FROM days WHERE snowflake_between(id, '2026-11-21Z', '2026-11-22Z')$$);
SELECT * FROM partitions_of($$SELECT * FROM days WHERE snowflake_between(id, NULL, '2026-11-22Z')$$);
SET plan_cache_mode = force_generic_plan;
PREPARE pruned(timestamptz) AS SELECT * FROM days WHERE snowflake_between(id, $1, NULL);
SELECT * FROM partitions_of($$EXECUTE pruned('2026-11-22Z')$$);
RESET plan_cache_mode;
-- a bound from a column of another table finds the right rows
INSERT INTO days SELECT snowflake_first_from('2026-11-22Z');
SELECT count(*) FROM days, unnest(ARRAY['2026-11-22Z', '2026-11-22 00:00:00.001Z']::timestamptz[]) AS bound WHERE snowflake_between(id, bound, NULL);
DROP TABLE days, edges;
DROP FUNCTION plan_of, partitions_of;
