/* snowflake/sql-only/snowflake_sql--1.0.sql */

-- Snowflake ids in SQL and PL/pgSQL, for servers on which no C library can be installed.
-- Layouts, names and results are those of the extension snowflake.  CREATE EXTENSION,
-- pg_tle and psql all take this script, and no superuser is needed.  It creates the
-- functions for users in the first schema of search_path, the rest in snowflake_sql:
--
--		psql --single-transaction --set=ON_ERROR_STOP=1 --file=snowflake_sql--1.0.sql
--		SELECT snowflake_configure('snowflake', worker_id => 1);
--		CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
--
-- What is promised: while the server runs, no id is made twice, neither by two sessions,
-- nor after a rollback, nor when the clock is stepped; as long as the settings stay the
-- same, each id is greater than all that any session was given before.  After a crash, a
-- promotion or the restore of a dump, no committed id is made again, and with durable
-- settings (the default from PostgreSQL 17 on) none that was seen.  A standby that is
-- promoted can lack what its primary did last: then the layout needs timeline bits, or
-- the standby must be less than half a reservation, 1 s, behind.  Like nextval(), these
-- functions make no ids in read-only transactions and parallel workers.
--
-- Other roles may be able to create objects in our schema.  So functions in PL/pgSQL have
-- a search_path of their own.  In SQL functions, names are looked up when this script
-- runs: they name schemas, and pass arguments of exactly the declared types.

DO $$
BEGIN
	IF NOT pg_catalog.starts_with((pg_catalog.current_schemas(true))[1]::pg_catalog.text, 'pg_'::pg_catalog.text) THEN
		RAISE object_not_in_prerequisite_state USING MESSAGE = 'search_path has a schema before pg_catalog',
			HINT = 'Set search_path to the schema for the functions.';
	END IF;
	IF pg_catalog.current_schema() IS NULL
		OR pg_catalog.starts_with(pg_catalog.current_schema()::pg_catalog.text, 'pg_'::pg_catalog.text)
	THEN
		RAISE invalid_schema_name USING MESSAGE = 'no schema has been selected to create the functions in',
			HINT = 'Set search_path to the schema for the functions.';
	END IF;
END
$$;

-- This fails if the schema exists, because somebody else may own it.
CREATE SCHEMA snowflake_sql;

-- bodies in PL/pgSQL look names up when they run
GRANT USAGE ON SCHEMA snowflake_sql TO PUBLIC;

-- Fields have numbers: 1 time, 2 datacenter, 3 worker, 4 timeline, 5 lane, 6 sequence, 7 tag.
CREATE TYPE snowflake_sql.layout AS (
	text text,					-- in full
	fields integer[],			-- numbers of its fields, the most significant first
	bits integer[],				-- by number; 0: the layout lacks the field
	shifts integer[],
	tick bigint,				-- in microseconds
	epoch timestamp,			-- start of tick 0, in UTC
	unix_epoch bigint,			-- the same in microseconds since 1970
	last_tick bigint,			-- where the time field or timestamptz ends
	largest bigint				-- the largest id
);

-- The bits, tick and epoch that the words of a layout give.  They override those of a
-- preset, which can only be the first word.  The fields are in the order of the text.
CREATE FUNCTION snowflake_sql.read_words(layout text,
	OUT fields integer[],
	OUT bits integer[],
	OUT tick bigint,
	OUT epoch timestamp,
	OUT reason text)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	keys CONSTANT text[] := '{time,datacenter,worker,timeline,lane,sequence,tag,tick,epoch}';
	presets CONSTANT text[] := ARRAY[
		['snowflake', 'time:41 worker:5 timeline:2 lane:2 sequence:13 epoch:1767225600000'],
		['twitter', 'time:41 datacenter:5 worker:5 sequence:12 epoch:1288834974657'],
		['leaf', 'time:41 worker:10 sequence:12 epoch:1288834974657'],
		['discord', 'time:41 worker:5 lane:5 sequence:12 epoch:1420070400000'],
		['instagram', 'time:40 worker:13 sequence:10 epoch:1314220021721'],
		['sonyflake', 'time:39 sequence:8 worker:16 tick:10ms epoch:1409529600000'],
		['sonyflake2', 'time:39 sequence:8 worker:16 tick:10ms epoch:1735689600000'],
		['uid-generator', 'time:28 worker:22 sequence:13 tick:1s epoch:1463673600000'],
		['cosid', 'time:41 worker:10 sequence:12 epoch:1577203200000'],
		['mastodon', 'time:47 sequence:16 epoch:0'],
		['pgedge', 'time:41 worker:10 sequence:12 epoch:1672531200000'],
		['pgactive', 'time:39 worker:10 sequence:14 epoch:1475796139634'],
		['js53', 'time:41 worker:3 sequence:9 epoch:1767225600000']];
	preset text;
	names text;
	word text;
	name text;
	value text;
	key integer;
	seen integer[] := '{}';
	is_first boolean := true;
	least_bits integer;
	most_bits integer;
	part text[];
BEGIN
	fields := '{}';
	bits := '{0,0,0,0,0,0,0}';
	tick := 1000;
	epoch := '2026-01-01';
	IF octet_length(layout) > 500 THEN
		reason := 'The text is longer than 500 bytes.';
		RETURN;
	END IF;
	FOREACH word IN ARRAY regexp_split_to_array(btrim(layout, E' \t\r\n'), E'[ \t\r\n]+') LOOP
		CONTINUE WHEN word = '';
		IF is_first THEN
			is_first := false;
			FOR i IN 1..array_length(presets, 1) LOOP
				IF presets[i][1] = lower(word COLLATE "C") THEN
					preset := presets[i][2];
				END IF;
			END LOOP;
			IF preset IS NOT NULL THEN
				SELECT p.fields, p.bits, p.tick, p.epoch INTO fields, bits, tick, epoch
				FROM snowflake_sql.read_words(preset) AS p;
				CONTINUE;
			END IF;
		END IF;

		name := split_part(word, ':', 1);
		value := substr(word, length(name) + 2);
		key := CASE WHEN strpos(word, ':') > 0 THEN array_position(keys, lower(name COLLATE "C")) END;
		IF key IS NULL THEN
			SELECT string_agg(presets[i][1], ', ' ORDER BY i) INTO names
			FROM generate_series(1, array_length(presets, 1)) AS i;
			reason := format('"%s" is neither a field (time, datacenter, worker, timeline, lane, sequence, tag) with its bits, nor "tick:", nor "epoch:", nor a preset that comes first (%s).', name, names);
			RETURN;
		END IF;
		IF key = ANY (seen) THEN
			reason := format('"%s" is given twice.', name);
			RETURN;
		END IF;
		seen := seen || key;

		CASE keys[key]
			WHEN 'tick' THEN
				tick := CASE WHEN value ~* '^[0-9]{1,7}(s|ms|us)$' THEN substring(value FROM '^[0-9]+')::bigint *
					CASE lower(substring(value FROM '[a-zA-Z]+$') COLLATE "C")
						WHEN 's' THEN 1000000 WHEN 'ms' THEN 1000 ELSE 1 END END;
				IF (tick BETWEEN 1 AND 1000000) IS NOT TRUE THEN
					reason := format('"tick:%s" is not valid: a tick is 1us to 1s, given as a whole number with the unit "us", "ms" or "s".', value);
					RETURN;
				END IF;
			WHEN 'epoch' THEN
				-- in the form in which it is shown, or in Unix milliseconds
				part := regexp_match(value, E'^([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2}(?:\\.[0-9]+)?)Z$');
				epoch := CASE
					WHEN part IS NOT NULL THEN make_timestamp(greatest(part[1]::integer, 1), 1, 1, 0, 0, 0) +
						make_interval(0, part[2]::integer - 1, 0, part[3]::integer - 1, part[4]::integer, part[5]::integer, part[6]::double precision)
					-- timestamptz begins at the lower bound; beyond the upper one, microseconds do not fit a bigint
					WHEN value ~ '^-?[0-9]+$' AND value::numeric BETWEEN -210866803200000 AND 9223372036854775 THEN timestamp '1970-01-01' +
						div(value::numeric, 86400000)::integer * interval '24 hours' + mod(value::numeric, 86400000)::integer * interval '1 millisecond'
				END;
				IF epoch IS NULL OR part IS NOT NULL AND snowflake_sql.instant_to_text(epoch) <> value THEN
					reason := format('"epoch:%s" is neither an instant in UTC, such as 2026-01-01T00:00:00Z or 2026-01-01T00:00:00.500Z, nor one in Unix milliseconds, such as 1767225600000.', value);
					RETURN;
				END IF;
			ELSE
				-- a field of the preset stays in its place, others go below
				least_bits := CASE WHEN key = 1 THEN 1 ELSE 0 END;
				most_bits := CASE WHEN key = 1 THEN 62 ELSE 31 END;
				IF value !~ '^-?[0-9]+$' OR value::numeric NOT BETWEEN least_bits AND most_bits THEN
					reason := format('"%s:%s" is not valid: the field takes %s to %s bits.', keys[key], value, least_bits, most_bits);
					RETURN;
				END IF;
				IF bits[key] = 0 THEN
					fields := fields || key;
				END IF;
				bits[key] := value;
		END CASE;
	END LOOP;
	IF bits[1] = 0 THEN
		reason := 'A layout needs the field "time", such as "time:41 worker:10 sequence:12".';
	END IF;
