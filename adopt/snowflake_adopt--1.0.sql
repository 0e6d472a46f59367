/* snowflake/adopt/snowflake_adopt--1.0.sql */

-- Gives existing tables snowflake ids, for snowflake and for snowflake_sql.  CREATE EXTENSION,
-- pg_tle, and psql (--single-transaction --set=ON_ERROR_STOP=1 --file) take this script.
--
-- A key is a column that is to make ids.  A change is a column whose type changes: a key, or one
-- that refers to it, in the topmost table that has it and all that are below that.
--
-- Everything is checked before anything is changed, with the same errors as a dry run.
-- Nothing that was dropped is created again: printed and read back, a view can mean
-- something else.  So what depends on a column that changes is named, and left to its owner.
--
-- All look-ups use pg_catalog, and are planned without JIT, which takes longer than they do.  What
-- is done for the caller runs with its search_path, for functions of indexes and the like.

DO $$
BEGIN
	IF NOT pg_catalog.starts_with((pg_catalog.current_schemas(true))[1]::pg_catalog.text, 'pg_'::pg_catalog.text) THEN
		RAISE object_not_in_prerequisite_state USING MESSAGE = 'search_path has a schema before pg_catalog';
	END IF;
END
$$;

-- This fails if the schema exists, because its owner could change what we create in it.
CREATE SCHEMA snowflake_adopt;
GRANT USAGE ON SCHEMA snowflake_adopt TO PUBLIC;

CREATE TYPE snowflake_adopt.key AS (relid oid, attname name);
CREATE TYPE snowflake_adopt.change AS (relid oid, attname name, new_type text);
CREATE TYPE snowflake_adopt.problem AS (code text, message text, detail text, hint text);
-- The greatest value of a key, or the error of the look at it.
CREATE TYPE snowflake_adopt.value AS (relid oid, attname name, largest bigint, code text, message text);
-- What the caller wants, and where.
CREATE TYPE snowflake_adopt.options AS (adopted_schema oid, whole_schema boolean, dry_run boolean, widen_references boolean,
	drop_sequence boolean, keep_currval boolean, widen_columns text[], excluding text[], callers_path text);

-- A step can be a transaction of its own; it gives a default to the key, unless that is NULL.
CREATE TYPE snowflake_adopt.step AS (announcement text, relid oid, key name, statements text);

-- The edition that is installed: the schema of its functions, those that make ids, a call that
-- advances them to $1, or NULL if the caller may not, and a new id.  New ids of all sessions are
-- greater than safe_id; they are greater than those up to last_id once an advance has made sure.
CREATE TYPE snowflake_adopt.generator AS (home text, id text, nextval text, advance text, new_id bigint, safe_id bigint, last_id bigint);

-- Anybody can create snowflake_id(), so it must belong to a role that can do what it wants anyway.
CREATE FUNCTION snowflake_adopt.find_generator()
RETURNS snowflake_adopt.generator LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	result snowflake_adopt.generator;
BEGIN
	SELECT quote_ident(nspname), id.oid::regprocedure, quote_ident(nspname) || '.snowflake_nextval()',
		(SELECT format('%I.snowflake_advance(greatest($1, 0)%s)', nspname, CASE pronargs WHEN 2 THEN ', false' END)
		FROM pg_proc
		WHERE proname = 'snowflake_advance' AND pronamespace = id.pronamespace AND proargtypes::text IN ('20', '20 16')
			AND proowner = id.proowner AND has_function_privilege(oid, 'EXECUTE'))
	INTO result.home, result.id, result.nextval, result.advance
	FROM pg_proc AS id JOIN pg_namespace ON pg_namespace.oid = pronamespace JOIN pg_roles ON pg_roles.oid = proowner
	WHERE proname = 'snowflake_id' AND pronargs = 0 AND prorettype = 'bigint'::regtype
		AND (rolsuper OR rolname = current_user OR proowner = (SELECT datdba FROM pg_database WHERE datname = current_database()))
	ORDER BY (SELECT count(*) FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = id.oid AND deptype = 'e') DESC, id.oid
	LIMIT 1;
	IF NOT FOUND THEN
		RAISE undefined_function USING MESSAGE = 'no function snowflake_id() was found',
			DETAIL = 'It must belong to the caller, to the owner of the database, or to a superuser.',
			HINT = 'Run CREATE EXTENSION snowflake, or call snowflake_configure() of snowflake_sql.';
	END IF;
	-- with the privileges of the caller
	EXECUTE format('SELECT id, least(id, %1$s.snowflake_last_before(clock_timestamp() - interval ''1 minute'')),
			greatest(id, %1$s.snowflake_last_before(clock_timestamp() + interval ''1 second''))
		FROM %2$s AS id', result.home, result.id) INTO result.new_id, result.safe_id, result.last_id;
	RETURN result;
END
$$;

CREATE FUNCTION snowflake_adopt.trees(roots oid[])
RETURNS TABLE (root oid, member oid) LANGUAGE SQL STABLE AS $$
	WITH RECURSIVE tree (root, member) AS (
		SELECT DISTINCT oid, oid FROM unnest(roots) AS oid
		UNION
		SELECT root, inhrelid FROM tree JOIN pg_inherits ON inhparent = member
	)
	SELECT * FROM tree
$$;

CREATE FUNCTION snowflake_adopt.members(keys snowflake_adopt.key[])
RETURNS TABLE (root oid, name name, relid oid, attnum smallint) LANGUAGE SQL STABLE AS $$
	SELECT root, key.attname, member, attribute.attnum
	FROM unnest(keys) AS key JOIN snowflake_adopt.trees(ARRAY(SELECT relid FROM unnest(keys))) ON root = key.relid
		-- OFFSET makes the planner use an index
		CROSS JOIN LATERAL (SELECT attnum FROM pg_attribute WHERE attrelid = member AND attname = key.attname AND attnum > 0 OFFSET 0) AS attribute
$$;

-- Integers, and domains, arrays and ranges made of them; new_type holds ids, and is NULL for ranges and for arrays of arrays.
CREATE FUNCTION snowflake_adopt.integer_types()
RETURNS TABLE (type oid, new_type text, is_narrow boolean) LANGUAGE SQL STABLE AS $$
	WITH RECURSIVE made (type, new_type, is_narrow) AS (
		SELECT name::regtype::oid, 'bigint', name <> 'bigint' FROM unnest('{smallint,integer,bigint}'::text[]) AS name
		UNION
		SELECT next.oid, CASE WHEN next.typtype <> 'r' THEN new_type || CASE WHEN next.oid <> made_of.typarray THEN '' WHEN new_type NOT LIKE '%[]' THEN '[]' END END, is_narrow
		FROM made JOIN pg_type AS made_of ON made_of.oid = type LEFT JOIN pg_range ON rngsubtype = type
			JOIN pg_type AS next ON next.oid IN (made_of.typarray, rngtypid) OR next.typbasetype = type
	)
	SELECT * FROM made
$$;

-- Keys, other columns, and those that refer to such in turn, if too narrow; in the topmost tables.
CREATE FUNCTION snowflake_adopt.changes(keys snowflake_adopt.key[], others snowflake_adopt.key[])
RETURNS SETOF snowflake_adopt.change LANGUAGE SQL STABLE
SET enable_nestloop = off
AS $$
	WITH RECURSIVE key_column (relid, attnum) AS MATERIALIZED (
		SELECT relid, attnum FROM snowflake_adopt.members(keys)
	), whole_number AS MATERIALIZED (
		SELECT attrelid, attnum, attname, new_type, is_narrow
		FROM pg_attribute JOIN snowflake_adopt.integer_types() ON type = atttypid
		WHERE attnum > 0 AND new_type IS NOT NULL
	), edge (relid, attnum, next_relid, next_attnum) AS MATERIALIZED (
		SELECT confrelid, confkey[i], conrelid, conkey[i]
		FROM pg_constraint CROSS JOIN generate_subscripts(conkey, 1) AS i
		WHERE contype = 'f' AND conparentid = 0
		UNION ALL
		-- a column changes in tables that inherit it and, but for a key, in those that it comes from
		SELECT side.*
		FROM pg_inherits JOIN whole_number AS parent ON parent.attrelid = inhparent
			JOIN whole_number AS child ON child.attrelid = inhrelid AND child.attname = parent.attname
			CROSS JOIN LATERAL (VALUES (inhparent, parent.attnum, inhrelid, child.attnum),
				(inhrelid, child.attnum, inhparent, parent.attnum)) AS side (relid, attnum, next_relid, next_attnum)
		WHERE side.relid = inhparent OR (inhrelid, child.attnum) NOT IN (SELECT * FROM key_column)
	), linked (relid, attnum) AS (
		SELECT * FROM key_column
		UNION
		SELECT attrelid, attnum FROM unnest(others) AS other JOIN pg_attribute ON attrelid = relid AND pg_attribute.attname = other.attname
		UNION
		SELECT next_relid, next_attnum FROM linked JOIN edge USING (relid, attnum)
	), typed AS MATERIALIZED (
		SELECT relid, attname, new_type, is_narrow
		FROM linked JOIN whole_number ON attrelid = relid AND whole_number.attnum = linked.attnum
	)
	SELECT relid, attname, new_type
	FROM typed
	WHERE is_narrow AND NOT EXISTS (SELECT FROM pg_inherits JOIN typed AS parent ON parent.relid = inhparent
		WHERE inhrelid = typed.relid AND parent.attname = typed.attname)
$$;

-- All columns whose type changes, with the clause of an ALTER TABLE of that table alone.
CREATE FUNCTION snowflake_adopt.altered(changes snowflake_adopt.change[])
RETURNS TABLE (relid oid, attnum smallint, num_roots bigint, clause text) LANGUAGE SQL STABLE AS $$
	SELECT member, pg_attribute.attnum, count(DISTINCT root), format('ALTER COLUMN %I TYPE %s', change.attname, min(new_type))
	FROM unnest(changes) AS change JOIN snowflake_adopt.trees(ARRAY(SELECT relid FROM unnest(changes))) ON root = change.relid
		JOIN pg_attribute ON attrelid = member AND pg_attribute.attname = change.attname
	GROUP BY member, pg_attribute.attnum, change.attname
$$;

-- The columns that a caller has named; a table can stand for all of its columns.
CREATE FUNCTION snowflake_adopt.named_columns(adopted_schema oid, given text[], kind text)
RETURNS SETOF snowflake_adopt.key LANGUAGE plpgsql STABLE AS $$
DECLARE
	item text;
BEGIN
	FOREACH item IN ARRAY given LOOP
		RETURN QUERY SELECT attrelid, attname
		FROM parse_ident(item) AS parts
			CROSS JOIN LATERAL (SELECT CASE cardinality(parts) WHEN 3 THEN parts ELSE NULL::text || parts END) AS full_name (name)
			JOIN pg_class ON relname = name[2] AND relkind IN ('r', 'p')
				AND relnamespace = CASE WHEN name[1] IS NULL THEN adopted_schema ELSE (SELECT oid FROM pg_namespace WHERE nspname = name[1]) END
			JOIN pg_attribute ON attrelid = pg_class.oid AND attname = coalesce(name[3], CASE kind WHEN 'table or column' THEN attname END) AND attnum > 0 AND NOT attisdropped
		WHERE cardinality(name) <= 3;
		IF NOT FOUND THEN
			RAISE undefined_column USING MESSAGE = format('"%s" is not a %s of schema %s', item, kind, adopted_schema::regnamespace),
				HINT = 'Write names as in SQL: table, table.column, or schema.table.column.';
		END IF;
	END LOOP;
END
$$;

-- Whether an object is neither that of the system nor of an extension.
CREATE FUNCTION snowflake_adopt.is_users(class regclass, object oid, schema oid)
RETURNS boolean LANGUAGE SQL STABLE AS $$
	SELECT object >= 16384 AND schema::regnamespace::text !~ '^(snowflake_(internal|sql|adopt)$|pg_)'
		AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = class AND objid = object AND deptype = 'e')
