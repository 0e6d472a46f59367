/* snowflake/snowflake--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION snowflake" to load this file. \quit

--
-- Making ids
--

CREATE FUNCTION snowflake_nextval_support(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'snowflake_nextval_support'
LANGUAGE C STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_nextval_support(internal) IS
'planner support for snowflake_nextval()';

-- Labelled STABLE for COPY, which snowflake_nextval_support() explains.
CREATE FUNCTION snowflake_nextval_batch(internal)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_nextval'
LANGUAGE C STABLE PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_nextval_batch(internal) IS
'implementation of snowflake_nextval() in COPY';

CREATE FUNCTION snowflake_nextval()
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_nextval'
LANGUAGE C VOLATILE PARALLEL SAFE
SUPPORT snowflake_nextval_support;

COMMENT ON FUNCTION snowflake_nextval() IS
'make a new id';

CREATE FUNCTION snowflake_nextval(tag integer)
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_nextval_tag'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION snowflake_nextval(integer) IS
'make a new id that carries a tag, in a layout with the field "tag"';

CREATE FUNCTION snowflake_currval()
RETURNS bigint
AS 'MODULE_PATHNAME', 'snowflake_currval'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION snowflake_currval() IS
'the last id that this session''s process made';

--
-- The mark: a bound of all ids that were ever made in this database.  What
-- counts is the greater of the two.  The first is dumped; nobody but the
-- library sets the second.
--

CREATE SEQUENCE snowflake_mark MINVALUE 0 START 0;

COMMENT ON SEQUENCE snowflake_mark IS
'the mark: every snowflake id of this database is at most its last_value; setting it by hand breaks the promise';

CREATE SEQUENCE snowflake_mark_guard MINVALUE 0 START 0;

COMMENT ON SEQUENCE snowflake_mark_guard IS
'a copy of snowflake_mark that is not dumped and not restored';

-- pg_dump reads it, and restoring sets it
SELECT pg_catalog.pg_extension_config_dump('snowflake_mark', '');
GRANT SELECT, UPDATE ON SEQUENCE snowflake_mark TO pg_database_owner;

CREATE FUNCTION snowflake_advance(id bigint)
RETURNS void
AS 'MODULE_PATHNAME', 'snowflake_advance'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

REVOKE EXECUTE ON FUNCTION snowflake_advance(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION snowflake_advance(bigint) TO pg_database_owner;

COMMENT ON FUNCTION snowflake_advance(bigint) IS
'make all new ids of this database greater than an id that came from elsewhere';

CREATE FUNCTION snowflake_reset_mark(force boolean DEFAULT false)
RETURNS void
AS 'MODULE_PATHNAME', 'snowflake_reset_mark'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

REVOKE EXECUTE ON FUNCTION snowflake_reset_mark(boolean) FROM PUBLIC;

COMMENT ON FUNCTION snowflake_reset_mark(boolean) IS
'set the mark back to the clock, with a fresh worker id, after the clock was far ahead';

--
-- Taking ids apart.  Each function comes in two forms: for the layout that is
-- in force on this server, and for the layout that is given as text.
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
-- Putting ids together.  These are not STRICT: NULL is right for a field that
-- the layout lacks, so that what snowflake_decode() returns can be passed on.
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

-- Here SQL has no room for defaults: they would make a call with a timestamp
-- alone ambiguous.  The parameters before the layout have no names, so that
-- a call by name finds the function below.
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
RETURN snowflake_compose(generated_at, datacenter_id, worker_id,
	timeline, lane, sequence, tag, layout);

COMMENT ON FUNCTION snowflake_compose(timestamptz, text, integer, integer,
	integer, integer, integer, integer) IS
'the id of the given layout that has these fields; those left out are 0';

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
'the layout in force: from when (its epoch) to when ids last, how many workers there can be, and how many ids each makes per second';

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
'the given layout: from when (its epoch) to when ids last, how many workers there can be, and how many ids each makes per second';

--
-- A server that is running still knows the mark of an extension that was
-- dropped.
--

CREATE FUNCTION snowflake_restore_mark()
RETURNS void
AS 'MODULE_PATHNAME', 'snowflake_restore_mark'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

SELECT snowflake_restore_mark();

DROP FUNCTION snowflake_restore_mark();
