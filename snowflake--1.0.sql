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

-- The system identifier of the server on which the mark was made, as pg_control_system()
-- shows it.  See src/origin.c.
CREATE SEQUENCE snowflake_internal.system_identifier MINVALUE -9223372036854775808;

COMMENT ON SEQUENCE snowflake_internal.system_identifier IS
'last_value is the system identifier of the server that the mark comes from';

SELECT pg_catalog.setval('snowflake_internal.system_identifier', system_identifier)
FROM pg_catalog.pg_control_system();

SELECT pg_catalog.pg_extension_config_dump('snowflake_internal.system_identifier'::pg_catalog.regclass, '');
GRANT SELECT, UPDATE ON SEQUENCE snowflake_internal.system_identifier TO pg_database_owner;

CREATE FUNCTION snowflake_internal.current_guard(
	OUT bound bigint,
	OUT exempt bigint,
	OUT others bigint,
	OUT layout bigint,
	OUT older bigint)
AS 'MODULE_PATHNAME', 'snowflake_current_guard'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

REVOKE EXECUTE ON FUNCTION snowflake_internal.current_guard() FROM PUBLIC;

COMMENT ON FUNCTION snowflake_internal.current_guard() IS
'the row of snowflake_internal.guard, so that REFRESH keeps it';

CREATE MATERIALIZED VIEW snowflake_internal.guard USING heap AS
SELECT bound, exempt, others, layout, older
FROM snowflake_internal.current_guard();

COMMENT ON MATERIALIZED VIEW snowflake_internal.guard IS
'the guard of the mark, which no SQL command lowers';
COMMENT ON COLUMN snowflake_internal.guard.bound IS
'no snowflake id of this database is greater than this';
COMMENT ON COLUMN snowflake_internal.guard.exempt IS
'the worker that last reset the mark: datacenter_id << 32 | worker_id, or -1';
COMMENT ON COLUMN snowflake_internal.guard.others IS
'all other workers make ids above this';
COMMENT ON COLUMN snowflake_internal.guard.layout IS
'a hash of the layout with which ids are made; 0 if none have been made yet';
COMMENT ON COLUMN snowflake_internal.guard.older IS
'no id of another layout is greater than this';

CREATE FUNCTION snowflake_advance(id bigint, force boolean DEFAULT false)
RETURNS void
AS 'MODULE_PATHNAME', 'snowflake_advance'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