$$;

-- Sequences that belong to keys (a, or i for an identity), and those that their defaults use (n).
CREATE FUNCTION snowflake_adopt.sequences(keys snowflake_adopt.key[])
RETURNS TABLE (relid oid, attname name, sequence regclass, deptype "char", "default" oid) LANGUAGE SQL STABLE AS $$
	SELECT root, name, pg_class.oid, deptype, NULL
	FROM snowflake_adopt.members(keys) AS member
		JOIN pg_depend ON refclassid = 'pg_class'::regclass AND refobjid = member.relid AND refobjsubid = attnum
			AND classid = 'pg_class'::regclass AND deptype IN ('a', 'i')
		JOIN pg_class ON pg_class.oid = objid AND relkind = 'S'
	UNION
	SELECT root, name, pg_class.oid, deptype, pg_attrdef.oid
	FROM snowflake_adopt.members(keys) AS member JOIN pg_attrdef ON adrelid = member.relid AND adnum = attnum
		JOIN pg_depend ON classid = 'pg_attrdef'::regclass AND objid = pg_attrdef.oid AND refclassid = 'pg_class'::regclass AND deptype = 'n'
		JOIN pg_class ON pg_class.oid = refobjid AND relkind = 'S'
$$;

-- Columns that get their values from a sequence, and keys with other defaults or none.
CREATE FUNCTION snowflake_adopt.schema_keys(adopted_schema oid)
RETURNS TABLE (relid oid, attname name, what text) LANGUAGE SQL STABLE AS $$
	SELECT attrelid, attname, CASE
			WHEN attinhcount > 0 THEN 'inherited'
			WHEN NOT is_integer THEN 'type ' || format_type(atttypid, atttypmod)
			WHEN NOT is_unique THEN 'no unique index'
			WHEN NOT is_numbered THEN coalesce('default ' || expression, 'no default')
			ELSE 'ids' END
	FROM pg_class AS class JOIN pg_attribute ON attrelid = class.oid
		LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
		CROSS JOIN LATERAL pg_get_expr(adbin, adrelid) AS expression
		CROSS JOIN LATERAL (SELECT atttypid = ANY ('{smallint,integer,bigint}'::regtype[]),
			EXISTS (SELECT FROM pg_index WHERE indrelid = attrelid AND indisunique
				AND attnum = ANY ((indkey::smallint[])[0:indnkeyatts - 1])),
			-- the only column of a primary key, which refers to nothing
			EXISTS (SELECT FROM pg_index WHERE indrelid = attrelid AND indisprimary AND indnkeyatts = 1 AND indkey[0] = attnum)
				AND NOT EXISTS (SELECT FROM pg_constraint WHERE contype = 'f' AND conrelid = attrelid AND attnum = ANY (conkey)),
			-- currval() is the value of another column; a name of type text makes no dependency; an interrupted call has left a sequence
			attidentity <> '' OR coalesce(expression !~ E'\\m(currval|lastval|setval)\\(', false) AND (expression LIKE 'nextval(%'
				OR EXISTS (SELECT FROM snowflake_adopt.sequences(ARRAY[(attrelid, attname)::snowflake_adopt.key])
					WHERE deptype = 'n' OR deptype = 'a' AND expression ~ E'^[^(]*snowflake_(id|nextval)\\('))
		) AS fact (is_integer, is_unique, is_alone, is_numbered)
	WHERE relnamespace = adopted_schema AND relkind IN ('r', 'p') AND NOT relispartition
		AND snowflake_adopt.is_users('pg_class', class.oid, relnamespace) AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
		-- a child may have a key where its parent has none
		AND (attinhcount = 0 OR EXISTS (SELECT FROM pg_inherits JOIN pg_attribute AS parent ON parent.attrelid = inhparent
			AND parent.attname = pg_attribute.attname WHERE inhrelid = class.oid AND NOT parent.atthasdef AND parent.attidentity = ''))
		AND (is_numbered OR is_integer AND is_alone AND coalesce(expression !~ E'snowflake_(id|nextval)\\(', true))
$$;

-- A name, and what is left of it after each underscore.
CREATE FUNCTION snowflake_adopt.suffixes(name text)
RETURNS TABLE (suffix text, number bigint) LANGUAGE SQL IMMUTABLE AS $$
	SELECT array_to_string((string_to_array(name, '_'))[first:], '_'), first
	FROM generate_subscripts(string_to_array(name, '_'), 1) AS first
$$;

