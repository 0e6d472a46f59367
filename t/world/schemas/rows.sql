-- Rows for tables that nobody here knows: a row for each table, in two rounds before an
-- adoption and one after it, with foreign keys that refer to the newest rows, so that a
-- reference that is too narrow for a snowflake id fails.  Some constraints ask for more
-- than this can guess; a table that took two rows has to take a third one.
\set ON_ERROR_STOP on
SET client_min_messages = warning;

CREATE SCHEMA made;

CREATE TABLE made.rows (
	round int,
	relation regclass,
	way int,			-- which of the ways below worked, if any
	reason text,		-- the error of the last one otherwise
	PRIMARY KEY (round, relation)
);

-- all tables but those here, and columns that are too narrow for an id
CREATE VIEW made.tables AS
	SELECT pg_class.oid::regclass AS relation, pg_class.oid
	FROM pg_class
	WHERE relkind = 'r' AND NOT relispartition AND relpersistence = 'p'
		AND relnamespace::regnamespace::text !~ '^(pg_|information_schema|made|snowflake)'
		AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid AND deptype = 'e');

CREATE TABLE made.narrow AS
	SELECT attrelid, attnum FROM pg_attribute
	WHERE attrelid IN (SELECT oid FROM made.tables) AND atttypid IN ('smallint'::regtype, 'integer'::regtype);

-- The first constant in a constraint, which is often an allowed value, or a length.
CREATE FUNCTION made.constant(attribute pg_attribute, pattern text) RETURNS text
LANGUAGE SQL AS $$
	SELECT constant[1]
	FROM pg_constraint, regexp_match(pg_get_constraintdef(oid), pattern) AS constant
	WHERE contype = 'c' AND (conrelid = attribute.attrelid AND attribute.attnum = ANY (conkey) OR contypid = attribute.atttypid)
		AND constant IS NOT NULL
	LIMIT 1
$$;

-- An expression for a value that a column does not have yet.
CREATE FUNCTION made.value(attribute pg_attribute, round int) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	relation constant regclass := attribute.attrelid;
	type pg_type;
	allowed text;
BEGIN
	SELECT * INTO type FROM pg_type WHERE oid = attribute.atttypid;
	WHILE type.typtype = 'd' LOOP
		SELECT * INTO type FROM pg_type WHERE oid = type.typbasetype;
	END LOOP;
	allowed := made.constant(attribute, CASE type.typcategory
		WHEN 'S' THEN '= (?:ANY \(+ARRAY\[)?\(*''([^'']*)'''
		WHEN 'N' THEN '= (?:ANY \(ARRAY\[)?\(?''?(-?\d+)' END);
	IF allowed IS NOT NULL THEN
		RETURN quote_literal(allowed);
	END IF;
	RETURN CASE
		WHEN type.oid = 'bigint'::regtype AND EXISTS (SELECT FROM made.narrow
				WHERE narrow.attrelid = relation AND narrow.attnum = attribute.attnum) THEN
			format('(SELECT greatest(max(%I), 1::bigint << 40) + 1 FROM %s)', attribute.attname, relation)
		WHEN type.typcategory = 'N' THEN format('(SELECT coalesce(max(%I), 0) + 1 FROM %s)', attribute.attname, relation)
		WHEN type.typname IN ('bpchar', 'varchar') AND attribute.atttypmod BETWEEN 5 AND 6 THEN
			format('(SELECT chr(n) FROM generate_series(97, 500) AS n WHERE chr(n) NOT IN (SELECT %1$I FROM %2$s WHERE %1$I IS NOT NULL) LIMIT 1)',
				attribute.attname, relation)
		WHEN type.typname IN ('bpchar', 'varchar') AND attribute.atttypmod > 0 THEN
			format('left(gen_random_uuid()::text, %s)', attribute.atttypmod - 4)
		WHEN type.typcategory = 'S' THEN 'left(gen_random_uuid()::text, 8)'
		WHEN type.typcategory = 'D' THEN format('clock_timestamp() + interval ''%s days''', round)
		WHEN type.typcategory = 'B' THEN 'false'
		WHEN type.typcategory = 'E' THEN format('enum_first(NULL::%s)', type.oid::regtype)
		WHEN type.typcategory = 'A' THEN '''{}'''
		WHEN type.typcategory = 'R' THEN '''empty'''
		WHEN type.typcategory = 'T' THEN '''1 day'''
		WHEN type.typcategory = 'I' THEN format('''10.0.0.%s''', round)
		WHEN type.typname IN ('json', 'jsonb') THEN '''{}'''
		WHEN type.typname = 'uuid' THEN 'gen_random_uuid()'
		WHEN type.typname = 'bytea' THEN format('substr(sha256(random()::text::bytea), 1, %s)', coalesce(made.constant(attribute, 'length\(.* = (\d+)'), '20'))
		WHEN type.typcategory = 'V' THEN format('repeat(''0'', %s)::varbit', attribute.atttypmod)
		WHEN type.typcategory = 'G' THEN '''(1,1)'''
		ELSE 'NULL'
	END;
END;
$$;

-- An INSERT: references as they are known, what has no default if it must not be NULL, or
-- all columns.
CREATE FUNCTION made.insert(relation regclass, round int, all_columns boolean) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	attribute pg_attribute;
	reference record;
	is_unique boolean;
	value text;
	names text[] := '{}';
	list text[] := '{}';
