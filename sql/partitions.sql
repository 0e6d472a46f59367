\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';

CREATE TABLE events (id bigint DEFAULT snowflake_nextval(), kind text NOT NULL DEFAULT 'none' CHECK (kind <> ''), PRIMARY KEY (id))
PARTITION BY RANGE (id);
COMMENT ON COLUMN events.kind IS 'of what kind';

-- Months, from that of the lower bound to that in which the upper bound lies, or which
-- it ends
SELECT * FROM snowflake_create_partitions('events', '1 month', '2026-10-15', '2027-01-01');
SELECT * FROM snowflake_partitions('events');
-- existing partitions are skipped, for the same bounds and for others
SELECT * FROM snowflake_create_partitions('events', '1 month', '2026-10-15', '2027-01-01');
SELECT * FROM snowflake_create_partitions('events', '1 month', '2026-12-31', '2027-01-01 00:00:01');
-- and so are those within a longer one
SELECT * FROM snowflake_create_partitions('events', '1 day', '2027-01-30', '2027-02-03');
-- no gaps and no overlaps; each id gets into the right partition
SELECT bool_and(first_id = before + 1) AS seamless FROM (SELECT first_id, lag(last_id) OVER (ORDER BY first_id) AS before FROM snowflake_partitions('events')) AS p WHERE before IS NOT NULL;
INSERT INTO events SELECT snowflake_compose(instant) FROM unnest(ARRAY['2026-10-01', '2026-10-31 23:59:59.999', '2026-11-01', '2027-01-31 23:59:59.999', '2027-02-01']::timestamptz[]) AS instant;
SELECT tableoid::regclass, snowflake_timestamp(id) FROM events ORDER BY id;
-- a partition is like its table
SELECT column_name, column_default, is_nullable FROM information_schema.columns WHERE table_name = 'events_p202610' ORDER BY ordinal_position;
SELECT conname, contype FROM pg_constraint WHERE conrelid = 'events_p202610'::regclass AND contype <> 'n' ORDER BY conname;

-- Partitions that are over, to be dropped
SELECT * FROM snowflake_partitions_before('events', '2026-12-01');
SELECT * FROM snowflake_partitions_before('events', '2026-11-30 23:59:59.999');
SELECT count(*) FROM snowflake_partitions_before('events', '-infinity');
SELECT count(*) FROM snowflake_partitions_before('events', 'infinity');
DO $$
DECLARE
	old regclass;
BEGIN
	FOR old IN SELECT * FROM snowflake_partitions_before('events', '2026-12-01') LOOP
		EXECUTE format('DROP TABLE %s', old);
	END LOOP;
END $$;
SELECT count(*) FROM events;

-- Along with partitions of other kinds
CREATE TABLE events_old PARTITION OF events FOR VALUES FROM (MINVALUE) TO (0);
CREATE TABLE events_other PARTITION OF events DEFAULT;
SELECT * FROM snowflake_partitions('events') LIMIT 2;
SELECT * FROM snowflake_partitions_before('events', '2026-01-01');
-- where few bits are below the time, integers are ids of minutes
CREATE TABLE few_bits (id bigint) PARTITION BY RANGE (id);
CREATE TABLE few_bits_old PARTITION OF few_bits FOR VALUES FROM (10000000) TO (20000000);
CREATE TABLE few_bits_new PARTITION OF few_bits FOR VALUES FROM (2147483648) TO (4294967296);
SELECT * FROM snowflake_partitions_before('few_bits', '2026-12-01', 'js53');
DROP TABLE few_bits;
SELECT * FROM snowflake_create_partitions('events', '1 month', '2026-11-30', '2027-01-01');
DROP TABLE events_old;
-- one that cannot have rows
CREATE TABLE events_none PARTITION OF events FOR VALUES FROM (MINVALUE) TO (-9223372036854775808);
SELECT * FROM snowflake_partitions('events') LIMIT 1;
DROP TABLE events;