END
$$;

-- The server's language must not change the text.
CREATE FUNCTION snowflake_sql.instant_to_text(instant timestamp)
RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	microseconds CONSTANT numeric := extract(epoch FROM instant - timestamp '1970-01-01') * 1000000;
BEGIN
	IF instant < '0001-01-01' OR instant >= '10000-01-01' THEN
		RETURN floor(microseconds / 1000)::text;
	END IF;
	RETURN to_char(instant, 'YYYY-MM-DD"T"HH24:MI:SS') || CASE
		WHEN mod(microseconds, 1000) <> 0 THEN to_char(instant, '.US')
		WHEN mod(microseconds, 1000000) <> 0 THEN to_char(instant, '.MS')
		ELSE '' END || 'Z';
END
$$;

-- IMMUTABLE, so that the planner reads a constant text once, and replaces everything
-- that follows from it by constants, too.
CREATE FUNCTION snowflake_sql.read_layout(layout text)
RETURNS snowflake_sql.layout
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	names CONSTANT text[] := '{time,datacenter,worker,timeline,lane,sequence,tag}';
	words record;
	result snowflake_sql.layout;
	key integer;
	shift integer := 0;
BEGIN
	words := snowflake_sql.read_words(layout);
	IF words.reason IS NULL THEN
		result.bits := words.bits;
		result.shifts := '{0,0,0,0,0,0,0}';
		result.fields := '{}';
		FOR i IN REVERSE array_length(words.fields, 1)..1 LOOP
			key := words.fields[i];
			-- a layout lacks a field of 0 bits
			IF words.bits[key] > 0 THEN
				result.fields := key || result.fields;
				result.shifts[key] := shift;
				shift := shift + words.bits[key];
			END IF;
		END LOOP;
		IF shift > 63 THEN
			words.reason := format('The fields have %s bits, and an id has 63. For scale, %s bits of time at this tick last %s years.',
				shift, words.bits[1], round(2::numeric ^ words.bits[1] * words.tick / 1000000 / 31557600, 1));
		ELSIF result.fields[1] <> 1 THEN
			words.reason := format('"%s" comes before "time", which must be the first field, so that ids sort by time.', names[result.fields[1]]);
		END IF;
	END IF;
	IF words.reason IS NOT NULL THEN
		RAISE invalid_parameter_value USING MESSAGE = format('invalid snowflake layout: "%s"', layout),
			DETAIL = words.reason;
	END IF;

	result.tick := words.tick;
	result.epoch := words.epoch;
	result.unix_epoch := extract(epoch FROM words.epoch - timestamp '1970-01-01') * 1000000;
	result.last_tick := least(2::numeric ^ words.bits[1] - 1,
		-- timestamptz ends with the year 294276
		div(9224318015999999999 - result.unix_epoch::numeric, words.tick));
	result.largest := (result.last_tick << result.shifts[1]) | ((1::bigint << result.shifts[1]) - 1);
	SELECT string_agg(format('%s:%s ', names[field], words.bits[field]), '' ORDER BY i) INTO result.text
	FROM unnest(result.fields) WITH ORDINALITY AS f (field, i);
	result.text := result.text || format('tick:%s epoch:%s', CASE
		WHEN words.tick % 1000000 = 0 THEN words.tick / 1000000 || 's'
		WHEN words.tick % 1000 = 0 THEN words.tick / 1000 || 'ms'
		ELSE words.tick || 'us' END, snowflake_sql.instant_to_text(words.epoch));
	RETURN result;
END
$$;

--
-- Ids of a layout.  Functions that can be inlined are in SQL: with a constant layout,
-- a plan has only shifts and masks in place of a field.  Operators are looked up in
-- search_path, so we give each of them operands of exactly its types.
--

CREATE TYPE snowflake_sql.decoded AS (
	generated_at timestamptz,
	datacenter_id integer,
	worker_id integer,
	timeline integer,
	lane integer,
	sequence integer,
	tag integer
);

-- Throws an error, but returns NULL for NULL.
CREATE FUNCTION snowflake_sql.refuse(id bigint, largest bigint, layout text, result anyelement)
RETURNS anyelement
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF id IS NOT NULL AND layout IS NOT NULL THEN
		RAISE numeric_value_out_of_range USING MESSAGE = format('bigint %s is not a snowflake id', id),
			DETAIL = format('Ids of the layout "%s" range from 0 to %s.', layout, largest);
	END IF;
	RETURN NULL;
END
$$;

-- A field of an id by its number; NULL if the layout lacks it.
CREATE FUNCTION snowflake_sql.field(id bigint, layout snowflake_sql.layout, field integer)
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN (layout).bits[field] > 0 THEN
	((id >> (layout).shifts[field]) & ((1::bigint << (layout).bits[field]) - 1::bigint))::integer
END;

CREATE FUNCTION snowflake_sql.checked_field(id bigint, layout snowflake_sql.layout, field integer)
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
	WHEN id >= 0::bigint AND id <= (layout).largest THEN snowflake_sql.field(id, layout, field)
	ELSE snowflake_sql.refuse(id, (layout).largest, (layout).text, NULL::integer)
END;

-- The start of a tick.  A multiple of an interval is exact up to 2^53 us, which is 285
-- years.  If the layout goes further, we add four parts, each of which is exact.
CREATE FUNCTION snowflake_sql.tick_to_time(tick bigint, layout snowflake_sql.layout)
RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
	WHEN (layout).last_tick <= 9007199254740992::bigint / (layout).tick THEN
		(layout).epoch + (tick * (layout).tick)::double precision * interval '1 microsecond'
	ELSE
		(layout).epoch
			+ (tick >> 22)::double precision * ((layout).tick::double precision * interval '1.048576 seconds')
			+ (tick >> 22)::double precision * ((layout).tick::double precision * interval '1.048576 seconds')
			+ (tick >> 22)::double precision * ((layout).tick::double precision * interval '2.097152 seconds')
			+ (tick & 4194303::bigint)::double precision * ((layout).tick::double precision * interval '1 microsecond')
END AT TIME ZONE interval '0';

CREATE FUNCTION snowflake_sql.generated_at(id bigint, layout snowflake_sql.layout)
RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
	WHEN id >= 0::bigint AND id <= (layout).largest THEN
		snowflake_sql.tick_to_time(id >> (layout).shifts[1], layout)
	ELSE snowflake_sql.refuse(id, (layout).largest, (layout).text, NULL::timestamptz)
END;

CREATE FUNCTION snowflake_sql.decode(id bigint, layout snowflake_sql.layout)
RETURNS snowflake_sql.decoded
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
	WHEN id >= 0::bigint AND id <= (layout).largest THEN
		ROW(snowflake_sql.tick_to_time(id >> (layout).shifts[1], layout), snowflake_sql.field(id, layout, 2),
			snowflake_sql.field(id, layout, 3), snowflake_sql.field(id, layout, 4),
			snowflake_sql.field(id, layout, 5), snowflake_sql.field(id, layout, 6),
			snowflake_sql.field(id, layout, 7))::snowflake_sql.decoded
	ELSE snowflake_sql.refuse(id, (layout).largest, (layout).text, NULL::snowflake_sql.decoded)
END;

-- The same, but if the id is NULL it does not look at the layout, which may be wrong.
CREATE FUNCTION snowflake_sql.decode_strictly(id bigint, layout snowflake_sql.layout)
RETURNS snowflake_sql.decoded
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN snowflake_sql.decode(id, layout);
END
$$;

-- The tick of an instant at or after the epoch; it may be beyond the last tick of the
-- layout.  NULL for infinity.  The difference of two timestamps is an interval, which is
-- exact, unlike a double.
CREATE FUNCTION snowflake_sql.time_to_tick(instant timestamptz, layout snowflake_sql.layout)
RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN isfinite(instant) THEN
	div(extract(epoch FROM instant - '2000-01-01 00:00:00+00'::timestamptz) * 1000000::numeric
		+ 946684800000000::numeric - (layout).unix_epoch::numeric, (layout).tick::numeric)
END;

CREATE FUNCTION snowflake_sql.refuse_time(instant timestamptz, layout snowflake_sql.layout)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET DateStyle = ISO
AS $$
BEGIN
	RAISE datetime_field_overflow USING MESSAGE = format('timestamp %s is out of range for snowflake field "time"', instant),
		DETAIL = format('Ticks of the layout "%s" range from %s to %s.', layout.text,
			snowflake_sql.tick_to_time(0, layout), snowflake_sql.tick_to_time(layout.last_tick, layout));
END
$$;