BEGIN
	FOR attribute IN SELECT * FROM pg_attribute
		WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attidentity = ''
		ORDER BY attnum
	LOOP
		is_unique := EXISTS (SELECT FROM pg_index WHERE indrelid = relation AND indisunique AND attribute.attnum = ANY (indkey));
		SELECT confrelid::regclass AS parent, confkey, confkey[array_position(conkey, attribute.attnum)] AS attnum INTO reference
		FROM pg_constraint
		WHERE contype = 'f' AND conrelid = relation AND attribute.attnum = ANY (conkey)
			AND NOT (confrelid = relation AND confkey[array_position(conkey, attribute.attnum)] = attribute.attnum)
		ORDER BY cardinality(conkey), oid LIMIT 1;
		IF FOUND THEN
			-- one that is allowed, and not referred to, if possible
			SELECT format('(SELECT %1$I FROM %2$s AS parent ORDER BY %1$I::text = %3$L DESC, parent.%1$I IN (SELECT %4$I FROM %5$s WHERE %4$I IS NOT NULL), %6$s LIMIT 1)',
				attname, reference.parent, made.constant(attribute, '= (?:ANY \(ARRAY\[)?(\d+)'), attribute.attname, relation,
				(SELECT string_agg(format('%I DESC', attname), ', ' ORDER BY attnum) FROM pg_attribute
					WHERE attrelid = reference.parent AND attnum = ANY (reference.confkey))) INTO value
			FROM pg_attribute
			WHERE attrelid = reference.parent AND attnum = reference.attnum;
		ELSIF NOT (attribute.atthasdef AND NOT (is_unique AND NOT EXISTS (
					SELECT FROM pg_attrdef WHERE adrelid = relation AND adnum = attribute.attnum
						AND pg_get_expr(adbin, adrelid) ~ '\('))
				OR NOT (attribute.attnotnull OR is_unique OR all_columns)) THEN
			value := made.value(attribute, round);
		ELSE
			CONTINUE;
		END IF;
		names := names || quote_ident(attribute.attname);
		list := list || format('CAST(%s AS %s)', value, format_type(attribute.atttypid, attribute.atttypmod));
	END LOOP;
	IF names = '{}' THEN
		RETURN format('INSERT INTO %s DEFAULT VALUES', relation);
	END IF;
	RETURN format('INSERT INTO %s (%s) VALUES (%s)', relation, array_to_string(names, ', '), array_to_string(list, ', '));
END;
$$;

-- Insert a row into each table, those that are referred to first.  Ways 1 and 2 have all
-- triggers, 3 and 4 none; 2 and 4 set all columns.
CREATE PROCEDURE made.round(this int)
LANGUAGE plpgsql SET client_min_messages = warning AS $$
DECLARE
	next record;
	chosen int;
	error text;
BEGIN
	LOOP
		SELECT relation, oid INTO next FROM made.tables
		WHERE NOT EXISTS (SELECT FROM made.rows WHERE rows.relation = tables.relation AND round = this)
		ORDER BY (SELECT row(count(*) FILTER (WHERE attnotnull), count(*))
			FROM pg_constraint JOIN pg_attribute ON attrelid = conrelid AND attnum = conkey[1]
			WHERE contype = 'f' AND conrelid = tables.oid AND confrelid <> tables.oid
				AND NOT EXISTS (SELECT FROM made.rows WHERE rows.relation = confrelid AND round = this)), oid
		LIMIT 1;
		EXIT WHEN NOT FOUND;
		chosen := NULL;
		FOR way IN 1..4 LOOP
			CONTINUE WHEN this > 1 AND way IS DISTINCT FROM
				(SELECT rows.way FROM made.rows WHERE rows.relation = next.relation AND round = 1);
			BEGIN
				PERFORM set_config('session_replication_role', CASE WHEN way > 2 THEN 'replica' ELSE 'origin' END, true);
				EXECUTE made.insert(next.relation, this, way IN (2, 4));
				SET CONSTRAINTS ALL IMMEDIATE;
				chosen := way;
				EXIT;
			EXCEPTION WHEN OTHERS THEN
				error := SQLERRM;
			END;
		END LOOP;
		INSERT INTO made.rows VALUES (this, next.relation, chosen, CASE WHEN chosen IS NULL THEN error END);
	END LOOP;
	PERFORM set_config('session_replication_role', 'origin', true);
END;
$$;

-- What an adoption must not change: the rows of each table, and its constraints.
CREATE FUNCTION made.state(OUT relation text, OUT what text) RETURNS SETOF record
LANGUAGE plpgsql AS $$
BEGIN
	FOR relation IN SELECT tables.relation FROM made.tables ORDER BY tables.relation::text LOOP
		-- a dump can change the order of inherited columns
		EXECUTE format('SELECT concat_ws('' '', count(*), ''rows'', md5(string_agg(this, '''' ORDER BY this)))
			FROM (SELECT to_jsonb(t)::text COLLATE "C" AS this FROM ONLY %s AS t) AS rows', relation) INTO what;
		RETURN NEXT;
		-- and print checks in another way, and name constraints of partitions anew
		FOR what IN SELECT CASE WHEN contype = 'c' THEN conname ELSE pg_get_constraintdef(oid) END FROM pg_constraint
			WHERE conrelid = relation::regclass ORDER BY 1
		LOOP
			RETURN NEXT;
		END LOOP;
	END LOOP;
END;
$$;
