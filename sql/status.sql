\pset format unaligned
\pset tuples_only
-- Whether ids can be made, and what has happened
SELECT snowflake_nextval() IS NOT NULL AS made;
SELECT state, hint, worker_id, worker_id_source, datacenter_id, layout, ids_per_second, last_instant > now() AS lasts,
	abs(extract(epoch FROM ids_ahead)) < 60 AS ids_ahead, mark > 0 AS mark,
	extract(epoch FROM mark_ahead) BETWEEN -60 AND 8 AS mark_ahead,
	lease_state, lease_starts, lease_ends, library_version = (SELECT extversion FROM pg_extension WHERE extname = 'snowflake') AS versions, preloaded
FROM snowflake_status() \gx
SELECT mark >= snowflake_currval() AS covers FROM snowflake_status();
SELECT status.mark = greatest(mark.last_value, guard.bound) AS is_the_mark
FROM snowflake_status() AS status, snowflake_internal.mark AS mark, snowflake_internal.guard AS guard;

-- Ids are counted.  A session's own are included at once, those of another session,
-- like that of the previous test, when it has ended.
DO $$
BEGIN
	WHILE (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend') > 1 LOOP
		PERFORM pg_sleep(0.01);
		PERFORM pg_stat_clear_snapshot();
	END LOOP;
END $$;
SELECT ids FROM snowflake_stat() \gset before_
SELECT count(snowflake_nextval()) FROM generate_series(1, 1000);
SELECT sum(last_id - first_id + 1) FROM snowflake_reserve(500);
SELECT ids - :before_ids AS made, waits >= 0 AND wait_time >= 0 AS others,
	mark_extensions > 0 AND mark_flush_time > 0 AS mark, stats_reset < now() AS since
FROM snowflake_stat();

-- and so are those of a session that is idle
\c
SELECT count(snowflake_nextval()) FROM generate_series(1, 100);
\c
SELECT set_config('test.expected', (:before_ids + 1600)::text, false) IS NOT NULL AS set;
DO $$
BEGIN
	FOR i IN 1..1000 LOOP
		EXIT WHEN (SELECT ids FROM snowflake_stat()) >= current_setting('test.expected')::bigint;
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
SELECT ids - :before_ids AS made FROM snowflake_stat();

-- A reset
\c
SELECT snowflake_stat_reset();
SELECT ids, mark_extensions, clock_steps_back, last_step_back, stats_reset > now() - interval '1 min' AS reset
FROM snowflake_stat();

-- Privileges
CREATE ROLE regress_snowflake_monitor IN ROLE pg_monitor;
CREATE ROLE regress_snowflake_nobody;
SET ROLE regress_snowflake_monitor;
SELECT state FROM snowflake_status();
SELECT ids FROM snowflake_stat();
SELECT snowflake_stat_reset();
SET ROLE regress_snowflake_nobody;
SELECT state FROM snowflake_status();
SELECT ids FROM snowflake_stat();
RESET ROLE;
DROP ROLE regress_snowflake_monitor;
DROP ROLE regress_snowflake_nobody;

-- The extension adds only functions to the user's schema, which no tool lists or drops
SELECT pg_describe_object(classid, objid, 0) FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e' AND classid <> 'pg_proc'::regclass
	AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake')
	AND (pg_identify_object(classid, objid, 0)).schema IS DISTINCT FROM 'snowflake_internal';
SELECT count(*) FROM information_schema.tables WHERE table_name LIKE '%snowflake%';
