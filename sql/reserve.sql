\pset format unaligned
\pset tuples_only
\set SHOW_CONTEXT never

-- Ids are consecutive within a row, as many as requested, and in no other block
CREATE TABLE blocks AS SELECT 0 AS asked, * FROM snowflake_reserve(1) LIMIT 0;
INSERT INTO blocks SELECT count, b.* FROM unnest(ARRAY[1, 2, 100, 8192, 8193, 10000, 1000000]) AS count, snowflake_reserve(count) AS b;
SELECT asked, sum(last_id - first_id + 1) AS got, bool_and(first_id <= last_id) AS in_order,
	-- a lane has 8192 ids in a tick
	count(*) BETWEEN asked / 8192.0 AND asked / 8192 + 2 AS rows
FROM blocks GROUP BY asked ORDER BY asked;
SELECT bool_and((snowflake_decode(first_id)).generated_at = (snowflake_decode(last_id)).generated_at AND
	(snowflake_decode(first_id)).lane = (snowflake_decode(last_id)).lane) AS one_tick_and_lane,
	bool_and((snowflake_decode(last_id)).sequence - (snowflake_decode(first_id)).sequence = last_id - first_id) AS consecutive
FROM blocks;
-- with single ids in between, no block contains an id made elsewhere
INSERT INTO blocks SELECT 0, CASE WHEN i % 3 = 0 THEN snowflake_nextval() END, NULL FROM generate_series(1, 3000) AS i;
INSERT INTO blocks SELECT 5, b.* FROM generate_series(1, 1000) AS i, LATERAL (SELECT * FROM snowflake_reserve(1 + i % 7)) AS b;
UPDATE blocks SET last_id = first_id WHERE last_id IS NULL;
DELETE FROM blocks WHERE first_id IS NULL;
SELECT count(*) AS overlaps FROM (SELECT first_id, lag(last_id) OVER (ORDER BY first_id) AS before FROM blocks) AS b WHERE first_id <= before;
-- and the ids of a session increase
-- (ten ids may need two rows)
SELECT max(last_id) AS last FROM snowflake_reserve(10) \gset
SELECT snowflake_currval() = :last AS currval, snowflake_nextval() > :last AS above;
SELECT snowflake_nextval() AS last \gset
SELECT min(first_id) > :last AS above FROM snowflake_reserve(100000);
DROP TABLE blocks;

-- In a read-only transaction, and as a default
BEGIN READ ONLY;
SELECT sum(last_id - first_id + 1) FROM snowflake_reserve(5);
COMMIT;

SELECT * FROM snowflake_reserve(0);
SELECT * FROM snowflake_reserve(-1);
SELECT * FROM snowflake_reserve(1000001);
SELECT count(*) AS strict FROM snowflake_reserve(NULL);
