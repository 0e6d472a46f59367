\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only

-- All ways to call it
CREATE TABLE t (id bigint);
INSERT INTO t VALUES (1541815603606036480), (NULL);
SELECT snowflake_decode(id, 'twitter') FROM t;
SELECT (snowflake_decode(id, 'twitter')).* FROM t;
SELECT d.* FROM t, snowflake_decode(t.id, 'twitter') AS d;
SELECT d.worker_id FROM t LEFT JOIN LATERAL snowflake_decode(t.id, 'twitter') AS d ON true;

SELECT snowflake_timestamp(id, 'twitter'), snowflake_worker_id(id, 'twitter') FROM t;

-- A field with the value 0 differs from a missing field
SELECT * FROM snowflake_decode(0, 'snowflake');
SELECT * FROM snowflake_decode(0, 'time:40 tag:3 datacenter:3 worker:3 lane:3 sequence:3 timeline:3');
SELECT * FROM snowflake_decode(1, 'time:62');
SELECT * FROM snowflake_decode(9223372036854775807, 'twitter');
SELECT * FROM snowflake_decode(9223372036854775807, 'time:1 worker:31 sequence:31');
SELECT * FROM snowflake_decode(9007199254740991, 'js53');

-- The two forms agree, with the layout in force and in full
WITH ids AS (SELECT snowflake_nextval() AS id FROM generate_series(1, 1000))
SELECT bool_and(snowflake_decode(id) = snowflake_decode(id, 'snowflake')) AS decode,
	bool_and(snowflake_timestamp(id) = (snowflake_decode(id)).generated_at) AS generated_at,
	bool_and(snowflake_worker_id(id) = (snowflake_decode(id)).worker_id) AS worker
FROM ids;

-- A call whose layout changes from row to row
SELECT l, snowflake_worker_id(1541815603606036480, l) AS worker
FROM unnest('{twitter,leaf,leaf,twitter,instagram,mastodon,NULL,twitter}'::text[]) AS l;

-- Not an id
SELECT snowflake_decode(-1, 'twitter');
\echo :LAST_ERROR_SQLSTATE
SELECT snowflake_timestamp(-9223372036854775808, 'twitter');
SELECT snowflake_decode(9007199254740992, 'js53');
SELECT snowflake_decode(-1);
-- the last tick that timestamptz can represent, and the first that it cannot
SELECT snowflake_decode(largest, 'time:62') FROM (SELECT snowflake_compose(last_instant, 'time:62') AS largest FROM snowflake_capacity('time:62')) AS c;
SELECT snowflake_decode(largest + 1, 'time:62') FROM (SELECT snowflake_compose(last_instant, 'time:62') AS largest FROM snowflake_capacity('time:62')) AS c;
SELECT snowflake_decode(1, 'nonesuch');

-- NULL in, NULL out
SELECT snowflake_decode(NULL), snowflake_decode(NULL, 'nonesuch'), snowflake_decode(1, NULL),
	snowflake_timestamp(NULL), snowflake_worker_id(1, NULL), snowflake_worker_id(NULL, 'twitter');
SELECT format('%s', snowflake_decode(NULL)) = '' AS nothing;

-- An expression index needs the form that is IMMUTABLE
CREATE INDEX ON t (snowflake_timestamp(id, 'twitter'));
-- 19 shows the position
\set VERBOSITY sqlstate
CREATE INDEX ON t (snowflake_timestamp(id));
\set VERBOSITY default
DROP TABLE t;

-- Labels: functions of a layout alone are IMMUTABLE if it is an argument, and otherwise
-- STABLE, strict and parallel safe; these are others
SELECT proname, pronargs, provolatile, proisstrict, proparallel, prorettype::regtype
FROM pg_depend AS d JOIN pg_proc AS p ON d.objid = p.oid
WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake')
	AND (provolatile, proisstrict, proparallel) IS DISTINCT FROM
		(CASE WHEN 'text'::regtype = ANY (proargtypes) THEN 'i' ELSE 's' END, true, 's')
ORDER BY proname COLLATE "C", pronargs, proargtypes;
-- and all functions for users have comments
SELECT p.oid::regprocedure AS uncommented
FROM pg_depend AS d JOIN pg_proc AS p ON d.objid = p.oid
WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake')
	AND obj_description(p.oid, 'pg_proc') IS NULL;