CREATE FUNCTION snowflake_sql.from_timestamp(instant timestamptz, layout snowflake_sql.layout)
RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE
	WHEN instant >= (layout).epoch AT TIME ZONE interval '0'
		AND snowflake_sql.time_to_tick(instant, layout) <= (layout).last_tick::numeric
	THEN snowflake_sql.time_to_tick(instant, layout)::bigint << (layout).shifts[1]
	ELSE snowflake_sql.refuse_time(instant, layout)
END;

CREATE FUNCTION snowflake_sql.last_before(instant timestamptz, layout snowflake_sql.layout)
RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE
	WHEN instant < (layout).epoch AT TIME ZONE interval '0' THEN -1::bigint
	WHEN snowflake_sql.time_to_tick(instant, layout) <= (layout).last_tick::numeric
	THEN (snowflake_sql.time_to_tick(instant, layout)::bigint << (layout).shifts[1]) - 1::bigint
	ELSE (layout).largest
END;

CREATE FUNCTION snowflake_sql.first_from(instant timestamptz, layout snowflake_sql.layout)
RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
-- no bigint is greater than the last id of 63 bits
RETURN least(snowflake_sql.last_before(instant, layout), 9223372036854775806::bigint) + 1::bigint;

-- Throw an error unless a value fits its field.
CREATE FUNCTION snowflake_sql.check_value(value bigint, layout snowflake_sql.layout, field integer)
RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	name CONSTANT text := ('{time,datacenter,worker,timeline,lane,sequence,tag}'::text[])[field];
	largest CONSTANT bigint := (1::bigint << layout.bits[field]) - 1;
BEGIN
	IF value NOT BETWEEN 0 AND largest THEN
		RAISE numeric_value_out_of_range USING MESSAGE = format('value %s is out of range for snowflake field "%s"', value, name),
			DETAIL = CASE WHEN layout.bits[field] = 0 THEN
				format('The layout "%s" has no field "%s", so only 0 is possible.', layout.text, name)
			ELSE
				format('The field has %s bits in the layout "%s" and takes values from 0 to %s.',
					layout.bits[field], layout.text, largest)
			END;
	END IF;
END
$$;

-- NULL stands for a field that the layout lacks, as in the result of decoding.
CREATE FUNCTION snowflake_sql.compose(generated_at timestamptz, field_values integer[], layout snowflake_sql.layout)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	id bigint;
	value bigint;
BEGIN
	IF generated_at IS NULL OR layout.text IS NULL THEN
		RETURN NULL;
	END IF;
	id := snowflake_sql.from_timestamp(generated_at, layout);
	FOR field IN 2..7 LOOP
		value := field_values[field - 1];
		IF value IS NOT NULL THEN
			IF value >> layout.bits[field] <> 0 THEN
				PERFORM snowflake_sql.check_value(value, layout, field);
			END IF;
			id := id | (value << layout.shifts[field]);
		ELSIF layout.bits[field] > 0 THEN
			RETURN NULL;
		END IF;
	END LOOP;
	RETURN id;
END
$$;

CREATE FUNCTION snowflake_sql.list_fields(layout snowflake_sql.layout,
	OUT name text,
	OUT bits integer,
	OUT shift integer,
	OUT largest bigint)
RETURNS SETOF record
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE ROWS 7
BEGIN ATOMIC
	SELECT ('{time,datacenter,worker,timeline,lane,sequence,tag}'::text[])[field], (layout).bits[field],
		(layout).shifts[field], (1::bigint << (layout).bits[field]) - 1::bigint
	FROM pg_catalog.unnest((layout).fields) WITH ORDINALITY AS f (field, i) ORDER BY i;
END;

-- Use at most 64 lanes, as the extension does.
CREATE FUNCTION snowflake_sql.capacity(of_layout snowflake_sql.layout,
	OUT layout text,
	OUT tick interval,
	OUT first_instant timestamptz,
	OUT last_instant timestamptz,
	OUT workers bigint,
	OUT lanes integer,
	OUT ids_per_second bigint)
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
	SELECT (of_layout).text, (of_layout).tick::double precision * interval '1 microsecond',
		snowflake_sql.tick_to_time(0::bigint, of_layout), snowflake_sql.tick_to_time((of_layout).last_tick, of_layout),
		1::bigint << ((of_layout).bits[2] + (of_layout).bits[3]), 1 << least((of_layout).bits[5], 6),
		(1::bigint << (least((of_layout).bits[5], 6) + (of_layout).bits[6])) * 1000000::bigint / (of_layout).tick;
END;

--
-- Making ids.  A sequence, "word", counts the ids of a tick.  Its value is
--
--		word = prefix << low_bits | counter,	prefix = position << timeline_bits | timeline
--
-- where the counter has the bits of the layout's sequence and lanes, and a position is a
-- tick with the number of the settings in the bits above it.  A second sequence,
-- "opened", holds the prefix of the tick in which ids are made.  A call reads "opened",
-- takes the next word, and uses it only if it has the prefix that was read, and its own
-- settings.  A call that finds the tick over, or used up, opens a later one, behind the
-- door: a lock that one session holds at a time.  It sets "word" to the first word of the
-- tick, which it uses itself, and then "opened" to the tick's prefix.
--
-- Invariant.  No word is used twice: a call has found the word's prefix in "opened" before
-- it took the word.  By then the opener of that prefix had set "word", and no opener sets
-- it to that prefix again, as each opens a later tick.  From then on nextval() returns each
-- word of the prefix once.  An opener does not look at "word", so that nothing can happen
-- between a look and its setval().  Calls that cannot use their word may have counted
-- "word" into later ticks; to set it back is safe because nobody used those words.
--
-- Both sequences are unlogged, so taking a word neither writes WAL nor has a commit wait
-- for it.  After a crash, and at a promotion, PostgreSQL resets them.  Then ids begin
-- above the mark: the sequence "reserved", which is logged.
--
-- Invariant.  No id is returned of a position above the mark.  If the settings are
-- durable, the mark is on disk by then.  An opener first moves it ahead, by 2 s at most, if
-- it does not cover the tick yet.  The sequence "flushed" holds the mark that is on disk; a
-- dump may have read it later, so both must cover the tick.  Even without a flush, a
-- committed id is below the mark, which is ahead of the commit in WAL.
--
-- If a transaction that made an unlogged sequence is rolled back just before a crash, the
-- server can fail to start once.  So all are made when this script runs.
--
-- A rollback does not set sequences back.  So the opener leaves the door by rolling back
-- the subtransaction that took the lock; nothing else releases a lock before the end of
-- the transaction, and it works after an error or a cancel.  The lock is on a table,
-- because any role could keep an advisory lock.  Its mode is the weakest that conflicts
-- with itself: EXCLUSIVE would have to wait for any SELECT ... FOR UPDATE, which locks the
-- table before privileges are checked.  Its holder waits for no other lock, so that the
-- door takes part in no deadlock.
--

CREATE TABLE snowflake_sql.door ();

CREATE UNLOGGED SEQUENCE snowflake_sql.word MINVALUE -9223372036854775808 START 0;
CREATE UNLOGGED SEQUENCE snowflake_sql.opened MINVALUE -9223372036854775808 START 0;
CREATE UNLOGGED SEQUENCE snowflake_sql.flushed MINVALUE -9223372036854775808 START 0;
CREATE SEQUENCE snowflake_sql.reserved MINVALUE -9223372036854775808 START 0;

-- The settings from snowflake_configure(), and what follows from them, as the one constant
-- in snowflake_sql.settings().
CREATE TYPE snowflake_sql.settings AS (
	layout snowflake_sql.layout,
	worker_id integer,
	datacenter_id integer,
	fixed bigint,				-- the bits of worker and datacenter
	timeline_bits integer,		-- parts of a word
	low_bits integer,
	lower_bits integer,			-- bits of lane or sequence, whichever is lower in an id
	upper_shift integer,		-- where the upper and the lower of the two are in an id
	lower_shift integer,
	base bigint,				-- the position of tick 0
	first_position bigint,		-- ids are of positions from this one on
	end_position bigint,		-- and before this one
	max_ahead bigint,			-- in ticks
	reservation bigint,			-- in ticks
	max_wait bigint,			-- in milliseconds
	is_durable boolean,
	is_leased boolean,			-- whether the positions are those of a lease
	server_start timestamptz,	-- where apply() put them into force
	database oid,
	set_by xid8					-- the transaction that did
);

-- The current tick.  A double has 53 bits, so the time is exact to the microsecond.
CREATE FUNCTION snowflake_sql.now_tick(layout snowflake_sql.layout)
RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN ((date_part('epoch'::text, clock_timestamp()) * 1000000::double precision)::bigint
	- (layout).unix_epoch) / (layout).tick;

-- Not the name, because a copy can get the name of the original.  IMMUTABLE, so that the
-- planner replaces a call by a constant: a session, and with it its plans, never changes
-- its database.
CREATE FUNCTION snowflake_sql.database()
RETURNS oid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT oid FROM pg_database WHERE datname = current_database());