REVOKE EXECUTE ON FUNCTION snowflake_advance(bigint, boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION snowflake_advance(bigint, boolean) TO pg_database_owner;

COMMENT ON FUNCTION snowflake_advance(bigint, boolean) IS
'make all new ids of this database greater than an id that came from elsewhere; force: even if that id is far ahead of the clock (only for superusers)';

CREATE FUNCTION snowflake_reset_mark(worker_id integer)
RETURNS void
AS 'MODULE_PATHNAME', 'snowflake_reset_mark'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

REVOKE EXECUTE ON FUNCTION snowflake_reset_mark(integer) FROM PUBLIC;

COMMENT ON FUNCTION snowflake_reset_mark(integer) IS
'set the mark back to the clock after the clock was far ahead; worker_id: the caller states that this worker id, which must be the one in force, has never made an id in this database (if it has, ids can be made twice); the other ways are to wait, or to raise snowflake.max_ahead';

--
-- Reading ids.  Each function has two forms: one for the layout that is in force
-- on this server, and one for a layout that is given as text.
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
'when an id was made: the start of its tick, in the given layout';

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
'the datacenter id of an id, in the given layout';

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
'the worker id of an id, in the given layout';

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
'the low bits of the WAL timeline that an id was made on, in the given layout';

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
'the lane that an id was made on, in the given layout';

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
'the number of an id within its tick and lane, in the given layout';

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
'the tag of an id, in the given layout';

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
'the smallest id of an instant''s tick, in the given layout';

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
'the smallest id from an instant''s tick on, in the given layout; 0 if the instant is before the epoch; greater than all ids, or the largest bigint, if it is after the last tick';

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
'the largest id before an instant''s tick, in the given layout; -1 if there is none; the largest id of all if the instant is after the last tick';

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
'a picture of an id of the given layout, line by line';

CREATE FUNCTION snowflake_to_text(id bigint, encoding text)
RETURNS text
AS 'MODULE_PATHNAME', 'snowflake_to_text'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_to_text(bigint, text) IS
'an id as text of a fixed width: base32, base36, base58, base62 or hex';

CREATE FUNCTION snowflake_from_text(id text, encoding text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_from_text'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_from_text(text, text) IS
'the id that a text stands for: base32, base36, base58, base62 or hex';

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
-- The functions above, for those in PL/pgSQL
--

CREATE FUNCTION snowflake_internal.worker_id(id bigint)
RETURNS integer
AS 'MODULE_PATHNAME', 'snowflake_worker_id'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_internal.worker_id(bigint) IS
'snowflake_worker_id()';

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
				substring(bound FROM 'FROM \(''?(-?[0-9]+)')::bigint AS lower_id,
				substring(bound FROM 'TO \(''?(-?[0-9]+)')::bigint AS upper_id
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

	-- A step is a number of months, of days or of seconds.  Partitions follow a
	-- grid that does not depend on the bounds, so that those of several calls
	-- fit together.  Weeks begin on a Monday.
	origin CONSTANT timestamp := '2001-01-01';
	months bigint := 0;
	days bigint := 0;
	seconds numeric := 0;
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

	FOR starts, ends IN
		SELECT edge, next_edge
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
		ORDER BY edge
	LOOP
		first_id := snowflake_internal.first_from(starts, layout);
		last_id := snowflake_internal.last_before(ends, layout);
		-- a day that a time zone skips
		CONTINUE WHEN first_id > last_id;
		-- a partition whose bound is NULL has none
		CONTINUE WHEN EXISTS (SELECT FROM unnest(present_first, present_last) AS present (lower_id, upper_id)
			WHERE coalesce(lower_id, 0) <= first_id AND coalesce(upper_id, 9223372036854775807) >= last_id);

		-- an hour comes twice when daylight saving time ends, except in UTC
		suffix := CASE
			WHEN seconds > 0 THEN to_char(timezone('UTC', starts), '"_p"YYYYMMDD"_"HH24MISS')
			WHEN days > 0 THEN to_char(timezone(time_zone, starts), '"_p"YYYYMMDD')
			ELSE to_char(timezone(time_zone, starts), '"_p"YYYYMM')
		END;
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

CREATE FUNCTION snowflake_internal.inheritance_tree(root oid)
RETURNS SETOF oid
LANGUAGE SQL STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
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

CREATE FUNCTION snowflake_internal.narrow_references(adopted oid[], column_names name[],
	OUT relid oid,
	OUT attnum smallint,
	OUT attname name)
RETURNS SETOF record
LANGUAGE SQL STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	WITH RECURSIVE adopted_key (relid, attname) AS (
		SELECT snowflake_internal.inheritance_tree(root), attname
		FROM unnest(adopted, column_names) AS key (root, attname)
	), linked (relid, attnum) AS (
		SELECT attrelid, attnum FROM adopted_key JOIN pg_attribute ON attrelid = relid
			AND pg_attribute.attname = adopted_key.attname
		UNION
		SELECT next.relid, next.attnum
		FROM linked CROSS JOIN LATERAL (
			SELECT conrelid, conkey[array_position(confkey, linked.attnum)]
			FROM pg_constraint
			WHERE contype = 'f' AND conparentid = 0 AND confrelid = linked.relid AND linked.attnum = ANY (confkey)
			UNION ALL
			SELECT inhrelid, own.attnum
			FROM pg_inherits JOIN pg_attribute AS own ON own.attrelid = inhrelid
				JOIN pg_attribute AS inherited ON inherited.attrelid = inhparent AND inherited.attname = own.attname
			WHERE inhparent = linked.relid AND inherited.attnum = linked.attnum
		) AS next (relid, attnum)
	), typed (relid, attnum, attname, typid) AS (
		SELECT linked.relid, linked.attnum, attname, atttypid
		FROM linked JOIN pg_attribute ON attrelid = linked.relid AND pg_attribute.attnum = linked.attnum
		WHERE (linked.relid, attname) NOT IN (SELECT * FROM adopted_key)
		UNION
		-- a domain may be what makes a column too narrow
		SELECT relid, attnum, attname, typbasetype
		FROM typed JOIN pg_type ON pg_type.oid = typid AND typtype = 'd'
	)
	SELECT relid, attnum, attname
	FROM typed
	WHERE typid IN ('smallint'::regtype, 'integer'::regtype)
		-- one that is inherited changes with the column of its parent
		AND NOT EXISTS (SELECT FROM pg_inherits JOIN typed AS parent ON inhparent = parent.relid
			WHERE inhrelid = typed.relid AND parent.attname = typed.attname)
$$;

COMMENT ON FUNCTION snowflake_internal.narrow_references(oid[], name[]) IS
'columns of type smallint or integer that refer to the columns of these tables, or to such columns in turn';

CREATE PROCEDURE snowflake_internal.adopt(adopted regclass, column_name name,
	widen_references boolean,
	dry_run boolean,
	drop_sequence boolean)
LANGUAGE plpgsql
SET row_security = off		-- fail rather than overlook a row
AS $$
DECLARE
	callers_path CONSTANT pg_catalog.text := pg_catalog.current_setting('search_path');
	own_path CONSTANT pg_catalog.text := pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

	integers CONSTANT pg_catalog.oid[] := '{smallint,integer,bigint}'::regtype[];
	functions CONSTANT pg_catalog.record := snowflake_internal.functions();
	new_default CONSTANT pg_catalog.text := functions.id;
	label CONSTANT pg_catalog.text := format('%s.%I', adopted, column_name);
	attribute pg_catalog.record;
	distributed boolean;
	chunk bigint;
	rewritten boolean;
	tree pg_catalog.oid[];		-- the table, and what inherits from it
	narrow pg_catalog.oid[];	-- tables with columns that refer to it and cannot
	narrow_numbers int[];		-- hold the ids, and their numbers
	narrow_names pg_catalog.text[];
	widening pg_catalog.text[];	-- statements
	sequences pg_catalog.text[] := '{}';
	statements pg_catalog.text[] := '{}';
	altered pg_catalog.oid[];	-- all tables with columns whose type changes
	altered_numbers int[];
	names pg_catalog.text;
	can_keep pg_catalog.bool;
	statement pg_catalog.text;
	member pg_catalog.oid;
	what pg_catalog.text;
	largest bigint;
	new_id bigint;
	bound bigint;
BEGIN
	IF adopted IS NULL OR column_name IS NULL OR widen_references IS NULL OR dry_run IS NULL
		OR drop_sequence IS NULL THEN
		RAISE null_value_not_allowed USING
			MESSAGE = 'table, column and options of an adoption must not be null';
	END IF;
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		RAISE feature_not_supported USING
			MESSAGE = 'columns can only be adopted at isolation level READ COMMITTED',
			DETAIL = 'At other levels, changes made by concurrent transactions would not be seen.';
	END IF;
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
					adopted, column_name, new_default);
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

	-- From here on nobody else can change the table, or add or drop a foreign
	-- key.
	IF NOT dry_run THEN
		RAISE NOTICE 'locking table %', adopted
			USING DETAIL = 'Other sessions wait for the table until the transaction ends.';
		PERFORM snowflake_internal.lock_table(adopted, 'LOCK TABLE %s IN ACCESS EXCLUSIVE MODE');
	END IF;

	SELECT attnum, atttypid, attgenerated, attinhcount INTO attribute
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
	IF attribute.atttypid <> ALL (integers) THEN
		RAISE datatype_mismatch USING
			MESSAGE = format('column %s is of type %s', label, attribute.atttypid::regtype),
			DETAIL = 'Only columns of type smallint, integer or bigint can be adopted.';
	END IF;
	IF attribute.attgenerated <> '' THEN
		RAISE wrong_object_type USING
			MESSAGE = format('column %s is a generated column', label);
	END IF;
	rewritten := attribute.atttypid <> 'bigint'::regtype;

	tree := ARRAY(SELECT snowflake_internal.inheritance_tree(adopted::oid));
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

	SELECT array_agg(relid ORDER BY relid, attnum), array_agg(attnum ORDER BY relid, attnum),
		array_agg(format('%s.%I', relid::regclass, attname) ORDER BY relid, attnum),
		array_agg(format('ALTER TABLE %s ALTER COLUMN %I TYPE bigint', relid::regclass, attname)
			ORDER BY relid, attnum)
	INTO narrow, narrow_numbers, narrow_names, widening
	FROM snowflake_internal.narrow_references(ARRAY[adopted::oid], ARRAY[column_name]);
	IF narrow IS NOT NULL AND NOT widen_references THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = format('columns that refer to %s cannot hold snowflake ids', label),
			DETAIL = format('They are of type smallint or integer: %s.', array_to_string(narrow_names, ', ')),
			HINT = format(E'Call snowflake_adopt() with widen_references => true, or first run:\n%s;',
				array_to_string(widening, E';\n'));
	END IF;

	-- Check that all types that have to change can be changed.
	WITH root (relid, attname) AS (
		SELECT adopted::oid, column_name WHERE rewritten
		UNION
		SELECT relid, attname
		FROM unnest(narrow, narrow_numbers) AS part (relid, attnum)
			JOIN pg_attribute ON attrelid = relid AND pg_attribute.attnum = part.attnum
	), changed (relid, attname) AS (
		SELECT DISTINCT snowflake_internal.inheritance_tree(relid), attname FROM root
	)
	SELECT array_agg(relid), array_agg(attnum) INTO altered, altered_numbers
	FROM changed JOIN pg_attribute ON attrelid = relid AND pg_attribute.attname = changed.attname;

	SELECT string_agg(reason, E'\n') INTO names
	FROM (
		SELECT format('%s is in the partition key of table %s.',
			pg_describe_object('pg_class'::regclass, relid, attnum), relid::regclass) AS reason
		FROM unnest(altered, altered_numbers) AS part (relid, attnum)
			JOIN pg_partitioned_table ON partrelid = relid AND attnum = ANY (partattrs::smallint[])
		UNION ALL
		-- inherited from a column that does not change with it
		SELECT format('%s is inherited.', pg_describe_object('pg_class'::regclass, part.relid, part.attnum))
		FROM unnest(altered, altered_numbers) AS part (relid, attnum)
			JOIN pg_attribute AS own ON own.attrelid = part.relid AND own.attnum = part.attnum
			JOIN pg_inherits ON inhrelid = part.relid
			JOIN pg_attribute AS inherited ON inherited.attrelid = inhparent AND inherited.attname = own.attname
		WHERE NOT EXISTS (SELECT FROM unnest(altered, altered_numbers) AS other (relid, attnum)
			WHERE other.relid = inhparent AND other.attnum = inherited.attnum)
	) AS reasons;
	IF names IS NOT NULL THEN
		RAISE feature_not_supported USING
			MESSAGE = format('column %s cannot be adopted because the type of a column cannot be changed', label),
			DETAIL = names,
			HINT = 'Create a new table with a bigint column, and copy the rows.';
	END IF;

	SELECT string_agg(DISTINCT format('%s depends on %s.', pg_describe_object(classid, objid, objsubid),
		pg_describe_object(refclassid, refobjid, refobjsubid)), E'\n') INTO names
	FROM unnest(altered, altered_numbers) AS part (relid, attnum)
		JOIN pg_depend ON refclassid = 'pg_class'::regclass AND refobjid = relid AND refobjsubid = attnum
	WHERE classid IN ('pg_rewrite'::regclass, 'pg_policy'::regclass, 'pg_trigger'::regclass,
			'pg_proc'::regclass, 'pg_publication_rel'::regclass)
		-- generated columns
		OR classid = 'pg_class'::regclass AND objid = relid AND objsubid > 0 AND objsubid <> attnum
		OR classid = 'pg_attrdef'::regclass
			AND NOT EXISTS (SELECT FROM pg_attrdef WHERE oid = objid AND adrelid = relid AND adnum = attnum);
	IF names IS NOT NULL THEN
		RAISE dependent_objects_still_exist USING
			MESSAGE = format('column %s cannot be adopted because other objects depend on columns whose type changes', label),
			DETAIL = names,
			HINT = 'Drop them, and create them again afterwards.';
	END IF;

	-- The sequence of an identity column is always dropped.
	SELECT string_agg(DISTINCT format('%s depends on %s.', pg_describe_object(other.classid, other.objid, other.objsubid),
			pg_describe_object(own.classid, own.objid, own.objsubid)), E'\n'),
		bool_and(own.deptype = 'a')
	INTO names, can_keep
	FROM pg_attribute JOIN pg_depend AS own ON own.refclassid = 'pg_class'::regclass AND own.refobjid = attrelid
			AND own.refobjsubid = attnum AND own.classid = 'pg_class'::regclass
		JOIN pg_class ON pg_class.oid = own.objid AND relkind = 'S'
		JOIN pg_depend AS other ON other.refclassid = 'pg_class'::regclass AND other.refobjid = own.objid
	WHERE attrelid = ANY (tree) AND attname = column_name
		AND (own.deptype = 'i' OR own.deptype = 'a' AND drop_sequence)
		AND other.deptype = 'n'
		-- defaults that will be replaced
		AND NOT EXISTS (SELECT FROM pg_attrdef JOIN pg_attribute AS replaced ON replaced.attrelid = adrelid
				AND replaced.attnum = adnum
			WHERE other.classid = 'pg_attrdef'::regclass AND pg_attrdef.oid = other.objid
				AND adrelid = ANY (tree) AND replaced.attname = column_name);
	IF names IS NOT NULL THEN
		RAISE dependent_objects_still_exist USING
			MESSAGE = format('column %s cannot be adopted because other objects depend on its sequence', label),
			DETAIL = names,
			HINT = CASE WHEN can_keep THEN 'Drop them, or keep the sequence: set drop_sequence to false.'
				ELSE 'Drop them, or have them use another sequence.' END;
	END IF;

	IF narrow IS NOT NULL THEN
		statements := statements || (
			SELECT format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', string_agg(DISTINCT relid::regclass::text, ', '))
			FROM unnest(narrow) AS relid);
	END IF;
	FOREACH member IN ARRAY tree LOOP
		SELECT * INTO attribute
		FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
		WHERE attrelid = member AND attname = column_name;
		-- from 17 on, the identity of a partition is dropped with that of its table
		IF attribute.attidentity <> '' AND NOT (attribute.relispartition
				AND current_setting('server_version_num')::integer >= 170000) THEN
			statements := statements || format('ALTER TABLE %s ALTER COLUMN %I DROP IDENTITY',
				member::regclass, column_name);
		END IF;
		-- unless it is to be dropped, keep the sequence for the way back, owned by nothing
		sequences := sequences || (
			SELECT coalesce(array_agg(format(CASE WHEN drop_sequence THEN 'DROP SEQUENCE %s'
				ELSE 'ALTER SEQUENCE %s OWNED BY NONE' END, objid::regclass)), '{}')
			FROM pg_depend
			WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass
				AND refobjid = member AND refobjsubid = attribute.attnum AND deptype = 'a'
				AND EXISTS (SELECT FROM pg_class WHERE oid = objid AND relkind = 'S'));
	END LOOP;
	IF rewritten THEN
		statements := statements || format('ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT, ALTER COLUMN %I TYPE bigint',
			adopted, column_name, column_name);
	END IF;
	-- a default that calls snowflake_nextval(), or has a tag, may stay
	IF rewritten OR EXISTS (SELECT FROM unnest(tree) AS relid WHERE NOT EXISTS (
			SELECT FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
				CROSS JOIN pg_get_expr(adbin, adrelid) AS expression
			WHERE adrelid = relid AND attname = column_name
				AND regexp_replace(expression, '\([0-9]+\)$', '()') IN (new_default, functions.nextval::text))) THEN
		statements := statements || format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s',
			adopted, column_name, new_default);
	END IF;
	statements := statements || sequences || coalesce(widening, '{}');
	IF statements = '{}' THEN
		RAISE NOTICE 'column % already makes snowflake ids, skipping', label;
		PERFORM set_config('search_path', callers_path, true);
		RETURN;
	END IF;

	-- Check that ids can be made, and are greater than the values in the column.  New
	-- ids of all sessions are greater than ids from a minute ago; above those, an
	-- advance makes sure.
	EXECUTE format('SELECT max(%I) FROM %s', column_name, adopted) INTO largest;
	-- with the privileges of the caller
	EXECUTE format('SELECT %s', new_default) INTO new_id;
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
		IF NOT dry_run THEN
			PERFORM snowflake_internal.advance(largest);
		END IF;
	END IF;

	FOR member, what IN
		WITH RECURSIVE touched (oid) AS (
			SELECT unnest(tree)
			UNION
			SELECT unnest(altered)
			UNION
			-- foreign keys on columns whose type changes are checked again
			SELECT unnest(ARRAY[conrelid, confrelid])
			FROM unnest(altered, altered_numbers) AS part (relid, attnum)
				JOIN pg_constraint ON contype = 'f' AND (conrelid = relid AND attnum = ANY (conkey)
					OR confrelid = relid AND attnum = ANY (confkey))
		)
		SELECT oid, CASE WHEN oid = ANY (altered) THEN 'locked and rewritten' ELSE 'locked' END
		FROM touched
		ORDER BY oid
	LOOP
		RAISE NOTICE 'table % will be % (%)', member::regclass, what,
			pg_size_pretty(pg_total_relation_size(member));
	END LOOP;
	FOREACH statement IN ARRAY statements LOOP
		RAISE NOTICE '%', statement;
	END LOOP;

	PERFORM set_config('search_path', callers_path, true);
	IF NOT dry_run THEN
		FOREACH statement IN ARRAY statements LOOP
			EXECUTE statement;
		END LOOP;
	END IF;
