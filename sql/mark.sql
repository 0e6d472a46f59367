\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only

-- Mark and guard cover every id that is made, and both have the same value
SELECT snowflake_nextval() AS id \gset
SELECT m.last_value >= :id AS covered, m.last_value = g.bound AS equal, m.is_called, m.log_cnt
FROM snowflake_internal.mark AS m, snowflake_internal.guard AS g;
-- a reservation of 2 s, up to the last id of a tick
SELECT snowflake_timestamp(last_value) - snowflake_timestamp(:id) BETWEEN interval '0' AND interval '2.01 s' AS reservation,
	snowflake_worker_id(last_value + 1) AS worker_id, (snowflake_decode(last_value + 1)).lane,
	(snowflake_decode(last_value + 1)).sequence
FROM snowflake_internal.mark;

-- Idle sessions write nothing
CREATE TEMP TABLE before AS SELECT last_value FROM snowflake_internal.mark;
SELECT pg_sleep(0.1) \g /dev/null
SELECT b.last_value = m.last_value AS unchanged FROM before AS b, snowflake_internal.mark AS m;
DROP TABLE before;

-- The mark is not transactional
BEGIN;
SELECT snowflake_advance(:id + (3::bigint << 22)) \g /dev/null
ROLLBACK;
SELECT last_value >= :id + (3::bigint << 22) AS stays FROM snowflake_internal.mark;
SELECT snowflake_nextval() > :id + (3::bigint << 22) AS above;

-- Advance: new ids are greater, at once, even in the same transaction and in an open
-- cursor
SELECT snowflake_nextval() AS id \gset
BEGIN;
DECLARE c CURSOR FOR SELECT snowflake_nextval() > :id + (1500::bigint << 22) AS above FROM generate_series(1, 4);
FETCH 2 FROM c;
SELECT snowflake_advance(snowflake_first_from(clock_timestamp() + interval '1500 ms')) \g /dev/null
FETCH 2 FROM c;
COMMIT;
-- an id below the mark changes nothing
SELECT snowflake_advance(1) \g /dev/null
SELECT snowflake_nextval() > :id + (1500::bigint << 22) AS above;
SELECT snowflake_advance(NULL) \g /dev/null
-- numbers that are not ids of the layout
SELECT snowflake_advance(-1) \g /dev/null
\echo :LAST_ERROR_SQLSTATE

-- only a superuser can force an advance beyond the clock and max_ahead
SELECT snowflake_nextval() AS id \gset
\set VERBOSITY terse
SELECT snowflake_advance(:id + (3600000::bigint << 22)) \g /dev/null
\echo :LAST_ERROR_SQLSTATE
CREATE ROLE regress_snowflake_owner;
GRANT EXECUTE ON FUNCTION snowflake_advance(bigint, boolean) TO regress_snowflake_owner;
SET ROLE regress_snowflake_owner;
SELECT snowflake_advance(:id + (3600000::bigint << 22)) \g /dev/null
SELECT snowflake_advance(:id + (3600000::bigint << 22), force => true) \g /dev/null
\echo :LAST_ERROR_SQLSTATE
SELECT snowflake_advance(:id) \g /dev/null
RESET ROLE;
REVOKE EXECUTE ON FUNCTION snowflake_advance(bigint, boolean) FROM regress_snowflake_owner;
DROP ROLE regress_snowflake_owner;
\set VERBOSITY default
SELECT snowflake_nextval() < :id + (3600000::bigint << 22) AS below;

-- A mark that was set too low is corrected
SELECT pg_sleep(2) \g /dev/null
SELECT snowflake_nextval() AS id \gset
SELECT setval('snowflake_internal.mark', 5);
SELECT snowflake_advance(:id) \g /dev/null
SELECT m.last_value >= :id AS covered, m.last_value = g.bound AS equal
FROM snowflake_internal.mark AS m, snowflake_internal.guard AS g;
-- and so is a sequence that was restarted
SELECT snowflake_nextval() AS id \gset
ALTER SEQUENCE snowflake_internal.mark RESTART;
SELECT snowflake_advance(snowflake_first_from(clock_timestamp() + interval '1500 ms')) \g /dev/null
SELECT last_value >= :id AS covered FROM snowflake_internal.mark;

-- Set ahead within half of max_ahead, the mark takes effect when the limit moves next
SELECT pg_sleep(2) \g /dev/null
SELECT snowflake_nextval() AS id \gset
SELECT setval('snowflake_internal.mark', :id + (2400::bigint << 22)) = :id + (2400::bigint << 22) AS set;
SELECT pg_sleep(2.1) \g /dev/null
SELECT snowflake_nextval() > :id + (2400::bigint << 22) AS adopted;