-- Whether ids of a position can be made, whatever the clock says.  A copy of the database
-- has the lease, too.  So the lease is only for the database and the start of the server
-- that acquired it.
CREATE FUNCTION snowflake_sql.is_allowed(pos bigint, settings snowflake_sql.settings)
RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
RETURN pos >= (settings).first_position AND pos < (settings).end_position
	AND (NOT (settings).is_leased
		OR (settings).server_start = pg_postmaster_start_time() AND (settings).database = snowflake_sql.database());

-- Whether ids can be made now in a position whose tick has been over for no more than
-- "late" microseconds.  The difference of positions of the same settings fits a bigint.
CREATE FUNCTION snowflake_sql.is_usable(pos bigint, settings snowflake_sql.settings, late bigint)
RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN CASE WHEN snowflake_sql.is_allowed(pos, settings) THEN
	pos - (settings).base - snowflake_sql.now_tick((settings).layout)
		BETWEEN - late / ((settings).layout).tick AND (settings).max_ahead
END;

CREATE FUNCTION snowflake_sql.word_to_id(word bigint, settings snowflake_sql.settings)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (((word >> ((settings).low_bits + (settings).timeline_bits)) - (settings).base) << ((settings).layout).shifts[1])
	| (settings).fixed
	| (((word >> (settings).low_bits) & ((1::bigint << (settings).timeline_bits) - 1::bigint)) << ((settings).layout).shifts[4])
	| (((word & ((1::bigint << (settings).low_bits) - 1::bigint)) >> (settings).lower_bits) << (settings).upper_shift)
	| ((word & ((1::bigint << (settings).lower_bits) - 1::bigint)) << (settings).lower_shift);

-- The id that a word stands for, or NULL if the word must not be used, because its prefix
-- is not the one that was read before, or because the tick is over.  All of this is one
-- expression, so that the settings cannot change in between.
CREATE FUNCTION snowflake_sql.usable_id(word bigint, opened bigint, settings snowflake_sql.settings, late bigint)
RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN CASE
	WHEN word >> (settings).low_bits = opened
		AND snowflake_sql.is_usable(opened >> (settings).timeline_bits, settings, late)
	THEN snowflake_sql.word_to_id(word, settings)
END;

-- A position, or NULL if it is of other settings.  An advance may use up one after the last.
CREATE FUNCTION snowflake_sql.own(pos bigint, settings snowflake_sql.settings)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN pos >= (settings).base AND pos - 1::bigint <= (settings).base + ((settings).layout).last_tick THEN pos END;

-- The last position of these settings that ids can be of.  NULL if there are no such ids.
CREATE FUNCTION snowflake_sql.last_position(opened bigint, settings snowflake_sql.settings)
RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN snowflake_sql.own(coalesce(opened >> (settings).timeline_bits,
	pg_sequence_last_value('snowflake_sql.reserved'::regclass)), settings);

