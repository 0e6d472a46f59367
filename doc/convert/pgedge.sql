-- psql --file=pgedge.sql shop
--
-- The functions of pgEdge's extension, in its schema, made from those of this one: for a dump
-- whose defaults and views call them, and for applications that do.  New ids are those of
-- snowflake_nextval(), whatever sequence a call names.

\set ON_ERROR_STOP on

BEGIN;
-- The schema of the old extension stays when that is dropped.  Another role that owns the schema
-- could replace the functions.
CREATE SCHEMA IF NOT EXISTS snowflake;
DO $$
BEGIN
	IF (SELECT pg_get_userbyid(nspowner) <> current_user FROM pg_namespace WHERE nspname = 'snowflake') THEN
		RAISE insufficient_privilege USING
			MESSAGE = 'schema snowflake belongs to another role',
			HINT = 'Drop the schema, or change its owner if you trust what is in it.';
	END IF;
END
$$;
GRANT USAGE ON SCHEMA snowflake TO PUBLIC;

-- A call without an argument means this sequence, and is dumped with its name.
CREATE SEQUENCE snowflake.id_seq;
GRANT USAGE ON SEQUENCE snowflake.id_seq TO PUBLIC;

-- A client counts on by itself if the increment is not 1, and would hand out ids of others.
CREATE FUNCTION snowflake.refuse(regclass) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
	RAISE feature_not_supported USING
		MESSAGE = pg_catalog.format('increment of sequence %s is not 1', $1),
		HINT = 'Have the client reserve ids with snowflake_reserve().';
END
$$;

CREATE FUNCTION snowflake.nextval(regclass DEFAULT 'snowflake.id_seq') RETURNS bigint
LANGUAGE sql
RETURN CASE (SELECT seqincrement FROM pg_sequence WHERE seqrelid = $1::oid)
	WHEN 1 THEN snowflake_nextval()
	ELSE snowflake.refuse($1)
END;

CREATE FUNCTION snowflake.currval(regclass DEFAULT 'snowflake.id_seq') RETURNS bigint
LANGUAGE sql
RETURN snowflake_currval();

-- Seconds since 1970
CREATE FUNCTION snowflake.get_epoch(bigint) RETURNS numeric
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN round(extract(epoch FROM snowflake_timestamp($1, 'pgedge')), 3);

CREATE FUNCTION snowflake.get_node(bigint) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN snowflake_worker_id($1, 'pgedge');

CREATE FUNCTION snowflake.get_count(bigint) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (snowflake_decode($1, 'pgedge')).sequence;

CREATE FUNCTION snowflake.format(bigint) RETURNS jsonb
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN pg_catalog.jsonb_build_object('ts', snowflake_timestamp($1, 'pgedge')::text,
	'id', snowflake.get_node($1), 'count', snowflake.get_count($1));
COMMIT;