-- Set too high, it stops ids when the reservation is used up, until it is corrected
SELECT pg_sleep(3) \g /dev/null
SELECT snowflake_nextval() AS id \gset
SELECT setval('snowflake_internal.mark', 9223372036854775807);
SELECT pg_sleep(3) \g /dev/null
\set VERBOSITY sqlstate
SELECT snowflake_nextval();
SELECT setval('snowflake_internal.mark', :id + (3600000::bigint << 22)) = :id + (3600000::bigint << 22) AS set;
SELECT snowflake_nextval();
-- an advance within limits does not trust it, either
SELECT snowflake_advance(:id + (2000::bigint << 22)) \g /dev/null
SELECT bound < :id + (3600000::bigint << 22) AS kept FROM snowflake_internal.guard;
SELECT setval('snowflake_internal.mark', 0);
SELECT snowflake_nextval() BETWEEN :id AND :id + (3600000::bigint << 22) AS above;

-- No command lowers the guard
SELECT last_value AS mark FROM snowflake_internal.mark \gset
UPDATE snowflake_internal.guard SET bound = 0;
DELETE FROM snowflake_internal.guard;
INSERT INTO snowflake_internal.guard VALUES (0, 0, 0);
TRUNCATE snowflake_internal.guard;
\copy snowflake_internal.guard FROM /dev/null
SELECT setval('snowflake_internal.guard', 1);
SELECT FROM snowflake_internal.guard FOR UPDATE;
MERGE INTO snowflake_internal.guard USING (VALUES (1)) AS v ON true WHEN MATCHED THEN DELETE;
REFRESH MATERIALIZED VIEW snowflake_internal.guard;
SELECT count(*), min(bound) = :mark AS kept FROM snowflake_internal.guard;
SELECT snowflake_nextval() > :id AS above;
VACUUM (FULL, FREEZE) snowflake_internal.guard;
SELECT count(*), min(bound) >= :mark AS kept FROM snowflake_internal.guard;
-- without the guard's row, no ids are made
SELECT snowflake_nextval() AS id \gset
BEGIN;
REFRESH MATERIALIZED VIEW snowflake_internal.guard WITH NO DATA;
SELECT snowflake_advance(:id) \g /dev/null
ROLLBACK;
REFRESH MATERIALIZED VIEW snowflake_internal.guard WITH NO DATA;
SELECT snowflake_advance(:id) \g /dev/null
SELECT state, mark FROM snowflake_status();
REFRESH MATERIALIZED VIEW snowflake_internal.guard;
DROP EXTENSION snowflake;
CREATE EXTENSION snowflake;
SELECT snowflake_nextval() > :id AS above;

-- A savepoint in the transaction that creates the extension could undo the change of
-- the mark
SELECT snowflake_nextval() AS id \gset
DROP EXTENSION snowflake;
BEGIN;
CREATE EXTENSION snowflake;
SELECT snowflake_nextval() > :id AS above;
SAVEPOINT rewrite;
ALTER SEQUENCE snowflake_internal.mark RESTART;
SELECT snowflake_advance(snowflake_first_from(clock_timestamp() + interval '1500 ms')) \g /dev/null
ROLLBACK TO rewrite;
SELECT snowflake_nextval() > :id AS above;
COMMIT;

-- A transaction that alters the mark could undo a change of it
SELECT snowflake_nextval() AS id \gset
BEGIN;
ALTER SEQUENCE snowflake_internal.mark RESTART WITH 7;
SELECT snowflake_advance(:id) \g /dev/null
ROLLBACK;
BEGIN;
REFRESH MATERIALIZED VIEW snowflake_internal.guard;
SELECT snowflake_advance(:id) \g /dev/null
ROLLBACK;
-- even if the row in pg_extension comes from this transaction, as if the extension were
-- created in it
BEGIN;
ALTER EXTENSION snowflake DROP SEQUENCE snowflake_internal.mark;
ALTER EXTENSION snowflake ADD SEQUENCE snowflake_internal.mark;
ALTER SEQUENCE snowflake_internal.mark RESTART WITH 7;
REFRESH MATERIALIZED VIEW snowflake_internal.guard;
SELECT snowflake_advance(:id) \g /dev/null
ROLLBACK;
SELECT snowflake_advance(:id) \g /dev/null
SELECT last_value >= :id AS covered FROM snowflake_internal.mark;

