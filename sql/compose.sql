\pset format unaligned
\pset tuples_only
\set SHOW_CONTEXT never

-- All arguments but the timestamp are optional
SELECT id, d.* FROM snowflake_compose('2026-03-04 05:06:07.89+00') AS id, snowflake_decode(id) AS d;
SELECT id, d.* FROM snowflake_compose('2026-03-04 05:06:07.89+00', 0, 31, 3, 3, 8191) AS id, snowflake_decode(id) AS d;
SELECT id, d.* FROM snowflake_compose('2026-03-04 05:06:07.89+00', lane => 2) AS id, snowflake_decode(id) AS d;

-- With a layout: in order, or by name
SELECT snowflake_compose('2022-06-28 16:07:40.105+00', datacenter_id => 11, worker_id => 26, layout => 'twitter');
SELECT snowflake_compose('2022-06-28 16:07:40.105+00', 'twitter', 11, 26);
SELECT snowflake_compose(generated_at => '2022-06-28 16:07:40.105+00', datacenter_id => 11, worker_id => 26,
	timeline => 0, lane => 0, sequence => 0, tag => 0, layout => 'twitter');
SELECT snowflake_compose('2022-06-28 16:07:40.105+00', 'twitter');

-- Any timestamp within a tick gives the id of the tick
SELECT snowflake_timestamp(snowflake_compose('2026-01-01 00:00:00.999999+00'));
SELECT snowflake_timestamp(snowflake_compose('2026-01-01 00:00:01.999999+00', 'snowflake tick:1s'), 'snowflake tick:1s');

-- The first id and the last
SELECT snowflake_compose('2026-01-01 00:00:00+00');
SELECT snowflake_compose(last_instant, 0, 31, 3, 3, 8191) FROM snowflake_capacity();

-- Out of range: the error names the field, the value and the range
SELECT snowflake_compose(now(), worker_id => 32);
\echo :LAST_ERROR_SQLSTATE
SELECT snowflake_compose(now(), tag => 1);
\set VERBOSITY terse
SELECT snowflake_compose(now(), worker_id => -1);
SELECT snowflake_compose(now(), lane => 4);
SELECT snowflake_compose(now(), sequence => 8192);
SELECT snowflake_compose(now(), timeline => 4);
SELECT snowflake_compose(now(), datacenter_id => -1);
SELECT snowflake_compose(now(), 'twitter', datacenter_id => 2147483647);
SELECT snowflake_compose(now(), 'nonesuch');
\set VERBOSITY default
BEGIN;
SET LOCAL TimeZone = 'UTC';
SET LOCAL DateStyle = 'ISO';
SELECT snowflake_compose('2025-12-31 23:59:59.999999+00');
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
BEGIN;
SET LOCAL TimeZone = 'UTC';
SET LOCAL DateStyle = 'ISO';
SELECT snowflake_compose(last_instant + interval '1 ms') FROM snowflake_capacity();
ROLLBACK;
SELECT snowflake_compose(last_instant + interval '999 us') = snowflake_compose(last_instant) AS same FROM snowflake_capacity();
\set VERBOSITY terse
SELECT snowflake_compose('infinity');
SELECT snowflake_compose('-infinity');
SELECT snowflake_compose('infinity', 'time:62');
SELECT snowflake_compose('294276-12-31 23:00+00', 'time:41 tick:1us epoch:0');
\echo :LAST_ERROR_SQLSTATE

-- NULL stands for a field that the layout lacks, as in the result of decoding
SELECT snowflake_compose(generated_at, 'leaf', datacenter_id, worker_id, timeline, lane, sequence, tag)
FROM snowflake_decode(1116766490855473152, 'leaf');
-- any other NULL makes the result NULL
SELECT snowflake_compose(NULL) IS NULL AS no_time,
	snowflake_compose(now(), worker_id => NULL) IS NULL AS no_worker,
	snowflake_compose(now(), NULL::text) IS NULL AS no_layout;
