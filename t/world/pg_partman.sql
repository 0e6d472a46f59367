-- pg_partman with snowflake ids: partitions of one day, with versions 4 and 5.  Each
-- check prints a line that begins with "ok" or "not ok".
\set ON_ERROR_STOP on
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;

CREATE EXTENSION snowflake;
CREATE SCHEMA partman;
CREATE EXTENSION pg_partman SCHEMA partman;

CREATE TABLE public.events (
	id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
	payload text
) PARTITION BY RANGE (id);

-- the guide's statement, in version 4 with the type that its comment names; days begin at
-- midnight UTC, as does the layout's epoch
\! sed -n '/^```sql with pg_partman$/,/^```$/{//!p}' source/doc/guide.md >recipe.sql
SELECT extversion LIKE '4.%' AS is_old FROM pg_extension WHERE extname = 'pg_partman' \gset
\if :is_old
\! sed -i "s/'range'/'native'/" recipe.sql
\endif
\o /dev/null
\i recipe.sql
\o
SELECT snowflake_first_from('2026-01-02Z') - snowflake_first_from('2026-01-01Z') AS day \gset
INSERT INTO events (payload) VALUES ('today');
INSERT INTO events VALUES (snowflake_first_from(now() + interval '2 days'), 'in two days');
CALL partman.run_maintenance_proc();

CREATE FUNCTION pg_temp.check(name text, condition boolean) RETURNS text LANGUAGE sql
RETURN format('%s - pg_partman: %s', CASE WHEN condition THEN 'ok' ELSE 'not ok' END, name);
SELECT pg_temp.check('partitions are days', count(*) >= 5 AND bool_and(upper_bound - lower_bound = '1 day' AND extract(epoch FROM lower_bound) % 86400 = 0))
FROM snowflake_partitions('events');
SELECT pg_temp.check('today''s row is in today''s partition', lower_bound <= now() AND upper_bound > now())
FROM events JOIN snowflake_partitions('events') ON partition = events.tableoid WHERE payload = 'today';
SELECT pg_temp.check('maintenance creates partitions ahead of the ids', max(upper_bound) > now() + interval '5 days')
FROM snowflake_partitions('events');
SELECT pg_temp.check('snowflake_create_partitions() finds nothing to do', count(*) = 0)
FROM snowflake_create_partitions('events', '1 day', now(), now() + interval '2 days');
SELECT pg_temp.check('and creates missing partitions, from which partman continues', count(*) = 1)
FROM snowflake_create_partitions('events', '1 day', now() - interval '1 day', now());
-- drop partitions older than two days, counted from the largest id
UPDATE partman.part_config SET retention = (2 * :day)::text, retention_keep_table = false
WHERE parent_table = 'public.events';
CALL partman.run_maintenance_proc();
SELECT pg_temp.check('old partitions are dropped', (SELECT count(*) FROM snowflake_partitions_before('events', now())) = 0
	AND (SELECT count(*) FROM events) = 2);

-- after a gap, rows go to the default partition, until they are moved from there
INSERT INTO events VALUES (snowflake_first_from(now() + interval '60 days'), 'after a gap');
DO $$
BEGIN
	PERFORM partman.run_maintenance('public.events');
EXCEPTION WHEN OTHERS THEN
	-- version 4
END $$;
SELECT pg_temp.check('after a gap, rows stay in the default partition', count(*) = 1) FROM events_default;
DO $$
BEGIN
	PERFORM snowflake_create_partitions('events', '1 day', now() + interval '60 days', now() + interval '61 days');
	RAISE 'it was created';
EXCEPTION WHEN check_violation THEN
	-- the default partition has its row
END $$;
\! sed -n '/^```sql with pg_partman after a gap$/,/^```$/{//!p}' source/doc/guide.md >recipe.sql
\i recipe.sql
SELECT pg_temp.check('the guide''s call moves them', count(*) = 0) FROM events_default;
SELECT pg_temp.check('to a partition of their own', lower_bound <= now() + interval '60 days' AND upper_bound > now() + interval '60 days')
FROM events JOIN snowflake_partitions('events') ON partition = events.tableoid WHERE payload = 'after a gap';

-- ids from before a conversion, in a table that became the first partition
CREATE TABLE events_p1 (LIKE events INCLUDING ALL);
INSERT INTO events_p1 SELECT i, 'old' FROM generate_series(1, 10) AS i;
ALTER TABLE events ATTACH PARTITION events_p1 FOR VALUES FROM (1) TO (2147483648);
SELECT pg_temp.check('our retention leaves it alone', 'events_p1'::regclass NOT IN (SELECT snowflake_partitions_before('events', now())));
UPDATE partman.part_config SET retention = NULL WHERE parent_table = 'public.events';
CALL partman.run_maintenance_proc();
SELECT pg_temp.check('and so does partman without retention', count(*) = 10) FROM events_p1;
