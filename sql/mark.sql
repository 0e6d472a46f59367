\set SHOW_CONTEXT never

-- Both sequences cover every id that is made, and what is written is equal
SELECT snowflake_nextval() AS id \gset
SELECT m.last_value >= :id AS covered, m.last_value = g.last_value AS equal, m.is_called, m.log_cnt
FROM snowflake_mark AS m, snowflake_mark_guard AS g;
-- by a lease of 2 s, up to the first id of a tick
SELECT snowflake_timestamp(last_value) - snowflake_timestamp(:id) BETWEEN interval '0' AND interval '2.01 s' AS lease,
	snowflake_worker_id(last_value + 1) AS worker_id, snowflake_lane(last_value + 1) AS lane,
	snowflake_sequence(last_value + 1) AS sequence
FROM snowflake_mark;

-- Idle sessions write nothing
CREATE TEMP TABLE before AS SELECT last_value FROM snowflake_mark;
SELECT pg_sleep(0.1);
SELECT b.last_value = m.last_value AS unchanged FROM before AS b, snowflake_mark AS m;
DROP TABLE before;

-- It is not transactional
BEGIN;
SELECT snowflake_advance(:id + (3::bigint << 22));
ROLLBACK;
SELECT last_value >= :id + (3::bigint << 22) AS stays FROM snowflake_mark;
SELECT snowflake_nextval() > :id + (3::bigint << 22) AS above;

-- Advance: new ids are greater, at once, also in a transaction that is not
-- over and in a cursor that is open
SELECT snowflake_nextval() AS id \gset
BEGIN;
DECLARE c CURSOR FOR SELECT snowflake_nextval() > :id + (1500::bigint << 22) AS above FROM generate_series(1, 4);
FETCH 2 FROM c;
SELECT snowflake_advance(:id + (1500::bigint << 22));
FETCH 2 FROM c;
COMMIT;
-- an id that is behind changes nothing
SELECT snowflake_advance(1);
SELECT snowflake_nextval() > :id + (1500::bigint << 22) AS above;
SELECT snowflake_advance(NULL);
-- what is no id of the layout
SELECT snowflake_advance(-1);
\echo :LAST_ERROR_SQLSTATE

-- The mark set too low is put right, and says so
SELECT pg_sleep(2);
\set VERBOSITY terse
\pset format unaligned
SELECT snowflake_nextval() AS id \gset
SELECT setval('snowflake_mark', 5);
SELECT snowflake_advance(:id);
SELECT m.last_value >= :id AS covered, m.last_value = g.last_value AS equal
FROM snowflake_mark AS m, snowflake_mark_guard AS g;
-- so it is if the sequence starts again
ALTER SEQUENCE snowflake_mark RESTART;
SELECT snowflake_advance(:id);
SELECT last_value >= :id AS covered FROM snowflake_mark;
\set VERBOSITY default
\pset format aligned

-- Set too high, it stops ids when the lease is used up, until it is put right
SELECT setval('snowflake_mark', 9223372036854775807);
SELECT pg_sleep(3);
\set VERBOSITY sqlstate
SELECT snowflake_nextval();
SELECT setval('snowflake_mark', 0);
SET client_min_messages = error;
SELECT snowflake_nextval() > :id AS above;
RESET client_min_messages;

-- In the transaction that alters it, its change might be taken back
BEGIN;
ALTER SEQUENCE snowflake_mark RESTART WITH 7;
SELECT snowflake_advance(:id);
ROLLBACK;
SELECT last_value >= :id AS covered FROM snowflake_mark;

-- It must be permanent
\set VERBOSITY default
ALTER SEQUENCE snowflake_mark SET UNLOGGED;
SELECT snowflake_advance(:id);
ALTER SEQUENCE snowflake_mark SET LOGGED;
SELECT snowflake_advance(:id);

-- It must be there
DROP SEQUENCE snowflake_mark;
ALTER EXTENSION snowflake DROP SEQUENCE snowflake_mark;
ALTER SEQUENCE snowflake_mark RENAME TO put_away;
SELECT snowflake_advance(:id);
\echo :LAST_ERROR_SQLSTATE
DROP SEQUENCE put_away;
CREATE SEQUENCE snowflake_mark MINVALUE 0 START 0;
ALTER EXTENSION snowflake ADD SEQUENCE snowflake_mark;
SET client_min_messages = error;
SELECT snowflake_advance(:id);
RESET client_min_messages;
SELECT last_value >= :id AS covered FROM snowflake_mark;

-- Dropped and created in one transaction: if that fails, the old one is back.
-- So there is no new id before it is over, whatever comes of it.
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
SELECT last_value >= :id AS covered FROM snowflake_mark;

-- A migration that creates the extension and fills a table, and one that fails
DROP EXTENSION snowflake;
BEGIN;
CREATE EXTENSION snowflake;
CREATE TABLE migrated AS SELECT snowflake_nextval() AS id FROM generate_series(1, 1000);
SELECT max(id) AS last_id FROM migrated \gset
SELECT count(DISTINCT id), min(id) > :id AS above FROM migrated;
ROLLBACK;
BEGIN;
CREATE EXTENSION snowflake;
CREATE TABLE migrated AS SELECT snowflake_nextval() AS id FROM generate_series(1, 1000);
SELECT count(DISTINCT id), min(id) > :last_id AS above FROM migrated;
COMMIT;
SELECT snowflake_nextval() > max(id) AS above FROM migrated;
DROP TABLE migrated;

-- Created, dropped and created in one transaction: a savepoint could bring the
-- first one back
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

-- What clears sequences leaves it alone
SELECT snowflake_nextval() AS id \gset
CREATE TABLE cleared (id bigint DEFAULT snowflake_nextval(), n serial);
TRUNCATE cleared RESTART IDENTITY;
DISCARD ALL;
SELECT last_value >= :id AS covered FROM snowflake_mark;
INSERT INTO cleared DEFAULT VALUES RETURNING id > :id AS above, n;
DROP TABLE cleared;

-- Who may do what
\set VERBOSITY sqlstate
CREATE ROLE regress_snowflake_user;
SET ROLE regress_snowflake_user;
SELECT snowflake_nextval() > :id AS above;
SELECT snowflake_advance(1);
SELECT snowflake_reset_mark();
SELECT last_value FROM snowflake_mark;
SELECT setval('snowflake_mark', 1);
SELECT last_value FROM snowflake_mark_guard;
SELECT setval('snowflake_mark_guard', 1);
RESET ROLE;
DROP ROLE regress_snowflake_user;

-- There is nothing to reset, and if there were it would need another worker id
\set VERBOSITY terse
SELECT snowflake_reset_mark();
SELECT setval('snowflake_mark', last_value + (86400000::bigint << 22)) IS NULL AS far FROM snowflake_mark_guard;
SELECT snowflake_reset_mark();
\echo :LAST_ERROR_SQLSTATE
SELECT setval('snowflake_mark', 0);
SET client_min_messages = error;
SELECT snowflake_advance(1);
RESET client_min_messages;
SELECT snowflake_reset_mark(NULL);

-- A function of somebody's own has no mark
CREATE FUNCTION my_nextval() RETURNS bigint AS '$libdir/snowflake', 'snowflake_nextval' LANGUAGE C;
SELECT snowflake_advance(:id);
\set VERBOSITY sqlstate
SELECT pg_sleep(2.1);
SELECT my_nextval();
DROP FUNCTION my_nextval();
