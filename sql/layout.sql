\pset format unaligned
\pset tuples_only
-- the presets, as designed
SELECT p AS preset, c.*
FROM unnest('{snowflake,twitter,leaf,discord,instagram,sonyflake,sonyflake2,
	uid-generator,cosid,mastodon,pgedge,pgactive,js53}'::text[]) AS p,
	snowflake_capacity(p) AS c;

SELECT * FROM snowflake_layout('snowflake');
-- the default is in force
SELECT snowflake_capacity() = snowflake_capacity('snowflake') AS in_force;
SELECT array_agg(l) = (SELECT array_agg(s) FROM snowflake_layout('snowflake') AS s) AS in_force
FROM snowflake_layout() AS l;

-- words in any case, any white space, tick and epoch anywhere after time
SELECT (snowflake_capacity(l)).layout
FROM unnest(ARRAY[
	'time:41',
	E'  TIME:41\tWorker:10\n sequence:12  ',
	'time:41 tick:10ms worker:10 epoch:2020-01-01T00:00:00Z sequence:10',
	'time:53 sequence:10 tick:1us',
	'time:31 sequence:20 tick:1s',
	'time:41 lane:0 sequence:12',
	'time:62 tag:1',
	'time:41 sequence:12 tick:1000us epoch:2020-01-01T00:00:00.123456Z']) AS l;

-- epochs: Unix milliseconds, or an instant in the form in which it is shown
SELECT e, (snowflake_capacity('time:41 epoch:' || e)).first_instant
FROM unnest(ARRAY[
	'0',
	'-28800000',
	'1767225600000',
	'2026-01-01T00:00:00Z',
	'2026-01-01T00:00:00.500Z',
	'2026-01-01T00:00:00.000001Z']) AS e;

-- and regardless of how the session writes dates
BEGIN;
SET LOCAL DateStyle = 'SQL, DMY';
SET LOCAL TimeZone = 'Asia/Kolkata';
SET LOCAL IntervalStyle = 'sql_standard';
SELECT snowflake_capacity('time:41 sequence:12 epoch:2026-02-03T04:05:06Z');
ROLLBACK;

BEGIN;
SET LOCAL TimeZone = '<Z>5';
SELECT (snowflake_capacity('time:41 epoch:2026-02-03T04:05:06Z')).layout;
ROLLBACK;

-- words after a preset override its fields in place; new fields are added below
SELECT (snowflake_capacity(l)).layout
FROM unnest(ARRAY[
	'twitter epoch:1420041600000',
	'snowflake lane:0',
	'snowflake lane:1 worker:6',
	'snowflake sequence:10 tag:3',
	'Snowflake time:33 tick:1s sequence:20',
	'js53 tick:10ms']) AS l;
SELECT * FROM snowflake_layout('snowflake sequence:8 tag:4 timeline:0');

-- the text of a layout, given as a layout, results in the same one
SELECT bool_and(c = snowflake_capacity(c.layout)) AS same
FROM unnest('{snowflake,sonyflake,uid-generator,mastodon,
	time:62 epoch:-210000000000000,time:41 tick:7us}'::text[]) AS p,
	snowflake_capacity(p) AS c;

-- lanes and ids per second are limited to what the server can do
SELECT lanes, ids_per_second FROM snowflake_capacity('time:32 lane:31');
SELECT lanes, ids_per_second FROM snowflake_capacity('time:26 lane:6 sequence:31 tick:1us');
SELECT workers FROM snowflake_capacity('time:1 datacenter:31 worker:31');
SELECT snowflake_last_before('infinity', 'time:62 tick:1us');
-- timestamptz ends before the time field does
SELECT last_instant FROM snowflake_capacity('time:62');

-- errors explain what is wrong
SELECT snowflake_layout('');
\echo :LAST_ERROR_SQLSTATE
CREATE FUNCTION why(layout text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	PERFORM snowflake_layout(layout);
	RETURN 'valid';
EXCEPTION WHEN invalid_parameter_value THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN detail;
END $$;
SELECT why(layout) FROM unnest('{"   ", "time:37 worker:20 sequence:16", "twitter lane:1", "worker:10 time:41 sequence:12",
	"tag:2 time:32 lane:1 tick:1s", "lane:0 time:41", "worker:10 sequence:12", "twiter",
	"time:0 sequence:12", "time:63"}'::text[]) AS layout;
SELECT why('time:41 ' || words) FROM unnest('{"worker:5 worker:5", "tick:1ms tick:1ms", "lane:0 lane:3", "wroker:5", "worker", "twitter", ":5",
	"worker:32", "worker:-1", "worker:", "worker:5x", "worker:+5", "worker:99999999999999999999",
	"tick:0ms", "tick:2s", "tick:10", "tick:1m", "tick:ms", "tick:-1ms", "tick:100000000us"}'::text[]) AS words;
SELECT epoch FROM unnest('{"2026-01-01T00:00:00", "2026-01-01", "2026-01-01t00:00:00z", "2026-1-1T00:00:00Z", "infinity", "-infinity", "now", "epoch", "",
	"2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-01T25:00:00Z", "2026-01-01T00:00:60Z", "2026-01-01T00:00:59.9999999Z", "2026-01-01T00:00:00.5Z",
	"2026-01-01T00:00:00+01:00", "2026-01-01T00:00:00ZZ", "2026-01-01T00:00:00 Z", "-2026-01-01T00:00:00Z",
	"99999999-01-01T00:00:00Z", "99999999999-01-01T00:00:nanZ", "2026-01-01T00:00:1e0Z", "01/02/2026T00:00:00Z",
	"9223372036854775807", "-9223372036854775808", "99999999999999999999", "9999999999999999"}'::text[]) AS epoch
WHERE why('time:41 epoch:' || epoch) NOT LIKE '"epoch:' || epoch || '" is neither an instant%';
SELECT why(repeat(' ', 501));
DROP FUNCTION why;
SELECT snowflake_layout(NULL), snowflake_capacity(NULL);