-- Integers that seem to refer to keys, but have no foreign key; refers_to is NULL if it is not clear to which.
CREATE FUNCTION snowflake_adopt.likely_references(adopted_schema oid, keys snowflake_adopt.key[])
RETURNS TABLE (relid oid, attname name, refers_to oid, reason text, is_fixed boolean) LANGUAGE SQL STABLE AS $$
	WITH candidate AS MATERIALIZED (
		-- narrow integers, also in ranges, arrays and composite types, which refer to nothing by a foreign key
		SELECT attrelid AS relid, relnamespace AS schema, attnum, attname, snake, atthasdef OR attidentity <> '' AS has_values,
			relkind IN ('f', 'c') OR new_type IS NULL AS is_fixed
		FROM pg_class AS class JOIN pg_attribute ON attrelid = class.oid
			JOIN snowflake_adopt.integer_types() ON type = atttypid AND is_narrow
			CROSS JOIN LATERAL lower(regexp_replace(attname, '([a-z0-9])([A-Z])', E'\\1_\\2', 'g')) AS snake
		WHERE relkind IN ('r', 'p', 'f', 'c') AND relpersistence <> 't' AND snowflake_adopt.is_users('pg_class', class.oid, relnamespace)
			AND attnum > 0 AND NOT attisdropped AND attinhcount = 0 AND NOT relispartition
			AND (attrelid, attnum) NOT IN (SELECT member.relid, member.attnum FROM snowflake_adopt.members(keys) AS member)
			AND (attrelid, attname) NOT IN (SELECT change.relid, change.attname FROM snowflake_adopt.changes(keys, '{}') AS change)
			AND (attrelid, attnum) NOT IN (SELECT conrelid, unnest(conkey) FROM pg_constraint WHERE contype = 'f')
	), known AS MATERIALIZED (
		-- what a reference to a table could be named after: "auth_user", whose number is 1, and "user" for "auth_users"
		SELECT DISTINCT class.oid AS relid, relnamespace AS schema, suffix, number, class.oid IN (SELECT key.relid FROM unnest(keys) AS key) AS is_key
		FROM pg_class AS class
			CROSS JOIN LATERAL lower(regexp_replace(relname, '([a-z0-9])([A-Z])', E'\\1_\\2', 'g')) AS snake
			CROSS JOIN (VALUES ('', ''), ('s$', ''), ('es$', ''), ('ies$', 'y'), ('people$', 'person'), ('children$', 'child')) AS rule (plural, singular)
			CROSS JOIN LATERAL snowflake_adopt.suffixes(regexp_replace(snake, plural, singular)) AS part
		WHERE relkind IN ('r', 'p') AND NOT relispartition AND relpersistence <> 't'
			AND snowflake_adopt.is_users('pg_class', class.oid, relnamespace)
	), named AS MATERIALIZED (
		-- the table that a column seems to be named after: "original_post" and "post" for "original_post_id"
		SELECT DISTINCT ON (candidate.relid, attname) candidate.relid, attnum, attname, snake, known.relid AS refers_to, is_key,
			known.number + part.number = 2 AS is_exact
		FROM candidate CROSS JOIN LATERAL snowflake_adopt.suffixes(regexp_replace(snake, '^(fk|id)_|_?(u?ids?|fk)$', '', 'g')) AS part
			JOIN known USING (suffix)
		WHERE suffix <> '' AND (known.number = 1 OR part.number = 1)
			-- of other schemas, only the keys that are adopted
			AND (is_key OR known.schema IN (adopted_schema, candidate.schema))
		ORDER BY candidate.relid, attname, known.number + part.number, known.schema = candidate.schema DESC, is_key DESC, known.relid
	), found (relid, attname, refers_to, reason, rank) AS (
		SELECT relid, attname, refers_to, 'named after ' || refers_to::regclass, 1
		FROM named
		WHERE is_key AND (snake ~ 'ids?$|_fk$|^(fk|id)_' OR is_exact AND EXISTS (SELECT FROM pg_index WHERE indrelid = relid AND indkey[0] = attnum))
		UNION ALL
		-- "people__history" for "people"
		SELECT candidate.relid, candidate.attname, key.relid, format('like %s.%I', key.relid::regclass, key.attname), 2
		FROM unnest(keys) AS key JOIN candidate ON candidate.attname = key.attname AND NOT has_values
			JOIN pg_class AS copy ON copy.oid = candidate.relid JOIN pg_class AS original ON original.oid = key.relid
				AND original.relnamespace = copy.relnamespace AND copy.relname ~~ ('%' || original.relname || '%')
		UNION ALL
		SELECT relid, attname, NULL, format('name has %s', substring(snake FROM '_u?ids?$|_fk$|^fk_|_from$')), 3
		FROM candidate
		WHERE candidate.schema = adopted_schema AND snake ~ '_u?ids?$|_fk$|^fk_|^(inherited|copied|moved|derived)_from$'
			AND (relid, attname) NOT IN (SELECT relid, attname FROM named WHERE is_exact AND NOT is_key)
	)
	SELECT DISTINCT ON (relid, attname) relid, attname, refers_to, reason, is_fixed
	FROM found JOIN candidate USING (relid, attname)
	ORDER BY relid, attname, rank, refers_to, reason
$$;

-- The columns named in widen_columns; "*" stands for those that seem to refer to keys.
CREATE FUNCTION snowflake_adopt.other_columns(options snowflake_adopt.options, keys snowflake_adopt.key[])
RETURNS SETOF snowflake_adopt.key LANGUAGE SQL STABLE AS $$
	SELECT * FROM snowflake_adopt.named_columns(options.adopted_schema, array_remove(options.widen_columns, '*'), 'column')
	UNION
	SELECT reference.relid, reference.attname
	FROM snowflake_adopt.likely_references(options.adopted_schema, keys) AS reference JOIN pg_class ON pg_class.oid = reference.relid
	WHERE '*' = ANY (options.widen_columns) AND NOT is_fixed AND (options.whole_schema OR refers_to IS NOT NULL)
		AND (relnamespace = options.adopted_schema OR pg_has_role(relowner, 'USAGE'))
		AND (reference.relid, reference.attname) NOT IN (SELECT * FROM snowflake_adopt.named_columns(options.adopted_schema, options.excluding, 'table or column'))
$$;

-- Functions with integers that seem to be ids; of other schemas, those that mention an adopted table.
CREATE FUNCTION snowflake_adopt.integer_functions(adopted_schema oid, keys snowflake_adopt.key[])
RETURNS SETOF text LANGUAGE SQL STABLE AS $$
	WITH function AS MATERIALIZED (
		SELECT function.oid, pronamespace, concat_ws(E'\n', pg_get_function_arguments(function.oid), prosrc) AS source
		FROM pg_proc AS function JOIN pg_language ON pg_language.oid = prolang AND lanname IN ('plpgsql', 'sql')
		WHERE snowflake_adopt.is_users('pg_proc', function.oid, pronamespace)
	)
	SELECT format('%s: %s', oid::regprocedure, string_agg(DISTINCT found[1], ', '))
	FROM function CROSS JOIN LATERAL regexp_matches(source,
		E'((?:\\w*id|_?[fp]k_\\w+|\\w+_fk)s?"?(?:\\s+|\\s*::\\s*|\\s+constant\\s+|\\s+as\\s+)(?:smallint|integer|int|int2|int4)\\M)', 'gi') AS found
	WHERE pronamespace = adopted_schema OR EXISTS (
		SELECT FROM regexp_split_to_table(source, E'\\W+|_ids?\\M') AS word
		WHERE word IN (SELECT relname::text FROM unnest(keys) JOIN pg_class ON pg_class.oid = relid))
	GROUP BY oid
$$;

CREATE FUNCTION snowflake_adopt.key_problems(keys snowflake_adopt.key[])
RETURNS SETOF snowflake_adopt.problem LANGUAGE SQL STABLE AS $$
	SELECT code, message, detail, hint
	FROM unnest(keys) AS key LEFT JOIN pg_class ON pg_class.oid = key.relid
		LEFT JOIN pg_attribute ON attrelid = key.relid AND pg_attribute.attname = key.attname AND attnum > 0 AND NOT attisdropped
		CROSS JOIN LATERAL (SELECT bool_or(relpersistence = 't') FROM snowflake_adopt.trees(ARRAY[key.relid]) JOIN pg_class ON oid = member) AS tree (is_temporary)
		CROSS JOIN LATERAL (SELECT string_agg(format('%I on %s', conname, conrelid::regclass), ', ')
			FROM snowflake_adopt.members(ARRAY[key]) JOIN pg_constraint ON contype = 'f' AND conrelid = relid AND attnum = ANY (conkey)) AS reference (names)
		CROSS JOIN LATERAL (SELECT key.relid::regclass, format('%s.%I', key.relid::regclass, key.attname)) AS names (relation, label)
		CROSS JOIN LATERAL (VALUES
			(relkind IS NULL OR relkind NOT IN ('r', 'p'), '42809', format('relation %s is not a table', relation),
				'Only columns of tables can be adopted.', 'Name the table.'),
			(attnum IS NULL, '42703', format('column "%s" of relation %s does not exist', key.attname, relation),
				'Only columns of users can be adopted.', 'Name the key of the table.'),
			(NOT pg_has_role(relowner, 'USAGE'), '42501', format('must be owner of table %s', relation),
				'An adoption alters the table.', 'Ask its owner.'),
			(attinhcount > 0, '42809', format('column %s is inherited', label),
				'Its type is that of the parent''s column.', 'Adopt the column of the parent table.'),
			(atttypid <> ALL ('{smallint,integer,bigint}'::regtype[]), '42804', format('column %s is of type %s', label, atttypid::regtype),
				'Only columns of type smallint, integer or bigint can be adopted.', 'Add a bigint column.'),
			(attgenerated <> '', '42809', format('column %s is a generated column', label), 'It can have no default.', 'Name another column.'),
			(is_temporary, '42809', format('column %s cannot be adopted because it is in a temporary table', label),
				'With the search_path of the caller, its name may mean another table.', 'Drop the temporary table, or create it anew.'),
			(reference.names IS NOT NULL, '55000', format('column %s refers to another table', label),
				format('New ids would violate these foreign keys: %s.', reference.names), 'Adopt the referenced column instead.')
		) AS problem (applies, code, message, detail, hint)
	WHERE applies
$$;