END
$$;

COMMENT ON PROCEDURE snowflake_internal.adopt(regclass, name, boolean, boolean, boolean) IS
'snowflake_adopt()';

CREATE PROCEDURE snowflake_adopt(adopted regclass, column_name name,
	widen_references boolean DEFAULT false,
	dry_run boolean DEFAULT false,
	drop_sequence boolean DEFAULT false)
LANGUAGE plpgsql
AS $$
BEGIN
	CALL snowflake_internal.adopt(adopted, column_name, widen_references, dry_run, drop_sequence);
END
$$;

COMMENT ON PROCEDURE snowflake_adopt(regclass, name, boolean, boolean, boolean) IS
'make a serial, identity or plain integer column a bigint whose default is snowflake_id(); widen_references: also widen the columns that refer to it; dry_run: only print what would be done; drop_sequence: drop the sequence of a serial instead of keeping it';

-- The steps of snowflake_adopt_all(): first they widen all columns, and rewrite each
-- table once; then they set the defaults of the keys.  A step depends only on those
-- before it.  The plan leaves out steps that have been taken.
CREATE FUNCTION snowflake_internal.adoption_plan(adopted_schema regnamespace,
	drop_sequence boolean,
	OUT relation regclass,
	OUT column_name name,
	OUT rewriting text,
	OUT size text,
	OUT also_locked text)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning
AS $$
DECLARE
	keys oid[];
	names name[];
	key regclass;
	key_name name;
	reasons text[] := '{}';
	message text;
	detail text;
	hint text;
BEGIN
	-- keys that get their values from a sequence, in the topmost tables
	SELECT array_agg(attrelid ORDER BY attrelid, attnum), array_agg(attname ORDER BY attrelid, attnum)
	INTO keys, names
	FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
	WHERE relnamespace = adopted_schema AND relkind IN ('r', 'p')
		AND attnum > 0 AND attinhcount = 0 AND atttypid IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype)
		AND (attidentity <> '' OR EXISTS (
			SELECT FROM pg_attrdef JOIN pg_depend ON classid = 'pg_attrdef'::regclass AND objid = pg_attrdef.oid
				JOIN pg_class AS used ON refclassid = 'pg_class'::regclass AND refobjid = used.oid
			WHERE adrelid = attrelid AND adnum = attnum AND used.relkind = 'S'))
		AND EXISTS (SELECT FROM pg_index WHERE indrelid = attrelid AND indisunique
			AND attnum = ANY ((indkey::smallint[])[0:indnkeyatts - 1]))
		AND NOT EXISTS (SELECT FROM pg_depend
			WHERE classid = 'pg_class'::regclass AND objid = attrelid AND deptype = 'e');
	IF keys IS NULL THEN
		RETURN;
	END IF;

	-- find everything that is in the way before anything is changed
	FOR key, key_name IN SELECT * FROM unnest(keys, names) LOOP
		BEGIN
			CALL snowflake_internal.adopt(key, key_name, widen_references => true, dry_run => true,
				drop_sequence => drop_sequence);
		-- let locks and timeouts fail the call: they may be gone at the next one
		EXCEPTION WHEN object_not_in_prerequisite_state OR feature_not_supported OR wrong_object_type
				OR dependent_objects_still_exist OR insufficient_privilege THEN
			GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
			reasons := reasons || concat_ws(E'\n', message || '.', nullif(detail, ''), nullif(hint, ''));
		END;
	END LOOP;
	SELECT reasons || array_agg(format('You must be owner of table %s.', pg_class.oid::regclass) ORDER BY pg_class.oid)
	INTO reasons
	FROM pg_class
	WHERE NOT pg_has_role(relowner, 'USAGE')
		AND oid IN (SELECT unnest(keys) UNION SELECT relid FROM snowflake_internal.narrow_references(keys, names));
	IF reasons <> '{}' THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = format('not all keys of schema %s can be adopted', adopted_schema),
			DETAIL = (SELECT string_agg(DISTINCT reason, E'\n') FROM unnest(reasons) AS reason),
			HINT = 'Nothing was changed. Remove what is in the way and call snowflake_adopt_all() again, or adopt the other columns with snowflake_adopt().';
	END IF;

	RETURN QUERY
		WITH widened (relid, attnum, attname) AS (
			SELECT attrelid, attnum, attname
			FROM unnest(keys, names) AS adopted_key (relid, name)
				JOIN pg_attribute ON attrelid = relid AND attname = adopted_key.name
			WHERE atttypid <> 'bigint'::regtype
			UNION
			SELECT * FROM snowflake_internal.narrow_references(keys, names)
		), step (number, relid, column_name, rewriting, also_locked) AS (
			SELECT 1, relid, NULL, format('ALTER TABLE %s %s', relid::regclass,
				string_agg(format('ALTER COLUMN %I TYPE bigint', attname), ', ' ORDER BY attnum)),
				-- foreign keys on columns whose type changes are checked again
				(SELECT string_agg(DISTINCT other::regclass::text, ', ')
				FROM pg_constraint CROSS JOIN LATERAL (VALUES (conrelid, confrelid, conkey), (confrelid, conrelid, confkey))
					AS side (relid, other, numbers)
				WHERE contype = 'f' AND side.relid = widened.relid AND other <> widened.relid
					AND numbers && array_agg(widened.attnum))
			FROM widened
			GROUP BY relid
			UNION ALL
			SELECT 2, *, NULL, NULL FROM unnest(keys, names)
		)
		SELECT relid::regclass, step.column_name::name, step.rewriting, pg_size_pretty(whole.size), step.also_locked
		FROM step CROSS JOIN LATERAL (
			SELECT sum(pg_total_relation_size(part)) AS size
			FROM snowflake_internal.inheritance_tree(relid) AS part
		) AS whole
		ORDER BY number, relid;
