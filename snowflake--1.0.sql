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

CREATE FUNCTION snowflake_internal.current_guard(
	OUT bound bigint,
	OUT clock bigint,
	OUT database bigint,
	OUT layout bigint,
	OUT system bigint)
AS 'MODULE_PATHNAME', 'snowflake_current_guard'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

REVOKE EXECUTE ON FUNCTION snowflake_internal.current_guard() FROM PUBLIC;

COMMENT ON FUNCTION snowflake_internal.current_guard() IS
'the row of snowflake_internal.guard, so that REFRESH keeps it';

CREATE MATERIALIZED VIEW snowflake_internal.guard USING heap AS
SELECT bound, clock, database, layout, system
FROM snowflake_internal.current_guard();

COMMENT ON MATERIALIZED VIEW snowflake_internal.guard IS
'the guard of the mark, which no SQL command lowers';
COMMENT ON COLUMN snowflake_internal.guard.bound IS
'no snowflake id of this database is greater than this';
COMMENT ON COLUMN snowflake_internal.guard.clock IS
'the time that ids followed when the bound was written, in microseconds since 2000-01-01';
COMMENT ON COLUMN snowflake_internal.guard.database IS
'OID of the database for which the bound was written';
COMMENT ON COLUMN snowflake_internal.guard.layout IS
'a hash of the layout with which ids are made; 0 if none have been made yet';
COMMENT ON COLUMN snowflake_internal.guard.system IS
'the system identifier of the server that makes the ids, as in pg_control_system()';

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

CREATE FUNCTION snowflake_datacenter_id(id bigint)
RETURNS integer
AS 'MODULE_PATHNAME', 'snowflake_datacenter_id'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_datacenter_id(bigint) IS
'the datacenter id of an id';

CREATE FUNCTION snowflake_datacenter_id(id bigint, layout text)
RETURNS integer
AS 'MODULE_PATHNAME', 'snowflake_datacenter_id'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_datacenter_id(bigint, text) IS
'in the given layout, the datacenter id of an id';

CREATE FUNCTION snowflake_worker_id(id bigint)
RETURNS integer
AS 'MODULE_PATHNAME', 'snowflake_worker_id'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_worker_id(bigint) IS
'the worker id of an id';

CREATE FUNCTION snowflake_worker_id(id bigint, layout text)
RETURNS integer
AS 'MODULE_PATHNAME', 'snowflake_worker_id'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_worker_id(bigint, text) IS
'in the given layout, the worker id of an id';

CREATE FUNCTION snowflake_timeline(id bigint)
RETURNS integer
AS 'MODULE_PATHNAME', 'snowflake_timeline'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_timeline(bigint) IS
'the low bits of the WAL timeline that an id was made on';

CREATE FUNCTION snowflake_timeline(id bigint, layout text)
RETURNS integer
AS 'MODULE_PATHNAME', 'snowflake_timeline'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_timeline(bigint, text) IS
'in the given layout, the low bits of the WAL timeline that an id was made on';

CREATE FUNCTION snowflake_lane(id bigint)
RETURNS integer
AS 'MODULE_PATHNAME', 'snowflake_lane'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_lane(bigint) IS
'the lane that an id was made on';

CREATE FUNCTION snowflake_lane(id bigint, layout text)
RETURNS integer
AS 'MODULE_PATHNAME', 'snowflake_lane'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_lane(bigint, text) IS
'in the given layout, the lane that an id was made on';

CREATE FUNCTION snowflake_sequence(id bigint)
RETURNS integer
AS 'MODULE_PATHNAME', 'snowflake_sequence'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_sequence(bigint) IS
'the number of an id within its tick and lane';

CREATE FUNCTION snowflake_sequence(id bigint, layout text)
RETURNS integer
AS 'MODULE_PATHNAME', 'snowflake_sequence'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_sequence(bigint, text) IS
'in the given layout, the number of an id within its tick and lane';

CREATE FUNCTION snowflake_tag(id bigint)
RETURNS integer
AS 'MODULE_PATHNAME', 'snowflake_tag'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_tag(bigint) IS
'the tag of an id';

CREATE FUNCTION snowflake_tag(id bigint, layout text)
RETURNS integer
AS 'MODULE_PATHNAME', 'snowflake_tag'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_tag(bigint, text) IS
'in the given layout, the tag of an id';

CREATE FUNCTION snowflake_inspect(id bigint)
RETURNS SETOF text
AS 'MODULE_PATHNAME', 'snowflake_inspect'
LANGUAGE C STABLE STRICT PARALLEL SAFE ROWS 8;

COMMENT ON FUNCTION snowflake_inspect(bigint) IS
'a picture of an id, line by line';

CREATE FUNCTION snowflake_inspect(id bigint, layout text)
RETURNS SETOF text
AS 'MODULE_PATHNAME', 'snowflake_inspect'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE ROWS 8;

COMMENT ON FUNCTION snowflake_inspect(bigint, text) IS
'in the given layout, a picture of an id, line by line';

CREATE FUNCTION snowflake_from_timestamp(instant timestamptz)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_from_timestamp'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_from_timestamp(timestamptz) IS
'the smallest id of an instant''s tick';