-- Tables without a partition for new ids, and partitions that a DETACH was interrupted for.
CREATE FUNCTION snowflake_adopt.partition_problems(keys snowflake_adopt.key[], new_id bigint)
RETURNS SETOF snowflake_adopt.problem LANGUAGE SQL STABLE AS $$
	SELECT '55000', format('table %s has no partition for new ids', relid::regclass),
		'A new id would fit into none.', 'Create partitions first, for example with snowflake_create_partitions().'
	FROM snowflake_adopt.members(keys) JOIN pg_partitioned_table ON partrelid = relid AND partstrat <> 'h'
	-- by the column, or by an expression that it is in
	WHERE (partattrs[0] = attnum OR EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = relid AND objsubid = attnum
			AND refclassid = 'pg_class'::regclass AND refobjid = relid AND refobjsubid = 0 AND deptype = 'i' AND partattrs[0] = 0))
		AND NOT EXISTS (
		SELECT FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid CROSS JOIN pg_get_expr(relpartbound, inhrelid) AS bound
		WHERE inhparent = relid AND (bound = 'DEFAULT'
			-- MINVALUE and MAXVALUE do not match, and so become NULL
			OR partattrs[0] = attnum AND partstrat = 'r' AND coalesce(substring(bound FROM E'FROM \\(''?(-?[0-9]+)')::bigint <= new_id, true)
				AND coalesce(substring(bound FROM E'TO \\(''?(-?[0-9]+)')::bigint > new_id, true)))
	UNION ALL
	SELECT '55000', format('partition %s is being detached', inhrelid::regclass), format('It belongs to table %s.', inhparent::regclass),
		format('First run: ALTER TABLE %s DETACH PARTITION %s FINALIZE;', inhparent::regclass, inhrelid::regclass)
	FROM snowflake_adopt.members(keys) JOIN pg_inherits ON inhparent = relid AND inhdetachpending
$$;

CREATE FUNCTION snowflake_adopt.sequence_users(keys snowflake_adopt.key[])
RETURNS TABLE (relid oid, attname name, sequence regclass, deptype "char", user_name text) LANGUAGE SQL STABLE AS $$
	WITH own AS MATERIALIZED (
		SELECT * FROM snowflake_adopt.sequences(keys)
	)
	SELECT relid, attname, sequence, own.deptype, pg_describe_object(classid, objid, objsubid)
	FROM own JOIN pg_depend ON refclassid = 'pg_class'::regclass AND refobjid = sequence AND pg_depend.deptype = 'n'
	WHERE NOT (classid = 'pg_attrdef'::regclass AND objid IN (SELECT "default" FROM own WHERE "default" IS NOT NULL))
$$;

-- Sequences that would be dropped, as those of identity columns always are, but that something
-- else depends on; and keys without a sequence that could be kept.
CREATE FUNCTION snowflake_adopt.sequence_problems(keys snowflake_adopt.key[], options snowflake_adopt.options)
RETURNS SETOF snowflake_adopt.problem LANGUAGE SQL STABLE AS $$
	SELECT '2BP01', format('column %s.%I cannot be adopted because other objects depend on its sequence', relid::regclass, attname),
		string_agg(DISTINCT format('%s depends on sequence %s.', user_name, sequence), E'\n'),
		CASE WHEN options.keep_currval THEN 'Have them use another sequence, or leave out keep_currval.'
			WHEN bool_and(deptype = 'a') THEN 'Drop them, or keep the sequence: set drop_sequence to false.'
			ELSE 'Drop them, or have them use another sequence.' END
	FROM snowflake_adopt.sequence_users(keys)
	WHERE deptype = 'i' OR options.keep_currval OR deptype = 'a' AND options.drop_sequence
	GROUP BY relid, attname
	UNION ALL
	SELECT '55000', format('column %s.%I has no sequence of its own to keep', relid::regclass, attname),
		'currval() needs the sequence of a serial; that of an identity column is dropped.', 'Leave out keep_currval.'
	FROM unnest(keys)
	WHERE options.keep_currval AND (relid, attname) NOT IN (SELECT relid, attname FROM snowflake_adopt.sequences(keys) WHERE deptype = 'n')
$$;

CREATE FUNCTION snowflake_adopt.fixed_columns(changes snowflake_adopt.change[])
RETURNS SETOF text LANGUAGE SQL STABLE AS $$
	WITH RECURSIVE altered AS MATERIALIZED (
		SELECT * FROM snowflake_adopt.altered(changes)
	), row_type (root, type) AS (
		SELECT oid, reltype FROM pg_class WHERE oid IN (SELECT relid FROM altered)
		UNION
		-- arrays, domains, and types that have such a type in them
		SELECT root, CASE classid WHEN 'pg_type'::regclass THEN objid ELSE (SELECT reltype FROM pg_class WHERE oid = objid AND relkind = 'c') END
		FROM row_type JOIN pg_depend ON refclassid = 'pg_type'::regclass AND refobjid = type AND classid IN ('pg_type'::regclass, 'pg_class'::regclass)
	)
	SELECT format('%s is in the partition key of table %s.',
		pg_describe_object('pg_class'::regclass, relid, attnum), relid::regclass)
	FROM altered
	-- in an expression, too
	WHERE EXISTS (SELECT FROM pg_partitioned_table WHERE partrelid = relid AND attnum = ANY (partattrs::smallint[]))
		OR EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = relid AND objsubid = attnum
			AND refclassid = 'pg_class'::regclass AND refobjid = relid AND refobjsubid = 0 AND deptype = 'i')
	UNION ALL
	SELECT format('%s has the type of the rows of table %s.', pg_describe_object('pg_class'::regclass, objid, objsubid), root::regclass)
	FROM row_type JOIN pg_depend ON classid = 'pg_class'::regclass AND refclassid = 'pg_type'::regclass AND refobjid = type
		JOIN pg_class ON pg_class.oid = objid AND (objsubid > 0 AND relkind IN ('r', 'm', 'p') OR relkind IN ('i', 'I'))
	UNION ALL
	-- from a column that does not change with it, or from two that do
	SELECT format('%s is inherited.', pg_describe_object('pg_class'::regclass, relid, attnum))
	FROM altered
	WHERE num_roots > 1 OR EXISTS (
		SELECT FROM pg_attribute AS own JOIN pg_inherits ON inhrelid = attrelid
			JOIN pg_attribute AS inherited ON inherited.attrelid = inhparent AND inherited.attname = own.attname
		WHERE own.attrelid = altered.relid AND own.attnum = altered.attnum
			AND (inhparent, inherited.attnum) NOT IN (SELECT relid, attnum FROM altered))
	UNION ALL
	-- bloom, for example, knows integer only
	SELECT DISTINCT format('index %s has the access method "%s", which has no operator class for bigint.', indexrelid::regclass, amname)
	FROM altered JOIN pg_index ON indrelid = relid AND attnum = ANY (indkey) JOIN pg_class ON pg_class.oid = indexrelid
		JOIN pg_am ON pg_am.oid = relam
	WHERE NOT EXISTS (SELECT FROM pg_opclass WHERE opcmethod = relam AND opcintype = 'bigint'::regtype AND opcdefault)
		AND EXISTS (SELECT FROM pg_opclass WHERE opcmethod = relam AND opcintype = 'integer'::regtype AND opcdefault)
$$;

-- What keeps types from being changed, in the order in which it has to be dropped.
CREATE FUNCTION snowflake_adopt.dependents(changes snowflake_adopt.change[])
RETURNS text LANGUAGE SQL STABLE AS $$
	WITH RECURSIVE dependent AS MATERIALIZED (
		-- views take the place of their rules, and generated columns that of their expressions
		SELECT CASE WHEN view.oid IS NULL AND adrelid IS NULL THEN classid ELSE 'pg_class'::regclass END AS classid,
			coalesce(view.oid, adrelid, objid) AS objid, coalesce(adnum::integer, objsubid) AS objsubid,
			refclassid, refobjid, refobjsubid, deptype, view.oid IS NOT NULL AS is_view
		FROM pg_depend LEFT JOIN pg_rewrite ON classid = 'pg_rewrite'::regclass AND pg_rewrite.oid = objid
			LEFT JOIN pg_class AS view ON view.oid = ev_class AND relkind IN ('v', 'm')
			LEFT JOIN pg_attrdef ON classid = 'pg_attrdef'::regclass AND pg_attrdef.oid = objid
		WHERE refclassid IN ('pg_class'::regclass, 'pg_type'::regclass, 'pg_proc'::regclass) AND refobjid >= 16384
			AND classid IN ('pg_class'::regclass, 'pg_rewrite'::regclass, 'pg_policy'::regclass, 'pg_trigger'::regclass, 'pg_proc'::regclass,
				'pg_publication_rel'::regclass, 'pg_attrdef'::regclass)
	), found (classid, objid, objsubid, refclassid, refobjid, refobjsubid, depth) AS (
		SELECT classid, objid, objsubid, refclassid, refobjid, refobjsubid, 1
		FROM snowflake_adopt.altered(changes) JOIN dependent ON refclassid = 'pg_class'::regclass AND refobjid = relid AND refobjsubid = attnum
		-- no indexes, sequences or defaults of their own
		WHERE classid <> 'pg_class'::regclass OR is_view OR objid = relid AND objsubid > 0 AND objsubid <> attnum
		UNION
		-- what depends on a view, the type of its rows, a function or a column; views may form a circle
		SELECT dependent.classid, dependent.objid, dependent.objsubid, found.classid, found.objid, found.objsubid, depth + 1
		FROM found LEFT JOIN pg_class ON found.classid = 'pg_class'::regclass AND found.objsubid = 0 AND pg_class.oid = found.objid
			LEFT JOIN pg_type ON pg_type.oid = reltype
			CROSS JOIN LATERAL (VALUES (found.classid, found.objid), ('pg_type'::regclass, reltype), ('pg_type'::regclass, typarray)) AS target (class, object)
			JOIN dependent ON dependent.refclassid = class AND dependent.refobjid = object AND deptype IN ('n', 'a')
				AND (found.objsubid = 0 OR dependent.refobjsubid = found.objsubid)
		WHERE depth < 100 AND (dependent.classid, dependent.objid, dependent.objsubid) <> (found.classid, found.objid, found.objsubid)
			AND (dependent.classid <> 'pg_class'::regclass OR dependent.objsubid > 0 OR is_view)
	), object (depth, reason) AS (
		SELECT max(depth), format('%s depends on %s.', pg_describe_object(classid, objid, objsubid),
			string_agg(DISTINCT pg_describe_object(refclassid, refobjid, refobjsubid), ', '))
		FROM found
		-- those of partitions go with that of their table
		WHERE NOT (classid = 'pg_trigger'::regclass AND objid IN (SELECT oid FROM pg_trigger WHERE tgparentid <> 0))
		GROUP BY classid, objid, objsubid
	)
	SELECT string_agg(reason, E'\n' ORDER BY depth DESC, reason) FROM object
