/* snowflake/snowflake--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION snowflake" to load this file. \quit

-- Other roles may be able to create objects in our schema, before or after us.  So
-- every call of one of our functions names the schema, and passes arguments of exactly
-- the declared types: no overload can match better.  Everything else is found in
-- pg_catalog, which is searched first.
--
-- The owner of our schema may rename it, and give its name to another one.  So we lock its
-- row, which a rename would change, until the script has ended.  Later nothing finds our
-- functions by that name: SQL functions are bound to what they call when they are created,
-- and those in PL/pgSQL call what is in snowflake_internal.

DO $$
BEGIN
	PERFORM FROM pg_namespace
	WHERE oid = (SELECT extnamespace FROM pg_extension WHERE extname = 'snowflake')
		AND nspname = (parse_ident('@extschema@'))[1]
	FOR UPDATE;
	IF NOT FOUND THEN
		RAISE serialization_failure USING
			MESSAGE = 'schema @extschema@ was renamed by a concurrent transaction',
			HINT = 'Try again.';
	END IF;
END
$$;

--
-- A schema for internals.  No search_path leads there, and tools that compare schemas
-- do not list what is in it among the user's objects.  The script fails if the schema
-- exists, because its owner could change what we create in it.
--

CREATE SCHEMA snowflake_internal;

COMMENT ON SCHEMA snowflake_internal IS
'internals of the extension snowflake';

-- the objects in it have their own privileges
GRANT USAGE ON SCHEMA snowflake_internal TO PUBLIC;

--
-- Making ids
--

CREATE FUNCTION snowflake_internal.nextval_support(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'snowflake_nextval_support'
LANGUAGE C STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_internal.nextval_support(internal) IS
'planner support for snowflake_nextval() and snowflake_id()';

-- STABLE for the sake of COPY, as snowflake_nextval_support() explains.
CREATE FUNCTION snowflake_internal.nextval_batch(internal)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_nextval'
LANGUAGE C STABLE PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_internal.nextval_batch(internal) IS
'implementation of snowflake_nextval() and snowflake_id() in COPY';

CREATE FUNCTION snowflake_nextval()
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_nextval'
LANGUAGE C VOLATILE PARALLEL SAFE
SUPPORT snowflake_internal.nextval_support;

COMMENT ON FUNCTION snowflake_nextval() IS
'make a new id';

CREATE FUNCTION snowflake_nextval(tag integer)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_nextval_tag'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_nextval(integer) IS
'make a new id that carries a tag, in a layout with the field "tag"';

-- Many tools take a default with "nextval" in it for a sequence's.
CREATE FUNCTION snowflake_id()
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_nextval'
LANGUAGE C VOLATILE PARALLEL SAFE
SUPPORT snowflake_internal.nextval_support;

COMMENT ON FUNCTION snowflake_id() IS
'make a new id: snowflake_nextval() under a name that tools do not mistake for a sequence''s';

CREATE FUNCTION snowflake_id(tag integer)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_nextval_tag'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_id(integer) IS
'make a new id that carries a tag, in a layout with the field "tag": snowflake_nextval(integer) under another name';

CREATE FUNCTION snowflake_reserve(count integer,
	OUT first_id bigint,
	OUT last_id bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'snowflake_reserve'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 10;

COMMENT ON FUNCTION snowflake_reserve(integer) IS
'make 1 to 1000000 new ids, in blocks of consecutive ids';

CREATE FUNCTION snowflake_currval()
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_currval'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION snowflake_currval() IS
'the last id that this session''s process made';

--
-- The mark: no id that was ever made in this database is greater.  It is kept in a
-- sequence, which pg_dump writes, and in a materialized view, its guard; the greater
-- of the two counts.  The view has one row, which only the library changes: its
-- query returns the row that it already has.
--

CREATE SEQUENCE snowflake_internal.mark MINVALUE 0 START 0;

COMMENT ON SEQUENCE snowflake_internal.mark IS
'the mark: no snowflake id of this database is greater than its last_value or, if that is larger, than the bound of snowflake_internal.guard';

-- pg_dump includes it; the owner of the database can dump and restore it
SELECT pg_catalog.pg_extension_config_dump('snowflake_internal.mark'::pg_catalog.regclass, '');
GRANT SELECT, UPDATE ON SEQUENCE snowflake_internal.mark TO pg_database_owner;

-- what the query of the view returns at first; below, it is replaced
CREATE FUNCTION snowflake_internal.current_guard(
	OUT bound bigint, OUT clock bigint, OUT database bigint, OUT system bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS 'BEGIN bound := 0; clock := 0; database := 0; system := 0; END';

REVOKE EXECUTE ON FUNCTION snowflake_internal.current_guard() FROM PUBLIC;

CREATE MATERIALIZED VIEW snowflake_internal.guard USING heap AS
SELECT bound, clock, database, system
FROM snowflake_internal.current_guard();

CREATE OR REPLACE FUNCTION snowflake_internal.current_guard(
	OUT bound bigint, OUT clock bigint, OUT database bigint, OUT system bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	SELECT guard.* INTO bound, clock, database, system FROM snowflake_internal.guard;
	IF NOT FOUND THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = 'materialized view "snowflake_internal.guard" has no row',
			HINT = 'Drop the extension and create it again, then call snowflake_advance() with the largest existing id.';
	END IF;
END
$$;

COMMENT ON FUNCTION snowflake_internal.current_guard() IS
'the row of snowflake_internal.guard, so that REFRESH keeps it';

COMMENT ON MATERIALIZED VIEW snowflake_internal.guard IS
'the guard of the mark, which no SQL command lowers';
COMMENT ON COLUMN snowflake_internal.guard.bound IS
'no snowflake id of this database is greater than this';
COMMENT ON COLUMN snowflake_internal.guard.clock IS
'the time that ids followed when the bound was written, in microseconds since 2000-01-01';
COMMENT ON COLUMN snowflake_internal.guard.database IS
'OID of the database for which the bound was written';
COMMENT ON COLUMN snowflake_internal.guard.system IS
'the system identifier of the server that wrote the bound, as in pg_control_system()';

CREATE FUNCTION snowflake_advance(id bigint, force boolean DEFAULT false)
RETURNS void
AS 'MODULE_PATHNAME', 'snowflake_advance'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

REVOKE EXECUTE ON FUNCTION snowflake_advance(bigint, boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION snowflake_advance(bigint, boolean) TO pg_database_owner;

COMMENT ON FUNCTION snowflake_advance(bigint, boolean) IS
'make all new ids of this database greater than an id that came from elsewhere; force: even if that id is far ahead of the clock (only for superusers)';

--
-- Reading ids, and the ids of a time.  Each function has two forms: one for the layout
-- that is in force on this server, and one for a layout that is given as text.
--

CREATE FUNCTION snowflake_decode(id bigint,
	OUT generated_at timestamptz,
	OUT datacenter_id integer,
	OUT worker_id integer,
	OUT timeline integer,
	OUT lane integer,
	OUT sequence integer,
	OUT tag integer)
AS 'MODULE_PATHNAME', 'snowflake_decode'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_decode(bigint) IS
'all fields of an id; NULL for those that the layout lacks';

CREATE FUNCTION snowflake_decode(id bigint, layout text,
	OUT generated_at timestamptz,
	OUT datacenter_id integer,
	OUT worker_id integer,
	OUT timeline integer,
	OUT lane integer,
	OUT sequence integer,
	OUT tag integer)
AS 'MODULE_PATHNAME', 'snowflake_decode'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_decode(bigint, text) IS
'all fields of an id of the given layout; NULL for those that it lacks';

CREATE FUNCTION snowflake_timestamp(id bigint)
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'snowflake_timestamp'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_timestamp(bigint) IS
'when an id was made: the start of its tick';

CREATE FUNCTION snowflake_timestamp(id bigint, layout text)
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'snowflake_timestamp'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_timestamp(bigint, text) IS
'in the given layout, when an id was made: the start of its tick';

CREATE FUNCTION snowflake_worker_id(id bigint)
RETURNS integer
LANGUAGE SQL STABLE STRICT PARALLEL SAFE
RETURN (@extschema@.snowflake_decode(id)).worker_id;

COMMENT ON FUNCTION snowflake_worker_id(bigint) IS
'the worker id of an id';

CREATE FUNCTION snowflake_worker_id(id bigint, layout text)
RETURNS integer
LANGUAGE SQL IMMUTABLE STRICT PARALLEL SAFE
RETURN (@extschema@.snowflake_decode(id, layout)).worker_id;

COMMENT ON FUNCTION snowflake_worker_id(bigint, text) IS
'in the given layout, the worker id of an id';

CREATE FUNCTION snowflake_first_from(instant timestamptz)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_first_from'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_first_from(timestamptz) IS
'the smallest id from an instant''s tick on; 0 if the instant is before the epoch; greater than all ids, or the largest bigint, if it is after the last tick';

CREATE FUNCTION snowflake_first_from(instant timestamptz, layout text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_first_from'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_first_from(timestamptz, text) IS
'in the given layout, the smallest id from an instant''s tick on; 0 if the instant is before the epoch; greater than all ids, or the largest bigint, if it is after the last tick';

CREATE FUNCTION snowflake_last_before(instant timestamptz)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_last_before'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_last_before(timestamptz) IS
'the largest id before an instant''s tick; -1 if there is none; the largest id of all if the instant is after the last tick';

CREATE FUNCTION snowflake_last_before(instant timestamptz, layout text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_last_before'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_last_before(timestamptz, text) IS
'in the given layout, the largest id before an instant''s tick; -1 if there is none; the largest id of all if the instant is after the last tick';

--
-- Composing ids.  These are not STRICT: a field that the layout lacks may be NULL,
-- so that the result of snowflake_decode() can be passed on.
--

CREATE FUNCTION snowflake_compose(generated_at timestamptz,
	datacenter_id integer DEFAULT 0,
	worker_id integer DEFAULT 0,
	timeline integer DEFAULT 0,
	lane integer DEFAULT 0,
	sequence integer DEFAULT 0,
	tag integer DEFAULT 0)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_compose'
LANGUAGE C STABLE PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_compose(timestamptz, integer, integer, integer,
	integer, integer, integer) IS
'the id that has these fields';

CREATE FUNCTION snowflake_compose(generated_at timestamptz,
	layout text,
	datacenter_id integer DEFAULT 0,
	worker_id integer DEFAULT 0,
	timeline integer DEFAULT 0,
	lane integer DEFAULT 0,
	sequence integer DEFAULT 0,
	tag integer DEFAULT 0)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_compose'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_compose(timestamptz, text, integer, integer,
	integer, integer, integer, integer) IS
'the id of the given layout that has these fields';

--
-- Ids and time.  An id shows only the tick that it was made in, so the bounds of a
-- range of time are bounds of ticks.
--

-- An index can serve these two only if they are inlined.  So they are not STRICT,
-- have the labels that fit their bodies, and compare the id itself.  The operators >=
-- and <= exclude a partition that ends or begins at a bound.
CREATE FUNCTION snowflake_between(id bigint, lower_bound timestamptz,
	upper_bound timestamptz)
RETURNS boolean
LANGUAGE SQL STABLE PARALLEL SAFE
RETURN id >= coalesce(@extschema@.snowflake_first_from(lower_bound), 0)
	AND id <= coalesce(@extschema@.snowflake_last_before(upper_bound), 9223372036854775807);

COMMENT ON FUNCTION snowflake_between(bigint, timestamptz, timestamptz) IS
'whether an id was made at or after lower_bound and before upper_bound; NULL: no bound';

CREATE FUNCTION snowflake_between(id bigint, lower_bound timestamptz,
	upper_bound timestamptz, layout text)
RETURNS boolean
LANGUAGE SQL IMMUTABLE PARALLEL SAFE
RETURN id >= CASE WHEN layout IS NOT NULL THEN coalesce(@extschema@.snowflake_first_from(lower_bound, layout), 0) END
	AND id <= CASE WHEN layout IS NOT NULL THEN coalesce(@extschema@.snowflake_last_before(upper_bound, layout), 9223372036854775807) END;

COMMENT ON FUNCTION snowflake_between(bigint, timestamptz, timestamptz, text) IS
'whether an id of the given layout was made at or after lower_bound and before upper_bound; NULL: no bound';

--
-- Encodings
--

-- The digits of all but two are in ASCII order, so under the collation "C" texts sort as ids do.
CREATE FUNCTION snowflake_internal.encoding(name text, OUT digits text, OUT width integer)
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	digits := CASE lower(name COLLATE "C")
		-- Crockford's, https://www.crockford.com/base32.html
		WHEN 'base32' THEN '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
		-- of bwmarrin/snowflake: the digits of z-base-32, which are in no order
		WHEN 'base32-bwmarrin' THEN 'ybndrfg8ejkmcpqxot1uwisza345h769'
		WHEN 'base36' THEN '0123456789abcdefghijklmnopqrstuvwxyz'
		-- Bitcoin's: without 0, O, I and l
		WHEN 'base58' THEN '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
		-- of bwmarrin/snowflake and Flickr: lower case comes first
		WHEN 'base58-bwmarrin' THEN '123456789abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ'
		WHEN 'base62' THEN '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
		WHEN 'hex' THEN '0123456789abcdef'
	END;
	IF digits IS NULL THEN
		RAISE invalid_parameter_value USING
			MESSAGE = format('unrecognized encoding of snowflake ids: "%s"', name),
			HINT = 'Available encodings: base32, base32-bwmarrin, base36, base58, base58-bwmarrin, base62, hex.';
	END IF;
	-- what the largest bigint takes
	width := ceil(63 * ln(2) / ln(length(digits)));
END
$$;

COMMENT ON FUNCTION snowflake_internal.encoding(text) IS
'the digits of an encoding, and the number of digits of an id';

CREATE FUNCTION snowflake_to_text(id bigint, encoding text)
RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 1000
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	digits text;
	width integer;
	result text := '';
BEGIN
	SELECT * INTO digits, width FROM snowflake_internal.encoding(encoding);
	IF id < 0 THEN
		RAISE numeric_value_out_of_range USING
			MESSAGE = format('bigint %s is not a snowflake id', id),
			DETAIL = 'Ids are not negative.';
	END IF;
	FOR i IN 1 .. width LOOP
		result := substr(digits, (id % length(digits))::integer + 1, 1) || result;
		id := id / length(digits);
	END LOOP;
	RETURN result;
END
$$;

COMMENT ON FUNCTION snowflake_to_text(bigint, text) IS
'an id as text of a fixed width: base32, base32-bwmarrin, base36, base58, base58-bwmarrin, base62 or hex';

CREATE FUNCTION snowflake_from_text(id text, encoding text)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 1000
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	digits text COLLATE "C";
	width integer;
	plain text COLLATE "C";
	message text;
	wrong text COLLATE "C";
	problem text;
	value numeric := 0;
BEGIN
	SELECT * INTO digits, width FROM snowflake_internal.encoding(encoding);
	plain := CASE lower(encoding COLLATE "C")
		WHEN 'base32' THEN translate(upper(id COLLATE "C"), 'OIL-', '011')
		WHEN 'base36' THEN lower(id COLLATE "C")
		WHEN 'hex' THEN lower(id COLLATE "C")
		ELSE id
	END;
	wrong := '[^' || digits || ']';
	problem := CASE
		WHEN plain = '' THEN 'The text has no digits.'
		WHEN plain ~ wrong THEN format('The character "%s" is none of %s.', substring(plain FROM wrong), digits)
		WHEN length(plain) > width THEN format('An id has at most %s digits.', width)
	END;
	IF problem IS NULL THEN
		FOR i IN 1 .. length(plain) LOOP
			value := value * length(digits) + strpos(digits, substr(plain, i, 1)) - 1;
		END LOOP;
		IF value <= 9223372036854775807 THEN
			RETURN value;
		END IF;
	END IF;
	message := format('invalid snowflake id in %s: "%s"', encoding, left(id, 40) || repeat('.', least(length(id) - 40, 3)));
	IF problem IS NOT NULL THEN
		RAISE invalid_text_representation USING MESSAGE = message, DETAIL = problem;
	END IF;
	RAISE numeric_value_out_of_range USING MESSAGE = message,
		DETAIL = 'The value is out of range for type bigint.';
END
$$;

COMMENT ON FUNCTION snowflake_from_text(text, text) IS
'the id that a text stands for, which may lack leading zeros: base32, base32-bwmarrin, base36, base58, base58-bwmarrin, base62 or hex';

--
-- Layouts
--

CREATE FUNCTION snowflake_layout(
	OUT name text,
	OUT bits integer,
	OUT shift integer,
	OUT largest bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'snowflake_layout'
LANGUAGE C STABLE STRICT PARALLEL SAFE ROWS 7;

COMMENT ON FUNCTION snowflake_layout() IS
'the fields of the layout in force, the most significant first';

CREATE FUNCTION snowflake_layout(layout text,
	OUT name text,
	OUT bits integer,
	OUT shift integer,
	OUT largest bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'snowflake_layout'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE ROWS 7;

COMMENT ON FUNCTION snowflake_layout(text) IS
'the fields of the given layout, the most significant first';

CREATE FUNCTION snowflake_capacity(
	OUT layout text,
	OUT tick interval,
	OUT first_instant timestamptz,
	OUT last_instant timestamptz,
	OUT workers bigint,
	OUT lanes integer,
	OUT ids_per_second bigint)
AS 'MODULE_PATHNAME', 'snowflake_capacity'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_capacity() IS
'the layout in force: when its ids begin (the epoch) and end, how many workers there can be, and the most ids that each can make per second';

CREATE FUNCTION snowflake_capacity(INOUT layout text,
	OUT tick interval,
	OUT first_instant timestamptz,
	OUT last_instant timestamptz,
	OUT workers bigint,
	OUT lanes integer,
	OUT ids_per_second bigint)
AS 'MODULE_PATHNAME', 'snowflake_capacity'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_capacity(text) IS
'the given layout: when its ids begin (the epoch) and end, how many workers there can be, and the most ids that each can make per second';

CREATE FUNCTION snowflake_internal.layout(layout text)
RETURNS text
LANGUAGE SQL STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(layout, (SELECT capacity.layout FROM @extschema@.snowflake_capacity() AS capacity));
END;

COMMENT ON FUNCTION snowflake_internal.layout(text) IS
'a layout or, if it is NULL, the one in force';

CREATE FUNCTION snowflake_inspect(id bigint, layout text DEFAULT NULL)
RETURNS SETOF text
LANGUAGE SQL STABLE PARALLEL SAFE ROWS 8
BEGIN ATOMIC
	WITH field AS (
		SELECT shift, rpad('|'::text, bits + 1) AS bar, right(value::bit(64)::text, bits) AS digits,
			name || ' '::text || value::text || CASE WHEN name <> 'time'::text THEN ''::text ELSE ', which is '::text ||
				regexp_replace(to_char(timezone('UTC'::text, @extschema@.snowflake_timestamp(id, used)),
				'YYYY-MM-DD"T"HH24:MI:SS.US'::text), '[.]000000$|000$'::text, ''::text) || 'Z'::text END AS words
		FROM snowflake_internal.layout(layout) AS used
			CROSS JOIN LATERAL @extschema@.snowflake_layout(used) AS field
			CROSS JOIN LATERAL (SELECT (id >> shift) & largest AS value) AS taken
		WHERE id IS NOT NULL
	)
	SELECT string_agg(digits, ' '::text ORDER BY shift DESC) FROM field HAVING count(*) > 0
	UNION ALL
	SELECT rtrim(string_agg(bar, ''::text ORDER BY shift DESC)) FROM field HAVING count(*) > 0
	UNION ALL
	(SELECT coalesce((SELECT string_agg(bar, ''::text ORDER BY above.shift DESC)
			FROM field AS above WHERE above.shift > field.shift), ''::text) || words
	FROM field ORDER BY shift);
END;

COMMENT ON FUNCTION snowflake_inspect(bigint, text) IS
'a picture of an id, line by line; in the given layout, or in the one in force';

--
-- Tables partitioned by range of their id: partitions by time
--

-- The bounds of other keys look like ids, too.
CREATE FUNCTION snowflake_internal.check_partitioned(parent regclass)
RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_partitioned_table JOIN pg_attribute ON attrelid = partrelid AND attnum = partattrs[0]
			WHERE partrelid = parent AND partstrat = 'r' AND partnatts = 1 AND atttypid = 'bigint'::regtype) THEN
		RAISE wrong_object_type USING
			MESSAGE = format('relation %s is not partitioned by snowflake id', parent),
			HINT = 'Create the table with PARTITION BY RANGE on its bigint column. To a hypertable, TimescaleDB adds chunks itself.';
	END IF;
	RETURN true;
END
$$;

COMMENT ON FUNCTION snowflake_internal.check_partitioned(regclass) IS
'an error unless a table is partitioned by range of one bigint';

CREATE FUNCTION snowflake_internal.partition_bounds(parent regclass,
	OUT partition regclass,
	OUT lower_id bigint,
	OUT upper_id bigint)
RETURNS SETOF record
LANGUAGE SQL STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	-- MINVALUE and MAXVALUE do not match, and so become NULL
	SELECT child.oid, substring(bound FROM E'FROM \\(''?(-?[0-9]+)')::bigint, substring(bound FROM E'TO \\(''?(-?[0-9]+)')::bigint
	FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid
		CROSS JOIN pg_get_expr(child.relpartbound, child.oid) AS bound
	WHERE inhparent = parent AND bound <> 'DEFAULT' AND snowflake_internal.check_partitioned(parent)
$$;

COMMENT ON FUNCTION snowflake_internal.partition_bounds(regclass) IS
'the partitions of a table, but the default one, with the ids in their bounds; NULL: no bound';

CREATE FUNCTION snowflake_partitions(parent regclass, layout text DEFAULT NULL,
	OUT partition regclass,
	OUT first_id bigint,
	OUT last_id bigint,
	OUT lower_bound timestamptz,
	OUT upper_bound timestamptz)
RETURNS SETOF record
LANGUAGE SQL STABLE PARALLEL SAFE
BEGIN ATOMIC
	-- nothing is below the smallest bigint
	SELECT part.partition, part.lower_id, part.upper_id - (part.upper_id > -9223372036854775808)::integer,
		CASE WHEN part.lower_id BETWEEN 0 AND largest THEN @extschema@.snowflake_timestamp(part.lower_id, used) END,
		CASE WHEN part.upper_id BETWEEN 0 AND largest THEN @extschema@.snowflake_timestamp(part.upper_id, used) END
	FROM snowflake_internal.layout(layout) AS used
		CROSS JOIN @extschema@.snowflake_last_before('infinity'::timestamptz, used) AS largest
		CROSS JOIN snowflake_internal.partition_bounds(parent) AS part
	ORDER BY part.lower_id NULLS FIRST, part.upper_id;
END;

COMMENT ON FUNCTION snowflake_partitions(regclass, text) IS
'the partitions of a table that is partitioned by range of its id, with their ranges of ids and of time; without the default partition';

-- Ids from before a conversion are small, as if they were of the epoch.
CREATE FUNCTION snowflake_internal.keep_undated(partition regclass)
RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE NOTICE 'partition % is left out because it may hold ids that have no time', partition
		USING DETAIL = 'It has no lower bound, or one that is an integer or below the first second after the epoch. Ids from before a conversion would be there.',
		HINT = 'If it is older than that in truth, detach or drop it by its name.';
	RETURN false;
END
$$;

COMMENT ON FUNCTION snowflake_internal.keep_undated(regclass) IS
'false, with a notice that a partition may hold ids from before a conversion';

CREATE FUNCTION snowflake_partitions_before(parent regclass, instant timestamptz,
	layout text DEFAULT NULL)
RETURNS SETOF regclass
LANGUAGE SQL STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT partition
	FROM snowflake_internal.layout(layout) AS used
		CROSS JOIN @extschema@.snowflake_capacity(used) AS capacity
		CROSS JOIN @extschema@.snowflake_partitions(parent, used) AS part
	WHERE CASE WHEN last_id <= @extschema@.snowflake_last_before(instant, used)
		THEN CASE WHEN first_id >= greatest(@extschema@.snowflake_first_from(first_instant + interval '1 second', used), 2147483648::bigint) THEN true
			ELSE snowflake_internal.keep_undated(partition) END END
	ORDER BY last_id;
END;

COMMENT ON FUNCTION snowflake_partitions_before(regclass, timestamptz, text) IS
'the partitions that lie wholly before an instant, but those that may hold ids from before a conversion, which have no time: without a lower bound, or with one that is an integer or below the first second after the epoch';

-- A step is a number of months, of days or of seconds; the others are 0.
CREATE FUNCTION snowflake_internal.step_parts(step interval,
	OUT months bigint,
	OUT days bigint,
	OUT seconds numeric)
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	months := 0;
	days := 0;
	seconds := 0;
	IF isfinite(step) THEN
		months := extract(year FROM step) * 12 + extract(month FROM step);
		days := extract(day FROM step);
		seconds := extract(hour FROM step) * 3600 + extract(minute FROM step) * 60 +
			extract(second FROM step);
	END IF;
	IF (months <> 0)::integer + (days <> 0)::integer + (seconds <> 0)::integer <> 1
		OR months < 0 OR days < 0 OR seconds < 0 OR seconds <> trunc(seconds) THEN
		RAISE invalid_parameter_value USING
			MESSAGE = format('invalid partition step: "%s"', step),
			DETAIL = 'The step must be a positive number of months, of days, or of seconds.',
			HINT = 'Use a step such as ''1 month'', ''7 days'' or ''6 hours''.';
	END IF;
END
$$;

COMMENT ON FUNCTION snowflake_internal.step_parts(interval) IS
'the parts of the step of partitions; an error unless one of them is positive';

-- Partitions follow a grid that does not depend on the bounds, so that those of several calls
-- fit together.  Weeks begin on a Monday.
CREATE FUNCTION snowflake_internal.partition_grid(step interval, lower_bound timestamptz, upper_bound timestamptz,
	time_zone text,
	OUT starts timestamptz,
	OUT ends timestamptz,
	OUT suffix text)
RETURNS SETOF record
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	origin CONSTANT timestamp := '2001-01-01';
	months bigint;
	days bigint;
	seconds numeric;
BEGIN
	SELECT * INTO months, days, seconds FROM snowflake_internal.step_parts(step);
	RETURN QUERY
		SELECT edge, next_edge, CASE
				-- an hour comes twice when daylight saving time ends, except in UTC
				WHEN seconds > 0 THEN to_char(timezone('UTC', edge), '"_p"YYYYMMDD"_"HH24MISS')
				WHEN days > 0 THEN to_char(timezone(time_zone, edge), '"_p"YYYYMMDD')
				ELSE to_char(timezone(time_zone, edge), '"_p"YYYYMM')
			END
		FROM (
			SELECT edge, lead(edge) OVER (ORDER BY number) AS next_edge
			FROM (
				-- one more on either side, for midnights that a time zone
				-- skips or repeats
				SELECT min(number) - 1 AS first, max(number) + 2 AS last
				FROM unnest(ARRAY[lower_bound, upper_bound]) AS bound
					CROSS JOIN timezone(time_zone, bound) AS wall
					CROSS JOIN floor(CASE
						WHEN months > 0 THEN ((extract(year FROM wall) - 2001) * 12 +
							extract(month FROM wall) - 1) / months
						WHEN days > 0 THEN (wall::date - origin::date)::numeric / days
						ELSE extract(epoch FROM bound - timezone(time_zone, origin)) / seconds
					END) AS number
			) AS range
				CROSS JOIN generate_series(range.first::bigint, range.last::bigint) AS number
				CROSS JOIN LATERAL (SELECT CASE
					WHEN seconds > 0 THEN timezone(time_zone, origin) + number * step
					ELSE timezone(time_zone, origin + number * step)
				END AS edge) AS grid
		) AS cell
		WHERE edge < upper_bound AND next_edge > lower_bound
		ORDER BY edge;
END
$$;

COMMENT ON FUNCTION snowflake_internal.partition_grid(interval, timestamptz, timestamptz, text) IS
'where the partitions of a range of time begin and end, and the ends of their names';

CREATE FUNCTION snowflake_internal.partition_ranges(step interval, lower_bound timestamptz, upper_bound timestamptz,
	time_zone text, layout text,
	OUT first_id bigint,
	OUT last_id bigint,
	OUT suffix text)
RETURNS SETOF record
LANGUAGE SQL STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT @extschema@.snowflake_first_from(starts, used), @extschema@.snowflake_last_before(ends, used), grid.suffix
	FROM snowflake_internal.layout(layout) AS used
		-- fail unless the layout has ids at both bounds
		CROSS JOIN @extschema@.snowflake_compose(lower_bound, used) AS lower_id
		CROSS JOIN @extschema@.snowflake_compose(upper_bound, used) AS upper_id
		CROSS JOIN snowflake_internal.partition_grid(step, lower_bound, upper_bound, time_zone) AS grid
	WHERE lower_id <= upper_id
	ORDER BY starts;
END;

COMMENT ON FUNCTION snowflake_internal.partition_ranges(interval, timestamptz, timestamptz, text, text) IS
'the ids of the partitions of a range of time, and the ends of their names';

-- Statements run with the caller's search_path, in which functions of indexes, event
-- triggers and the like must find what they need.  Our own look-ups before and after these
-- use pg_catalog.  The types of variables are qualified, because they are looked up before
-- we can set the path.
CREATE FUNCTION snowflake_create_partitions(parent regclass, step interval,
	lower_bound timestamptz,
	upper_bound timestamptz,
	time_zone text DEFAULT 'UTC',
	layout text DEFAULT NULL)
RETURNS SETOF regclass
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	callers_path CONSTANT pg_catalog.text := pg_catalog.current_setting('search_path');
	own_path CONSTANT pg_catalog.text := pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
	locked CONSTANT pg_catalog.text := parent;
	present_first bigint[];
	present_last bigint[];
	owner_schema pg_catalog.text;
	owner_name pg_catalog.text;	-- of the table, unless it is the caller
	parent_name pg_catalog.text;
	storage pg_catalog.text;
	partition pg_catalog.text;
	suffix pg_catalog.text;
	first_id bigint;
	last_id bigint;
	create_it pg_catalog.text;
	attach_it pg_catalog.text;
BEGIN
	IF parent IS NULL OR step IS NULL OR lower_bound IS NULL OR upper_bound IS NULL
		OR time_zone IS NULL THEN
		RAISE null_value_not_allowed USING
			MESSAGE = 'table, step, bounds and time zone of partitions must not be null';
	END IF;
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		RAISE feature_not_supported USING
			MESSAGE = 'partitions can only be created at isolation level READ COMMITTED',
			DETAIL = 'At other levels, partitions created by concurrent transactions would not be seen.';
	END IF;
	PERFORM snowflake_internal.step_parts(step);
	IF lower_bound >= upper_bound THEN
		RAISE invalid_parameter_value USING
			MESSAGE = 'lower bound of partitions must be less than upper bound';
	END IF;

	-- fail before waiting for a lock
	PERFORM FROM snowflake_internal.partition_ranges(step, lower_bound, upper_bound, time_zone, layout) LIMIT 1;

	-- Take the lock that ATTACH PARTITION needs before looking at the table and its
	-- present partitions.  It goes by name, and waits for a transaction that gives the name to
	-- another table.
	EXECUTE 'LOCK TABLE ONLY ' || locked || ' IN SHARE UPDATE EXCLUSIVE MODE';
	IF to_regclass(locked) IS DISTINCT FROM parent THEN
		RAISE serialization_failure USING
			MESSAGE = format('table %s was renamed by a concurrent transaction', locked),
			HINT = 'Try again.';
	END IF;
	-- partitioned tables can have an access method from 17 on
	SELECT class.relnamespace::regnamespace,
		nullif(pg_get_userbyid(class.relowner), current_user), class.relname,
		coalesce(' USING ' || quote_ident(method.amname), '') ||
			coalesce(' TABLESPACE ' || quote_ident(tablespace.spcname), '')
	INTO owner_schema, owner_name, parent_name, storage
	FROM pg_class AS class LEFT JOIN pg_tablespace AS tablespace ON tablespace.oid = class.reltablespace
		LEFT JOIN pg_am AS method ON method.oid = class.relam
	WHERE class.oid = parent;
	SELECT array_agg(lower_id), array_agg(upper_id - 1) INTO present_first, present_last
	FROM snowflake_internal.partition_bounds(parent)
	-- nothing is below the smallest bigint
	WHERE upper_id > -9223372036854775808 OR upper_id IS NULL;

	FOR first_id, last_id, suffix IN SELECT * FROM snowflake_internal.partition_ranges(step, lower_bound, upper_bound, time_zone, layout) LOOP
		-- a day that a time zone skips
		CONTINUE WHEN first_id > last_id;
		-- a partition whose bound is NULL has none
		CONTINUE WHEN EXISTS (SELECT FROM unnest(present_first, present_last) AS present (lower_id, upper_id)
			WHERE coalesce(lower_id, 0) <= first_id AND coalesce(upper_id, 9223372036854775807) >= last_id);

		partition := parent_name;
		WHILE octet_length(partition || suffix) > current_setting('max_identifier_length')::integer LOOP
			partition := left(partition, -1);
		END LOOP;
		partition := format('%s.%I', owner_schema, partition || suffix);

		-- CREATE TABLE ... PARTITION OF would lock out even readers
		create_it := format('CREATE TABLE %s (LIKE %s.%I INCLUDING ALL EXCLUDING IDENTITY '
			'EXCLUDING INDEXES EXCLUDING STATISTICS)%s', partition, owner_schema, parent_name, storage);
		attach_it := format('ALTER TABLE %s.%I ATTACH PARTITION %s FOR VALUES FROM (%s) TO (%s)',
			owner_schema, parent_name, partition, first_id,
			CASE WHEN last_id = 9223372036854775807 THEN 'MAXVALUE' ELSE (last_id + 1)::text END);
		PERFORM set_config('search_path', callers_path, true);
		EXECUTE create_it;
		-- whoever owns a table runs the expressions of its indexes later
		IF owner_name IS NOT NULL THEN
			EXECUTE pg_catalog.format('ALTER TABLE %s OWNER TO %I', partition, owner_name);
		END IF;
		EXECUTE attach_it;
		PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
		RETURN NEXT partition::regclass;
	END LOOP;
	PERFORM set_config('search_path', callers_path, true);
END
$$;

COMMENT ON FUNCTION snowflake_create_partitions(regclass, interval, timestamptz,
	timestamptz, text, text) IS
'create the missing partitions of a range of time, one for each step: a number of months, days or seconds; returns the new partitions';

--
-- Monitoring
--

CREATE FUNCTION snowflake_status(
	OUT state text,
	OUT hint text,
	OUT worker_id integer,
	OUT worker_id_source text,
	OUT datacenter_id integer,
	OUT layout text,
	OUT ids_per_second bigint,
	OUT last_instant timestamptz,
	OUT ids_ahead interval,
	OUT mark bigint,
	OUT mark_ahead interval,
	OUT lease_state text,
	OUT lease_starts timestamptz,
	OUT lease_ends timestamptz,
	OUT library_version text,
	OUT preloaded boolean)
AS 'MODULE_PATHNAME', 'snowflake_status'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

REVOKE EXECUTE ON FUNCTION snowflake_status() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION snowflake_status() TO pg_monitor;

COMMENT ON FUNCTION snowflake_status() IS
'whether ids can be made here and, if not, what to do next; worker id, layout and lease; how far ids and the mark are ahead of the clock';

-- Not a view: tools that compare schemas would list it, and drop it as unknown.
CREATE FUNCTION snowflake_stat(
	OUT ids bigint,
	OUT waits bigint,
	OUT wait_time double precision,
	OUT mark_extensions bigint,
	OUT mark_flush_time double precision,
	OUT clock_steps_back bigint,
	OUT largest_step_back double precision,
	OUT too_far_ahead bigint,
	OUT clock_refused bigint,
	OUT exhausted bigint,
	OUT no_lease bigint,
	OUT unusable_settings bigint,
	OUT lock_not_available bigint,
	OUT too_many_databases bigint,
	OUT last_step_back timestamptz,
	OUT stats_reset timestamptz)
AS 'MODULE_PATHNAME', 'snowflake_stat'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

REVOKE EXECUTE ON FUNCTION snowflake_stat() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION snowflake_stat() TO pg_monitor;

COMMENT ON FUNCTION snowflake_stat() IS
'what happened on the server, in all databases, since it was started or the counters were reset: ids, waits, moves of the mark, steps of the clock, and failed calls by kind; times in ms';

CREATE FUNCTION snowflake_stat_reset()
RETURNS void
AS 'MODULE_PATHNAME', 'snowflake_stat_reset'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

REVOKE EXECUTE ON FUNCTION snowflake_stat_reset() FROM PUBLIC;

COMMENT ON FUNCTION snowflake_stat_reset() IS
'set all counters of snowflake_stat() to 0';

--
-- Begin ids above all that the server has made since its start: the extension may have
-- been dropped in this database before.
--

CREATE FUNCTION snowflake_internal.begin()
RETURNS void
AS 'MODULE_PATHNAME', 'snowflake_begin'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

SELECT snowflake_internal.begin();

DROP FUNCTION snowflake_internal.begin();
