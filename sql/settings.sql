\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only

-- All settings
SELECT snowflake_nextval() IS NOT NULL AS library_loaded;
SELECT name, setting, unit, context, vartype, min_val, max_val, enumvals, boot_val,
	short_desc <> '' AND extra_desc <> '' AS described
FROM pg_settings WHERE name LIKE 'snowflake.%' ORDER BY name COLLATE "C";

-- All but max_wait belong to the server, and cannot be set for a session
SET snowflake.worker_id = 1;
SET snowflake.datacenter_id = 1;
SET snowflake.layout = 'twitter';
SET snowflake.sequence_start = 'zero';
SET snowflake.max_ahead = 0;
\echo :LAST_ERROR_SQLSTATE
SELECT set_config('snowflake.worker_id', '1', true);
ALTER ROLE CURRENT_USER SET snowflake.worker_id = 1;
ALTER DATABASE :"DBNAME" SET snowflake.worker_id = 1;
CREATE FUNCTION f() RETURNS bigint LANGUAGE SQL SET snowflake.worker_id = 1
AS 'SELECT snowflake_nextval()';
SELECT name, setting, source FROM pg_settings WHERE name LIKE 'snowflake.%' AND source <> 'default';

-- An ordinary user may set max_wait, with any unit of time
CREATE ROLE regress_snowflake_user;
SET ROLE regress_snowflake_user;
SET snowflake.max_wait = '2min';
SHOW snowflake.max_wait;
\set VERBOSITY sqlstate
SET snowflake.max_wait = -1;
SHOW snowflake.registry;
\set VERBOSITY default
SET snowflake.max_wait = 'soon';
RESET snowflake.max_wait;
-- but no setting that determines ids
SET snowflake.worker_id = 1;
SET snowflake.layout = 'twitter';
ALTER ROLE CURRENT_USER SET snowflake.worker_id = 1;
RESET ROLE;
DROP ROLE regress_snowflake_user;

-- Unusable values are rejected with the reason when they are set (the wording of a
-- range with units depends on the version)
ALTER SYSTEM SET snowflake.worker_id = 'abc';
ALTER SYSTEM SET snowflake.worker_id = -1;
ALTER SYSTEM SET snowflake.worker_id = 4294967296;
ALTER SYSTEM SET snowflake.layout = 'time:37 worker:20 sequence:16';
ALTER SYSTEM SET snowflake.layout = '';
ALTER SYSTEM SET snowflake.layout = 'time:41 worker:10 sequence:12 epoch:2026-01-01T00:00:00';
ALTER SYSTEM SET snowflake.sequence_start = 'one';
\set VERBOSITY sqlstate
ALTER SYSTEM SET snowflake.max_ahead = -2;
\set VERBOSITY default

-- The prefix is reserved
SET snowflake.worker = 1;
SET snowflake.wait_max = 1;