END
$$;

COMMENT ON FUNCTION snowflake_internal.adoption_plan(regnamespace, boolean) IS
'the steps of snowflake_adopt_all(): tables to rewrite, then columns to adopt';

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
	drop_sequence boolean DEFAULT false)
LANGUAGE plpgsql
AS $$
DECLARE
	one_transaction CONSTANT pg_catalog.bool := snowflake_internal.in_transaction_block();
	callers_messages CONSTANT pg_catalog.text := pg_catalog.current_setting('client_min_messages');
	relations pg_catalog.regclass[];
	names pg_catalog.name[];
	rewritings pg_catalog.text[];
	sizes pg_catalog.text[];
	others pg_catalog.text[];
	started pg_catalog.timestamptz;
	seconds pg_catalog.numeric;
	number_of_rows pg_catalog.int8;
BEGIN
	IF adopted_schema IS NULL OR dry_run IS NULL OR drop_sequence IS NULL THEN
		RAISE null_value_not_allowed USING
			MESSAGE = 'schema and options of an adoption must not be null';
	END IF;
	SELECT pg_catalog.array_agg(relation), pg_catalog.array_agg(column_name), pg_catalog.array_agg(rewriting),
		pg_catalog.array_agg(size), pg_catalog.array_agg(also_locked)
	INTO relations, names, rewritings, sizes, others
	FROM snowflake_internal.adoption_plan(adopted_schema, drop_sequence);
	IF relations IS NULL THEN
		RAISE NOTICE 'schema % has no keys of type serial or identity, skipping', adopted_schema;
		RETURN;
	END IF;

	RAISE NOTICE 'keys of schema % will be adopted in %', adopted_schema,
		CASE WHEN one_transaction THEN 'this transaction' ELSE 'one transaction for each step' END
		USING DETAIL = 'Each step locks its table in ACCESS EXCLUSIVE mode, and those whose foreign keys it checks again.';
	FOR i IN 1 .. pg_catalog.cardinality(relations) LOOP
		IF rewritings[i] IS NOT NULL THEN
			RAISE NOTICE 'step %: table % will be rewritten (%)%: %', i, relations[i], sizes[i],
				coalesce(', which also locks ' OPERATOR(pg_catalog.||) others[i], ''), rewritings[i];
		ELSE
			RAISE NOTICE 'step %: column %.% will be adopted', i, relations[i], pg_catalog.quote_ident(names[i]);
		END IF;
	END LOOP;
	IF dry_run THEN
		RETURN;
	END IF;
	-- release the locks of the plan, which keep others from altering the tables
	IF NOT one_transaction THEN
		COMMIT;
	END IF;

	FOR i IN 1 .. pg_catalog.cardinality(relations) LOOP
		started := pg_catalog.clock_timestamp();
		IF rewritings[i] IS NOT NULL THEN
			RAISE NOTICE 'step %: rewriting table %', i, relations[i];
			EXECUTE rewritings[i];
		ELSE
			PERFORM pg_catalog.set_config('client_min_messages', 'warning', true);
			CALL snowflake_internal.adopt(relations[i], names[i], widen_references => false, dry_run => false,
				drop_sequence => drop_sequence);
			PERFORM pg_catalog.set_config('client_min_messages', callers_messages, true);
		END IF;
		IF NOT one_transaction THEN
			COMMIT;
		END IF;
		seconds := pg_catalog.round(extract(epoch FROM pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) started), 3);
		IF rewritings[i] IS NOT NULL THEN
			EXECUTE pg_catalog.format('SELECT pg_catalog.count(*) FROM %s', relations[i]) INTO number_of_rows;
			IF NOT one_transaction THEN
				COMMIT;
			END IF;
			RAISE NOTICE 'step %: table % was rewritten in % s, % rows', i, relations[i], seconds, number_of_rows;
		ELSE
			RAISE NOTICE 'step %: column %.% was adopted in % s', i, relations[i], pg_catalog.quote_ident(names[i]), seconds;
		END IF;
	END LOOP;