$$;

CREATE FUNCTION snowflake_adopt.change_problems(label text, changes snowflake_adopt.change[], keys snowflake_adopt.key[],
	others snowflake_adopt.key[], options snowflake_adopt.options)
RETURNS SETOF snowflake_adopt.problem LANGUAGE SQL STABLE AS $$
	SELECT '55000', format('columns that refer to %s cannot hold snowflake ids', substr(label, 8)),
		format('They are of type smallint or integer: %s.', string_agg(format('%s.%I', relid::regclass, attname), ', ' ORDER BY relid, attname)),
		E'Set widen_references to true, or first run:\n' ||
			string_agg(format('ALTER TABLE %s ALTER COLUMN %I TYPE %s;', relid::regclass, attname, new_type), E'\n' ORDER BY relid, attname)
	FROM unnest(changes) AS change
	WHERE NOT options.widen_references AND (relid, attname) NOT IN (SELECT * FROM unnest(keys) UNION ALL SELECT * FROM unnest(others))
	HAVING count(*) > 0
	UNION ALL
	SELECT '42804', format('cannot widen %s.%I', relid::regclass, other.attname),
		'Only columns of type smallint, integer or bigint, or arrays of these, can be widened.', 'Correct widen_columns.'
	FROM unnest(others) AS other JOIN pg_attribute ON attrelid = relid AND pg_attribute.attname = other.attname
	WHERE NOT EXISTS (SELECT FROM snowflake_adopt.integer_types() WHERE type = atttypid AND new_type IS NOT NULL)
	UNION ALL
	SELECT '42501', format('must be owner of table %s', oid::regclass), 'An adoption alters the table.', 'Ask its owner.'
	FROM pg_class
	WHERE NOT pg_has_role(relowner, 'USAGE')
		AND oid IN (SELECT relid FROM snowflake_adopt.altered(changes) UNION SELECT relid FROM snowflake_adopt.members(keys))
	UNION ALL
	SELECT '0A000', format('%s cannot be adopted because the type of a column cannot be changed', label), string_agg(reason, E'\n'),
		'Drop such an index or table, or create a new table with a bigint column, and copy the rows.'
	FROM snowflake_adopt.fixed_columns(changes) AS reason
	HAVING count(*) > 0
	UNION ALL
	SELECT '2BP01', format('%s cannot be adopted because other objects depend on columns whose type changes', label), reasons,
		'Drop these, in this order, adopt, and create them again from your migrations, or from what pg_dump --schema-only has written.'
	FROM snowflake_adopt.dependents(changes) AS reasons
	WHERE reasons IS NOT NULL
$$;

-- What a query of the caller returns, or its error; it is undone, and gives its locks back.
CREATE FUNCTION snowflake_adopt.attempt(query text, argument bigint, callers_path text, OUT result text, OUT code text, OUT message text)
LANGUAGE plpgsql STRICT
SET search_path = pg_catalog, pg_temp
SET row_security = off		-- fail rather than overlook a row
SET client_min_messages = error
AS $$
BEGIN
	PERFORM set_config('search_path', callers_path, true);
	EXECUTE query INTO result USING argument;
	RAISE SQLSTATE 'SF000';
EXCEPTION
	WHEN SQLSTATE 'SF000' THEN
		NULL;
	WHEN lock_not_available OR transaction_rollback THEN
		RAISE;
	WHEN OTHERS THEN
		code := SQLSTATE;
		message := SQLERRM;
END
$$;

