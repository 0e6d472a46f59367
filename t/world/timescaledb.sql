-- TimescaleDB: a hypertable that is partitioned by the id, created as in the guide.  Each
-- check prints a line that begins with "ok" or "not ok".
\set ON_ERROR_STOP on
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;

CREATE FUNCTION pg_temp.check(name text, condition boolean) RETURNS text LANGUAGE sql
RETURN format('%s - TimescaleDB: %s', CASE WHEN condition THEN 'ok' ELSE 'not ok' END, name);

-- Return the SQLSTATE that a statement fails with, and its message and hint.
CREATE FUNCTION pg_temp.error_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	message text;
	hint text;
BEGIN
	EXECUTE statement;
	RETURN 'none';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' ', SQLSTATE, message, hint);
END
$$;

-- Return how many chunks a query reads.
CREATE FUNCTION pg_temp.chunks_in(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	plan text;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, FORMAT json) ' || query INTO plan;
	RETURN (SELECT count(DISTINCT chunk) FROM regexp_matches(plan, '_hyper_\w+_chunk"', 'g') AS chunk);
END
$$;

CREATE EXTENSION snowflake;
\! sed -n '/^```sql with TimescaleDB$/,/^```$/{//!p}' source/doc/guide.md >recipe.sql
\o /dev/null
\i recipe.sql
\o

-- the recipe ends with chunks of weeks
SELECT FROM set_chunk_time_interval('measurements',
	snowflake_first_from('2026-01-02Z') - snowflake_first_from('2026-01-01Z'));

-- ten rows on each of ten days
INSERT INTO measurements (id, value)
SELECT snowflake_compose(now() - day * interval '1 day', worker_id => 31, sequence => i), 0
FROM generate_series(1, 10) AS day, generate_series(0, 9) AS i;
INSERT INTO measurements (value) VALUES (0) RETURNING snowflake_timestamp(id) > now() - interval '1 minute' AS recent \gset
SELECT pg_temp.check('there is a row of the present', :'recent');
SELECT pg_temp.check('there is a chunk for each day', count(*) = 11) FROM show_chunks('measurements');
SELECT pg_temp.check('snowflake_between() finds the rows of a range', count(*) = 10)
FROM measurements WHERE snowflake_between(id, now() - interval '36 hours', now() - interval '12 hours');

-- The chunks that a query reads
SELECT pg_temp.check('without a range, all chunks are read',
	pg_temp.chunks_in('SELECT count(value) FROM measurements') = 11);
SELECT pg_temp.check('with a layout, the planner leaves out chunks',
	pg_temp.chunks_in($$SELECT count(value) FROM measurements WHERE snowflake_between(id, now() - interval '1 hour', NULL, 'snowflake')$$) <= 2);
SELECT pg_temp.check('without a layout, they are left out, too',
	pg_temp.chunks_in($$SELECT count(value) FROM measurements WHERE snowflake_between(id, now() - interval '1 hour', NULL)$$) <= 2);
SELECT pg_temp.check('and so they are for a range of constants',
	pg_temp.chunks_in($$SELECT count(value) FROM measurements WHERE snowflake_between(id, '2026-01-01', '2026-01-02')$$) = 0);

-- Dropping old chunks
SELECT pg_temp.check('drop_chunks() drops old chunks', count(*) = 6)
FROM drop_chunks('measurements', older_than => snowflake_first_from(now() - interval '4 days'));
SELECT pg_temp.check('and nothing else', count(*) BETWEEN 41 AND 51) FROM measurements;

-- A hypertable is not a partitioned table
SELECT pg_temp.check('snowflake_create_partitions() refuses it, and says why',
	pg_temp.error_of($$SELECT * FROM snowflake_create_partitions('measurements', '1 day', now(), now() + interval '1 day')$$) LIKE '42809 % TimescaleDB adds chunks itself.');

-- A hypertable of small numbers can be adopted if its chunks are large enough
CREATE EXTENSION snowflake_adopt;
CREATE TABLE legacy (id bigserial PRIMARY KEY, value float8);
SELECT FROM create_hypertable('legacy', by_range('id', 10000));
INSERT INTO legacy (value) SELECT 0 FROM generate_series(1, 30000);
SELECT FROM set_chunk_time_interval('legacy',
	snowflake_first_from('2026-01-02Z') - snowflake_first_from('2026-01-01Z'));
CALL snowflake_adopt('legacy', 'id');
INSERT INTO legacy (value) SELECT 0 FROM generate_series(1, 1000);
SELECT pg_temp.check('an adopted one makes few chunks if they are large', count(*) BETWEEN 5 AND 6) FROM show_chunks('legacy');