END
$$;

COMMENT ON PROCEDURE snowflake_adopt_all(regnamespace, boolean, boolean) IS
'call snowflake_adopt() for all serial and identity keys of a schema; each step in a transaction of its own, unless one is open';

--
-- Monitoring
--

CREATE FUNCTION snowflake_internal.worker_id_hint()
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	functions CONSTANT record := snowflake_internal.functions();
	own CONSTANT integer := current_setting('snowflake.worker_id', true);
	reason text;
BEGIN
	IF (SELECT source FROM pg_settings WHERE name = 'snowflake.worker_id') <> 'default'
		OR current_setting('snowflake.registry', true) <> '' THEN
		RETURN NULL;
	END IF;
	IF EXISTS (SELECT FROM pg_subscription) THEN
		reason := 'this server has subscriptions';
	ELSIF EXISTS (SELECT FROM pg_publication) THEN
		reason := 'this database has publications';
	ELSIF EXISTS (SELECT FROM pg_extension WHERE extname = 'snowflake_registry') THEN
		reason := 'this database is a registry, which leases worker ids to other servers';
	ELSE
		-- Look at the newest ids that ANALYZE has noted.  Any role can own such a
		-- table, and a query of it would run what its indexes call, as our caller.
		SELECT format('table %s has ids of other servers', adrelid::regclass) INTO reason
		FROM pg_depend JOIN pg_attrdef ON classid = 'pg_attrdef'::regclass AND objid = pg_attrdef.oid
			JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum AND atttypid = 'bigint'::regtype
			JOIN pg_class ON pg_class.oid = adrelid
			JOIN pg_namespace ON pg_namespace.oid = relnamespace
			JOIN pg_stats ON schemaname = nspname AND tablename = relname AND pg_stats.attname = pg_attribute.attname
			CROSS JOIN LATERAL (SELECT histogram_bounds::text::bigint[] AS noted) AS histogram
			CROSS JOIN LATERAL unnest(noted[cardinality(noted) - 9:]) AS newest
			CROSS JOIN snowflake_internal.last_before('infinity'::timestamptz) AS largest
		WHERE refclassid = 'pg_proc'::regclass
			AND refobjid IN (functions.nextval, functions.id)
			AND CASE WHEN newest BETWEEN 0 AND largest THEN snowflake_internal.worker_id(newest) <> own END
		ORDER BY reltuples DESC
		LIMIT 1;
	END IF;
	IF reason IS NULL THEN
		RETURN NULL;
	END IF;
	RETURN format('No worker id is set, and %s. Give each server that makes ids a worker id of its own, for example on this server: ALTER SYSTEM SET snowflake.worker_id = 1; SELECT pg_reload_conf();', reason);
EXCEPTION WHEN OTHERS THEN
	-- the status must be shown without a hint, too
	RETURN NULL;
END
$$;

COMMENT ON FUNCTION snowflake_internal.worker_id_hint() IS
'what to do if no worker id is set although there seem to be other servers; else NULL';

CREATE FUNCTION snowflake_status(
	OUT state text,
	OUT hint text,
	OUT worker_id integer,
	OUT worker_id_source text,
	OUT datacenter_id integer,
	OUT layout text,
	OUT ids_per_second bigint,
	OUT last_instant timestamptz,
	OUT lanes_in_use integer,
	OUT sessions integer,
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
	OUT spills bigint,
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

DO $$
DECLARE
	hint CONSTANT pg_catalog.text := snowflake_internal.worker_id_hint();
BEGIN
	IF hint IS NOT NULL THEN
		-- CREATE EXTENSION hides messages below WARNING from the client
		PERFORM pg_catalog.set_config('client_min_messages', 'notice', true);
		RAISE NOTICE 'parameter "snowflake.worker_id" has its default value, 0' USING HINT = hint;
	END IF;
END
$$;