-- A CHECK constraint or an index can have an expression that no bigint fits into.  So each
-- ALTER TABLE is tried on an empty copy, if the caller owns the table: it runs functions of
-- the owner.
CREATE FUNCTION snowflake_adopt.trial_problems(label text, changes snowflake_adopt.change[], callers_path text)
RETURNS SETOF snowflake_adopt.problem LANGUAGE SQL AS $$
	SELECT '0A000', format('%s cannot be adopted because columns cannot be widened', label),
		string_agg(format('ALTER TABLE %s %s fails on an empty copy: %s.', relid::regclass, clauses, message), E'\n'),
		'Change the index or constraint whose expression needs the present type.'
	FROM (
		-- of tables that have the same columns, indexes and constraints, one
		SELECT DISTINCT ON (clauses, definition) relid, clauses
		FROM (SELECT relid, string_agg(clause, ', ' ORDER BY attnum)
			FROM snowflake_adopt.altered(changes) JOIN pg_class ON pg_class.oid = relid AND relowner = current_user::regrole
			WHERE relkind IN ('r', 'p')
			GROUP BY relid) AS statement (relid, clauses)
			CROSS JOIN LATERAL (SELECT string_agg(text, ' ' ORDER BY text) FROM (
				SELECT format('%s %s %s', attnum, attname, format_type(atttypid, atttypmod)) FROM pg_attribute WHERE attrelid = relid AND attnum > 0
				UNION ALL
				SELECT regexp_replace(pg_get_indexdef(indexrelid), '^.*? USING ', '') FROM pg_index WHERE indrelid = relid
				UNION ALL
				SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = relid AND contype IN ('c', 'x')
				UNION ALL
				SELECT pg_get_statisticsobjdef_columns(oid) FROM pg_statistic_ext WHERE stxrelid = relid) AS part (text)) AS kind (definition)
		ORDER BY clauses, definition, relid) AS tried
		CROSS JOIN LATERAL snowflake_adopt.attempt(format('CREATE TEMPORARY TABLE snowflake_copy (LIKE %s INCLUDING CONSTRAINTS INCLUDING INDEXES INCLUDING STATISTICS);
			ALTER TABLE pg_temp.snowflake_copy %s; SELECT NULL', relid::regclass, clauses), 0, callers_path)
	WHERE message IS NOT NULL
	HAVING count(*) > 0
$$;

-- A narrow column tells by its type.  If no index helps, a locked table is not read: what was
-- added since the first look came from the sequence.
CREATE FUNCTION snowflake_adopt.greatest_values(keys snowflake_adopt.key[], new_id bigint, callers_path text, is_locked boolean)
RETURNS SETOF snowflake_adopt.value LANGUAGE SQL AS $$
	SELECT key.relid, key.attname, CASE WHEN query IS NULL THEN 2147483647 ELSE result::bigint END, code, message
	FROM unnest(keys) AS key JOIN pg_attribute ON attrelid = key.relid AND pg_attribute.attname = key.attname
		CROSS JOIN LATERAL (SELECT CASE WHEN (atttypid = 'bigint'::regtype OR new_id <= 2147483647) AND (NOT is_locked OR EXISTS (
			SELECT FROM pg_index WHERE indrelid = key.relid AND indkey[0] = attnum AND indisvalid AND indpred IS NULL))
			-- the planner may inline functions of indexes, which look names up
			THEN format('SELECT pg_catalog.max(%I) FROM %s', key.attname, key.relid::regclass) END) AS statement (query)
		CROSS JOIN LATERAL snowflake_adopt.attempt(query, new_id, callers_path)
$$;

CREATE FUNCTION snowflake_adopt.value_problems(found snowflake_adopt.value[], generator snowflake_adopt.generator, callers_path text)
RETURNS SETOF snowflake_adopt.problem LANGUAGE SQL AS $$
	WITH value AS MATERIALIZED (
		SELECT value.*, format('%s.%I', relid::regclass, attname) AS label FROM unnest(found) AS value
	)
	SELECT code, message, format('The largest value of column %s must be known.', label),
		CASE code WHEN '42501' THEN 'Ask a role that may read all rows.' ELSE 'Remove what this is due to.' END
	FROM value
	WHERE code IS NOT NULL
	UNION ALL
	SELECT '23514', format('column %s has a constraint that no new snowflake id meets', label),
		format('A new id does not meet CHECK (%s).', condition), 'Drop the constraint first.'
	FROM value JOIN pg_attribute ON attrelid = relid AND pg_attribute.attname = value.attname
		JOIN pg_constraint ON conrelid = relid AND contype = 'c' AND conkey = ARRAY[attnum]
		JOIN pg_class ON pg_class.oid = relid CROSS JOIN pg_get_expr(conbin, conrelid, true) AS condition
		-- functions of another owner are left alone
		CROSS JOIN LATERAL snowflake_adopt.attempt(CASE WHEN relowner = current_user::regrole THEN
			format('SELECT CASE WHEN (%s) IS FALSE THEN 1 END FROM (SELECT $1 AS %I) AS row', condition, value.attname) END,
			generator.new_id, callers_path) AS trial
	-- one that needs the present type is found later
	WHERE trial.result IS NOT NULL
	UNION ALL
	SELECT '55000', format('column %s has values that are greater than new snowflake ids', label),
		format('The largest is %s, and a new id is %s.', largest, generator.new_id),
		format('If this is an id that is ahead of the clock, wait until the clock has passed it. If not, run ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s: new ids are less than old ones, and stay apart from them %s.',
			relid::regclass, attname, generator.id, until)
	FROM value CROSS JOIN LATERAL snowflake_adopt.attempt(format('SELECT coalesce(to_char(
		%1$s.snowflake_timestamp(CASE WHEN $1 <= %1$s.snowflake_last_before(''infinity''::timestamptz) THEN $1 END)
		AT TIME ZONE ''UTC'', ''"until" YYYY-MM-DD''), ''as long as the layout lasts'')', generator.home),
		CASE WHEN largest > generator.last_id THEN largest END, 'pg_catalog') AS date (until)
	WHERE largest > generator.last_id
	UNION ALL
	SELECT '42501', format('column %s has values that are as large as new snowflake ids', label),
		format('The largest is %s, and a new id is %s.', largest, generator.new_id),
		'Try again in a minute, or have the owner of the database grant EXECUTE on snowflake_advance().'
	FROM value
	WHERE largest > generator.safe_id AND largest <= generator.last_id AND generator.advance IS NULL
$$;

-- Statements that give keys their default, NULL if they make ids, and others for their sequences.
CREATE FUNCTION snowflake_adopt.key_statements(keys snowflake_adopt.key[], options snowflake_adopt.options,
	generator snowflake_adopt.generator)
RETURNS TABLE (relid oid, attname name, defaults text, sequences text) LANGUAGE SQL STABLE AS $$
	WITH present AS MATERIALIZED (
		SELECT root, name, member.relid, member.attnum, atttypid, expression, expression LIKE 'setval(%' AS keeps_currval,
			-- a default that makes ids, or has a tag, may stay
			coalesce(regexp_replace(expression, E'\\([0-9]+\\)$', '()') IN (generator.id, generator.nextval)
				OR expression LIKE 'setval(%' AND right(expression, length(generator.id) + 3) = ', ' || generator.id || ')', false) AS makes_ids,
			-- from 17 on, the identity of a partition is dropped with that of its table
			CASE WHEN attidentity <> '' AND NOT (relispartition AND current_setting('server_version_num')::integer >= 170000)
				THEN format('ALTER TABLE %s ALTER COLUMN %I DROP IDENTITY', member.relid::regclass, name) END AS no_identity
		FROM snowflake_adopt.members(keys) AS member JOIN pg_class ON pg_class.oid = member.relid
			JOIN pg_attribute ON attrelid = member.relid AND pg_attribute.attnum = member.attnum
			LEFT JOIN pg_attrdef ON adrelid = member.relid AND adnum = member.attnum
			LEFT JOIN LATERAL pg_get_expr(adbin, adrelid) AS expression ON true
	), sequence AS MATERIALIZED (
		SELECT * FROM snowflake_adopt.sequences(keys)
	), owned (root, name, statements) AS (
		-- unless it is to be dropped, keep the sequence for the way back, owned by nothing
		SELECT relid, attname, string_agg(format(CASE WHEN options.drop_sequence THEN 'DROP SEQUENCE %s' ELSE 'ALTER SEQUENCE %s OWNED BY NONE' END,
			sequence), '; ' ORDER BY sequence)
		FROM sequence
		-- but one beside that of the default
		WHERE deptype = 'a' AND (sequence IN (SELECT used.sequence FROM sequence AS used WHERE used.deptype = 'n')
			OR (relid, attname) NOT IN (SELECT used.relid, used.attname FROM sequence AS used WHERE used.deptype = 'n'))
		GROUP BY relid, attname
	), kept (root, name, sequence, widening) AS (
		SELECT DISTINCT ON (relid, attname) relid, attname, sequence::text, format('ALTER SEQUENCE %s AS bigint MAXVALUE 9223372036854775807', sequence)
		FROM sequence WHERE deptype = 'n' AND options.keep_currval
	)
	SELECT root, name, CASE WHEN NOT bool_and(makes_ids AND atttypid = 'bigint'::regtype) THEN
			concat_ws('; ', string_agg(no_identity, '; ' ORDER BY relid), min(widening), format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s',
				root::regclass, name, CASE WHEN min(sequence) IS NULL THEN generator.id
					ELSE format('pg_catalog.setval(%L::pg_catalog.regclass, %s)', min(sequence), generator.id) END)) END,
		CASE WHEN options.keep_currval OR bool_or(keeps_currval) THEN NULL ELSE min(statements) END
	FROM present LEFT JOIN owned USING (root, name) LEFT JOIN kept USING (root, name)
	GROUP BY root, name
$$;

-- First all columns are widened, and each table is rewritten once; then keys get their defaults;
-- then sequences go. A step depends on those before it; what has been done is left out.
CREATE FUNCTION snowflake_adopt.steps(keys snowflake_adopt.key[], changes snowflake_adopt.change[], options snowflake_adopt.options,
	generator snowflake_adopt.generator)
RETURNS SETOF snowflake_adopt.step LANGUAGE SQL STABLE AS $$
	WITH checked (relid, names) AS (
		-- foreign keys on columns whose type changes are checked again
		SELECT relid, ', which also locks ' || string_agg(DISTINCT other::regclass::text, ', ')
		FROM pg_constraint CROSS JOIN LATERAL (VALUES (conrelid, confrelid, conkey), (confrelid, conrelid, confkey)) AS side (own, other, numbers)
			JOIN unnest(changes) AS change ON relid = own
		WHERE contype = 'f' AND other <> own
			AND (SELECT attnum FROM pg_attribute WHERE attrelid = own AND pg_attribute.attname = change.attname) = ANY (numbers)
		GROUP BY relid
	), statement AS MATERIALIZED (
		SELECT * FROM snowflake_adopt.key_statements(keys, options, generator)
	)
	SELECT format('rewrite table %s (%s MB)%s: %s', relid::regclass,
			(SELECT sum(pg_relation_size(member)) / 1048576 FROM snowflake_adopt.trees(ARRAY[relid]))::bigint, names, alter_it),
		relid, NULL::name, alter_it
	FROM (SELECT relid, format('ALTER TABLE %s %s', relid::regclass,
			string_agg(format('ALTER COLUMN %I TYPE %s', attname, new_type), ', ' ORDER BY attname))
		FROM unnest(changes)
		GROUP BY relid) AS change (relid, alter_it) LEFT JOIN checked USING (relid)
	UNION ALL
	SELECT defaults, relid, attname, defaults FROM statement WHERE defaults IS NOT NULL
	UNION ALL
	-- once no key uses it
	SELECT sequences, relid, NULL, sequences FROM statement WHERE sequences IS NOT NULL
$$;

-- The steps, a new id, and the first id that has a time; an error if anything is in the way.
CREATE FUNCTION snowflake_adopt.plan(keys snowflake_adopt.key[], options snowflake_adopt.options,
	OUT steps snowflake_adopt.step[], OUT new_id bigint, OUT first_id bigint) LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET jit = off
SET quote_all_identifiers = off
AS $$
#variable_conflict use_column
DECLARE
	generator snowflake_adopt.generator := snowflake_adopt.find_generator();
	label CONSTANT text := CASE WHEN options.whole_schema THEN format('schema %s', options.adopted_schema::regnamespace)
		ELSE format('column %s.%I', keys[1].relid::regclass, keys[1].attname) END;
	problems snowflake_adopt.problem[] := ARRAY(SELECT p FROM snowflake_adopt.key_problems(keys) AS p);
	others snowflake_adopt.key[];
	changes snowflake_adopt.change[];
	found snowflake_adopt.value[];
	greatest_id bigint;