-- The low bits of the WAL timeline, which a promotion changes.
CREATE FUNCTION snowflake_sql.timeline(settings snowflake_sql.settings)
RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN CASE WHEN (settings).timeline_bits = 0 THEN 0::bigint ELSE
	('x'::text || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint
		& ((1::bigint << (settings).timeline_bits) - 1::bigint)
END;

-- Throws the error of a call that has no tick to make an id in.  Returns if waiting can help.
CREATE FUNCTION snowflake_sql.refuse_tick(tick bigint, settings snowflake_sql.settings, waited bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET DateStyle = ISO
AS $$
DECLARE
	layout CONSTANT snowflake_sql.layout := settings.layout;
	-- in microseconds; negative if the clock is not in the way
	missing CONSTANT bigint := (tick - snowflake_sql.now_tick(layout) - settings.max_ahead) * layout.tick;
BEGIN
	IF clock_timestamp() < layout.epoch AT TIME ZONE interval '0' THEN
		RAISE SQLSTATE 'SF001' USING MESSAGE = 'clock is before the epoch of the snowflake layout',
			DETAIL = format('The clock says %s, and the layout is "%s".', clock_timestamp(), layout.text),
			HINT = 'Set the clock of the server right, or choose a layout with an earlier epoch.';
	ELSIF tick > layout.last_tick THEN
		RAISE SQLSTATE 'SF003' USING MESSAGE = 'snowflake layout has no tick left',
			DETAIL = format('The last tick of the layout "%s" begins at %s.', layout.text,
				snowflake_sql.tick_to_time(layout.last_tick, layout)),
			HINT = 'Set the clock of the server right. If it is right, choose a layout with more bits of time or, if there are no ids yet, a later epoch.';
	ELSIF waited + greatest(missing / 1000, 0) < settings.max_wait THEN
		RETURN;
	ELSIF settings.is_leased AND missing <= 0 THEN
		RAISE SQLSTATE 'SF004' USING MESSAGE = 'database has no lease of a worker id for snowflake ids',
			DETAIL = CASE WHEN settings.end_position > settings.base THEN
				format('Its lease of worker id %s is for ids before %s, and for the database with OID %s of the server that was started at %s.',
					settings.worker_id, snowflake_sql.tick_to_time(least(settings.end_position - settings.base, layout.last_tick), layout),
					settings.database, settings.server_start) ELSE 'It has not leased one yet.' END,
			HINT = 'Schedule a job that calls snowflake_lease() after each third of the lease.';
	END IF;
	RAISE SQLSTATE 'SF001' USING MESSAGE = 'snowflake ids are too far ahead of the clock',
		DETAIL = format('The clock has to advance by another %s before the next id. Ids can be at most %s ms ahead of it, and a call waits for at most %s ms.',
			justify_interval(missing * interval '1 microsecond'), settings.max_ahead * layout.tick / 1000, settings.max_wait),
		HINT = 'If the clock was set back, wait until it has caught up. If it was far ahead before, call snowflake_configure() with a fresh worker id. If clients need more ids than the layout has, give the layout more bits of sequence.';
END
$$;

-- A rollback takes new settings back, but not the sequences, and the next settings could
-- have the same positions.  So no tick is opened before a commit.  server_start is compared
-- because a restored dump has the transaction's number from another server.
CREATE FUNCTION snowflake_sql.check_committed(settings snowflake_sql.settings)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF settings.set_by = pg_current_xact_id_if_assigned() AND settings.server_start = pg_postmaster_start_time() THEN
		RAISE object_not_in_prerequisite_state USING MESSAGE = 'unsafe use of new settings for snowflake ids',
			DETAIL = 'If the current transaction rolled back, its ids could be made again.',
			HINT = 'Commit after the call of snowflake_configure() or snowflake_lease(), and make ids in the next transaction.';
	END IF;
END
$$;

-- Write WAL to disk, up to here.  Before PostgreSQL 17, only TRUNCATE of a new table with a
-- free space map does so for an ordinary role, if that is logged.  The map takes some pages and,
-- in minor releases up to 15.10 and 16.6, an INSERT: CREATE TABLE AS makes none there.
CREATE FUNCTION snowflake_sql.flush()
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET client_min_messages = error
SET default_tablespace = ''
SET default_table_access_method = heap
AS $$
DECLARE
	here pg_lsn;
BEGIN
	IF current_setting('server_version_num')::integer >= 170000 THEN
		here := pg_logical_emit_message(false, 'snowflake', '', true);
	ELSIF current_setting('wal_level') = 'minimal' THEN
		RAISE object_not_in_prerequisite_state USING MESSAGE = 'WAL cannot be written to disk while wal_level is "minimal"';
	ELSE
		-- without a record of our own, the check below could pass by chance
		here := pg_logical_emit_message(false, 'snowflake', '');
		BEGIN
			CREATE TABLE snowflake_sql.flushed_table (filler name) WITH (fillfactor = 10, autovacuum_enabled = off);
			INSERT INTO snowflake_sql.flushed_table SELECT 'x' FROM generate_series(1, 60);
			TRUNCATE snowflake_sql.flushed_table;
			RAISE SQLSTATE 'SF000';
		EXCEPTION WHEN SQLSTATE 'SF000' THEN
			NULL;
		END;
	END IF;
	IF pg_current_wal_flush_lsn() < here THEN
		RAISE object_not_in_prerequisite_state USING MESSAGE = 'WAL was not written to disk';
	END IF;
END
$$;

-- Move the mark ahead, so that it covers a position.  Call this behind the door.
CREATE FUNCTION snowflake_sql.reserve(pos bigint, settings snowflake_sql.settings)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	mark CONSTANT bigint := greatest(least(pos, settings.base + (settings.layout).last_tick),
		snowflake_sql.own(pg_sequence_last_value('snowflake_sql.reserved'), settings));
BEGIN
	PERFORM setval('snowflake_sql.reserved', mark);
	IF settings.is_durable THEN
		PERFORM snowflake_sql.flush();
	END IF;
	PERFORM setval('snowflake_sql.flushed', mark);
END
$$;

-- Have the next id made in a later position than this one.  Call this behind the door.
CREATE FUNCTION snowflake_sql.use_up(pos bigint, settings snowflake_sql.settings)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	prefix CONSTANT bigint := pos << settings.timeline_bits;
BEGIN
	PERFORM setval('snowflake_sql.word', (prefix + 1) << settings.low_bits, false),
		setval('snowflake_sql.opened', prefix);
END
$$;

-- A call that cannot use its word comes here.  To leave the door, it throws SQLSTATE SF000
-- and catches it, and sends nothing to the client before that, which might not read.  So
-- that not all sessions queue at the door in each tick, a call also accepts one that has
-- been over for at most 10 ms while another session is behind the door, and the mark moves
-- when half of the reservation is used up, after a tick was opened that others can use.
CREATE FUNCTION snowflake_sql.open_and_take()
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET client_min_messages = error
AS $$
DECLARE
	settings snowflake_sql.settings;
	opened bigint;
	word bigint;
	id bigint;
	now_position bigint;
	next_position bigint;
	covered bigint;
	queues boolean := false;
	waited bigint := 0;
	pause CONSTANT integer := 10;
BEGIN
	LOOP
		BEGIN
			IF queues THEN
				LOCK TABLE snowflake_sql.door IN SHARE UPDATE EXCLUSIVE MODE;
			ELSE
				LOCK TABLE snowflake_sql.door IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
			END IF;
			-- the session before us may have opened a tick, or changed the settings
			settings := snowflake_sql.settings();
			opened := pg_sequence_last_value('snowflake_sql.opened');
			word := nextval('snowflake_sql.word');
			id := snowflake_sql.usable_id(word, opened, settings, 999);
			IF id IS NULL THEN
				PERFORM snowflake_sql.check_committed(settings);
				now_position := settings.base + snowflake_sql.now_tick(settings.layout);
				next_position := greatest(now_position, settings.first_position,
					snowflake_sql.last_position(opened, settings) + 1);
				IF next_position - now_position <= settings.max_ahead
					AND snowflake_sql.is_allowed(next_position, settings)
					AND clock_timestamp() >= (settings.layout).epoch AT TIME ZONE interval '0'
				THEN
					-- NULL for the first tick of the settings, and until a flush after a crash
					covered := pg_sequence_last_value('snowflake_sql.flushed');
					covered := CASE WHEN covered IS NOT NULL AND snowflake_sql.own(opened >> settings.timeline_bits, settings) IS NOT NULL
						THEN least(covered, pg_sequence_last_value('snowflake_sql.reserved')) END;
					IF (next_position <= covered) IS NOT TRUE THEN
						IF opened IS NULL THEN
							-- if the flush fails, the next call must not begin above the new mark
							PERFORM snowflake_sql.use_up(greatest(next_position - 1, settings.base), settings);
						END IF;
						PERFORM snowflake_sql.reserve(next_position + settings.reservation, settings);
						covered := NULL;
					END IF;
					-- A tick that follows others without a pause begins at 0, so that all of
					-- its words can be used.  Other ticks begin somewhere in the lower half, so
					-- that ids are spread evenly modulo any number, even when few are made.
					opened := (next_position << settings.timeline_bits) | snowflake_sql.timeline(settings);
					word := opened << settings.low_bits;
					IF next_position = now_position THEN
						word := word + floor(random() * 2 ^ (settings.low_bits - 1))::bigint;
					END IF;
					PERFORM setval('snowflake_sql.word', word), setval('snowflake_sql.opened', opened);
					id := snowflake_sql.word_to_id(word, settings);
					IF next_position > covered - settings.reservation / 2 THEN
						PERFORM snowflake_sql.reserve(next_position + settings.reservation, settings);
					END IF;
				END IF;
			END IF;
			RAISE SQLSTATE 'SF000';
		EXCEPTION
			WHEN SQLSTATE 'SF000' THEN
				NULL;
			WHEN lock_not_available THEN
				-- the caller's lock_timeout has ended the wait
				IF queues THEN
					RAISE;
				END IF;
				queues := true;
				opened := pg_sequence_last_value('snowflake_sql.opened');
				word := nextval('snowflake_sql.word');
				id := snowflake_sql.usable_id(word, opened, snowflake_sql.settings(), 10000);
				CONTINUE WHEN id IS NULL;
		END;
		IF id IS NOT NULL THEN
			RETURN id;
		END IF;
		PERFORM snowflake_sql.refuse_tick(next_position - settings.base, settings, waited);
		PERFORM pg_sleep(pause / 1000.0);
		waited := waited + pause;
	END LOOP;
END
$$;

-- Runs as the owner of the sequences, so that other roles can do nothing else with them.
-- Setting search_path would take longer than the rest, so every name has a schema, and
-- there are no operators.  A tick shorter than a millisecond can be used for that long.
CREATE FUNCTION snowflake_sql.next_id()
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
AS $$
DECLARE
	opened CONSTANT pg_catalog.int8 := pg_catalog.pg_sequence_last_value('snowflake_sql.opened'::pg_catalog.regclass);
	word CONSTANT pg_catalog.int8 := pg_catalog.nextval('snowflake_sql.word'::pg_catalog.regclass);
BEGIN
	RETURN coalesce(snowflake_sql.usable_id(word, opened, snowflake_sql.settings(), 999::pg_catalog.int8),
		snowflake_sql.open_and_take());
END
$$;

-- The tag need not keep ids apart: each word is used once, whatever the tag.
CREATE FUNCTION snowflake_sql.next_id_with_tag(tag integer)
RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	layout CONSTANT snowflake_sql.layout := (snowflake_sql.settings()).layout;
BEGIN
	IF layout.bits[7] = 0 THEN
		RAISE invalid_parameter_value USING MESSAGE = 'snowflake layout has no field "tag"',
			DETAIL = format('The layout in force is "%s".', layout.text),
			HINT = 'Call snowflake_nextval() without a tag, or call snowflake_configure() with a layout that has the field.';
	END IF;
	PERFORM snowflake_sql.check_value(tag, layout, 7);
	RETURN snowflake_sql.next_id() | (tag::bigint << layout.shifts[7]);
END
$$;

-- The last word that this session took is that of its last id, unless a call failed since.
CREATE FUNCTION snowflake_sql.current_id()
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	settings CONSTANT snowflake_sql.settings := snowflake_sql.settings();
	word bigint;
BEGIN
	IF (settings.layout).bits[7] > 0 THEN
		RAISE feature_not_supported USING MESSAGE = 'tag of the last snowflake id is not known',
			DETAIL = format('The layout in force is "%s".', (settings.layout).text),
			HINT = 'Use INSERT ... RETURNING.';
	END IF;
	word := currval('snowflake_sql.word');
	IF snowflake_sql.own(word >> (settings.low_bits + settings.timeline_bits), settings) IS NULL THEN
		RAISE object_not_in_prerequisite_state;
	END IF;
	RETURN snowflake_sql.word_to_id(word, settings);
EXCEPTION WHEN object_not_in_prerequisite_state THEN
	RAISE object_not_in_prerequisite_state USING MESSAGE = 'no snowflake id has been made in this session yet',
		HINT = 'Call snowflake_nextval() first.';
END
$$;

CREATE FUNCTION snowflake_sql.advance(id bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET DateStyle = ISO
SET client_min_messages = error
AS $$
DECLARE
	settings snowflake_sql.settings;
	tick bigint;
	last_position bigint;
BEGIN
	LOCK TABLE snowflake_sql.door IN SHARE UPDATE EXCLUSIVE MODE;
	settings := snowflake_sql.settings();
	IF id < 0 OR id > (settings.layout).largest THEN
		PERFORM snowflake_sql.refuse(id, (settings.layout).largest, (settings.layout).text, NULL::integer);
	END IF;
	PERFORM snowflake_sql.check_committed(settings);
	tick := id >> (settings.layout).shifts[1];
	last_position := coalesce(snowflake_sql.last_position(pg_sequence_last_value('snowflake_sql.opened'), settings),
		settings.first_position - 1);
	IF settings.base + tick >= last_position THEN
		IF tick - snowflake_sql.now_tick(settings.layout) > settings.max_ahead THEN
			RAISE object_not_in_prerequisite_state USING MESSAGE = 'snowflake ids cannot be advanced too far ahead of the clock',
				DETAIL = format('The time of the id %s is %s, and ids can be at most %s ms ahead of the clock.', id,
					snowflake_sql.generated_at(id, settings.layout), settings.max_ahead * (settings.layout).tick / 1000),
				HINT = 'Check that the id is of the layout in force.';
		END IF;
		PERFORM snowflake_sql.reserve(settings.base + tick, settings),
			snowflake_sql.use_up(greatest(settings.base + tick, last_position + 1), settings);
	END IF;
	-- leave the door now, not at the end of the transaction
	RAISE SQLSTATE 'SF000';
EXCEPTION
	WHEN SQLSTATE 'SF000' THEN
		NULL;
END
$$;

-- All settings from snowflake_configure(), and since when; the row with the greatest
-- number is in force.
CREATE TABLE snowflake_sql.configuration (
	number integer PRIMARY KEY,
	since timestamptz NOT NULL DEFAULT clock_timestamp(),
	layout text NOT NULL,
	worker_id integer,
	datacenter_id integer NOT NULL,
	max_ahead interval NOT NULL,
	max_wait interval NOT NULL,
	durable boolean NOT NULL,
	set_by xid8 NOT NULL DEFAULT pg_current_xact_id(),
	first_tick bigint NOT NULL,	-- ids are of ticks from this one on
	last_tick bigint				-- and up to this one; NULL: in force
);

CREATE TABLE snowflake_sql.lease (
	only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
	worker_id integer NOT NULL,
	instance uuid NOT NULL,
	server_start timestamptz NOT NULL,
	database oid NOT NULL,
	ends timestamptz NOT NULL
);

-- Dumps include the rows of these tables, and the mark.  An extension has to ask for that;
-- outside of one, the call fails.
DO $$
BEGIN
	PERFORM pg_catalog.pg_extension_config_dump('snowflake_sql.reserved'::pg_catalog.regclass, ''::pg_catalog.text);
	PERFORM pg_catalog.pg_extension_config_dump('snowflake_sql.configuration'::pg_catalog.regclass, ''::pg_catalog.text);
	PERFORM pg_catalog.pg_extension_config_dump('snowflake_sql.lease'::pg_catalog.regclass, ''::pg_catalog.text);
EXCEPTION WHEN feature_not_supported THEN
	NULL;
END
$$;

CREATE FUNCTION snowflake_sql.status()
RETURNS TABLE (durable boolean, layout text, worker_id integer, datacenter_id integer, ids_ahead interval,
	mark_ahead interval, lease_ends timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 1 SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	s CONSTANT snowflake_sql.settings := snowflake_sql.settings();
	now CONSTANT bigint := s.base + snowflake_sql.now_tick(s.layout);
	tick CONSTANT interval := (s.layout).tick * interval '1 microsecond';
BEGIN
	RETURN QUERY SELECT s.is_durable, (s.layout).text, s.worker_id, s.datacenter_id,
		(snowflake_sql.last_position(pg_sequence_last_value('snowflake_sql.opened'), s) - now) * tick,
		(snowflake_sql.own(pg_sequence_last_value('snowflake_sql.reserved'), s) - now) * tick,
		(SELECT ends FROM snowflake_sql.lease WHERE s.is_leased);
END
$$;

-- Functions for users that read a layout.  Each comes in two forms: for the layout in its
-- argument, and for the one in force, which @layout@ stands for.  Without such an argument,
-- they have only the second; if IMMUTABLE, only the first.
CREATE FUNCTION snowflake_sql.list_functions(
	OUT name text,
	OUT arguments text,
	OUT result text,
	OUT properties text,
	OUT body text,
	OUT comment text)
RETURNS SETOF record
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	VALUES
	('decode', 'id bigint, layout text', 'snowflake_sql.decoded', 'STRICT',
		'RETURN snowflake_sql.decode(id, @layout@)', 'all fields of an id; NULL for those that %s lacks'),
	('timestamp', 'id bigint, layout text', 'timestamptz', '',
		'RETURN snowflake_sql.generated_at(id, @layout@)', 'when an id was made: the start of its tick, in %s'),
	('first_from', 'instant timestamptz, layout text', 'bigint', 'STRICT',
		'RETURN snowflake_sql.first_from(instant, @layout@)',
		'the smallest id from an instant''s tick on, in %s; 0 if the instant is before the epoch; greater than all ids if it is after the last tick'),
	('last_before', 'instant timestamptz, layout text', 'bigint', 'STRICT',
		'RETURN snowflake_sql.last_before(instant, @layout@)',
		'the largest id before an instant''s tick, in %s; -1 if there is none; the largest id of all if the instant is after the last tick'),
	('between', 'id bigint, lower_bound timestamptz, upper_bound timestamptz, layout text', 'boolean', '',
		'RETURN id >= CASE WHEN @is_known@ THEN coalesce(snowflake_sql.first_from(lower_bound, @layout@), 0::bigint) END
			AND id <= CASE WHEN @is_known@ THEN coalesce(snowflake_sql.last_before(upper_bound, @layout@), 9223372036854775807) END',
		'whether an id was made at or after lower_bound and before upper_bound, in %s; NULL: no bound'),
	('layout', 'layout text, OUT name text, OUT bits integer, OUT shift integer, OUT largest bigint', 'SETOF record',
		'STRICT ROWS 7', 'BEGIN ATOMIC SELECT * FROM snowflake_sql.list_fields(@layout@); END',
		'the fields of %s, the most significant first'),
	('capacity', 'INOUT layout text, OUT tick interval, OUT first_instant timestamptz, OUT last_instant timestamptz, '
		'OUT workers bigint, OUT lanes integer, OUT ids_per_second bigint', 'record',
		'STRICT', 'BEGIN ATOMIC SELECT * FROM snowflake_sql.capacity(@layout@); END',
		'%s: from when (its epoch) to when ids last, how many workers there can be, and how many ids each makes per second at most'),
	('compose', 'generated_at timestamptz, datacenter_id integer DEFAULT 0, worker_id integer DEFAULT 0, timeline integer DEFAULT 0, '
		'lane integer DEFAULT 0, sequence integer DEFAULT 0, tag integer DEFAULT 0', 'bigint', 'STABLE PARALLEL SAFE',
		'RETURN snowflake_sql.compose(generated_at, ARRAY[datacenter_id, worker_id, timeline, lane, sequence, tag], @layout@)',
		'the id that has these fields, in %s'),
	('compose', 'generated_at timestamptz, layout text, datacenter_id integer DEFAULT 0, worker_id integer DEFAULT 0, '
		'timeline integer DEFAULT 0, lane integer DEFAULT 0, sequence integer DEFAULT 0, tag integer DEFAULT 0', 'bigint', 'IMMUTABLE',
		'RETURN snowflake_sql.compose(generated_at, ARRAY[datacenter_id, worker_id, timeline, lane, sequence, tag], @layout@)',
		'the id of %s that has these fields'),
	('nextval', '', 'bigint', 'VOLATILE PARALLEL UNSAFE', 'RETURN snowflake_sql.next_id()', 'make a new id'),
	('id', '', 'bigint', 'VOLATILE PARALLEL UNSAFE', 'RETURN snowflake_sql.next_id()',
		'make a new id: snowflake_nextval() by another name'),
	('nextval', 'tag integer', 'bigint', 'VOLATILE PARALLEL UNSAFE', 'RETURN snowflake_sql.next_id_with_tag(tag)',
		'make a new id that carries a tag, in a layout with the field "tag"'),
	('status', 'OUT durable boolean, OUT layout text, OUT worker_id integer, OUT datacenter_id integer, OUT ids_ahead interval, '
		'OUT mark_ahead interval, OUT lease_ends timestamptz', 'record', 'VOLATILE PARALLEL UNSAFE',
		'BEGIN ATOMIC SELECT * FROM snowflake_sql.status(); END',
		'durable: whether ids that were seen are not made again after a crash; how far ids, and the mark above which they then begin, are ahead of the clock; layout, worker id and lease'),
	('currval', '', 'bigint', 'VOLATILE PARALLEL UNSAFE', 'RETURN snowflake_sql.current_id()', 'the last id that this session made'),
	('worker_id', 'id bigint, layout text', 'integer', '', 'RETURN snowflake_sql.checked_field(id, @layout@, 3)',
		'the worker id of an id, in %s')
$$;

-- Create the functions of one form.  Those of the layout in force do not belong to the
-- extension, so that a dump includes them.  CREATE OR REPLACE keeps the owner of a function.
-- Another role can have created one in advance, and could replace it later.  So check the
-- owners afterwards, when nobody else can create or change a function.
CREATE FUNCTION snowflake_sql.create_functions(home regnamespace, in_force boolean)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	f record;
	signature text;
	owner name;
BEGIN
	FOR f IN SELECT *, arguments ~ '(^|INOUT |, )layout text' AS has_layout FROM snowflake_sql.list_functions() LOOP
		CONTINUE WHEN CASE WHEN in_force THEN f.properties ~ 'IMMUTABLE' ELSE NOT f.has_layout END;
		IF NOT in_force THEN
			-- if the id is NULL, the layout may be wrong
			f.body := replace(f.body, 'snowflake_sql.decode(', 'snowflake_sql.decode_strictly(');
			f.properties := 'IMMUTABLE PARALLEL SAFE ' || replace(f.properties, 'IMMUTABLE', '');
		ELSIF f.has_layout THEN
			f.arguments := CASE WHEN f.arguments ~ 'INOUT' THEN replace(f.arguments, 'INOUT', 'OUT')
				ELSE regexp_replace(f.arguments, '(, )?layout text(, )?', '') END;
			f.properties := 'STABLE PARALLEL SAFE ' || replace(f.properties, 'STRICT', '');
		END IF;
		f.body := replace(replace(f.body,
			'@layout@', CASE WHEN in_force THEN '(snowflake_sql.settings()).layout' ELSE 'snowflake_sql.read_layout(layout)' END),
			'@is_known@', CASE WHEN in_force THEN 'true' ELSE 'layout IS NOT NULL' END);
		EXECUTE format('CREATE %s FUNCTION %s.snowflake_%s(%s) RETURNS %s LANGUAGE sql %s %s',
			CASE WHEN in_force THEN 'OR REPLACE' END, home, f.name, f.arguments, f.result, f.properties, f.body);

		-- only the types of the arguments for input
		signature := format('%s.snowflake_%s(%s)', home, f.name, regexp_replace(
			regexp_replace(f.arguments, '(^|, )OUT [^,]*| DEFAULT 0', '', 'g'), E'(^|, )(INOUT )?[a-z_]+ ', E'\\1', 'g'));
		EXECUTE format('COMMENT ON FUNCTION %s IS %L', signature,
			format(f.comment, CASE WHEN in_force THEN 'the layout in force' ELSE 'the given layout' END));
		SELECT rolname INTO owner
		FROM pg_proc JOIN pg_roles ON pg_roles.oid = proowner
		WHERE pg_proc.oid = signature::regprocedure AND NOT rolsuper AND rolname <> current_user
			AND proowner <> (SELECT nspowner FROM pg_namespace WHERE nspname = 'snowflake_sql');
		IF FOUND THEN
			RAISE object_not_in_prerequisite_state USING MESSAGE = format('function %s belongs to another role', signature),
				DETAIL = format('Its owner, the role "%s", could replace it later.', owner),
				HINT = 'Drop the function, or change its owner to that of the schema snowflake_sql.';
		END IF;
	END LOOP;
END
$$;

-- Put settings into force: create the function that returns them as a constant.
CREATE FUNCTION snowflake_sql.apply(settings snowflake_sql.settings)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	settings.server_start := pg_postmaster_start_time();
	settings.database := snowflake_sql.database();
	settings.set_by := pg_current_xact_id();
	EXECUTE format('CREATE OR REPLACE FUNCTION snowflake_sql.settings() RETURNS snowflake_sql.settings
		LANGUAGE sql STABLE PARALLEL SAFE RETURN %L::snowflake_sql.settings', settings);
END
$$;

-- The first tick that begins at an instant or later.
CREATE FUNCTION snowflake_sql.first_tick_from(instant timestamptz, layout snowflake_sql.layout)
RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE
	WHEN instant <= (layout).epoch AT TIME ZONE interval '0' THEN 0::bigint
	ELSE (least(snowflake_sql.time_to_tick(instant - interval '1 microsecond', layout), (layout).last_tick::numeric) + 1::numeric)::bigint
END;

-- Put settings into force.  If the worker id is NULL, no ids can be made without a lease.
--
-- Ids increase across configurations, with one exception.  After a clock that was far
-- ahead has carried ids along, another pair of worker and datacenter id begins at the clock
-- again.  The table keeps how far each pair has come, so that one that returns begins there.
--
-- The door stays locked until the transaction ends, so that only the new settings open
-- ticks.  Their positions differ from those before: the sign does by turns, and the bits
-- above the tick do as far as there are any.  A statement that still has the old settings
-- uses words of the old tick, which are below the new start, until it comes to the door.
CREATE FUNCTION snowflake_sql.configure(home regnamespace, new_layout text, new_worker_id integer,
	new_datacenter_id integer, new_max_ahead interval, new_max_wait interval, durable boolean,
	lease_starts timestamptz, lease_ends timestamptz)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET DateStyle = ISO
AS $$
DECLARE
	layout snowflake_sql.layout;
	settings snowflake_sql.settings;
	old_settings snowflake_sql.settings;
	previous snowflake_sql.configuration;
	new_number integer := 1;
	lane_bits integer;
	word_bits integer;
	opened bigint;
	old_position bigint;
	furthest bigint;
	needed bigint := 0;
	wanted bigint := 0;
	first_tick bigint;
BEGIN
	IF new_layout IS NULL OR new_datacenter_id IS NULL OR new_max_ahead IS NULL OR new_max_wait IS NULL
		OR new_max_ahead < '0' OR new_max_wait < '0'
	THEN
		RAISE invalid_parameter_value USING MESSAGE = 'invalid settings for snowflake ids',
			DETAIL = 'Layout, datacenter id, max_ahead and max_wait must be specified, and the last two must not be negative.';
	END IF;
	layout := snowflake_sql.read_layout(new_layout);
	PERFORM snowflake_sql.check_value(new_datacenter_id, layout, 2);
	PERFORM snowflake_sql.check_value(new_worker_id, layout, 3);

	lane_bits := least(layout.bits[5], 6);
	settings.layout := layout;
	settings.worker_id := new_worker_id;
	settings.datacenter_id := new_datacenter_id;
	settings.fixed := (new_datacenter_id::bigint << layout.shifts[2])
		| (coalesce(new_worker_id, 0)::bigint << layout.shifts[3]);
	settings.timeline_bits := layout.bits[4];
	settings.low_bits := lane_bits + layout.bits[6];
	settings.lower_bits := CASE WHEN layout.shifts[5] > layout.shifts[6] THEN layout.bits[6] ELSE lane_bits END;
	settings.upper_shift := greatest(layout.shifts[5], layout.shifts[6]);
	settings.lower_shift := least(layout.shifts[5], layout.shifts[6]);
	settings.max_ahead := div(extract(epoch FROM new_max_ahead) * 1000000, layout.tick);
	settings.max_wait := extract(epoch FROM new_max_wait) * 1000;
	-- after a crash, calls wait for what ids have to be ahead of max_ahead
	settings.reservation := greatest(100000, least(2000000, settings.max_ahead * layout.tick / 2)) / layout.tick;
	settings.is_leased := new_worker_id IS NULL OR lease_ends IS NOT NULL;
	settings.is_durable := coalesce(durable, current_setting('server_version_num')::integer >= 170000);
	IF settings.is_durable THEN
		BEGIN
			PERFORM snowflake_sql.flush();
		EXCEPTION WHEN OTHERS THEN
			RAISE object_not_in_prerequisite_state USING MESSAGE = 'snowflake ids cannot be durable on this server',
				DETAIL = format('A flush of WAL failed: %s.', SQLERRM),
				HINT = 'With durable => false, ids that were seen, but not committed, can be made again after a crash.';
		END;
	END IF;

	-- lease() has this lock when it calls us; without the lock, it could be about to put
	-- the old settings into force again
	LOCK TABLE snowflake_sql.lease IN SHARE UPDATE EXCLUSIVE MODE;
	LOCK TABLE snowflake_sql.door IN SHARE UPDATE EXCLUSIVE MODE;
	SELECT * INTO previous FROM snowflake_sql.configuration ORDER BY number DESC LIMIT 1;
	furthest := greatest(snowflake_sql.now_tick(layout), 0) + settings.max_ahead;
	IF FOUND THEN
		old_settings := snowflake_sql.settings();
		opened := pg_sequence_last_value('snowflake_sql.opened');
		old_position := coalesce(snowflake_sql.last_position(opened, old_settings), old_settings.first_position - 1);
		IF previous.set_by = pg_current_xact_id_if_assigned() AND old_settings.server_start = pg_postmaster_start_time() THEN
			new_number := previous.number + 2;
		ELSE
			new_number := previous.number + 1;
			-- leave no position of earlier settings behind, which could have the same sign as ours
			IF snowflake_sql.own(opened >> old_settings.timeline_bits, old_settings) IS NULL THEN
				PERFORM setval('snowflake_sql.reserved', greatest(old_position, old_settings.base)),
					setval('snowflake_sql.flushed', old_settings.base),
					snowflake_sql.use_up(greatest(old_position, old_settings.base), old_settings);
			END IF;
		END IF;
		UPDATE snowflake_sql.configuration SET last_tick = old_position - old_settings.base WHERE number = previous.number;

		-- wanted: the first tick above all ids; needed: above all that new ids could equal
		SELECT max(above), coalesce(max(above) FILTER (WHERE old.text <> layout.text
				OR new_worker_id = worker_id AND new_datacenter_id = datacenter_id), 0)
		INTO wanted, needed
		FROM snowflake_sql.configuration AS c, snowflake_sql.read_layout(c.layout) AS old,
			LATERAL (SELECT (((c.last_tick << old.shifts[1]) | ((1::bigint << old.shifts[1]) - 1)) >> layout.shifts[1]) + 1 AS above) AS a;
		-- who has a lease can wait
		IF needed > furthest AND lease_starts IS NULL OR wanted > furthest AND new_worker_id IS NULL THEN
			RAISE object_not_in_prerequisite_state USING MESSAGE = 'snowflake ids of these settings would be too far ahead of the clock',
				DETAIL = format('The clock says %s. In the layout "%s", ids that are greater than all old ones begin at %s.',
					clock_timestamp(), layout.text,
					snowflake_sql.tick_to_time(least(greatest(needed, wanted), layout.last_tick), layout)),
				HINT = 'If the layout or its epoch was changed, ids of the new layout must be greater than those of the old one. If the clock was far ahead, choose a worker id that has never been used.';
		END IF;
		IF wanted > furthest THEN
			RAISE WARNING 'snowflake ids begin at the clock again'
				USING DETAIL = 'Ids with other worker ids are further ahead.';
			wanted := needed;
		END IF;
	END IF;
	first_tick := greatest(wanted, snowflake_sql.first_tick_from(lease_starts, layout), 0);
	IF first_tick > layout.last_tick THEN
		PERFORM snowflake_sql.refuse_tick(layout.last_tick + 1, settings, 0);
	END IF;

	word_bits := layout.bits[1] + settings.timeline_bits + settings.low_bits;
	settings.base := (new_number / 2 & ((1 << greatest(least(62 - word_bits, 10), 0)) - 1))::bigint << layout.bits[1];
	IF new_number % 2 = 1 THEN
		settings.base := settings.base + (-9223372036854775808 >> greatest(settings.timeline_bits + settings.low_bits, 1));
	END IF;
	settings.first_position := settings.base + first_tick;
	settings.end_position := settings.base + CASE WHEN new_worker_id IS NULL THEN 0
		ELSE coalesce(snowflake_sql.first_tick_from(lease_ends, layout), layout.last_tick + 1) END;
	PERFORM snowflake_sql.apply(settings);
	PERFORM snowflake_sql.create_functions(home, true);
	INSERT INTO snowflake_sql.configuration (number, layout, worker_id, datacenter_id, max_ahead, max_wait, durable, first_tick)
	VALUES (new_number, layout.text, new_worker_id, new_datacenter_id, new_max_ahead, new_max_wait, settings.is_durable,
		first_tick);
END
$$;

-- A lease is a range of time in the ids; see the extension snowflake_registry.  A lease of
-- another database, or from before the start of the server, is not renewed: this database
-- is a copy, or can have one.
CREATE FUNCTION snowflake_sql.lease(home regnamespace, registry text, duration interval, holder text)
RETURNS timestamptz
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET DateStyle = ISO
SET IntervalStyle = postgres
AS $$
DECLARE
	settings snowflake_sql.settings;
	configuration snowflake_sql.configuration;
	held snowflake_sql.lease;
	grant_of record;
	new_instance CONSTANT uuid := gen_random_uuid();
BEGIN
	LOCK TABLE snowflake_sql.lease IN SHARE UPDATE EXCLUSIVE MODE;
	SELECT * INTO configuration FROM snowflake_sql.configuration ORDER BY number DESC LIMIT 1;
	IF FOUND THEN
		settings := snowflake_sql.settings();
	END IF;
	IF settings.is_leased IS NOT TRUE THEN
		RAISE object_not_in_prerequisite_state USING MESSAGE = 'worker id for snowflake ids is not leased',
			HINT = 'Call snowflake_configure() with a worker id of NULL first.';
	END IF;

	SELECT * INTO held FROM snowflake_sql.lease
	WHERE server_start = pg_postmaster_start_time() AND database = snowflake_sql.database();
	IF FOUND THEN
		grant_of := snowflake_sql.ask_registry(registry, format(
			'SELECT NULL::bigint, NULL::timestamptz, snowflake_registry.renew(%L::bigint, %L::uuid, %L::timestamptz, %L::timestamptz, %L::interval)',
			held.worker_id, held.instance, held.ends, clock_timestamp(), duration));
		IF grant_of.ends IS NOT NULL THEN
			settings.end_position := settings.base + snowflake_sql.first_tick_from(grant_of.ends, settings.layout);
			PERFORM snowflake_sql.apply(settings);
			UPDATE snowflake_sql.lease SET ends = grant_of.ends;
			RETURN grant_of.ends;
		END IF;
	END IF;

	grant_of := snowflake_sql.ask_registry(registry, format(
		'SELECT worker_id, starts, ends FROM snowflake_registry.acquire(%L::text, %L::uuid, %L::text, %L::bigint, %L::timestamptz, %L::interval)',
		holder, new_instance, (settings.layout).text, 1::bigint << (settings.layout).bits[3], clock_timestamp(), duration));
	DELETE FROM snowflake_sql.lease;
	IF grant_of.ends IS NULL THEN
		RAISE WARNING 'registry has no free worker id';
		RETURN NULL;
	END IF;
	PERFORM snowflake_sql.configure(home, configuration.layout, grant_of.worker_id::integer, configuration.datacenter_id,
		configuration.max_ahead, configuration.max_wait, configuration.durable, grant_of.starts, grant_of.ends);
	INSERT INTO snowflake_sql.lease (worker_id, instance, server_start, database, ends)
	VALUES (grant_of.worker_id, new_instance, pg_postmaster_start_time(), snowflake_sql.database(), grant_of.ends);
	RETURN grant_of.ends;
END
$$;

-- Run a query in this database or, given a connection string or the name of a foreign
-- server, through dblink.
CREATE FUNCTION snowflake_sql.ask_registry(registry text, query text,
	OUT worker_id bigint,
	OUT starts timestamptz,
	OUT ends timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	place regnamespace;
BEGIN
	IF registry IS NULL THEN
		-- the name proves nothing: any role that may create schemas could have made it
		IF NOT EXISTS (SELECT FROM pg_depend JOIN pg_extension ON refobjid = pg_extension.oid
				WHERE classid = 'pg_namespace'::regclass AND objid = to_regnamespace('snowflake_registry')
					AND refclassid = 'pg_extension'::regclass AND deptype = 'e' AND extname = 'snowflake_registry') THEN
			RAISE undefined_object USING MESSAGE = 'extension "snowflake_registry" does not exist in this database',
				HINT = 'Create it, or name the registry''s database in the call of snowflake_lease().';
		END IF;
		EXECUTE query INTO worker_id, starts, ends;
		RETURN;
	END IF;
	SELECT extnamespace INTO place FROM pg_extension WHERE extname = 'dblink';
	IF NOT FOUND THEN
		RAISE undefined_object USING MESSAGE = 'extension "dblink" is required to reach the registry',
			HINT = 'Run CREATE EXTENSION dblink, or create the registry in this database.';
	END IF;
	EXECUTE format('SELECT * FROM %s.dblink($1, $2) AS answer (worker_id bigint, starts timestamptz, ends timestamptz)', place)
	INTO worker_id, starts, ends USING registry, query;
END
$$;

REVOKE EXECUTE ON FUNCTION snowflake_sql.flush(), snowflake_sql.reserve(bigint, snowflake_sql.settings),
	snowflake_sql.use_up(bigint, snowflake_sql.settings), snowflake_sql.advance(bigint),
	snowflake_sql.create_functions(regnamespace, boolean), snowflake_sql.apply(snowflake_sql.settings),
	snowflake_sql.configure(regnamespace, text, integer, integer, interval, interval, boolean, timestamptz, timestamptz),
	snowflake_sql.lease(regnamespace, text, interval, text), snowflake_sql.ask_registry(text, text)
FROM PUBLIC;

-- The functions for users, in their first form.
DO $$
BEGIN
	PERFORM snowflake_sql.create_functions(oid::pg_catalog.regnamespace, false)
	FROM pg_catalog.pg_namespace WHERE nspname OPERATOR(pg_catalog.=) pg_catalog.current_schema();
END
$$;

-- It creates functions in the schema of the other functions for users.
CREATE FUNCTION snowflake_configure(layout text,
	worker_id integer,
	datacenter_id integer DEFAULT 0,
	max_ahead interval DEFAULT '5 seconds',
	max_wait interval DEFAULT '1 second',
	durable boolean DEFAULT NULL)
RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT snowflake_sql.configure(pronamespace::regnamespace, layout, worker_id, datacenter_id, max_ahead, max_wait, durable,
		NULL::timestamptz, NULL::timestamptz)
	FROM pg_proc WHERE oid = 'snowflake_decode(bigint, text)'::regprocedure::oid;
END;

COMMENT ON FUNCTION snowflake_configure(text, integer, integer, interval, interval, boolean) IS
'set how ids are made: the layout, the worker id (NULL: one that snowflake_lease() leases), how far ids can be ahead of the clock, how long a call waits if they would be further ahead, and whether ids that were seen are not made again after a crash (NULL: if the server is PostgreSQL 17 or later)';

CREATE FUNCTION snowflake_lease(registry text DEFAULT NULL,
	duration interval DEFAULT '1 minute',
	holder text DEFAULT current_database())
RETURNS timestamptz
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT snowflake_sql.lease(pronamespace::regnamespace, registry, duration, holder)
	FROM pg_proc WHERE oid = 'snowflake_decode(bigint, text)'::regprocedure::oid;
END;

COMMENT ON FUNCTION snowflake_lease(text, interval, text) IS
'lease a worker id from a registry (NULL: the one in this database), or renew the lease; returns its end, or NULL if no worker id is free';

CREATE FUNCTION snowflake_advance(id bigint)
RETURNS void
LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE
RETURN snowflake_sql.advance(id);

COMMENT ON FUNCTION snowflake_advance(bigint) IS
'make all new ids greater than an id that came from elsewhere';

REVOKE EXECUTE ON FUNCTION snowflake_configure(text, integer, integer, interval, interval, boolean),
	snowflake_lease(text, interval, text), snowflake_advance(bigint)
FROM PUBLIC;
