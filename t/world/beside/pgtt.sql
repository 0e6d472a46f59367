-- A global temporary table, in which each session has rows of its own
LOAD 'pgtt';
CREATE EXTENSION pgtt;
CREATE GLOBAL TEMPORARY TABLE baskets (id bigint DEFAULT snowflake_nextval(), item text) ON COMMIT PRESERVE ROWS;
INSERT INTO baskets (item) SELECT 'tea' FROM generate_series(1, 1000);
SELECT pg_temp.check('rows have ids', count(DISTINCT id) = 1000 AND bool_and(snowflake_timestamp(id) > now() - interval '1 hour'))
FROM baskets;
\connect
LOAD 'pgtt';
SELECT CASE WHEN count(*) = 0 THEN 'ok' ELSE 'not ok' END || ' - beside: pgtt: another session has none' FROM baskets;