-- In a time zone: days of 23 and 25 hours, midnights that are missing or occur twice,
-- and no gaps in between
CREATE TABLE days (id bigint) PARTITION BY RANGE (id);
SELECT * FROM snowflake_create_partitions('days', '1 day', '2026-03-28 12:00Z', '2026-03-30Z', 'Europe/Berlin');
SELECT * FROM snowflake_create_partitions('days', '1 day', '2026-10-24 12:00Z', '2026-10-26Z', 'Europe/Berlin');
SELECT partition, upper_bound - lower_bound AS length FROM snowflake_partitions('days');
SELECT * FROM snowflake_create_partitions('days', '6 hours', '2026-12-01 06:30Z', '2026-12-01 18:00Z', 'Asia/Kolkata');
SELECT partition, lower_bound FROM snowflake_partitions('days') WHERE lower_bound > '2026-12-01Z';
-- weeks start on Monday
SELECT * FROM snowflake_create_partitions('days', '7 days', '2027-06-02', '2027-06-08');
SELECT partition, extract(isodow FROM lower_bound) AS weekday FROM snowflake_partitions('days') WHERE lower_bound > '2027-01-01Z';
DROP TABLE days;
-- a day that a time zone skips has no partition
CREATE TABLE skipped (id bigint) PARTITION BY RANGE (id);
SELECT * FROM snowflake_create_partitions('skipped', '1 day', '2011-12-29 12:00Z', '2012-01-01 00:00Z', 'Pacific/Apia', 'twitter');
SELECT partition, lower_bound, upper_bound FROM snowflake_partitions('skipped', 'twitter');
DROP TABLE skipped;
CREATE FUNCTION holes(step interval, zone text, first timestamptz, last timestamptz,
	OUT enough boolean, OUT holes bigint, OUT uncovered boolean, OUT again bigint)
LANGUAGE plpgsql AS $$
BEGIN
	CREATE TABLE zoned (id bigint) PARTITION BY RANGE (id);
	enough := (SELECT count(*) >= floor(extract(epoch FROM last - first) / extract(epoch FROM step)) FROM snowflake_create_partitions('zoned', step, first, last, zone));
	again := (SELECT count(*) FROM generate_series(first, last - interval '1 day', '7 days 5 hours') AS t, snowflake_create_partitions('zoned', step, t, t + '1 s', zone));
	SELECT count(*) FILTER (WHERE first_id <> before + 1), min(lower_bound) > first OR max(upper_bound) < last INTO holes, uncovered
	FROM (SELECT *, lag(last_id) OVER (ORDER BY first_id) AS before FROM snowflake_partitions('zoned')) AS p;
	DROP TABLE zoned;
END $$;
-- when clocks change
SELECT zone, step, bool_and(enough) AS enough, sum(holes) AS holes, bool_or(uncovered) AS uncovered, sum(again) AS again
FROM unnest(ARRAY['UTC', 'America/Havana', 'Africa/Cairo', 'Asia/Beirut', 'Australia/Lord_Howe', 'America/Nuuk']) AS zone,
	unnest(ARRAY['1 day', '1 month', '7 days', '36 hours', '3 months']::interval[]) AS step,
	(VALUES ('2028-02-25 13:14:15'::timestamptz, '2028-05-03'::timestamptz), ('2028-09-27 13:14:15', '2028-11-09')) AS season (first, last),
	holes(step, zone, first, last) GROUP BY zone, step ORDER BY zone, step;
DROP FUNCTION holes;

-- Another layout, whose last partition has no upper bound
CREATE TABLE tweets (id bigint) PARTITION BY RANGE (id);
SELECT * FROM snowflake_create_partitions('tweets', '10 years', '2079-01-01', '2080-07-01', layout => 'twitter');
SELECT * FROM snowflake_partitions('tweets', 'twitter');
INSERT INTO tweets VALUES (9223372036854775807);
SELECT * FROM snowflake_partitions_before('tweets', '2080-01-01', 'twitter');
DROP TABLE tweets;

-- A partition has the access method of its table, which partitioned tables can have from
-- PostgreSQL 17 on
CREATE ACCESS METHOD regress_heap TYPE TABLE HANDLER heap_tableam_handler;
SELECT CASE WHEN current_setting('server_version_num')::integer >= 170000 THEN 'USING regress_heap' ELSE '' END AS method \gset
CREATE TABLE methods (id bigint) PARTITION BY RANGE (id) :method;
SELECT * FROM snowflake_create_partitions('methods', '1 day', '2026-11-21', '2026-11-22');
SELECT amname = CASE WHEN :'method' = '' THEN 'heap' ELSE 'regress_heap' END AS same
FROM pg_class JOIN pg_am ON pg_am.oid = relam WHERE pg_class.oid = 'methods_p20261121'::regclass;
DROP TABLE methods;
DROP ACCESS METHOD regress_heap;