BEGIN
	-- what follows needs columns
	IF NOT options.whole_schema THEN
		PERFORM snowflake_adopt.fail(problems, options);
	END IF;
	others := ARRAY(SELECT o FROM snowflake_adopt.other_columns(options, keys) AS o);
	changes := ARRAY(SELECT c FROM snowflake_adopt.changes(keys, others) AS c ORDER BY relid, attname);
	problems := problems ||
		ARRAY(SELECT p FROM snowflake_adopt.partition_problems(keys, generator.new_id) AS p) ||
		ARRAY(SELECT p FROM snowflake_adopt.change_problems(label, changes, keys, others, options) AS p) ||
		ARRAY(SELECT p FROM snowflake_adopt.sequence_problems(keys, options) AS p);
	found := ARRAY(SELECT v FROM snowflake_adopt.greatest_values(
		ARRAY(SELECT (relid, attname)::snowflake_adopt.key FROM snowflake_adopt.key_statements(keys, options, generator) WHERE defaults IS NOT NULL),
		generator.new_id, options.callers_path, false) AS v);
	-- that can take long, and rows with new ids are added
	generator := snowflake_adopt.find_generator();
	problems := problems || ARRAY(SELECT p FROM snowflake_adopt.value_problems(found, generator, options.callers_path) AS p);
	-- only the last thing in the way can be one that only a try finds
	IF problems = '{}' THEN
		problems := ARRAY(SELECT p FROM snowflake_adopt.trial_problems(label, changes, options.callers_path) AS p);
	END IF;
	greatest_id := (SELECT max(largest) FROM unnest(found));
	PERFORM snowflake_adopt.fail(problems, options);
	IF NOT options.dry_run THEN
		EXECUTE 'SELECT ' || coalesce(generator.advance, 'NULL') USING greatest_id;
	END IF;
	new_id := generator.new_id;
	steps := ARRAY(SELECT s FROM snowflake_adopt.steps(keys, changes, options, generator) AS s);
	IF greatest_id > 0 THEN
		EXECUTE format('SELECT %1$s.snowflake_first_from(%1$s.snowflake_timestamp($1) + tick) FROM %1$s.snowflake_capacity()', generator.home)
		INTO first_id USING greatest_id;
	END IF;
END
$$;

CREATE FUNCTION snowflake_adopt.fail(problems snowflake_adopt.problem[], options snowflake_adopt.options)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF problems = '{}' THEN
		RETURN;
	ELSIF options.whole_schema THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = format('not all keys of schema %s can be adopted', options.adopted_schema::regnamespace),
			DETAIL = (SELECT string_agg(DISTINCT concat_ws(E'\n', problem.message || ':', problem.detail, problem.hint), E'\n')
				FROM unnest(problems) AS problem),
			HINT = 'Nothing was changed. Remove what is in the way and call snowflake_adopt_all() again, or leave keys out with excluding.';
	ELSE
		RAISE EXCEPTION USING ERRCODE = problems[1].code, MESSAGE = problems[1].message, DETAIL = problems[1].detail, HINT = problems[1].hint;
	END IF;
END
$$;

-- LOCK TABLE goes by name, and waits for a transaction that gives the name to another table.
CREATE FUNCTION snowflake_adopt.lock_tables(tables oid[], are_named boolean)
RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	names CONSTANT text[] := ARRAY(SELECT DISTINCT oid::regclass::text FROM unnest(tables) AS oid ORDER BY 1);
BEGIN
	EXECUTE 'LOCK TABLE ' || array_to_string(names, ', ') || ' IN ACCESS EXCLUSIVE MODE';
	IF NOT are_named OR EXISTS (SELECT FROM unnest(names) AS name WHERE to_regclass(name) IS NULL OR to_regclass(name) <> ALL (tables)) THEN
		RAISE serialization_failure USING MESSAGE = 'a table was renamed by a concurrent transaction', HINT = 'Try again.';
	END IF;
END
$$;

CREATE FUNCTION snowflake_adopt.take(step snowflake_adopt.step, options snowflake_adopt.options)
RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET jit = off
SET quote_all_identifiers = off
AS $$
DECLARE
	generator snowflake_adopt.generator;
	found snowflake_adopt.value;
BEGIN
	PERFORM snowflake_adopt.lock_tables(ARRAY[step.relid], true);
	generator := snowflake_adopt.find_generator();
	IF step.key IS NOT NULL THEN
		found := snowflake_adopt.greatest_values(ARRAY[(step.relid, step.key)::snowflake_adopt.key], generator.new_id, options.callers_path, true);
		PERFORM snowflake_adopt.fail(ARRAY(SELECT p FROM snowflake_adopt.value_problems(ARRAY[found], generator, options.callers_path) AS p), options);
		EXECUTE 'SELECT ' || coalesce(generator.advance, 'NULL') USING found.largest;
	END IF;
	PERFORM set_config('search_path', options.callers_path, true);
	EXECUTE step.statements;
END
$$;

-- What an adoption leaves alone (1 to 5), and what it changes besides keys and their types.
CREATE FUNCTION snowflake_adopt.side_effects(keys snowflake_adopt.key[], options snowflake_adopt.options)
RETURNS TABLE (number integer, line text) LANGUAGE SQL STABLE AS $$
	WITH reference AS MATERIALIZED (
		SELECT reference.*, format('%s.%I: %s', relid::regclass, attname, reason) AS line
		FROM snowflake_adopt.likely_references(options.adopted_schema, keys) AS reference
		WHERE (options.whole_schema OR refers_to IS NOT NULL) AND (relid, attname) NOT IN (SELECT relid, attname
			FROM snowflake_adopt.named_columns(options.adopted_schema, array_remove(options.widen_columns, '*'), 'column'))
	), key AS MATERIALIZED (
		SELECT member.*, attidentity, pg_get_expr(adbin, adrelid) AS expression
		FROM snowflake_adopt.members(keys) AS member JOIN pg_attribute ON attrelid = relid AND pg_attribute.attnum = member.attnum
			LEFT JOIN pg_attrdef ON adrelid = relid AND adnum = member.attnum
	)
	SELECT 1, line FROM reference WHERE NOT is_fixed AND '*' <> ALL (options.widen_columns)
	UNION ALL
	SELECT 2, line FROM reference WHERE is_fixed
	UNION ALL
	SELECT 2, format('%s: foreign partition', relid::regclass) FROM snowflake_adopt.members(keys) JOIN pg_class ON oid = relid AND relkind = 'f'
	UNION ALL
	SELECT 3, line FROM snowflake_adopt.integer_functions(options.adopted_schema, keys) AS line
	UNION ALL
	SELECT 4, format('%s uses sequence %s', user_name, sequence) FROM snowflake_adopt.sequence_users(keys)
	UNION ALL
	SELECT 5, format('%s.%I: %s', relid::regclass, attname, what)
	FROM snowflake_adopt.schema_keys(options.adopted_schema)
	WHERE options.whole_schema AND what <> 'ids'
	UNION ALL
	SELECT 6, format('%s: publication %s', altered.relid::regclass, pubname)
	FROM snowflake_adopt.altered(ARRAY(SELECT c FROM snowflake_adopt.changes(keys,
			ARRAY(SELECT o FROM snowflake_adopt.other_columns(options, keys) AS o)) AS c)) AS altered
		JOIN pg_class ON oid = altered.relid JOIN pg_namespace ON pg_namespace.oid = relnamespace
		JOIN pg_publication_tables ON schemaname = nspname AND tablename = relname
	UNION
	SELECT 7, format('%s.%I', relid::regclass, name) FROM key WHERE attidentity = 'a' AND relid = root
	UNION
	SELECT 8, format('%s.%I: %s', own.relid::regclass, own.name, own.expression)
	FROM key AS own JOIN key AS top ON top.relid = own.root AND top.root = own.root AND top.name = own.name
	WHERE own.expression <> coalesce(top.expression, '')
	UNION
	SELECT 9, format('%s: trigger %I', tgrelid::regclass, tgname)
	FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid
	WHERE tgrelid IN (SELECT relid FROM key) AND NOT tgisinternal AND tgtype & 6 = 6 AND prosrc ~* 'nextval'		-- BEFORE INSERT
$$;

CREATE FUNCTION snowflake_adopt.notes(keys snowflake_adopt.key[], options snowflake_adopt.options)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	note record;
BEGIN
	FOR note IN
		SELECT message, string_agg(line, E'\n' ORDER BY line COLLATE "C") AS lines, hint
		FROM snowflake_adopt.side_effects(keys, options) JOIN (VALUES
			(1, 'columns without a foreign key that seem to refer to keys stay too narrow for snowflake ids',
				'Set widen_columns to those that do, or to ''{*}'' for all of them.'),
			(2, 'integers in other types and in foreign tables that seem to refer to keys have to be changed by hand',
				'What writes a new id there fails.'),
			(3, 'functions with integers that seem to be ids have to be changed by hand', 'A new id is out of range there.'),
			(4, 'sequences of adopted keys are used elsewhere',
				'What calls nextval() there makes other numbers. Without keep_currval, currval() and lastval() fail.'),
			(5, 'columns that are no keys of type serial or identity are left alone', 'Call snowflake_adopt() for those that are to make ids, are integers, and are not inherited.'),
			(6, 'published tables are widened',
				'Widen the columns of subscribers first: otherwise they fail, and their slots hold back WAL here. Foreign tables and other copies of these have to follow, too.'),
			(7, 'columns are no longer GENERATED ALWAYS', 'Values that an INSERT gives are used, also with OVERRIDING USER VALUE.'),
			(8, 'defaults of partitions and other children are replaced', 'They make snowflake ids, too.'),
			(9, 'triggers that call nextval() before an INSERT stay', 'Drop them if they set the key.')
		) AS kind (number, message, hint) USING (number)
		GROUP BY number, message, hint
		ORDER BY number
	LOOP
		RAISE NOTICE USING MESSAGE = note.message, DETAIL = note.lines, HINT = note.hint;
	END LOOP;
