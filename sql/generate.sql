\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only

-- No id yet in a new session
SELECT snowflake_currval();
\echo :LAST_ERROR_SQLSTATE

SELECT snowflake_nextval() AS id \gset
SELECT snowflake_currval() = :id AS currval;
SELECT snowflake_nextval() > :id AS greater;
SELECT snowflake_currval() > :id AS currval_follows;

-- An id is positive, and its fields show where it comes from
SELECT id > 0 AS positive, generated_at, datacenter_id, worker_id,
	timeline = (SELECT timeline_id FROM pg_control_checkpoint()) & 3 AS timeline,
	lane BETWEEN 0 AND 3 AS lane, sequence BETWEEN 0 AND 8191 AS sequence, tag
FROM (SELECT snowflake_nextval() AS id) AS n,
	LATERAL (SELECT worker_id, datacenter_id, timeline, lane, sequence, tag,
				generated_at BETWEEN date_trunc('milliseconds', now()) AND clock_timestamp() AS generated_at
			 FROM snowflake_decode(id)) AS d;

-- Ids of a statement increase in the order in which they are made
SELECT count(*), count(DISTINCT id), bool_and(id > previous) AS increasing
FROM (SELECT id, lag(id, 1, 0::bigint) OVER (ORDER BY i) AS previous
	  FROM (SELECT i, snowflake_nextval() AS id FROM generate_series(1, 100000) AS i) AS made) AS pairs;

-- The time is that of the clock; after a burst ids may be a tick ahead
SELECT count(*) AS made, count(*) FILTER (WHERE snowflake_timestamp(id) > after + interval '1 ms' OR
	snowflake_timestamp(id) < before - interval '1 ms') AS wrong
FROM (SELECT clock_timestamp() AS before, snowflake_nextval() AS id, clock_timestamp() AS after
	  FROM generate_series(1, 10000) OFFSET 0) AS made;

-- Read-only transactions, and transactions that roll back
BEGIN READ ONLY;
SELECT snowflake_nextval() AS id \gset
SELECT pg_current_xact_id_if_assigned() IS NULL AS no_xid;
ROLLBACK;
SELECT snowflake_currval() = :id AS survives_rollback, snowflake_nextval() > :id AS greater;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT snowflake_nextval() > :id AS greater;
COMMIT;

-- Nothing else in this file waits for the clock
SET snowflake.max_wait = 0;

-- A tag needs a layout that has the field
SELECT snowflake_nextval(1);
\echo :LAST_ERROR_SQLSTATE
SELECT snowflake_nextval(NULL);
SELECT snowflake_nextval('x');

-- Behind a pooler, the next client does not see the last id; but the session remembers
-- what keeps ids apart
SELECT snowflake_nextval() AS id \gset
DISCARD PLANS;
SELECT snowflake_currval() = :id AS currval;
DISCARD SEQUENCES;
SELECT snowflake_currval();
SELECT snowflake_nextval() > :id AS greater;
SELECT snowflake_currval() > :id AS currval;
SELECT snowflake_currval() AS id \gset
DISCARD ALL;
DISCARD ALL;
SELECT snowflake_currval();
SELECT snowflake_nextval() > :id AS greater;

-- Prepared statements, PL/pgSQL, cursors, and a loop of subtransactions
PREPARE make AS SELECT snowflake_nextval() > $1 AS greater;
EXECUTE make (:id);
EXECUTE make (:id);
DEALLOCATE make;
DO $$
DECLARE
	last_id bigint := 0;
	id bigint;
BEGIN
	FOR i IN 1..1000 LOOP
		BEGIN
			id := snowflake_nextval();
			ASSERT id > last_id;
			ASSERT id = snowflake_currval();
			last_id := id;
			PERFORM 1 / (i % 2);
		EXCEPTION WHEN division_by_zero THEN
			NULL;
		END;
	END LOOP;
END $$;
BEGIN;
DECLARE c CURSOR FOR SELECT snowflake_nextval() > :id FROM generate_series(1, 5);
FETCH 2 FROM c;
FETCH 2 FROM c;
COMMIT;

-- The extension stays in its schema
ALTER EXTENSION snowflake SET SCHEMA public;