-- The mark must be permanent, and the guard of a known kind
\set VERBOSITY default
SELECT snowflake_nextval() AS id \gset
ALTER SEQUENCE snowflake_internal.mark SET UNLOGGED;
SELECT snowflake_advance(:id) \g /dev/null
SELECT state, mark FROM snowflake_status();
ALTER SEQUENCE snowflake_internal.mark SET LOGGED;
SELECT snowflake_advance(:id) \g /dev/null
SELECT snowflake_nextval() AS id \gset
CREATE ACCESS METHOD other_heap TYPE TABLE HANDLER heap_tableam_handler;
ALTER MATERIALIZED VIEW snowflake_internal.guard SET ACCESS METHOD other_heap;
SELECT snowflake_advance(:id) \g /dev/null
ALTER MATERIALIZED VIEW snowflake_internal.guard SET ACCESS METHOD heap;
DROP ACCESS METHOD other_heap;
SELECT snowflake_advance(:id) \g /dev/null

-- The mark must exist
SELECT snowflake_nextval() AS id \gset
DROP SEQUENCE snowflake_internal.mark;
DROP MATERIALIZED VIEW snowflake_internal.guard CASCADE;
DROP SCHEMA snowflake_internal CASCADE;
ALTER EXTENSION snowflake DROP SEQUENCE snowflake_internal.mark;
DROP SEQUENCE snowflake_internal.mark;
SELECT snowflake_advance(:id) \g /dev/null
\echo :LAST_ERROR_SQLSTATE
SELECT state, mark FROM snowflake_status();
-- another sequence in its place will do, as the guard still exists
CREATE SEQUENCE snowflake_internal.mark MINVALUE 0 START 0;
ALTER EXTENSION snowflake ADD SEQUENCE snowflake_internal.mark;
SELECT snowflake_advance(:id) \g /dev/null
SELECT last_value >= :id AS covered FROM snowflake_internal.mark;

-- Dropped and created in one transaction: if that fails, the old extension is back.  So
-- no ids are made before it ends, either way.
SELECT snowflake_nextval() AS id \gset
BEGIN;
DROP EXTENSION snowflake;
CREATE EXTENSION snowflake;
SELECT snowflake_nextval();
ROLLBACK;
SELECT snowflake_nextval() > :id AS above;
BEGIN;
SAVEPOINT s;
DROP EXTENSION snowflake;
CREATE EXTENSION snowflake;
ROLLBACK TO s;
SELECT snowflake_nextval() > :id AS above;
DROP EXTENSION snowflake;
CREATE EXTENSION snowflake;
COMMIT;
SELECT snowflake_nextval() > :id AS above;
SELECT last_value >= :id AS covered FROM snowflake_internal.mark;

-- Created, dropped and created in one transaction: a savepoint could bring the first
-- extension back
DROP EXTENSION snowflake;
BEGIN;
CREATE EXTENSION snowflake;
SELECT snowflake_nextval() AS id \gset
SAVEPOINT s;
DROP EXTENSION snowflake;
CREATE EXTENSION snowflake;
SELECT snowflake_nextval();
ROLLBACK TO s;
SELECT snowflake_nextval() > :id AS above;
COMMIT;

-- Commands that reset sequences leave the mark alone
SELECT snowflake_nextval() AS id \gset
CREATE TABLE cleared (id bigint DEFAULT snowflake_nextval(), n serial);
TRUNCATE cleared RESTART IDENTITY;
DISCARD ALL;
SELECT last_value >= :id AS covered FROM snowflake_internal.mark;
INSERT INTO cleared DEFAULT VALUES RETURNING id > :id AS above, n;
DROP TABLE cleared;

-- Privileges
\set VERBOSITY sqlstate
CREATE ROLE regress_snowflake_user;
SET ROLE regress_snowflake_user;
SELECT snowflake_nextval() > :id AS above;
SELECT snowflake_advance(1) \g /dev/null
SELECT last_value FROM snowflake_internal.mark;
SELECT setval('snowflake_internal.mark', 1);
SELECT bound FROM snowflake_internal.guard;
REFRESH MATERIALIZED VIEW snowflake_internal.guard;
SELECT snowflake_internal.current_guard();
RESET ROLE;
DROP ROLE regress_snowflake_user;

-- A user's own function uses the mark of the extension, or none
CREATE FUNCTION my_nextval() RETURNS bigint AS '$libdir/snowflake', 'snowflake_nextval' LANGUAGE C;
SELECT pg_sleep(3) \g /dev/null
SELECT my_nextval() AS id \gset
SELECT snowflake_nextval() > :id AS above, bound >= :id AS covered FROM snowflake_internal.guard;
\set VERBOSITY sqlstate
DROP EXTENSION snowflake;
\c
SELECT my_nextval();
DROP FUNCTION my_nextval();
CREATE EXTENSION snowflake;
SELECT snowflake_nextval() > :id AS above;