END
$$;

CREATE FUNCTION snowflake_adopt.report(steps snowflake_adopt.step[], new_id bigint, first_id bigint, options snowflake_adopt.options, in_block boolean)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	locks bigint;
	room CONSTANT bigint := current_setting('max_locks_per_transaction')::bigint *
		(current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint);
BEGIN
	FOR i IN 1 .. cardinality(steps) LOOP
		RAISE NOTICE 'step %: %', i, steps[i].announcement;
	END LOOP;
	-- counted on PostgreSQL 15: for tables, TOAST tables, indexes, constraints, and their copies
	WITH rewritten (relid) AS MATERIALIZED (
		SELECT DISTINCT member FROM snowflake_adopt.trees(ARRAY(SELECT relid FROM unnest(steps)
			WHERE key IS NULL AND statements LIKE 'ALTER TABLE%'))
	)
	SELECT 7 * (SELECT count(key) FROM unnest(steps)) + 20 * (SELECT count(*) FROM rewritten) +
		(SELECT count(*) FROM pg_index JOIN rewritten ON indrelid = relid) +
		13 * (SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND (conrelid IN (SELECT * FROM rewritten) OR confrelid IN (SELECT * FROM rewritten)))
	INTO locks;
	IF options.dry_run OR in_block AND locks > room THEN
		RAISE NOTICE 'in a transaction block, it takes about % locks', locks
			USING DETAIL = CASE WHEN locks > room THEN format('The server has room for %s for certain.', room) ELSE 'The server has room for them.' END,
			HINT = 'The setting "max_locks_per_transaction" gives room for more, after a restart.';
	END IF;
	IF first_id IS NOT NULL THEN
		RAISE NOTICE 'ids have a time from % on', first_id
			USING DETAIL = 'Older ids were made before the conversion, and say nothing about time.',
			HINT = format('Where times of ids are read, add the condition id >= %s.', first_id);
	END IF;
	IF options.dry_run AND new_id > 9007199254740991 THEN
		RAISE NOTICE 'new ids are greater than 2^53'
			USING HINT = 'Programs in JavaScript have to read them as text or as BigInt. If they cannot, choose the layout js53 before the conversion.';
	END IF;
END
$$;

-- Check the call, and say what it does.  Returns the steps, none of a dry run.
CREATE FUNCTION snowflake_adopt.prepare(keys snowflake_adopt.key[], options snowflake_adopt.options, in_block boolean)
RETURNS snowflake_adopt.step[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET jit = off
SET quote_all_identifiers = off
AS $$
#variable_conflict use_column
DECLARE
	planned record;
BEGIN
	IF options IS NOT NULL IS FALSE OR in_block IS NULL OR array_position(options.widen_columns || options.excluding, NULL) IS NOT NULL
		OR EXISTS (SELECT FROM unnest(keys) AS key WHERE key IS NOT NULL IS FALSE) THEN
		RAISE null_value_not_allowed USING MESSAGE = 'arguments of an adoption must not be null';
	ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
		RAISE feature_not_supported USING MESSAGE = 'columns can only be adopted at isolation level READ COMMITTED',
			DETAIL = 'At other levels, changes made by concurrent transactions would not be seen.';
	ELSIF options.whole_schema AND NOT EXISTS (SELECT FROM pg_namespace WHERE oid = options.adopted_schema) THEN
		RAISE invalid_schema_name USING MESSAGE = format('schema with OID %s does not exist', options.adopted_schema);
	END IF;
	IF options.whole_schema THEN
		keys := ARRAY(SELECT (relid, attname)::snowflake_adopt.key FROM snowflake_adopt.schema_keys(options.adopted_schema)
			WHERE what = 'ids' AND (relid, attname) NOT IN (SELECT * FROM snowflake_adopt.named_columns(options.adopted_schema, options.excluding, 'table or column'))
			ORDER BY relid, attname);
	END IF;
	PERFORM snowflake_adopt.notes(keys, options);
	planned := snowflake_adopt.plan(keys, options);
	IF planned.steps <> '{}' THEN
		PERFORM snowflake_adopt.report(planned.steps, planned.new_id, planned.first_id, options, in_block);
	ELSIF options.whole_schema THEN
		RAISE NOTICE 'schema % has no keys of type serial or identity, skipping', options.adopted_schema::regnamespace;
	ELSE
		RAISE NOTICE 'column %.% already makes snowflake ids, skipping', keys[1].relid::regclass, quote_ident(keys[1].attname);
	END IF;
	RETURN CASE WHEN options.dry_run THEN '{}' ELSE planned.steps END;
END
$$;

CREATE PROCEDURE snowflake_adopt(adopted regclass, column_name name, widen_references boolean DEFAULT false,
	dry_run boolean DEFAULT false, drop_sequence boolean DEFAULT false, widen_columns text[] DEFAULT '{}',
	keep_currval boolean DEFAULT false)
LANGUAGE plpgsql
AS $$
DECLARE
	keys CONSTANT snowflake_adopt.key[] := ARRAY[ROW(adopted, column_name)::snowflake_adopt.key];
	options CONSTANT snowflake_adopt.options := ROW(
		coalesce((SELECT relnamespace FROM pg_catalog.pg_class WHERE oid OPERATOR(pg_catalog.=) adopted), adopted::pg_catalog.oid),
		false, dry_run, widen_references, drop_sequence, keep_currval, widen_columns, '{}', pg_catalog.current_setting('search_path'));
	name CONSTANT pg_catalog.text := adopted;
	steps CONSTANT snowflake_adopt.step[] := snowflake_adopt.prepare(keys, options, true);
	step snowflake_adopt.step;
BEGIN
	IF steps OPERATOR(pg_catalog.<>) '{}' THEN
		-- from here on nobody else can change the tables, or add or drop a foreign key
		PERFORM snowflake_adopt.lock_tables(ARRAY(SELECT relid FROM pg_catalog.unnest(steps)), name OPERATOR(pg_catalog.=) adopted::pg_catalog.text);
		FOREACH step IN ARRAY (snowflake_adopt.plan(keys, options)).steps LOOP
			PERFORM snowflake_adopt.take(step, options);
		END LOOP;
	END IF;
END
$$;

COMMENT ON PROCEDURE snowflake_adopt(regclass, name, boolean, boolean, boolean, text[], boolean) IS
'make a serial, identity or plain integer column a bigint whose default is snowflake_id(); widen_references: also widen the columns that refer to it; dry_run: only say what would be done; drop_sequence: drop the sequence of a serial instead of keeping it; widen_columns: also widen these, ''{*}'' for all that seem to refer to it; keep_currval: set the sequence to each new id, for programs that call currval()';

-- Each step is a transaction.  A procedure that had settings of its own could not commit.
CREATE PROCEDURE snowflake_adopt_all(adopted_schema regnamespace, dry_run boolean DEFAULT false,
	drop_sequence boolean DEFAULT false, excluding text[] DEFAULT '{}', widen_columns text[] DEFAULT '{}',
	keep_currval boolean DEFAULT false, in_one_transaction boolean DEFAULT false)
LANGUAGE plpgsql
AS $$
DECLARE
	options CONSTANT snowflake_adopt.options := ROW(adopted_schema, true, dry_run, true, drop_sequence, keep_currval,
		widen_columns, excluding, pg_catalog.current_setting('search_path'));
	steps CONSTANT snowflake_adopt.step[] := snowflake_adopt.prepare('{}', options, in_one_transaction);
	started pg_catalog.timestamptz;
BEGIN
	FOR number IN 1 .. pg_catalog.cardinality(steps) LOOP
		-- release the locks of the plan, and of the step before; in a transaction block, this fails
		IF NOT in_one_transaction THEN
			COMMIT;
		END IF;
		started := pg_catalog.clock_timestamp();
		PERFORM snowflake_adopt.take(steps[number], options);
		RAISE NOTICE 'step % took % s', number,
			pg_catalog.round(extract(epoch FROM pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) started), 3);
	END LOOP;
END
$$;

COMMENT ON PROCEDURE snowflake_adopt_all(regnamespace, boolean, boolean, text[], text[], boolean, boolean) IS
'do what snowflake_adopt() does for all serial and identity keys of a schema but those to exclude, and widen what refers to them; each step in a transaction of its own or, for a transaction block, in_one_transaction';