-- Names: quoted, truncated to the limit, and in the table's schema
CREATE SCHEMA "odd schema";
SELECT format('CREATE TABLE "odd schema".%I (id bigint) PARTITION BY RANGE (id)', 'Täble "' || repeat('ü', 26)) \gexec
SELECT oid::regclass AS odd FROM pg_class WHERE relname LIKE 'Täble%' AND relkind = 'p' \gset
SELECT * FROM snowflake_create_partitions(:'odd', '1 day', '2026-11-21', '2026-11-22');
DROP SCHEMA "odd schema" CASCADE;
-- functions of the extension are found wherever it is, and others are not called
CREATE SCHEMA "Else where";
DROP EXTENSION snowflake;
CREATE EXTENSION snowflake SCHEMA "Else where";
CREATE TABLE days (id bigint) PARTITION BY RANGE (id);
SELECT * FROM "Else where".snowflake_create_partitions('days', '1 day', '2026-11-21', '2026-11-22');
SELECT * FROM "Else where".snowflake_partitions('days');
DROP EXTENSION snowflake;
CREATE EXTENSION snowflake;
DROP SCHEMA "Else where";

-- Errors
CREATE TABLE plain (id bigint);
CREATE TABLE listed (id bigint) PARTITION BY LIST (id);
CREATE TABLE double (a bigint, b bigint) PARTITION BY RANGE (a, b);
CREATE TABLE narrow (id int) PARTITION BY RANGE (id);
SELECT snowflake_create_partitions(t, '1 day', '2026-11-21', '2026-11-22') FROM unnest(ARRAY['plain']::regclass[]) AS t;
\set VERBOSITY sqlstate
SELECT snowflake_create_partitions('listed', '1 day', '2026-11-21', '2026-11-22');
SELECT snowflake_create_partitions('double', '1 day', '2026-11-21', '2026-11-22');
SELECT snowflake_create_partitions('narrow', '1 day', '2026-11-21', '2026-11-22');
SELECT snowflake_create_partitions('days', '1 day', '2026-11-22', '2026-11-22');
SELECT snowflake_create_partitions('days', '1 day', '2026-11-22', 'infinity');
SELECT snowflake_create_partitions('days', '1 day', '2025-11-22', '2026-11-22');
SELECT snowflake_create_partitions('days', '1 day', '2026-11-22', '2026-11-24', 'Nowhere');
SELECT snowflake_create_partitions('days', '1 day', NULL, '2026-11-24');
SELECT snowflake_create_partitions('days', '1 month', '2026-11-01', '2026-11-24');
\set VERBOSITY default
SELECT snowflake_create_partitions('days', step, '2026-11-21', '2026-11-22') FROM unnest(ARRAY['1 day 1 hour']::interval[]) AS step;
\set VERBOSITY sqlstate
SELECT snowflake_create_partitions('days', '0', '2026-11-21', '2026-11-22');
SELECT snowflake_create_partitions('days', '-1 day', '2026-11-21', '2026-11-22');
SELECT snowflake_create_partitions('days', '0.5 s', '2026-11-21', '2026-11-22');
SELECT count(*) FROM snowflake_partitions('days');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT snowflake_create_partitions('days', '1 day', '2026-12-22', '2026-12-23');
ROLLBACK;
SELECT count(*) FROM snowflake_partitions('plain');
-- bounds that look like ids but are not
CREATE TABLE dated (d date) PARTITION BY RANGE (d);
CREATE TABLE dated_1 PARTITION OF dated FOR VALUES FROM ('2099-01-01') TO ('2100-01-01');
SELECT * FROM snowflake_partitions('dated');
SELECT * FROM snowflake_partitions_before('dated', '2026-12-22');
SELECT * FROM snowflake_partitions_before('double', '2026-12-22');
DROP TABLE dated;
\set VERBOSITY default

DROP TABLE days, plain, listed, double, narrow;

-- A partition belongs to the owner of its table, whoever creates it: the owner of a table
-- runs the expressions of its indexes
CREATE ROLE "regress_snowflake Owner";
CREATE TABLE owned (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
ALTER TABLE owned OWNER TO "regress_snowflake Owner";
SELECT * FROM snowflake_create_partitions('owned', '1 month', '2026-10-15', '2026-10-16');
SELECT relname, pg_get_userbyid(relowner) AS owner FROM pg_class WHERE relname LIKE 'owned\_p%' AND relkind = 'r';
DROP TABLE owned;
DROP ROLE "regress_snowflake Owner";