CREATE FUNCTION snowflake_from_timestamp(instant timestamptz, layout text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_from_timestamp'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_from_timestamp(timestamptz, text) IS
'in the given layout, the smallest id of an instant''s tick';

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

-- for functions in PL/pgSQL
CREATE FUNCTION snowflake_internal.time_of(id bigint, layout text)
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'snowflake_timestamp'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_internal.time_of(bigint, text) IS
'snowflake_timestamp()';

CREATE FUNCTION snowflake_internal.from_timestamp(instant timestamptz, layout text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_from_timestamp'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_internal.from_timestamp(timestamptz, text) IS
'snowflake_from_timestamp()';

CREATE FUNCTION snowflake_internal.first_from(instant timestamptz)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_first_from'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_internal.first_from(timestamptz) IS
'snowflake_first_from()';

CREATE FUNCTION snowflake_internal.first_from(instant timestamptz, layout text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_first_from'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_internal.first_from(timestamptz, text) IS
'snowflake_first_from()';

CREATE FUNCTION snowflake_internal.last_before(instant timestamptz)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_last_before'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_internal.last_before(timestamptz) IS
'snowflake_last_before()';

CREATE FUNCTION snowflake_internal.last_before(instant timestamptz, layout text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_last_before'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_internal.last_before(timestamptz, text) IS
'snowflake_last_before()';

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

-- There are no defaults here, because they would make a call with only a timestamp
-- ambiguous.  The parameters before the layout have no names, so that a call by name
-- finds the function below.
CREATE FUNCTION snowflake_compose(timestamptz, integer, integer, integer,
	integer, integer, integer, layout text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_compose'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_compose(timestamptz, integer, integer, integer,
	integer, integer, integer, text) IS
'the id of the given layout that has these fields: generated_at, datacenter_id, worker_id, timeline, lane, sequence, tag';

CREATE FUNCTION snowflake_compose(generated_at timestamptz,
	layout text,
	datacenter_id integer DEFAULT 0,
	worker_id integer DEFAULT 0,
	timeline integer DEFAULT 0,
	lane integer DEFAULT 0,
	sequence integer DEFAULT 0,
	tag integer DEFAULT 0)
RETURNS bigint
LANGUAGE SQL IMMUTABLE PARALLEL SAFE
RETURN @extschema@.snowflake_compose(generated_at, datacenter_id, worker_id,
	timeline, lane, sequence, tag, layout);

COMMENT ON FUNCTION snowflake_compose(timestamptz, text, integer, integer,
	integer, integer, integer, integer) IS
'the id of the given layout that has these fields; those left out are 0';

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

CREATE FUNCTION snowflake_to_text(id bigint, encoding text)
RETURNS text
AS 'MODULE_PATHNAME', 'snowflake_to_text'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_to_text(bigint, text) IS
'an id as text of a fixed width: base32, base32-bwmarrin, base36, base58, base58-bwmarrin, base62 or hex';

CREATE FUNCTION snowflake_from_text(id text, encoding text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_from_text'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_from_text(text, text) IS
'the id that a text stands for: base32, base32-bwmarrin, base36, base58, base58-bwmarrin, base62 or hex';

CREATE FUNCTION snowflake_mask(id bigint, key text, tweak text DEFAULT '')
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_mask'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;

COMMENT ON FUNCTION snowflake_mask(bigint, text, text) IS
'a number that can be turned back into the id only with the key; different for each tweak, such as the name of a table';

CREATE FUNCTION snowflake_mask(id bigint, key bytea, tweak text DEFAULT '')
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_mask'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;

COMMENT ON FUNCTION snowflake_mask(bigint, bytea, text) IS
'a number that can be turned back into the id only with the key; different for each tweak, such as the name of a table';

CREATE FUNCTION snowflake_unmask(masked bigint, key text, tweak text DEFAULT '')
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_unmask'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;

COMMENT ON FUNCTION snowflake_unmask(bigint, text, text) IS
'the id that snowflake_mask() turned into a number, with the same key and tweak';

CREATE FUNCTION snowflake_unmask(masked bigint, key bytea, tweak text DEFAULT '')
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_unmask'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;

COMMENT ON FUNCTION snowflake_unmask(bigint, bytea, text) IS
'the id that snowflake_mask() turned into a number, with the same key and tweak';

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

--
-- More of the functions above, for those in PL/pgSQL
--

-- with the privileges of the caller, who needs that for snowflake_advance()
CREATE FUNCTION snowflake_internal.advance(id bigint)
RETURNS void
LANGUAGE SQL VOLATILE PARALLEL UNSAFE
RETURN @extschema@.snowflake_advance(id, false);

COMMENT ON FUNCTION snowflake_internal.advance(bigint) IS
'snowflake_advance()';

CREATE FUNCTION snowflake_internal.layout()
RETURNS text
LANGUAGE SQL STABLE PARALLEL SAFE
RETURN (SELECT capacity.layout FROM @extschema@.snowflake_capacity() AS capacity);

COMMENT ON FUNCTION snowflake_internal.layout() IS
'the layout in force';

CREATE FUNCTION snowflake_internal.functions(
	OUT id regprocedure,
	OUT nextval regprocedure,
	OUT advance regprocedure)
LANGUAGE SQL STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT '@extschema@.snowflake_id()'::regprocedure, '@extschema@.snowflake_nextval()'::regprocedure,
		'@extschema@.snowflake_advance(bigint, boolean)'::regprocedure;
END;

COMMENT ON FUNCTION snowflake_internal.functions() IS
'the functions that make and advance ids, whatever their schema is called now';

--
-- Tables partitioned by range of their id: partitions by time
--

-- Look only at the catalogs of TimescaleDB itself: others could have made a schema of
-- that name.
CREATE FUNCTION snowflake_internal.chunk_length(hypertable regclass, dimension name DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	length bigint;
BEGIN
	IF EXISTS (SELECT FROM pg_depend JOIN pg_extension ON refobjid = pg_extension.oid
			WHERE classid = 'pg_class'::regclass AND objid = to_regclass('_timescaledb_catalog.dimension')
				AND refclassid = 'pg_extension'::regclass AND deptype = 'e' AND extname = 'timescaledb') THEN
		EXECUTE 'SELECT min(interval_length)
			FROM _timescaledb_catalog.dimension JOIN _timescaledb_catalog.hypertable ON hypertable.id = hypertable_id
				JOIN pg_catalog.pg_class ON relname = table_name
				JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace AND nspname = schema_name
			WHERE pg_class.oid = $1 AND column_name = coalesce($2, column_name)'
		INTO length USING hypertable, dimension;
	END IF;
	RETURN length;
END
$$;

COMMENT ON FUNCTION snowflake_internal.chunk_length(regclass, name) IS
'how many values of a column, or of any one, a chunk of a hypertable covers; NULL if the table is none';

CREATE FUNCTION snowflake_internal.partitions(parent regclass, layout text,
	OUT partition regclass,
	OUT first_id bigint,
	OUT last_id bigint,
	OUT lower_bound timestamptz,
	OUT upper_bound timestamptz)
RETURNS SETOF record
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- the bounds of other keys look like ids, too
	IF NOT EXISTS (SELECT FROM pg_partitioned_table AS part
			JOIN pg_attribute AS attribute ON attribute.attrelid = part.partrelid
				AND attribute.attnum = part.partattrs[0]
		WHERE part.partrelid = parent AND part.partstrat = 'r' AND part.partnatts = 1
			AND attribute.atttypid = 'bigint'::regtype) THEN
		RAISE wrong_object_type USING
			MESSAGE = format('relation %s is not partitioned by snowflake id', parent),
			HINT = CASE WHEN snowflake_internal.chunk_length(parent) IS NULL
				THEN 'Create the table with PARTITION BY RANGE on its bigint column.'
				ELSE 'The table is a hypertable, to which TimescaleDB adds chunks itself.' END;
	END IF;

	layout := coalesce(layout, snowflake_internal.layout());
	RETURN QUERY
		-- nothing is below the smallest bigint
		SELECT part.oid::regclass, part.lower_id,
			part.upper_id - (part.upper_id > -9223372036854775808)::integer,
			CASE WHEN part.lower_id BETWEEN 0 AND largest THEN snowflake_internal.time_of(part.lower_id, layout) END,
			CASE WHEN part.upper_id BETWEEN 0 AND largest THEN snowflake_internal.time_of(part.upper_id, layout) END
		FROM (
			-- MINVALUE and MAXVALUE do not match, and so become NULL
			SELECT child.oid,
				substring(bound FROM E'FROM \\(''?(-?[0-9]+)')::bigint AS lower_id,
				substring(bound FROM E'TO \\(''?(-?[0-9]+)')::bigint AS upper_id
			FROM pg_inherits AS link
				JOIN pg_class AS child ON child.oid = link.inhrelid
				CROSS JOIN pg_get_expr(child.relpartbound, child.oid) AS bound
			WHERE link.inhparent = parent AND bound <> 'DEFAULT'
		) AS part
			CROSS JOIN snowflake_internal.last_before('infinity'::timestamptz, layout) AS largest
		ORDER BY part.lower_id NULLS FIRST, part.upper_id;
END
$$;

COMMENT ON FUNCTION snowflake_internal.partitions(regclass, text) IS
'snowflake_partitions()';

CREATE FUNCTION snowflake_partitions(parent regclass, layout text DEFAULT NULL,
	OUT partition regclass,
	OUT first_id bigint,
	OUT last_id bigint,
	OUT lower_bound timestamptz,
	OUT upper_bound timestamptz)
RETURNS SETOF record
LANGUAGE SQL STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT * FROM snowflake_internal.partitions(parent, layout);
END;

COMMENT ON FUNCTION snowflake_partitions(regclass, text) IS
'the partitions of a table that is partitioned by range of its id, with their ranges of ids and of time; without the default partition';

CREATE FUNCTION snowflake_partitions_before(parent regclass, instant timestamptz,
	layout text DEFAULT NULL)
RETURNS SETOF regclass
LANGUAGE SQL STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT partition
	FROM @extschema@.snowflake_partitions(parent, layout)
	WHERE last_id <= CASE
			WHEN layout IS NULL THEN @extschema@.snowflake_last_before(instant)
			ELSE @extschema@.snowflake_last_before(instant, layout)
		END
	ORDER BY last_id;
END;

COMMENT ON FUNCTION snowflake_partitions_before(regclass, timestamptz, text) IS
'the partitions that lie wholly before an instant';

-- LOCK TABLE goes by name, and waits for a transaction that gives the name to another
-- table.
CREATE FUNCTION snowflake_internal.lock_table(locked regclass, statement text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	name CONSTANT text := locked;
BEGIN
	EXECUTE format(statement, name);
	IF to_regclass(name) IS DISTINCT FROM locked THEN
		RAISE serialization_failure USING
			MESSAGE = format('table %s was renamed by a concurrent transaction', name),
			HINT = 'Try again.';
	END IF;
END
$$;

COMMENT ON FUNCTION snowflake_internal.lock_table(regclass, text) IS
'run a LOCK TABLE with the name of a table in place of %s; an error if it was renamed meanwhile';

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

-- snowflake_create_partitions() and snowflake_adopt() run statements for the caller,
-- with the caller's search_path, in which functions of indexes, event triggers and the
-- like must find what they need.  Our own look-ups before and after these statements
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
	present_first bigint[];
	present_last bigint[];
	owner_schema pg_catalog.text;
	owner_name pg_catalog.text;	-- of the table, unless it is the caller
	parent_name pg_catalog.text;
	storage pg_catalog.text;
	partition pg_catalog.text;
	suffix pg_catalog.text;
	starts pg_catalog.timestamptz;
	ends pg_catalog.timestamptz;
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

	layout := coalesce(layout, snowflake_internal.layout());
	-- fail unless the layout has ids at both bounds
	PERFORM snowflake_internal.from_timestamp(lower_bound, layout),
		snowflake_internal.from_timestamp(upper_bound, layout);

	-- Take the lock that ATTACH PARTITION needs before looking at the table and its
	-- present partitions.
	PERFORM snowflake_internal.lock_table(parent, 'LOCK TABLE ONLY %s IN SHARE UPDATE EXCLUSIVE MODE');
	-- partitioned tables can have an access method from 17 on
	SELECT class.relnamespace::regnamespace,
		nullif(pg_get_userbyid(class.relowner), current_user), class.relname,
		coalesce(' USING ' || quote_ident(method.amname), '') ||
			coalesce(' TABLESPACE ' || quote_ident(tablespace.spcname), '')
	INTO owner_schema, owner_name, parent_name, storage
	FROM pg_class AS class LEFT JOIN pg_tablespace AS tablespace ON tablespace.oid = class.reltablespace
		LEFT JOIN pg_am AS method ON method.oid = class.relam
	WHERE class.oid = parent;
	SELECT array_agg(present.first_id), array_agg(present.last_id) INTO present_first, present_last
	FROM snowflake_internal.partitions(parent, layout) AS present;

	FOR starts, ends, suffix IN SELECT * FROM snowflake_internal.partition_grid(step, lower_bound, upper_bound, time_zone) LOOP
		first_id := snowflake_internal.first_from(starts, layout);
		last_id := snowflake_internal.last_before(ends, layout);
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
-- Tables that have another key
--
-- A key is a column that is to make ids.  Columns that refer to it become bigint, too.  The
-- type of a column is changed in the topmost table that has it, and changes in all tables
-- that inherit it.  All look-ups are planned without JIT, which takes longer than they do.

CREATE FUNCTION snowflake_internal.inheritance_tree(root oid)
RETURNS SETOF oid
LANGUAGE SQL STABLE STRICT PARALLEL SAFE ROWS 1
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
	WITH RECURSIVE member (relid) AS (
		SELECT root
		UNION
		SELECT inhrelid FROM member JOIN pg_inherits ON inhparent = relid
	)
	SELECT relid FROM member
$$;

COMMENT ON FUNCTION snowflake_internal.inheritance_tree(oid) IS
'a table, its partitions, and all tables that inherit from it';

CREATE FUNCTION snowflake_internal.columns_to_widen(keys oid[], key_names name[],
	others oid[], other_names name[],
	with_keys boolean,
	OUT relid oid,
	OUT attnum smallint,
	OUT attname name,
	OUT new_type text)
RETURNS SETOF record
LANGUAGE SQL STABLE PARALLEL SAFE ROWS 10
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
	WITH RECURSIVE adopted_key (relid, attname) AS MATERIALIZED (
		SELECT snowflake_internal.inheritance_tree(root), name FROM unnest(keys, key_names) AS key (root, name)
	), link (relid, attnum, next_relid, next_attnum) AS MATERIALIZED (
		SELECT confrelid, confkey[i], conrelid, conkey[i]
		FROM pg_constraint CROSS JOIN generate_subscripts(conkey, 1) AS i
		WHERE contype = 'f' AND conparentid = 0
	), linked (relid, attnum) AS (
		SELECT attrelid, attnum
		FROM (SELECT * FROM adopted_key UNION ALL SELECT * FROM unnest(others, other_names)) AS start (relid, name)
			JOIN pg_attribute ON attrelid = start.relid AND attname = start.name
		UNION
		SELECT next_relid, next_attnum
		FROM linked CROSS JOIN LATERAL (
			SELECT link.next_relid, link.next_attnum
			FROM link
			WHERE link.relid = linked.relid AND link.attnum = linked.attnum
			UNION ALL
			-- a column changes in tables that inherit it and, but for a key, in those that it comes from
			SELECT other.attrelid, other.attnum
			FROM pg_attribute AS own CROSS JOIN LATERAL (
				SELECT inhrelid FROM pg_inherits WHERE inhparent = own.attrelid
				UNION ALL
				SELECT inhparent FROM pg_inherits
				WHERE inhrelid = own.attrelid AND (own.attrelid, own.attname) NOT IN (SELECT * FROM adopted_key)
			) AS relative (relid) JOIN pg_attribute AS other ON other.attrelid = relative.relid AND other.attname = own.attname
			WHERE own.attrelid = linked.relid AND own.attnum = linked.attnum
		) AS next (next_relid, next_attnum)
	), typed (relid, attnum, attname, typid) AS (
		SELECT relid, attnum, name, type
		-- OFFSET keeps the planner from reading all columns
		FROM linked CROSS JOIN LATERAL (SELECT attname, atttypid FROM pg_attribute
			WHERE attrelid = relid AND pg_attribute.attnum = linked.attnum OFFSET 0) AS attribute (name, type)
		WHERE (relid, name) NOT IN (SELECT * FROM adopted_key)
		UNION
		-- a domain may be what makes a column too narrow
		SELECT relid, attnum, attname, typbasetype
		FROM typed JOIN pg_type ON pg_type.oid = typid AND typtype = 'd'
	)
	SELECT relid, attnum, attname,
		CASE WHEN typid IN ('smallint[]'::regtype, 'integer[]'::regtype) THEN 'bigint[]' ELSE 'bigint' END
	FROM typed
	WHERE typid IN ('smallint'::regtype, 'integer'::regtype, 'smallint[]'::regtype, 'integer[]'::regtype)
		AND NOT EXISTS (SELECT FROM pg_inherits JOIN typed AS parent ON parent.relid = inhparent
			WHERE inhrelid = typed.relid AND parent.attname = typed.attname)
	UNION ALL
	SELECT attrelid, attnum, attname, 'bigint'
	FROM unnest(keys, key_names) AS key (root, name) JOIN pg_attribute ON attrelid = root AND attname = name
	WHERE with_keys AND atttypid <> 'bigint'::regtype
$$;

COMMENT ON FUNCTION snowflake_internal.columns_to_widen(oid[], name[], oid[], name[], boolean) IS
'other columns, those that refer to these or to keys, or to such columns in turn, and keys on request, if they are of type smallint or integer; in the topmost tables';

CREATE FUNCTION snowflake_internal.altered_columns(roots oid[], names name[],
	OUT relid oid,
	OUT attnum smallint,
	OUT num_roots bigint)
RETURNS SETOF record
LANGUAGE SQL STABLE PARALLEL SAFE ROWS 10
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
	SELECT attrelid, attnum, count(DISTINCT root)
	FROM unnest(roots, names) AS part (root, name)
		CROSS JOIN LATERAL snowflake_internal.inheritance_tree(root) AS member
		JOIN pg_attribute ON attrelid = member AND attname = name
	GROUP BY attrelid, attnum
$$;

COMMENT ON FUNCTION snowflake_internal.altered_columns(oid[], name[]) IS
'all columns whose type changes if that of columns of topmost tables does';

CREATE FUNCTION snowflake_internal.fixed_columns(roots oid[], names name[])
RETURNS SETOF text
LANGUAGE SQL STABLE PARALLEL SAFE ROWS 1
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
	WITH RECURSIVE altered AS MATERIALIZED (
		SELECT * FROM snowflake_internal.altered_columns(roots, names)
	), row_type (root, type) AS (
		SELECT oid, reltype FROM pg_class WHERE oid IN (SELECT relid FROM altered)
		UNION
		-- arrays, domains, and types that have such a type in them
		SELECT root, other
		FROM row_type CROSS JOIN LATERAL (
			SELECT typarray FROM pg_type WHERE oid = type
			UNION ALL
			SELECT oid FROM pg_type WHERE typbasetype = type
			UNION ALL
			SELECT reltype FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
			WHERE atttypid = type AND relkind = 'c' AND NOT attisdropped
		) AS next (other)
		WHERE other <> 0
	)
	SELECT format('%s is in the partition key of table %s.',
		pg_describe_object('pg_class'::regclass, relid, attnum), relid::regclass)
	FROM altered
	-- in an expression, too
	WHERE EXISTS (SELECT FROM pg_partitioned_table WHERE partrelid = relid AND attnum = ANY (partattrs::smallint[]))
		OR EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = relid AND objsubid = attnum
			AND refclassid = 'pg_class'::regclass AND refobjid = relid AND refobjsubid = 0 AND deptype = 'i')
	UNION ALL
	SELECT format('table %s has the columns of type %s.', oid::regclass, reloftype::regtype)
	FROM pg_class
	WHERE oid IN (SELECT relid FROM altered) AND reloftype <> 0
	UNION ALL
	SELECT format('%s has the type of the rows of table %s.', pg_describe_object('pg_class'::regclass, attrelid, attnum), root::regclass)
	FROM row_type JOIN pg_attribute ON atttypid = type JOIN pg_class ON pg_class.oid = attrelid
	WHERE relkind IN ('r', 'm', 'p') AND NOT attisdropped
	UNION ALL
	-- from a column that does not change with it, or from two that do
	SELECT format('%s is inherited.', pg_describe_object('pg_class'::regclass, relid, attnum))
	FROM altered
	WHERE num_roots > 1 OR EXISTS (
		SELECT FROM pg_attribute AS own JOIN pg_inherits ON inhrelid = attrelid
			JOIN pg_attribute AS inherited ON inherited.attrelid = inhparent AND inherited.attname = own.attname
		WHERE own.attrelid = altered.relid AND own.attnum = altered.attnum
			AND NOT EXISTS (SELECT FROM altered AS other
				WHERE other.relid = inhparent AND other.attnum = inherited.attnum))
$$;

COMMENT ON FUNCTION snowflake_internal.fixed_columns(oid[], name[]) IS
'why the type of such columns cannot be changed';

CREATE FUNCTION snowflake_internal.grants(object text, acl aclitem[], owner oid, columns text)
RETURNS text[]
LANGUAGE SQL STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT array_agg(format('GRANT %s%s ON %s TO %s%s', privilege_type, columns, object,
		CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
		CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END) ORDER BY grantee, privilege_type)
	FROM aclexplode(acl)
	-- the owner grants to itself what it has anyway, unless it has revoked some of it
	WHERE grantee IS DISTINCT FROM owner OR columns <> ''
$$;

COMMENT ON FUNCTION snowflake_internal.grants(text, aclitem[], oid, text) IS
'statements that grant the privileges of an access control list';

CREATE FUNCTION snowflake_internal.recreate_view(view oid,
	OUT removal text[],
	OUT restoration text[])
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	name CONSTANT text := view::regclass;
	class CONSTANT pg_class := (SELECT pg_class FROM pg_class WHERE oid = view);
	is_stored CONSTANT boolean := class.relkind = 'm';
	kind CONSTANT text := CASE WHEN is_stored THEN 'MATERIALIZED VIEW' ELSE 'VIEW' END;
	has_revoked CONSTANT boolean := class.relacl IS NOT NULL AND EXISTS (
		SELECT privilege_type FROM aclexplode(acldefault('r', class.relowner))
		EXCEPT SELECT privilege_type FROM aclexplode(class.relacl) WHERE grantee = class.relowner);
BEGIN
	-- only a member of the owner can make it the owner again
	IF NOT pg_has_role(class.relowner, 'MEMBER') THEN
		RETURN;
	END IF;
	removal := ARRAY[format('DROP %s %s', kind, name)];
	restoration := ARRAY[format('CREATE %s %s%s%s%s AS%s%s', kind, name,
			(SELECT ' USING ' || quote_ident(amname) FROM pg_am WHERE oid = class.relam AND is_stored),
			(SELECT ' WITH (' || string_agg(format('%s%I = %L', prefix, split_part(option, '=', 1),
					substr(option, strpos(option, '=') + 1)), ', ') || ')'
				FROM (SELECT '' AS prefix, unnest(class.reloptions) AS option
					UNION ALL SELECT 'toast.', unnest(reloptions) FROM pg_class WHERE oid = class.reltoastrelid) AS options),
			(SELECT ' TABLESPACE ' || quote_ident(spcname) FROM pg_tablespace WHERE oid = class.reltablespace),
			E'\n' || rtrim(pg_get_viewdef(view), ';'), CASE WHEN is_stored THEN ' WITH NO DATA' END)] ||
		-- before anything of its owner runs
		format('ALTER %s %s OWNER TO %I', kind, name, pg_get_userbyid(class.relowner)) ||
		-- default privileges of the present role
		(SELECT array_agg(format('REVOKE ALL ON %s FROM %s', name,
			CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END))
		FROM (SELECT DISTINCT grantee FROM pg_default_acl CROSS JOIN aclexplode(defaclacl)
			WHERE defaclobjtype = 'r' AND grantee <> class.relowner
			UNION SELECT class.relowner WHERE has_revoked) AS other) ||
		snowflake_internal.grants(name, class.relacl, CASE WHEN NOT has_revoked THEN class.relowner END, '') ||
		(SELECT array_agg(statement ORDER BY attnum)
		FROM pg_attribute CROSS JOIN LATERAL unnest(
			snowflake_internal.grants(name, attacl, class.relowner, format(' (%I)', attname)) ||
			(SELECT format('ALTER VIEW %s ALTER COLUMN %I SET DEFAULT %s', name, attname, pg_get_expr(adbin, adrelid))
			FROM pg_attrdef WHERE adrelid = attrelid AND adnum = attnum) ||
			CASE WHEN is_stored AND attstattarget >= 0 THEN
				format('ALTER MATERIALIZED VIEW %s ALTER COLUMN %I SET STATISTICS %s', name, attname, attstattarget) END ||
			(SELECT format('ALTER MATERIALIZED VIEW %s ALTER COLUMN %I SET (%s)', name, attname, string_agg(option, ', '))
			FROM unnest(attoptions) AS option WHERE is_stored AND option ~ '^n_distinct' HAVING count(*) > 0) ||
			(SELECT format('ALTER MATERIALIZED VIEW %s ALTER COLUMN %I SET STORAGE %s', name, attname,
				CASE attstorage WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'x' THEN 'EXTENDED' ELSE 'MAIN' END)
			FROM pg_type WHERE pg_type.oid = atttypid AND is_stored AND attstorage <> typstorage) ||
			CASE attcompression WHEN 'p' THEN format('ALTER MATERIALIZED VIEW %s ALTER COLUMN %I SET COMPRESSION pglz', name, attname)
				WHEN 'l' THEN format('ALTER MATERIALIZED VIEW %s ALTER COLUMN %I SET COMPRESSION lz4', name, attname) END ||
			(SELECT format('COMMENT ON COLUMN %s.%I IS %L', name, attname, description)
			FROM col_description(attrelid, attnum) AS description WHERE description IS NOT NULL)) AS statement
		WHERE attrelid = view AND attnum > 0 AND statement IS NOT NULL) ||
		(SELECT array_agg(statement ORDER BY indexrelid)
		FROM pg_index JOIN pg_class AS index ON index.oid = indexrelid
			CROSS JOIN LATERAL unnest(ARRAY[pg_get_indexdef(indexrelid),
				(SELECT format('ALTER INDEX %s SET TABLESPACE %I', indexrelid::regclass, spcname)
				FROM pg_tablespace WHERE oid = index.reltablespace),
				CASE WHEN indisclustered THEN format('ALTER MATERIALIZED VIEW %s CLUSTER ON %I', name, index.relname) END,
				(SELECT format('COMMENT ON INDEX %s IS %L', indexrelid::regclass, description)
				FROM obj_description(indexrelid, 'pg_class') AS description WHERE description IS NOT NULL)]) AS statement
		WHERE indrelid = view) ||
		(SELECT array_agg(statement ORDER BY statistics.oid)
		FROM pg_statistic_ext AS statistics CROSS JOIN LATERAL (SELECT format('%I.%I', nspname, stxname)
				FROM pg_namespace WHERE pg_namespace.oid = stxnamespace) AS own (label)
			CROSS JOIN LATERAL unnest(ARRAY[pg_get_statisticsobjdef(statistics.oid),
				format('ALTER STATISTICS %s OWNER TO %I', label, pg_get_userbyid(stxowner)),
				CASE WHEN stxstattarget >= 0 THEN format('ALTER STATISTICS %s SET STATISTICS %s', label, stxstattarget) END,
				(SELECT format('COMMENT ON STATISTICS %s IS %L', label, description)
				FROM obj_description(statistics.oid, 'pg_statistic_ext') AS description WHERE description IS NOT NULL)]) AS statement
		WHERE stxrelid = view) ||
		(SELECT array_agg(statement ORDER BY pg_rewrite.oid)
		FROM pg_rewrite CROSS JOIN LATERAL unnest((snowflake_internal.recreation('pg_rewrite'::regclass, pg_rewrite.oid, 0)).restoration)
			AS statement WHERE ev_class = view AND rulename <> '_RETURN') ||
		(SELECT array_agg(statement ORDER BY pg_trigger.oid)
		FROM pg_trigger CROSS JOIN LATERAL unnest((snowflake_internal.recreation('pg_trigger'::regclass, pg_trigger.oid, 0)).restoration)
			AS statement WHERE tgrelid = view AND NOT tgisinternal) ||
		(SELECT format('COMMENT ON %s %s IS %L', kind, name, description)
		FROM obj_description(view, 'pg_class') AS description WHERE description IS NOT NULL) ||
		CASE WHEN is_stored AND class.relispopulated THEN 'REFRESH MATERIALIZED VIEW ' || name END;
	restoration := array_remove(restoration, NULL);
END
$$;

COMMENT ON FUNCTION snowflake_internal.recreate_view(oid) IS
'statements that drop a view, and that create it again with all that belongs to it';

CREATE FUNCTION snowflake_internal.recreation(class oid, object oid, subobject integer,
	OUT removal text[],
	OUT restoration text[])
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	name text;			-- in COMMENT ON
BEGIN
	IF EXISTS (SELECT FROM pg_depend WHERE classid = class AND objid = object AND deptype = 'e') THEN
		RETURN;
	ELSIF class = 'pg_class'::regclass AND subobject = 0 THEN
		SELECT * INTO removal, restoration FROM snowflake_internal.recreate_view(object);
	ELSIF class = 'pg_class'::regclass THEN
		SELECT ARRAY[format('ALTER TABLE %s DROP COLUMN %I', attrelid::regclass, attname)],
			ARRAY[format('ALTER TABLE %s ADD COLUMN %I %s GENERATED ALWAYS AS (%s) %s', attrelid::regclass, attname,
				format_type(atttypid, atttypmod), pg_get_expr(adbin, adrelid),
				CASE attgenerated WHEN 's' THEN 'STORED' ELSE 'VIRTUAL' END),
				CASE WHEN attnotnull THEN format('ALTER TABLE %s ALTER COLUMN %I SET NOT NULL', attrelid::regclass, attname) END] ||
				(SELECT array_agg(format('ALTER TABLE %s ADD CONSTRAINT %I %s', attrelid::regclass, conname, pg_get_constraintdef(oid)) ORDER BY oid)
				FROM pg_constraint WHERE conrelid = attrelid AND attnum = ANY (conkey) AND contype IN ('c', 'u', 'f', 'x')) ||
				(SELECT array_agg(pg_get_indexdef(objid) ORDER BY objid)
				FROM pg_depend JOIN pg_index ON indexrelid = objid
				WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass AND refobjid = attrelid AND refobjsubid = attnum) ||
				snowflake_internal.grants(attrelid::regclass::text, attacl, NULL, format(' (%I)', attname)) ||
				(SELECT format('COMMENT ON COLUMN %s.%I IS %L', attrelid::regclass, attname, description)
				FROM col_description(attrelid, attnum) AS description WHERE description IS NOT NULL)
		INTO removal, restoration
		FROM pg_attribute JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
		WHERE attrelid = object AND attnum = subobject AND attgenerated <> '' AND attinhcount = 0;
	ELSIF class = 'pg_attrdef'::regclass THEN
		SELECT generated.removal, generated.restoration INTO removal, restoration
		FROM pg_attrdef CROSS JOIN LATERAL snowflake_internal.recreation('pg_class'::regclass, adrelid, adnum::integer) AS generated
		WHERE oid = object;
	ELSIF class = 'pg_rewrite'::regclass THEN
		SELECT ARRAY[format('DROP RULE %I ON %s', rulename, ev_class::regclass)],
			ARRAY[rtrim(pg_get_ruledef(oid), ';'),
				CASE WHEN ev_enabled <> 'O' THEN format('ALTER TABLE %s %s RULE %I', ev_class::regclass,
					CASE ev_enabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END, rulename) END],
			format('RULE %I ON %s', rulename, ev_class::regclass)
		INTO removal, restoration, name
		FROM pg_rewrite WHERE oid = object;
	ELSIF class = 'pg_trigger'::regclass THEN
		SELECT ARRAY[format('DROP TRIGGER %I ON %s', tgname, tgrelid::regclass)],
			ARRAY[pg_get_triggerdef(oid),
				CASE WHEN tgenabled <> 'O' THEN format('ALTER TABLE %s %s TRIGGER %I', tgrelid::regclass,
					CASE tgenabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END, tgname) END],
			format('TRIGGER %I ON %s', tgname, tgrelid::regclass)
		INTO removal, restoration, name
		FROM pg_trigger WHERE oid = object;
	ELSIF class = 'pg_policy'::regclass THEN
		SELECT ARRAY[format('DROP POLICY %I ON %s', polname, polrelid::regclass)],
			ARRAY[format('CREATE POLICY %I ON %s AS %s FOR %s TO %s%s%s', polname, polrelid::regclass,
				CASE WHEN polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,
				CASE polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,
				(SELECT string_agg(CASE member WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(member)) END, ', ')
				FROM unnest(polroles) AS member),
				' USING (' || pg_get_expr(polqual, polrelid) || ')',
				' WITH CHECK (' || pg_get_expr(polwithcheck, polrelid) || ')')],
			format('POLICY %I ON %s', polname, polrelid::regclass)
		INTO removal, restoration, name
		FROM pg_policy WHERE oid = object;
	ELSIF class = 'pg_proc'::regclass THEN
		SELECT ARRAY['DROP ' || label],
			ARRAY[rtrim(pg_get_functiondef(pg_proc.oid), E'\n'), format('ALTER %s OWNER TO %I', label, pg_get_userbyid(proowner)),
				CASE WHEN proacl IS NOT NULL THEN format('REVOKE ALL ON %s FROM PUBLIC', label) END] ||
				snowflake_internal.grants(label, proacl, proowner, ''), label
		INTO removal, restoration, name
		FROM pg_proc CROSS JOIN LATERAL format('%s %s', CASE prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END,
			pg_proc.oid::regprocedure) AS label
		WHERE pg_proc.oid = object AND prokind IN ('f', 'p');
	ELSIF class = 'pg_publication_rel'::regclass THEN
		SELECT ARRAY[format('ALTER PUBLICATION %I DROP TABLE %s', pubname, prrelid::regclass)],
			ARRAY[format('ALTER PUBLICATION %I ADD TABLE %s%s%s', pubname, prrelid::regclass,
				(SELECT ' (' || string_agg(quote_ident(attname), ', ' ORDER BY attnum) || ')'
				FROM pg_attribute WHERE attrelid = prrelid AND attnum = ANY (prattrs::smallint[])),
				' WHERE (' || pg_get_expr(prqual, prrelid) || ')')]
		INTO removal, restoration
		FROM pg_publication_rel JOIN pg_publication ON pg_publication.oid = prpubid
		WHERE pg_publication_rel.oid = object;
	END IF;
	restoration := array_remove(restoration || (SELECT format('COMMENT ON %s IS %L', name, description)
		FROM pg_description WHERE objoid = object AND classoid = class AND objsubid = 0 AND name IS NOT NULL), NULL);
END
$$;

COMMENT ON FUNCTION snowflake_internal.recreation(oid, oid, integer) IS
'statements that remove an object that depends on the type of a column, and that create it again; NULL if only its owner can tell';

CREATE FUNCTION snowflake_internal.dependents(roots oid[], names name[],
	OUT reason text,
	OUT is_view boolean,
	OUT depth integer,
	OUT removal text[],
	OUT restoration text[])
RETURNS SETOF record
LANGUAGE SQL STABLE PARALLEL SAFE ROWS 1
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
	WITH RECURSIVE altered AS MATERIALIZED (
		SELECT * FROM snowflake_internal.altered_columns(roots, names)
	), view_of_rule (rule, view) AS MATERIALIZED (
		SELECT pg_rewrite.oid, ev_class
		FROM pg_rewrite JOIN pg_class ON pg_class.oid = ev_class AND relkind IN ('v', 'm')
	), found (classid, objid, objsubid, refclassid, refobjid, refobjsubid, depth) AS (
		SELECT CASE WHEN view IS NULL THEN classid ELSE 'pg_class'::regclass END, coalesce(view, objid), objsubid,
			refclassid, refobjid, refobjsubid, 1
		FROM altered JOIN pg_depend ON refclassid = 'pg_class'::regclass AND refobjid = relid AND refobjsubid = attnum
			LEFT JOIN view_of_rule ON classid = 'pg_rewrite'::regclass AND rule = objid
		WHERE classid IN ('pg_rewrite'::regclass, 'pg_policy'::regclass, 'pg_trigger'::regclass,
				'pg_proc'::regclass, 'pg_publication_rel'::regclass)
			-- generated columns
			OR classid = 'pg_class'::regclass AND objid = relid AND objsubid > 0 AND objsubid <> attnum
			OR classid = 'pg_attrdef'::regclass
				AND NOT EXISTS (SELECT FROM pg_attrdef WHERE oid = objid AND adrelid = relid AND adnum = attnum)
		UNION
		-- what depends on a view, or on the type of its rows
		SELECT CASE WHEN view IS NULL THEN pg_depend.classid ELSE 'pg_class'::regclass END, coalesce(view, pg_depend.objid),
			pg_depend.objsubid, found.classid, found.objid, 0, depth + 1
		FROM found JOIN pg_class ON pg_class.oid = found.objid
			LEFT JOIN pg_type ON pg_type.oid = reltype
			CROSS JOIN LATERAL (VALUES ('pg_class'::regclass, found.objid), ('pg_type'::regclass, reltype),
				('pg_type'::regclass, typarray)) AS target (class, object)
			JOIN pg_depend ON pg_depend.refclassid = class AND pg_depend.refobjid = object AND deptype = 'n'
			LEFT JOIN view_of_rule ON pg_depend.classid = 'pg_rewrite'::regclass AND rule = pg_depend.objid
		WHERE found.classid = 'pg_class'::regclass AND found.objsubid = 0 AND relkind IN ('v', 'm')
			AND view IS DISTINCT FROM found.objid
	), object AS (
		SELECT classid, objid, objsubid, max(depth) AS depth,
			string_agg(DISTINCT pg_describe_object(refclassid, refobjid, refobjsubid), ', ') AS names
		FROM found
		-- those of partitions go with that of their table
		WHERE NOT (classid = 'pg_trigger'::regclass AND objid IN (SELECT oid FROM pg_trigger WHERE tgparentid <> 0))
		GROUP BY classid, objid, objsubid
	)
	SELECT format('%s depends on %s.', pg_describe_object(classid, objid, objsubid), names),
		classid IN ('pg_class'::regclass, 'pg_rewrite'::regclass) AND objsubid = 0, depth, recreation.removal,
		recreation.restoration
	FROM object CROSS JOIN LATERAL snowflake_internal.recreation(classid, objid, objsubid)
$$;

COMMENT ON FUNCTION snowflake_internal.dependents(oid[], name[]) IS
'what keeps the types of such columns from being changed, with the statements that remove it, greatest depth first, and that create it again, least depth first';

CREATE FUNCTION snowflake_internal.widening(relation regclass, names name[], new_types text[])
RETURNS text
LANGUAGE SQL STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT string_agg(format('ALTER COLUMN %I TYPE %s', name, new_type), ', ' ORDER BY attnum)
	FROM unnest(names, new_types) AS part (name, new_type)
		JOIN pg_attribute ON attrelid = relation AND attname = name
$$;

COMMENT ON FUNCTION snowflake_internal.widening(regclass, name[], text[]) IS
'what comes after ALTER TABLE and a name in the statement that widens columns of a table';

-- A CHECK constraint or an index can have an expression that no bigint fits into.
CREATE FUNCTION snowflake_internal.widening_error(relation regclass, names name[], new_types text[],
	callers_path text)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	create_it CONSTANT text := format('CREATE TEMPORARY TABLE snowflake_copy (LIKE %s INCLUDING CONSTRAINTS INCLUDING INDEXES INCLUDING STATISTICS)', relation);
	widen_it CONSTANT text := 'ALTER TABLE pg_temp.snowflake_copy ' || snowflake_internal.widening(relation, names, new_types);
	created boolean := false;
BEGIN
	IF NOT EXISTS (
		SELECT FROM pg_class WHERE oid = relation
			-- whose functions the statement runs
			AND relowner = current_user::regrole) OR NOT EXISTS (
		SELECT FROM pg_attribute LEFT JOIN pg_depend ON refclassid = 'pg_class'::regclass AND refobjid = attrelid AND refobjsubid = attnum
			LEFT JOIN pg_index ON classid = 'pg_class'::regclass AND indexrelid = objid
			LEFT JOIN pg_constraint ON classid = 'pg_constraint'::regclass AND pg_constraint.oid = objid
		WHERE attrelid = relation AND attname = ANY (names)
			AND (contype = 'x' OR classid = 'pg_statistic_ext'::regclass
				OR EXISTS (SELECT FROM pg_opclass WHERE oid = ANY (indclass::oid[]) AND NOT opcdefault)
				-- comparisons and arithmetic are the same for all integers
				OR concat(CASE contype WHEN 'c' THEN pg_get_constraintdef(pg_constraint.oid) END,
					pg_get_expr(indexprs, indrelid), pg_get_expr(indpred, indrelid)) !~ E'^([\\w\\s)"<>=+*/%.]|-(?!>)|(?<![\\w"])\\()*$')) THEN
		RETURN NULL;
	END IF;
	PERFORM set_config('search_path', callers_path, true);
	BEGIN
		EXECUTE create_it;
		created := true;
		EXECUTE widen_it;
		-- undo it
		RAISE SQLSTATE 'SF000';
	EXCEPTION
		WHEN SQLSTATE 'SF000' THEN
			RETURN NULL;
		WHEN OTHERS THEN
			-- if there is no copy, only the statement itself can show that
			RETURN CASE WHEN created THEN SQLERRM END;
	END;
END
$$;

COMMENT ON FUNCTION snowflake_internal.widening_error(regclass, name[], text[], text) IS
'the error that widening columns of a table of the present role would cause, found on an empty copy; else NULL';

CREATE FUNCTION snowflake_internal.named_columns(adopted_schema regnamespace, given text[],
	OUT relid oid,
	OUT attname name)
RETURNS SETOF record
LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 10
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	item text;
	parts text[];
BEGIN
	FOREACH item IN ARRAY given LOOP
		parts := parse_ident(item);
		-- first as a table of this schema, then with the name of a schema
		SELECT oid, parts[2] INTO relid, attname
		FROM pg_class
		WHERE relnamespace = adopted_schema AND relname = parts[1] AND relkind IN ('r', 'p') AND cardinality(parts) <= 2;
		IF NOT FOUND THEN
			SELECT pg_class.oid, parts[3] INTO relid, attname
			FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
			WHERE nspname = parts[1] AND relname = parts[2] AND relkind IN ('r', 'p') AND cardinality(parts) <= 3;
		END IF;
		IF NOT FOUND THEN
			RAISE undefined_table USING
				MESSAGE = format('"%s" is not a table or column of schema %s', item, adopted_schema),
				HINT = 'Write names as in SQL: table, table.column, or schema.table.column.';
		END IF;
		IF attname IS NOT NULL AND NOT EXISTS (SELECT FROM pg_attribute AS present
				WHERE attrelid = relid AND present.attname = named_columns.attname AND attnum > 0 AND NOT attisdropped) THEN
			RAISE undefined_column USING
				MESSAGE = format('column "%s" of relation %s does not exist', attname, relid::regclass);
		END IF;
		RETURN NEXT;
	END LOOP;
END
$$;

COMMENT ON FUNCTION snowflake_internal.named_columns(regnamespace, text[]) IS
'the tables, and columns if given, that a caller has named; an error if there is no such one';

CREATE FUNCTION snowflake_internal.topmost_tables(schema regnamespace)
RETURNS SETOF pg_class
LANGUAGE SQL STABLE PARALLEL SAFE ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT * FROM pg_class
	WHERE relkind IN ('r', 'p') AND NOT relispartition AND relpersistence <> 't'
		AND CASE WHEN schema IS NOT NULL THEN relnamespace = schema
			ELSE relnamespace::regnamespace::text !~ '^(pg_|information_schema$|snowflake_internal$)' END
$$;

COMMENT ON FUNCTION snowflake_internal.topmost_tables(regnamespace) IS
'the tables of a schema, or of all for users, but partitions';

CREATE FUNCTION snowflake_internal.suffixes(name text,
	OUT suffix text,
	OUT number bigint)
RETURNS SETOF record
LANGUAGE SQL IMMUTABLE PARALLEL SAFE ROWS 2
-- becomes a part of the query of likely_references(), whose search_path it needs
AS $$
	SELECT array_to_string((string_to_array(name, '_'))[first:], '_'), first
	FROM generate_subscripts(string_to_array(name, '_'), 1) AS first
$$;

COMMENT ON FUNCTION snowflake_internal.suffixes(text) IS
'a name, and what is left of it after each underscore';

-- By their names, comments and use, as applications need not declare foreign keys.
CREATE FUNCTION snowflake_internal.likely_references(adopted_schema regnamespace, keys oid[], key_names name[],
	OUT relid oid,
	OUT attname name,
	OUT refers_to oid,
	OUT reason text)
RETURNS SETOF record
LANGUAGE SQL STABLE PARALLEL SAFE ROWS 10
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
	WITH adopted_key (relid, attname) AS MATERIALIZED (
		SELECT snowflake_internal.inheritance_tree(root), name FROM unnest(keys, key_names) AS key (root, name)
	), known (relid, schema, suffix, number, is_key) AS MATERIALIZED (
		-- names of a row of each table: "auth_user" and "user" for "auth_users"
		SELECT DISTINCT class.oid, relnamespace, suffix, number, class.oid = ANY (keys)
		FROM snowflake_internal.topmost_tables(NULL) AS class
			CROSS JOIN LATERAL lower(regexp_replace(relname, '([a-z0-9])([A-Z])', E'\\1_\\2', 'g')) AS snake
			CROSS JOIN LATERAL (VALUES (snake), (regexp_replace(snake, 's$', '')), (regexp_replace(snake, 'es$', '')),
				(regexp_replace(snake, 'ies$', 'y')), (regexp_replace(snake, 'people$', 'person')),
				(regexp_replace(snake, 'children$', 'child'))) AS singular (stem)
			CROSS JOIN LATERAL snowflake_internal.suffixes(stem)
	), candidate (relid, schema, attnum, attname, snake) AS MATERIALIZED (
		SELECT attrelid, relnamespace, attnum, attname, snake
		FROM snowflake_internal.topmost_tables(NULL) AS class
			CROSS JOIN LATERAL (SELECT * FROM pg_attribute WHERE attrelid = class.oid AND attnum > 0 OFFSET 0) AS attribute
			JOIN pg_type ON pg_type.oid = atttypid
			CROSS JOIN LATERAL lower(regexp_replace(attname, '([a-z0-9])([A-Z])', E'\\1_\\2', 'g')) AS snake
		WHERE attinhcount = 0
			AND CASE typtype WHEN 'd' THEN typbasetype ELSE atttypid END
				IN ('smallint'::regtype, 'integer'::regtype, 'smallint[]'::regtype, 'integer[]'::regtype)
			AND (attrelid, attname) NOT IN (SELECT * FROM adopted_key UNION ALL
				SELECT relid, widened.attname
				FROM snowflake_internal.columns_to_widen(keys, key_names, '{}'::oid[], '{}'::name[], false) AS widened)
			AND (attrelid, attnum) NOT IN (SELECT conrelid, unnest(conkey) FROM pg_constraint WHERE contype = 'f')
			AND NOT EXISTS (SELECT FROM pg_depend
				WHERE classid = 'pg_class'::regclass AND objid = attrelid AND deptype = 'e')
	), part AS MATERIALIZED (
		-- "original_post" and "post" for "original_post_id" or "fk_original_post"
		SELECT candidate.*, suffix, number
		FROM candidate CROSS JOIN LATERAL snowflake_internal.suffixes(regexp_replace(snake, '^(fk|id)_|_?(ids?|fk)$', '', 'g'))
		WHERE suffix <> ''
	), named AS MATERIALIZED (
		-- the table that a column seems to be named after
		SELECT DISTINCT ON (part.relid, attname) part.relid, attnum, attname, snake, known.relid AS refers_to, is_key,
			known.number + part.number = 2 AS is_exact
		FROM part JOIN known USING (suffix)
		WHERE (known.number = 1 OR part.number = 1)
			-- of other schemas, only the keys that are adopted
			AND (is_key OR known.schema IN (adopted_schema, part.schema))
		ORDER BY part.relid, attname, known.number + part.number, known.schema = part.schema DESC, is_key DESC, known.relid
	), found (relid, attname, refers_to, reason, rank) AS (
		SELECT relid, attname, refers_to, 'named after ' || refers_to::regclass, 1
		FROM named
		WHERE is_key AND (snake ~ 'ids?$|_fk$|^(fk|id)_' OR is_exact AND EXISTS (SELECT FROM pg_index WHERE indrelid = relid AND indkey[0] = attnum))
		UNION ALL
		SELECT candidate.relid, candidate.attname, key.relid, 'comment mentions ' || key.relid::regclass, 2
		FROM candidate JOIN pg_description ON objoid = candidate.relid AND classoid = 'pg_class'::regclass AND objsubid = attnum
			CROSS JOIN adopted_key AS key JOIN pg_class ON pg_class.oid = key.relid
		WHERE description ~* (E'\\m' || regexp_replace(relname, E'\\W', '.', 'g') || E'\\M')
		UNION ALL
		SELECT candidate.relid, candidate.attname, key.relid,
			format('compared with %s.%I in view %s', key.relid::regclass, key.attname, ev_class::regclass), 3
		FROM candidate JOIN pg_depend AS use ON use.refclassid = 'pg_class'::regclass AND use.refobjid = candidate.relid
				AND use.refobjsubid = candidate.attnum AND use.classid = 'pg_rewrite'::regclass
			JOIN pg_depend AS key_use ON key_use.classid = use.classid AND key_use.objid = use.objid
				AND key_use.refclassid = 'pg_class'::regclass
			JOIN adopted_key AS key ON key.relid = key_use.refobjid
			JOIN pg_attribute ON attrelid = key.relid AND pg_attribute.attname = key.attname
				AND pg_attribute.attnum = key_use.refobjsubid
			JOIN pg_rewrite ON pg_rewrite.oid = use.objid
			CROSS JOIN LATERAL (SELECT regexp_replace(quote_ident(candidate.attname), E'\\W', '.', 'g'),
				regexp_replace(quote_ident(key.attname), E'\\W', '.', 'g')) AS pattern (reference, target)
		WHERE pg_get_viewdef(ev_class) ~ format(E'\\.%s = [^ ]+\\.%s\\M|\\.%2$s = [^ ]+\\.%1$s\\M', reference, target)
		UNION ALL
		SELECT relid, attname, NULL, format('beside %I', type_name), 4
		FROM candidate CROSS JOIN LATERAL (VALUES (regexp_replace(attname, '_?[iI]d$', '_type')),
			(regexp_replace(attname, '_?[iI]d$', 'Type'))) AS pair (type_name)
		WHERE candidate.schema = adopted_schema AND snake ~ '_id$' AND EXISTS (SELECT FROM pg_attribute AS other
			WHERE other.attrelid = candidate.relid AND other.attname = type_name AND NOT attisdropped)
		UNION ALL
		SELECT relid, attname, NULL, CASE WHEN snake ~ '_ids?$' THEN 'name ends with _id' ELSE 'name has fk' END, 5
		FROM candidate
		WHERE candidate.schema = adopted_schema AND snake ~ '_ids?$|_fk$|^fk_' AND (relid, attname) NOT IN (SELECT relid, attname FROM named WHERE NOT is_key)
	)
	SELECT DISTINCT ON (relid, attname) relid, attname, refers_to, reason
	FROM found
	ORDER BY relid, attname, rank, refers_to, reason
$$;

COMMENT ON FUNCTION snowflake_internal.likely_references(regnamespace, oid[], name[]) IS
'integer columns that seem to refer to keys of a schema, but have no foreign key; refers_to is NULL if it is not clear to which';

CREATE FUNCTION snowflake_internal.integer_functions(adopted_schema regnamespace, keys oid[])
RETURNS SETOF text
LANGUAGE SQL STABLE PARALLEL SAFE ROWS 10
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
	SELECT format('%s: %s', pg_proc.oid::regprocedure, string_agg(what, ', ' ORDER BY position, what COLLATE "C"))
	FROM pg_proc JOIN pg_language ON pg_language.oid = prolang AND lanname IN ('plpgsql', 'sql')
		CROSS JOIN LATERAL (
			SELECT number, format('parameter %s %s', coalesce(quote_ident(nullif(name, '')), '$' || number), format_type(type, NULL))
			FROM unnest(coalesce(proallargtypes, proargtypes::oid[]), proargnames) WITH ORDINALITY AS parameter (type, name, number)
			WHERE type IN ('smallint'::regtype, 'integer'::regtype, 'smallint[]'::regtype, 'integer[]'::regtype)
				AND (coalesce(name, '') ~* '(^$|^ids?$|_ids?$|^_?(fk|pk|id)_|_fk$)' OR name ~ '[a-z]Ids?$')
			UNION ALL
			SELECT 1001, 'result ' || format_type(prorettype, NULL)
			WHERE prorettype IN ('smallint'::regtype, 'integer'::regtype, 'smallint[]'::regtype, 'integer[]'::regtype)
				AND prosrc ~* E'\\m(return|returning|select)\\s+[\\w.]*id\\M'
			UNION ALL
			SELECT DISTINCT 1002, format('variable %s %s', found[1], lower(found[2]))
			FROM regexp_matches(prosrc, E'((?:\\w*id|_?[fp]k_\\w+|\\w+_fk)s?)\\s+(?:constant\\s+)?(smallint|integer|int|int2|int4)\\M', 'gi') AS found
			UNION ALL
			SELECT DISTINCT 1003, 'cast ' || found[1]
			FROM regexp_matches(prosrc, E'(\\w*id"?\\s*::\\s*(?:smallint|integer|int|int2|int4)\\M|cast\\s*\\(\\s*[\\w.]*id\\s+as\\s+(?:smallint|integer|int|int2|int4)\\s*\\))', 'gi') AS found
		) AS use (position, what)
	-- of other schemas, those that mention an adopted table
	WHERE (pronamespace = adopted_schema
			OR pronamespace::regnamespace::text !~ '^(pg_|information_schema$|snowflake_internal$)' AND
				concat_ws(' ', prosrc, array_to_string(proargnames, ' ')) ~ (SELECT format(E'\\m(%s)(_ids?)?\\M',
					string_agg(DISTINCT regexp_replace(relname, E'\\W', '.', 'g'), '|')) FROM pg_class WHERE oid = ANY (keys)))
		AND NOT EXISTS (SELECT FROM pg_depend
			WHERE classid = 'pg_proc'::regclass AND objid = pg_proc.oid AND deptype = 'e')
	GROUP BY pg_proc.oid
	ORDER BY 1
$$;

COMMENT ON FUNCTION snowflake_internal.integer_functions(regnamespace, oid[]) IS
'SQL and PL/pgSQL functions with integers that seem to be ids of a schema';

CREATE FUNCTION snowflake_internal.key_defaults(keys oid[], key_names name[])
RETURNS SETOF oid
LANGUAGE SQL STABLE PARALLEL SAFE ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT pg_attrdef.oid
	FROM unnest(keys, key_names) AS key (root, name) CROSS JOIN LATERAL snowflake_internal.inheritance_tree(root) AS member
		JOIN pg_attribute ON attrelid = member AND attname = name
		JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
$$;

COMMENT ON FUNCTION snowflake_internal.key_defaults(oid[], name[]) IS
'the defaults that an adoption of keys replaces, as in pg_attrdef';

-- A function has the name of a sequence in its text, other objects depend on it.
CREATE FUNCTION snowflake_internal.sequence_uses(keys oid[], key_names name[])
RETURNS SETOF text
LANGUAGE SQL STABLE PARALLEL SAFE ROWS 10
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
	WITH key_default (oid) AS MATERIALIZED (
		SELECT * FROM snowflake_internal.key_defaults(keys, key_names)
	), used (sequence, relname) AS MATERIALIZED (
		SELECT DISTINCT pg_class.oid, relname
		FROM key_default JOIN pg_depend ON classid = 'pg_attrdef'::regclass AND objid = key_default.oid
				AND refclassid = 'pg_class'::regclass AND deptype = 'n'
			JOIN pg_class ON pg_class.oid = refobjid AND relkind = 'S'
	)
	SELECT format('%s uses sequence %s', pg_describe_object(classid, objid, 0), sequence::regclass)
	FROM used JOIN pg_depend ON refclassid = 'pg_class'::regclass AND refobjid = sequence AND deptype = 'n'
	WHERE NOT (classid = 'pg_attrdef'::regclass AND objid IN (SELECT oid FROM key_default))
	UNION
	SELECT format('function %s names sequence %s', pg_proc.oid::regprocedure, sequence::regclass)
	FROM pg_proc JOIN pg_language ON pg_language.oid = prolang AND lanname NOT IN ('internal', 'c')
		JOIN used ON prosrc ~ format(E'\\m%s\\M', regexp_replace(relname, E'\\W', '.', 'g'))
	WHERE NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = pg_proc.oid AND deptype = 'e')
	ORDER BY 1
$$;

COMMENT ON FUNCTION snowflake_internal.sequence_uses(oid[], name[]) IS
'what uses the sequences of keys besides their defaults';

CREATE FUNCTION snowflake_internal.check_key(adopted regclass, column_name name)
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	functions CONSTANT record := snowflake_internal.functions();
	label CONSTANT text := format('%s.%I', adopted, column_name);
	tree CONSTANT oid[] := ARRAY(SELECT snowflake_internal.inheritance_tree(adopted::oid));
	attribute record;
	distributed boolean;
	chunk bigint;
	names text;
BEGIN
	IF NOT EXISTS (SELECT FROM pg_class WHERE oid = adopted AND relkind IN ('r', 'p')) THEN
		RAISE wrong_object_type USING
			MESSAGE = format('relation %s is not a table', adopted);
	END IF;
	-- Citus lets nobody alter a sequence that it knows; its catalogs are in pg_catalog
	IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
		EXECUTE 'SELECT EXISTS (SELECT FROM pg_catalog.pg_dist_partition WHERE logicalrelid = $1)
			OR EXISTS (SELECT FROM pg_catalog.pg_dist_object JOIN pg_catalog.pg_depend USING (classid, objid)
				WHERE refclassid = $2 AND refobjid = $1 AND deptype = ANY ($3))'
		INTO distributed USING adopted, 'pg_class'::regclass, '{a,i}'::"char"[];
		IF distributed THEN
			RAISE feature_not_supported USING
				MESSAGE = format('table %s is or was distributed by Citus', adopted),
				HINT = format('If the column is a bigint, run ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s. If the table is distributed by this column, call undistribute_table() before that and create_distributed_table() after it.',
					adopted, column_name, functions.id);
		END IF;
	END IF;

	-- a chunk length that suits small numbers would give too many chunks
	chunk := snowflake_internal.chunk_length(adopted, column_name);
	IF chunk < snowflake_internal.first_from(now() + interval '1 minute') - snowflake_internal.first_from(now()) THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = format('chunks of hypertable %s are too small for snowflake ids', adopted),
			DETAIL = format('A chunk covers %s values, which is less than the ids of a minute.', chunk),
			HINT = format('To have chunks of a day, first run: SELECT set_chunk_time_interval(%L, %s);', adopted,
				snowflake_internal.first_from(now() + interval '1 day') - snowflake_internal.first_from(now()));
	END IF;

	SELECT atttypid, attgenerated, attinhcount INTO attribute
	FROM pg_attribute
	WHERE attrelid = adopted AND attname = column_name AND attnum > 0 AND NOT attisdropped;
	IF NOT FOUND THEN
		RAISE undefined_column USING
			MESSAGE = format('column "%s" of relation %s does not exist', column_name, adopted);
	END IF;
	IF attribute.attinhcount > 0 THEN
		RAISE wrong_object_type USING
			MESSAGE = format('column %s is inherited', label),
			HINT = 'Adopt the column of the parent table.';
	END IF;
	IF attribute.atttypid NOT IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype) THEN
		RAISE datatype_mismatch USING
			MESSAGE = format('column %s is of type %s', label, attribute.atttypid::regtype),
			DETAIL = 'Only columns of type smallint, integer or bigint can be adopted.';
	END IF;
	IF attribute.attgenerated <> '' THEN
		RAISE wrong_object_type USING
			MESSAGE = format('column %s is a generated column', label);
	END IF;

	-- The statements run with the caller's search_path, where the name of a temporary
	-- table, which has no schema here, may mean another table.
	SELECT string_agg(format('Table %s is temporary.', oid::regclass), E'\n') INTO names
	FROM pg_class
	WHERE oid = ANY (tree) AND relpersistence = 't';
	IF names IS NOT NULL THEN
		RAISE wrong_object_type USING
			MESSAGE = format('column %s cannot be adopted because it is in a temporary table', label),
			DETAIL = names;
	END IF;

	SELECT string_agg(format('%I on %s', conname, conrelid::regclass), ', ') INTO names
	FROM pg_constraint JOIN pg_attribute ON attrelid = conrelid AND attnum = ANY (conkey)
	WHERE contype = 'f' AND conrelid = ANY (tree) AND attname = column_name;
	IF names IS NOT NULL THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = format('column %s refers to another table', label),
			DETAIL = format('New ids would violate these foreign keys: %s.', names),
			HINT = 'Adopt the referenced column instead.';
	END IF;
END
$$;

COMMENT ON FUNCTION snowflake_internal.check_key(regclass, name) IS
'an error if a column cannot be adopted, whatever refers to it or depends on it';

CREATE FUNCTION snowflake_internal.check_sequences(adopted regclass, column_name name, drop_sequence boolean,
	keys oid[], key_names name[])
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	names text;
	can_keep boolean;
BEGIN
	-- The sequence of an identity column is always dropped.
	WITH own AS (
		SELECT pg_depend.classid, pg_depend.objid, pg_depend.objsubid, deptype
		FROM snowflake_internal.inheritance_tree(adopted::oid) AS member
			JOIN pg_attribute ON attrelid = member AND attname = column_name
			JOIN pg_depend ON refclassid = 'pg_class'::regclass AND refobjid = attrelid AND refobjsubid = attnum
				AND classid = 'pg_class'::regclass
			JOIN pg_class ON pg_class.oid = objid AND relkind = 'S'
		WHERE deptype = 'i' OR deptype = 'a' AND drop_sequence
	)
	SELECT string_agg(DISTINCT format('%s depends on %s.', pg_describe_object(other.classid, other.objid, other.objsubid),
			pg_describe_object(own.classid, own.objid, own.objsubid)), E'\n'),
		bool_and(own.deptype = 'a')
	INTO names, can_keep
	FROM own JOIN pg_depend AS other ON other.refclassid = 'pg_class'::regclass AND other.refobjid = own.objid
	WHERE other.deptype = 'n'
		AND NOT (other.classid = 'pg_attrdef'::regclass AND other.objid IN (SELECT snowflake_internal.key_defaults(keys, key_names)));
	IF names IS NOT NULL THEN
		RAISE dependent_objects_still_exist USING
			MESSAGE = format('column %s.%I cannot be adopted because other objects depend on its sequence', adopted, column_name),
			DETAIL = names,
			HINT = CASE WHEN can_keep THEN 'Drop them, or keep the sequence: set drop_sequence to false.'
				ELSE 'Drop them, or have them use another sequence.' END;
	END IF;
END
$$;

COMMENT ON FUNCTION snowflake_internal.check_sequences(regclass, name, boolean, oid[], name[]) IS
'an error if anything but the defaults of keys depends on a sequence that the adoption of a column drops';

CREATE FUNCTION snowflake_internal.check_values(adopted regclass, column_name name, advance boolean, callers_path text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET row_security = off		-- fail rather than overlook a row
AS $$
DECLARE
	functions CONSTANT record := snowflake_internal.functions();
	label CONSTANT text := format('%s.%I', adopted, column_name);
	query text;
	largest bigint;
	new_id bigint;
	bound bigint;
BEGIN
	-- New ids of all sessions are greater than ids from a minute ago; above those, an
	-- advance makes sure.
	query := format('SELECT pg_catalog.max(%I) FROM %s', column_name, adopted);
	-- the planner may inline functions of indexes, which look names up
	PERFORM set_config('search_path', callers_path, true);
	EXECUTE query INTO largest;
	PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
	-- with the privileges of the caller
	EXECUTE format('SELECT %s', functions.id) INTO new_id;
	bound := snowflake_internal.last_before(clock_timestamp() + interval '1 second');
	IF largest > greatest(new_id, bound) THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = format('column %s has values that are greater than new snowflake ids', label),
			DETAIL = format('The largest is %s, and a new id is %s.', largest, new_id),
			HINT = 'If the largest value is an id that is ahead of the clock, wait until the clock has passed it. Otherwise choose a layout with an earlier epoch or more bits below the time, and restart the server.';
	END IF;
	bound := snowflake_internal.last_before(clock_timestamp() - interval '1 minute');
	IF largest > least(bound, new_id) THEN
		IF NOT has_function_privilege(functions.advance, 'EXECUTE') THEN
			RAISE insufficient_privilege USING
				MESSAGE = format('column %s has values that are as large as new snowflake ids', label),
				HINT = 'Try again in a minute, or have the owner of the database grant EXECUTE on snowflake_advance(bigint, boolean).';
		END IF;
		IF advance THEN
			PERFORM snowflake_internal.advance(largest);
		END IF;
	END IF;
END
$$;

COMMENT ON FUNCTION snowflake_internal.check_values(regclass, name, boolean, text) IS
'an error if new ids would not be greater than the values of a column; advances ids, on request, if only some would be';

CREATE FUNCTION snowflake_internal.adoption_statements(adopted regclass, column_name name, drop_sequence boolean)
RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	functions CONSTANT record := snowflake_internal.functions();
	statements text[] := '{}';
	sequences text[] := '{}';
	is_narrow boolean;
	makes_ids boolean := true;
	attribute record;
BEGIN
	SELECT atttypid <> 'bigint'::regtype INTO is_narrow
	FROM pg_attribute WHERE attrelid = adopted AND attname = column_name;
	FOR attribute IN
		SELECT attrelid, attnum, attidentity, relispartition, pg_get_expr(adbin, adrelid) AS expression
		FROM snowflake_internal.inheritance_tree(adopted::oid) AS member
			JOIN pg_attribute ON attrelid = member AND attname = column_name
			JOIN pg_class ON pg_class.oid = attrelid
			LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
	LOOP
		-- from 17 on, the identity of a partition is dropped with that of its table
		IF attribute.attidentity <> '' AND NOT (attribute.relispartition
				AND current_setting('server_version_num')::integer >= 170000) THEN
			statements := statements || format('ALTER TABLE %s ALTER COLUMN %I DROP IDENTITY',
				attribute.attrelid::regclass, column_name);
		END IF;
		-- a default that calls snowflake_nextval(), or has a tag, may stay
		makes_ids := makes_ids AND coalesce(regexp_replace(attribute.expression, E'\\([0-9]+\\)$', '()')
			IN (functions.id::text, functions.nextval::text), false);
		-- unless it is to be dropped, keep the sequence for the way back, owned by nothing
		sequences := sequences || (
			SELECT coalesce(array_agg(format(CASE WHEN drop_sequence THEN 'DROP SEQUENCE %s'
				ELSE 'ALTER SEQUENCE %s OWNED BY NONE' END, objid::regclass)), '{}')
			FROM pg_depend
			WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass
				AND refobjid = attribute.attrelid AND refobjsubid = attribute.attnum AND deptype = 'a'
				AND EXISTS (SELECT FROM pg_class WHERE oid = objid AND relkind = 'S'));
	END LOOP;
	IF is_narrow THEN
		statements := statements || format('ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT, ALTER COLUMN %I TYPE bigint',
			adopted, column_name, column_name);
	END IF;
	IF is_narrow OR NOT makes_ids THEN
		statements := statements || format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s',
			adopted, column_name, functions.id);
	END IF;
	RETURN statements || sequences;
END
$$;

COMMENT ON FUNCTION snowflake_internal.adoption_statements(regclass, name, boolean) IS
'statements that make a column a bigint whose default is snowflake_id(); none if it is one';

CREATE FUNCTION snowflake_internal.obstacles(roots oid[], names name[], recreate_views boolean,
	OUT detail text,
	OUT hint text,
	OUT removal text[],
	OUT restoration text[])
LANGUAGE SQL STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
	WITH dependent AS MATERIALIZED (
		SELECT *, recreate_views AND is_view AND removal IS NOT NULL AS is_recreated
		FROM snowflake_internal.dependents(roots, names)
	), statement (is_recreated, undo, redo) AS (
		SELECT is_recreated,
			(SELECT array_agg(text ORDER BY depth DESC, reason) FROM dependent CROSS JOIN unnest(removal) AS text
			WHERE dependent.is_recreated = kind.is_recreated),
			(SELECT array_agg(text ORDER BY depth, reason, number)
			FROM dependent CROSS JOIN unnest(restoration) WITH ORDINALITY AS part (text, number)
			WHERE dependent.is_recreated = kind.is_recreated)
		FROM (VALUES (false), (true)) AS kind (is_recreated)
	)
	SELECT (SELECT string_agg(reason, E'\n' ORDER BY reason) FROM dependent WHERE NOT is_recreated),
		concat_ws(E'\n', (SELECT 'Set recreate_views to true for views and rules.' WHERE EXISTS
				(SELECT FROM dependent WHERE NOT recreate_views AND is_view AND removal IS NOT NULL)),
			E'These statements drop them, and create them again after the adoption:\nSET search_path = pg_catalog;\nSET check_function_bodies = off;\n' ||
				array_to_string(other.undo, E';\n') || E';\n--\n' || array_to_string(other.redo, E';\n') || ';'),
		coalesce(recreated.undo, '{}'), coalesce(recreated.redo, '{}')
	FROM statement AS other CROSS JOIN statement AS recreated
	WHERE NOT other.is_recreated AND recreated.is_recreated
$$;

COMMENT ON FUNCTION snowflake_internal.obstacles(oid[], name[], boolean) IS
'what depends on the types of such columns, and how to remove it; and, on request, statements that drop views and rules, and that create them again';

CREATE FUNCTION snowflake_internal.failing_statements(roots oid[], names name[], new_types text[], callers_path text)
RETURNS text
LANGUAGE SQL VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
	SELECT string_agg(format('ALTER TABLE %s %s fails: %s.', member, snowflake_internal.widening(member, part_names, part_types), error),
		E'\n' ORDER BY member)
	FROM (
		SELECT member::regclass, array_agg(name) AS part_names, array_agg(new_type) AS part_types
		FROM unnest(roots, names, new_types) AS part (root, name, new_type)
			CROSS JOIN LATERAL snowflake_internal.inheritance_tree(root) AS member
		GROUP BY member
	) AS altered CROSS JOIN LATERAL snowflake_internal.widening_error(member, part_names, part_types, callers_path) AS error
	WHERE error IS NOT NULL
$$;

COMMENT ON FUNCTION snowflake_internal.failing_statements(oid[], name[], text[], text) IS
'the statements that change the types of such columns and would fail; NULL if there are none';

-- For the time of a subtransaction, empty copies take the place of the tables whose columns
-- change.  It locks the tables for that time, and gives up if it would have to wait.
CREATE FUNCTION snowflake_internal.recreation_error(roots oid[], names name[], new_types text[],
	removal text[], restoration text[])
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET client_min_messages = error
SET jit = off
AS $$
DECLARE
	replaced record;
	statement text;
	is_tried boolean := false;
BEGIN
	IF removal = '{}' OR EXISTS (
		SELECT FROM pg_class
		WHERE oid = ANY (roots)
			-- whose functions the statements may run
			AND relowner <> current_user::regrole) THEN
		RETURN NULL;
	END IF;
	PERFORM set_config('lock_timeout', '100ms', true);
	FOREACH statement IN ARRAY removal LOOP
		EXECUTE statement;
	END LOOP;
	FOR replaced IN
		SELECT format('%I.%I', nspname, relname) AS name, nspname, 'snowflake_' || member AS other,
			snowflake_internal.widening(member::regclass, array_agg(part.name), array_agg(new_type)) AS widening
		FROM unnest(roots, names, new_types) AS part (root, name, new_type)
			CROSS JOIN LATERAL snowflake_internal.inheritance_tree(root) AS member
			JOIN pg_class ON pg_class.oid = member JOIN pg_namespace ON pg_namespace.oid = relnamespace
		GROUP BY member, nspname, relname
	LOOP
		EXECUTE format('ALTER TABLE %s RENAME TO %I', replaced.name, replaced.other);
		EXECUTE format('CREATE TABLE %s (LIKE %I.%I INCLUDING INDEXES)', replaced.name, replaced.nspname, replaced.other);
		EXECUTE format('ALTER TABLE %s %s', replaced.name, replaced.widening);
	END LOOP;
	is_tried := true;
	FOREACH statement IN ARRAY restoration LOOP
		IF NOT starts_with(statement, 'REFRESH ') THEN
			EXECUTE statement;
		END IF;
	END LOOP;
	-- undo it
	RAISE SQLSTATE 'SF000';
EXCEPTION
	WHEN SQLSTATE 'SF000' OR lock_not_available THEN
		RETURN NULL;
	WHEN OTHERS THEN
		-- before, only the statement itself can show that
		RETURN CASE WHEN is_tried THEN format('%s fails: %s.', regexp_replace(statement, E'( AS)?\n.*', ''), SQLERRM) END;
END
$$;

COMMENT ON FUNCTION snowflake_internal.recreation_error(oid[], name[], text[], text[], text[]) IS
'the error that creating views and rules again would cause once such columns have other types; else NULL';

CREATE FUNCTION snowflake_internal.other_columns(adopted_schema regnamespace, keys oid[], key_names name[],
	widen_columns text[], whole_schema boolean,
	OUT relid oid,
	OUT attname name)
RETURNS SETOF record
LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 10
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
BEGIN
	FOR relid, attname IN SELECT * FROM snowflake_internal.named_columns(adopted_schema, array_remove(widen_columns, '*')) LOOP
		IF NOT EXISTS (SELECT FROM pg_attribute AS given JOIN pg_type ON pg_type.oid = atttypid
				WHERE attrelid = relid AND given.attname = other_columns.attname
					AND CASE typtype WHEN 'd' THEN typbasetype ELSE atttypid END IN ('smallint'::regtype, 'integer'::regtype,
						'bigint'::regtype, 'smallint[]'::regtype, 'integer[]'::regtype, 'bigint[]'::regtype)) THEN
			RAISE datatype_mismatch USING
				MESSAGE = format('cannot widen %s%s', relid::regclass, '.' || quote_ident(attname)),
				DETAIL = 'Only columns of type smallint, integer or bigint, or arrays of these, can be widened.';
		END IF;
		RETURN NEXT;
	END LOOP;
	IF '*' = ANY (widen_columns) THEN
		RETURN QUERY SELECT reference.relid, reference.attname
			FROM snowflake_internal.likely_references(adopted_schema, keys, key_names) AS reference
				JOIN pg_class ON pg_class.oid = reference.relid
			WHERE (whole_schema OR refers_to IS NOT NULL)
				AND (relnamespace = adopted_schema OR pg_has_role(relowner, 'USAGE'));
	END IF;
END
$$;

COMMENT ON FUNCTION snowflake_internal.other_columns(regnamespace, oid[], name[], text[], boolean) IS
'the columns that a caller has named in widen_columns; "*" stands for those that seem to refer to keys';

CREATE FUNCTION snowflake_internal.report_references(adopted_schema regnamespace, keys oid[], key_names name[],
	widen_columns text[], whole_schema boolean)
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	columns text;
	functions text;
	uses text;
BEGIN
	IF '*' <> ALL (widen_columns) THEN
		SELECT string_agg(format('%s.%I: %s', relid::regclass, attname, reason), E'\n' ORDER BY relid::regclass::text, attname)
		INTO columns
		FROM snowflake_internal.likely_references(adopted_schema, keys, key_names)
		WHERE (whole_schema OR refers_to IS NOT NULL)
			AND (relid, attname) NOT IN (SELECT * FROM snowflake_internal.named_columns(adopted_schema, widen_columns));
	END IF;
	IF columns IS NOT NULL THEN
		RAISE NOTICE 'columns without a foreign key that seem to refer to keys stay too narrow for snowflake ids'
			USING DETAIL = columns,
			HINT = 'Set widen_columns to those that do, or to ''{*}'' for all of them.';
	END IF;
	SELECT string_agg(text, E'\n') INTO functions
	FROM snowflake_internal.integer_functions(adopted_schema, keys) AS text;
	IF functions IS NOT NULL THEN
		RAISE NOTICE 'functions with integers that seem to be ids have to be changed by hand'
			USING DETAIL = functions;
	END IF;
	SELECT string_agg(text, E'\n') INTO uses
	FROM snowflake_internal.sequence_uses(keys, key_names) AS text;
	IF uses IS NOT NULL THEN
		RAISE NOTICE 'sequences of adopted keys are used elsewhere'
			USING DETAIL = uses,
			HINT = 'What calls nextval() there goes on to make small numbers, and currval() and lastval() fail.';
	END IF;
	SELECT string_agg(format('%s.%I: %s', attrelid::regclass, attname, reason), E'\n' ORDER BY attrelid::regclass::text, attnum)
	INTO columns
	FROM snowflake_internal.topmost_tables(adopted_schema) AS class JOIN pg_attribute ON attrelid = class.oid AND attinhcount = 0
		JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
		CROSS JOIN LATERAL (SELECT CASE WHEN atttypid NOT IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype)
				THEN 'type ' || format_type(atttypid, atttypmod)
			WHEN NOT EXISTS (SELECT FROM pg_index WHERE indrelid = attrelid AND indisunique AND attnum = ANY (indkey))
				THEN 'no unique index' END) AS why (reason)
	WHERE whole_schema AND pg_get_expr(adbin, adrelid) LIKE 'nextval(%' AND reason IS NOT NULL
		AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = attrelid AND deptype = 'e');
	IF columns IS NOT NULL THEN
		RAISE NOTICE 'columns that get their values from a sequence, but are no integer keys, are left alone'
			USING DETAIL = columns;
	END IF;
END
$$;

COMMENT ON FUNCTION snowflake_internal.report_references(regnamespace, oid[], name[], text[], boolean) IS
'give notice of columns and functions that an adoption leaves too narrow';

-- Definitions have all names qualified that are not in pg_catalog.  With another
-- search_path, an operator could be one that anybody has made.
CREATE FUNCTION snowflake_internal.execute_definition(statement text, callers_path text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF starts_with(statement, 'REFRESH ') THEN
		PERFORM set_config('search_path', callers_path, true);
	END IF;
	EXECUTE statement;
END
$$;

COMMENT ON FUNCTION snowflake_internal.execute_definition(text, text) IS
'drop or create a view or a rule, or what belongs to it; a materialized view is refreshed with the search_path of the caller';

-- Returns statements that drop dependent objects before the types change, and others that
-- create them again.
CREATE FUNCTION snowflake_internal.check_widening(label text, narrow text, widening text[],
	roots oid[], root_names name[], root_types text[], recreate_views boolean,
	OUT removal text[],
	OUT restoration text[])
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	obstacles record;
	reasons text;
BEGIN
	IF narrow IS NOT NULL THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = format('columns that refer to %s cannot hold snowflake ids', label),
			DETAIL = format('They are of type smallint or integer: %s.', narrow),
			HINT = format(E'Call snowflake_adopt() with widen_references => true, or first run:\n%s;',
				array_to_string(widening, E';\n'));
	END IF;
	SELECT string_agg(reason, E'\n') INTO reasons FROM snowflake_internal.fixed_columns(roots, root_names) AS reason;
	IF reasons IS NOT NULL THEN
		RAISE feature_not_supported USING
			MESSAGE = format('column %s cannot be adopted because the type of a column cannot be changed', label),
			DETAIL = reasons,
			HINT = 'Create a new table with a bigint column, and copy the rows.';
	END IF;
	SELECT * INTO obstacles FROM snowflake_internal.obstacles(roots, root_names, recreate_views);
	removal := obstacles.removal;
	restoration := obstacles.restoration;
	IF obstacles.detail IS NOT NULL THEN
		RAISE dependent_objects_still_exist USING
			MESSAGE = format('column %s cannot be adopted because other objects depend on columns whose type changes', label),
			DETAIL = obstacles.detail,
			HINT = obstacles.hint;
	END IF;
END
$$;

COMMENT ON FUNCTION snowflake_internal.check_widening(text, text, text[], oid[], name[], text[], boolean) IS
'fail unless all types that have to change for an adoption can be changed, as far as the catalogs tell';

CREATE FUNCTION snowflake_internal.try_widening(label text, roots oid[], root_names name[], root_types text[],
	removal text[], restoration text[], callers_path text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	reasons text := snowflake_internal.failing_statements(roots, root_names, root_types, callers_path);
BEGIN
	IF reasons IS NOT NULL THEN
		RAISE feature_not_supported USING
			MESSAGE = format('column %s cannot be adopted because columns cannot be widened', label),
			DETAIL = reasons,
			HINT = 'Change the index or constraint whose expression needs the present type.';
	END IF;
	reasons := snowflake_internal.recreation_error(roots, root_names, root_types, removal, restoration);
	IF reasons IS NOT NULL THEN
		RAISE feature_not_supported USING
			MESSAGE = format('column %s cannot be adopted because a view or rule cannot be created again', label),
			DETAIL = reasons,
			HINT = 'Change the expression that needs the present type.';
	END IF;
END
$$;

COMMENT ON FUNCTION snowflake_internal.try_widening(text, oid[], name[], text[], text[], text[], text) IS
'the same on empty copies of the tables';

CREATE FUNCTION snowflake_internal.report_locks(adopted regclass, roots oid[], root_names name[])
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	altered CONSTANT oid[] := ARRAY(SELECT DISTINCT relid FROM snowflake_internal.altered_columns(roots, root_names));
	member oid;
	what text;
BEGIN
	FOR member, what IN
		WITH touched (oid) AS (
			SELECT snowflake_internal.inheritance_tree(adopted::oid)
			UNION
			SELECT unnest(altered)
			UNION
			-- foreign keys on columns whose type changes are checked again
			SELECT unnest(ARRAY[conrelid, confrelid])
			FROM snowflake_internal.altered_columns(roots, root_names)
				JOIN pg_constraint ON contype = 'f' AND (conrelid = relid AND attnum = ANY (conkey)
					OR confrelid = relid AND attnum = ANY (confkey))
		)
		SELECT oid, CASE WHEN oid = ANY (altered) THEN 'locked and rewritten' ELSE 'locked' END
		FROM touched
		ORDER BY oid
	LOOP
		RAISE NOTICE 'table % will be % (% MB)', member::regclass, what,
			pg_total_relation_size(member) / 1048576;
	END LOOP;
END
$$;

COMMENT ON FUNCTION snowflake_internal.report_locks(regclass, oid[], name[]) IS
'give notice of the tables that an adoption locks and rewrites';

-- The other statements run with the caller's search_path.
CREATE PROCEDURE snowflake_internal.adopt(adopted regclass, column_name name,
	widen_references boolean,
	dry_run boolean,
	drop_sequence boolean,
	widen_columns text[],
	recreate_views boolean)
LANGUAGE plpgsql
SET row_security = off		-- fail rather than overlook a row
SET jit = off
AS $$
DECLARE
	callers_path CONSTANT pg_catalog.text := pg_catalog.current_setting('search_path');
	own_path CONSTANT pg_catalog.text := pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

	keys CONSTANT pg_catalog.oid[] := ARRAY[adopted::oid];
	key_names CONSTANT pg_catalog.name[] := ARRAY[column_name];
	label CONSTANT pg_catalog.text := format('%s.%I', adopted, column_name);
	others pg_catalog.oid[];	-- columns that the caller wants to widen
	other_names pg_catalog.name[];
	roots pg_catalog.oid[];		-- tables with columns whose type changes
	root_names pg_catalog.name[];
	root_types pg_catalog.text[];
	narrow pg_catalog.text;		-- columns that refer to the adopted one
	widening pg_catalog.text[];	-- statements for these and others
	locked pg_catalog.text;
	obstacles pg_catalog.record;
	statements pg_catalog.text[];
	statement pg_catalog.text;
BEGIN
	IF adopted IS NULL OR column_name IS NULL OR widen_references IS NULL OR dry_run IS NULL OR drop_sequence IS NULL
		OR widen_columns IS NULL OR array_position(widen_columns, NULL) IS NOT NULL OR recreate_views IS NULL THEN
		RAISE null_value_not_allowed USING
			MESSAGE = 'table, column and options of an adoption must not be null';
	END IF;
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		RAISE feature_not_supported USING
			MESSAGE = 'columns can only be adopted at isolation level READ COMMITTED',
			DETAIL = 'At other levels, changes made by concurrent transactions would not be seen.';
	END IF;
	PERFORM snowflake_internal.check_key(adopted, column_name);

	-- From here on nobody else can change the table, or add or drop a foreign
	-- key.
	IF NOT dry_run THEN
		RAISE NOTICE 'locking table %', adopted
			USING DETAIL = 'Other sessions wait for the table until the transaction ends.';
		PERFORM snowflake_internal.lock_table(adopted, 'LOCK TABLE %s IN ACCESS EXCLUSIVE MODE');
		PERFORM snowflake_internal.check_key(adopted, column_name);
	END IF;

	SELECT coalesce(array_agg(relid), '{}'), coalesce(array_agg(attname), '{}') INTO others, other_names
	FROM snowflake_internal.other_columns((SELECT relnamespace FROM pg_class WHERE oid = adopted)::regnamespace,
		keys, key_names, widen_columns, false);
	SELECT array_agg(relid ORDER BY relid, attnum), array_agg(attname ORDER BY relid, attnum),
		array_agg(new_type ORDER BY relid, attnum),
		string_agg(format('%s.%I', relid::regclass, attname), ', ' ORDER BY relid, attnum)
			FILTER (WHERE (relid, attname) NOT IN (SELECT adopted, column_name UNION ALL SELECT * FROM unnest(others, other_names)))
	INTO roots, root_names, root_types, narrow
	FROM snowflake_internal.columns_to_widen(keys, key_names, others, other_names, true);
	SELECT array_agg(format('ALTER TABLE %s %s', relation, snowflake_internal.widening(relation, part_names, part_types))
			ORDER BY relation),
		string_agg(relation::text, ', ' ORDER BY relation)
	INTO widening, locked
	FROM (
		SELECT root::regclass, array_agg(name), array_agg(new_type)
		FROM unnest(roots, root_names, root_types) AS part (root, name, new_type)
		WHERE (root, name) <> (adopted, column_name)
		GROUP BY root
	) AS part (relation, part_names, part_types);
	obstacles := snowflake_internal.check_widening(label, CASE WHEN NOT widen_references THEN narrow END, widening,
		roots, root_names, root_types, recreate_views);
	PERFORM snowflake_internal.check_sequences(adopted, column_name, drop_sequence, keys, key_names);
	IF dry_run THEN
		PERFORM snowflake_internal.try_widening(label, roots, root_names, root_types,
			obstacles.removal, obstacles.restoration, callers_path);
	END IF;

	statements := obstacles.removal || ('LOCK TABLE ' || locked || ' IN ACCESS EXCLUSIVE MODE') ||
		snowflake_internal.adoption_statements(adopted, column_name, drop_sequence) || widening;
	statements := array_remove(statements, NULL);
	IF statements = '{}' THEN
		RAISE NOTICE 'column % already makes snowflake ids, skipping', label;
		PERFORM set_config('search_path', callers_path, true);
		RETURN;
	END IF;
	PERFORM snowflake_internal.check_values(adopted, column_name, NOT dry_run, callers_path);

	PERFORM snowflake_internal.report_locks(adopted, roots, root_names);
	FOREACH statement IN ARRAY statements || obstacles.restoration LOOP
		RAISE NOTICE '%', statement;
	END LOOP;
	IF NOT dry_run THEN
		PERFORM set_config('search_path', callers_path, true);
		FOREACH statement IN ARRAY statements LOOP
			EXECUTE statement;
		END LOOP;
		FOREACH statement IN ARRAY obstacles.restoration LOOP
			PERFORM snowflake_internal.execute_definition(statement, callers_path);
		END LOOP;
	END IF;
	PERFORM pg_catalog.set_config('search_path', callers_path, true);
END
$$;

COMMENT ON PROCEDURE snowflake_internal.adopt(regclass, name, boolean, boolean, boolean, text[], boolean) IS
'adopt a column: what snowflake_adopt() does';

CREATE PROCEDURE snowflake_adopt(adopted regclass, column_name name,
	widen_references boolean DEFAULT false,
	dry_run boolean DEFAULT false,
	drop_sequence boolean DEFAULT false,
	widen_columns text[] DEFAULT '{}',
	recreate_views boolean DEFAULT false)
LANGUAGE plpgsql
AS $$
BEGIN
	CALL snowflake_internal.adopt(adopted, column_name, widen_references, dry_run, drop_sequence, widen_columns, recreate_views);
	PERFORM snowflake_internal.report_references(
		(SELECT relnamespace FROM pg_catalog.pg_class WHERE oid OPERATOR(pg_catalog.=) adopted)::pg_catalog.regnamespace,
		ARRAY[adopted::pg_catalog.oid], ARRAY[column_name], CASE WHEN dry_run THEN widen_columns ELSE '{}' END, false);
END
$$;

COMMENT ON PROCEDURE snowflake_adopt(regclass, name, boolean, boolean, boolean, text[], boolean) IS
'make a serial, identity or plain integer column a bigint whose default is snowflake_id(); widen_references: also widen the columns that refer to it; dry_run: only print what would be done; drop_sequence: drop the sequence of a serial instead of keeping it; widen_columns: also widen these, ''{*}'' for all that seem to refer to it; recreate_views: drop views and rules that are in the way, and create them again';

CREATE FUNCTION snowflake_internal.adoption_keys(adopted_schema regnamespace, excluding text[],
	OUT keys oid[],
	OUT names name[])
LANGUAGE SQL STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
	SELECT coalesce(array_agg(attrelid ORDER BY attrelid, attnum), '{}'), coalesce(array_agg(attname ORDER BY attrelid, attnum), '{}')
	FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
	WHERE relnamespace = adopted_schema AND relkind IN ('r', 'p')
		AND attnum > 0 AND attinhcount = 0 AND atttypid IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype)
		-- a name of type text makes no dependency
		AND (attidentity <> '' OR EXISTS (
			SELECT FROM pg_attrdef LEFT JOIN pg_depend ON classid = 'pg_attrdef'::regclass AND objid = pg_attrdef.oid
				LEFT JOIN pg_class AS used ON refclassid = 'pg_class'::regclass AND refobjid = used.oid
			WHERE adrelid = attrelid AND adnum = attnum
				AND (used.relkind = 'S' OR pg_get_expr(adbin, adrelid) LIKE 'nextval(%')
				-- whose value is that of another column
				AND pg_get_expr(adbin, adrelid) !~ E'\\m(currval|lastval)\\('))
		AND EXISTS (SELECT FROM pg_index WHERE indrelid = attrelid AND indisunique
			AND attnum = ANY ((indkey::smallint[])[0:indnkeyatts - 1]))
		AND NOT EXISTS (SELECT FROM pg_depend
			WHERE classid = 'pg_class'::regclass AND objid = attrelid AND deptype = 'e')
		AND NOT EXISTS (SELECT FROM snowflake_internal.named_columns(adopted_schema, excluding) AS excluded
			WHERE excluded.relid = attrelid AND coalesce(excluded.attname, pg_attribute.attname) = pg_attribute.attname)
$$;

COMMENT ON FUNCTION snowflake_internal.adoption_keys(regnamespace, text[]) IS
'keys that get their values from a sequence, in the topmost tables of a schema, but for those to exclude';

-- Finds everything that is in the way before anything is changed.  Returns what check_widening() does.
CREATE FUNCTION snowflake_internal.check_keys(adopted_schema regnamespace, keys oid[], names name[],
	drop_sequence boolean, roots oid[], root_names name[], root_types text[], recreate_views boolean, callers_path text,
	OUT removal text[],
	OUT restoration text[])
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning
SET jit = off
AS $$
DECLARE
	key regclass;
	key_name name;
	obstacles record;
	reasons text[] := '{}';
	message text;
	detail text;
	hint text;
BEGIN
	FOR key, key_name IN SELECT * FROM unnest(keys, names) LOOP
		BEGIN
			PERFORM snowflake_internal.check_key(key, key_name);
			PERFORM snowflake_internal.check_sequences(key, key_name, drop_sequence, keys, names);
			IF snowflake_internal.adoption_statements(key, key_name, drop_sequence) <> '{}' THEN
				PERFORM snowflake_internal.check_values(key, key_name, false, callers_path);
			END IF;
		-- let locks and timeouts fail the call: they may be gone at the next one
		EXCEPTION WHEN object_not_in_prerequisite_state OR feature_not_supported OR wrong_object_type
				OR dependent_objects_still_exist OR insufficient_privilege THEN
			GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
			reasons := reasons || concat_ws(E'\n', message || '.', nullif(detail, ''), nullif(hint, ''));
		END;
	END LOOP;
	reasons := reasons || ARRAY(SELECT 'The type of a column cannot be changed: ' || reason
		FROM snowflake_internal.fixed_columns(roots, root_names) AS reason);
	reasons := reasons || ARRAY(SELECT format('You must be owner of table %s.', oid::regclass)
		FROM pg_class
		WHERE NOT pg_has_role(relowner, 'USAGE') AND (oid = ANY (keys) OR oid = ANY (roots)));
	SELECT * INTO obstacles FROM snowflake_internal.obstacles(roots, root_names, recreate_views);
	removal := obstacles.removal;
	restoration := obstacles.restoration;
	reasons := array_remove(reasons || obstacles.detail, NULL);
	-- only the last thing in the way can be one that only a try finds
	IF reasons = '{}' THEN
		reasons := array_remove(ARRAY[snowflake_internal.failing_statements(roots, root_names, root_types, callers_path),
			snowflake_internal.recreation_error(roots, root_names, root_types, removal, restoration)], NULL);
	END IF;
	IF reasons <> '{}' THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = format('not all keys of schema %s can be adopted', adopted_schema),
			DETAIL = (SELECT string_agg(DISTINCT reason, E'\n') FROM unnest(reasons) AS reason),
			HINT = concat_ws(E'\n', 'Nothing was changed. Remove what is in the way and call snowflake_adopt_all() again, or leave keys out with excluding.',
				nullif(obstacles.hint, ''));
	END IF;
END
$$;

COMMENT ON FUNCTION snowflake_internal.check_keys(regnamespace, oid[], name[], boolean, oid[], name[], text[], boolean, text) IS
'fail with all reasons why keys cannot be adopted';

-- The steps of snowflake_adopt_all(): first they widen all columns, and rewrite each
-- table once; then they set the defaults of the keys.  A step depends only on those
-- before it.  The plan leaves out steps that have been taken.
CREATE FUNCTION snowflake_internal.adoption_plan(adopted_schema regnamespace, keys oid[], names name[],
	others oid[], other_names name[],
	drop_sequence boolean, recreate_views boolean,
	callers_path text,
	OUT announcement text,
	OUT relation regclass,		-- to be rewritten or adopted
	OUT column_name name,		-- to be adopted
	OUT statement text,
	OUT ends boolean)			-- a transaction may end here
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning
SET jit = off
AS $$
DECLARE
	roots oid[];
	root_names name[];
	root_types text[];
	obstacles record;
BEGIN
	SELECT array_agg(relid), array_agg(attname), array_agg(new_type) INTO roots, root_names, root_types
	FROM snowflake_internal.columns_to_widen(keys, names, others, other_names, true);
	obstacles := snowflake_internal.check_keys(adopted_schema, keys, names, drop_sequence, roots, root_names, root_types,
		recreate_views, callers_path);

	RETURN QUERY
		WITH widened (relid, names, types, numbers) AS (
			SELECT root, array_agg(name), array_agg(new_type), array_agg(attnum)
			FROM unnest(roots, root_names, root_types) AS part (root, name, new_type)
				JOIN pg_attribute ON attrelid = root AND attname = name
			GROUP BY root
		), sharing (relid, attname, sequence) AS (
			-- keys that share a sequence change together, and the one that owns it last
			SELECT adrelid, attname, min(refobjid::bigint)
			FROM unnest(keys, names) AS key (root, name) JOIN pg_attribute ON attrelid = root AND attname = name
				JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
				JOIN pg_depend ON classid = 'pg_attrdef'::regclass AND objid = pg_attrdef.oid AND refclassid = 'pg_class'::regclass
				JOIN pg_class ON pg_class.oid = refobjid AND relkind = 'S'
			GROUP BY adrelid, attname
		), step (number, first, relid, owns, column_name, statement, announcement, shared) AS (
			SELECT 1, position, NULL::oid, false, NULL::name, text, text, NULL::bigint
			FROM unnest(obstacles.removal) WITH ORDINALITY AS part (text, position)
			UNION ALL
			SELECT 2, relid::bigint, relid, false, NULL, widening,
				format('table %s will be rewritten (%s MB)%s: %s', relid::regclass,
					(SELECT sum(pg_total_relation_size(part) / 1048576)
					FROM snowflake_internal.inheritance_tree(relid) AS part),
					-- foreign keys on columns whose type changes are checked again
					', which also locks ' || (SELECT string_agg(DISTINCT other::regclass::text, ', ')
					FROM pg_constraint CROSS JOIN LATERAL (VALUES (conrelid, confrelid, conkey), (confrelid, conrelid, confkey))
						AS side (relid, other, numbers)
					WHERE contype = 'f' AND side.relid = widened.relid AND other <> widened.relid
						AND side.numbers && widened.numbers), widening), NULL
			FROM widened CROSS JOIN LATERAL format('ALTER TABLE %s %s', relid::regclass,
				snowflake_internal.widening(relid::regclass, widened.names, types)) AS widening
			UNION ALL
			SELECT 3, coalesce(min(root::bigint) OVER (PARTITION BY coalesce(sequence, -root::bigint)), root::bigint), root,
				EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = sequence AND refobjid = root AND deptype = 'a'),
				name, NULL, format('column %s.%I will be adopted', root::regclass, name), sequence
			FROM unnest(keys, names) AS key (root, name) LEFT JOIN sharing ON relid = root AND attname = name
			UNION ALL
			SELECT 4, position, NULL, false, NULL, text, text, NULL
			FROM unnest(obstacles.restoration) WITH ORDINALITY AS part (text, position)
		)
		SELECT step.announcement || CASE WHEN shared = lead(shared) OVER in_order THEN ', along with the next one, which shares its sequence' ELSE '' END,
			relid::regclass, step.column_name, step.statement,
			coalesce(shared <> lead(shared) OVER in_order, true)
		FROM step
		WINDOW in_order AS (ORDER BY number, first, owns, relid)
		ORDER BY number, first, owns, relid;
END
$$;

COMMENT ON FUNCTION snowflake_internal.adoption_plan(regnamespace, oid[], name[], oid[], name[], boolean, boolean, text) IS
'the steps of snowflake_adopt_all(): a statement, or a column to adopt; an error if anything is in the way';

CREATE FUNCTION snowflake_internal.in_transaction_block()
RETURNS boolean
AS 'MODULE_PATHNAME', 'snowflake_in_transaction_block'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION snowflake_internal.in_transaction_block() IS
'whether a procedure cannot commit because its caller has a transaction open';

-- Our own look-ups are in adoption_plan(), which has a search_path of its own.  A
-- procedure that had one could not commit, so the statements here run with the caller's.
CREATE PROCEDURE snowflake_adopt_all(adopted_schema regnamespace,
	dry_run boolean DEFAULT false,
	drop_sequence boolean DEFAULT false,
	excluding text[] DEFAULT '{}',
	widen_columns text[] DEFAULT '{}',
	recreate_views boolean DEFAULT false)
LANGUAGE plpgsql
AS $$
DECLARE
	in_block CONSTANT pg_catalog.bool := snowflake_internal.in_transaction_block();
	-- views are missing until the last step
	one_transaction CONSTANT pg_catalog.bool := in_block OR recreate_views;
	callers_messages CONSTANT pg_catalog.text := pg_catalog.current_setting('client_min_messages');
	callers_path CONSTANT pg_catalog.text := pg_catalog.current_setting('search_path');
	keys pg_catalog.record;
	others pg_catalog.record;
	announcements pg_catalog.text[];
	relations pg_catalog.regclass[];
	names pg_catalog.name[];
	statements pg_catalog.text[];
	ends pg_catalog.bool[];
	started pg_catalog.timestamptz;
	seconds pg_catalog.numeric;
	number_of_rows pg_catalog.int8;
BEGIN
	IF adopted_schema IS NULL OR dry_run IS NULL OR drop_sequence IS NULL OR recreate_views IS NULL
		OR excluding IS NULL OR pg_catalog.array_position(excluding, NULL) IS NOT NULL
		OR widen_columns IS NULL OR pg_catalog.array_position(widen_columns, NULL) IS NOT NULL THEN
		RAISE null_value_not_allowed USING
			MESSAGE = 'schema and options of an adoption must not be null';
	END IF;
	keys := snowflake_internal.adoption_keys(adopted_schema, excluding);
	SELECT coalesce(pg_catalog.array_agg(relid), '{}') AS tables, coalesce(pg_catalog.array_agg(attname), '{}') AS names INTO others
	FROM snowflake_internal.other_columns(adopted_schema, keys.keys, keys.names, widen_columns, true) AS other
	WHERE NOT EXISTS (SELECT FROM snowflake_internal.named_columns(adopted_schema, excluding) AS excluded
		WHERE excluded.relid OPERATOR(pg_catalog.=) other.relid
			AND coalesce(excluded.attname, other.attname) OPERATOR(pg_catalog.=) other.attname);
	PERFORM snowflake_internal.report_references(adopted_schema, keys.keys, keys.names, widen_columns, true);
	SELECT pg_catalog.array_agg(announcement), pg_catalog.array_agg(relation), pg_catalog.array_agg(column_name),
		pg_catalog.array_agg(statement), pg_catalog.array_agg(plan.ends)
	INTO announcements, relations, names, statements, ends
	FROM snowflake_internal.adoption_plan(adopted_schema, keys.keys, keys.names, others.tables, others.names,
		drop_sequence, recreate_views, callers_path) AS plan;
	IF announcements IS NULL THEN
		RAISE NOTICE 'schema % has no keys of type serial or identity, skipping', adopted_schema;
		RETURN;
	END IF;

	RAISE NOTICE 'keys of schema % will be adopted in %', adopted_schema,
		CASE WHEN in_block THEN 'this transaction' WHEN recreate_views THEN 'one transaction'
			ELSE 'one transaction for each step' END
		USING DETAIL = 'Each step locks its table in ACCESS EXCLUSIVE mode, and those whose foreign keys it checks again.';
	FOR i IN 1 .. pg_catalog.cardinality(announcements) LOOP
		RAISE NOTICE 'step %: %', i, announcements[i];
	END LOOP;
	IF dry_run THEN
		RETURN;
	END IF;
	-- release the locks of the plan, which keep others from altering the tables
	IF NOT one_transaction THEN
		COMMIT;
	END IF;

	FOR i IN 1 .. pg_catalog.cardinality(announcements) LOOP
		started := pg_catalog.clock_timestamp();
		IF names[i] IS NOT NULL THEN
			PERFORM pg_catalog.set_config('client_min_messages', 'warning', true);
			CALL snowflake_internal.adopt(relations[i], names[i], false, false, drop_sequence, '{}', false);
			PERFORM pg_catalog.set_config('client_min_messages', callers_messages, true);
		ELSIF relations[i] IS NOT NULL THEN
			RAISE NOTICE 'step %: rewriting table %', i, relations[i];
			EXECUTE statements[i];
		ELSE
			PERFORM snowflake_internal.execute_definition(statements[i], callers_path);
		END IF;
		IF ends[i] AND NOT one_transaction THEN
			COMMIT;
		END IF;
		seconds := pg_catalog.round(extract(epoch FROM pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) started), 3);
		IF names[i] IS NOT NULL THEN
			RAISE NOTICE 'step %: column %.% was adopted in % s', i, relations[i], pg_catalog.quote_ident(names[i]), seconds;
		ELSIF relations[i] IS NOT NULL THEN
			EXECUTE pg_catalog.format('SELECT pg_catalog.count(*) FROM %s', relations[i]) INTO number_of_rows;
			IF NOT one_transaction THEN
				COMMIT;
			END IF;
			RAISE NOTICE 'step %: table % was rewritten in % s, % rows', i, relations[i], seconds, number_of_rows;
		END IF;
	END LOOP;
END
$$;

COMMENT ON PROCEDURE snowflake_adopt_all(regnamespace, boolean, boolean, text[], text[], boolean) IS
'call snowflake_adopt() for all serial and identity keys of a schema but those to exclude; each step in a transaction of its own, unless one is open; widen_columns: also widen these, ''{*}'' for all that seem to refer to keys; recreate_views: drop views and rules that are in the way, and create them again, all in one transaction';

--
-- Monitoring
--

CREATE FUNCTION snowflake_internal.version()
RETURNS text
LANGUAGE SQL STABLE
RETURN coalesce((SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'snowflake'), '');

COMMENT ON FUNCTION snowflake_internal.version() IS
'the version of the extension, which can differ from that of the library; an empty text if a snapshot is older';

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
	OUT mark_from bigint,
	OUT lease_state text,
	OUT lease_starts timestamptz,
	OUT lease_ends timestamptz,
	OUT library_version text,
	OUT extension_version text,
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
	OUT before_epoch bigint,
	OUT exhausted bigint,
	OUT no_lease bigint,
	OUT unusable_settings bigint,
	OUT lock_not_available bigint,
	OUT clock_refused bigint,
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
