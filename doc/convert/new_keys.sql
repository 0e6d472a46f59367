-- Give the key of each new table the default snowflake_id(), if it is a bigserial or an identity
-- column of type bigint.  Run this as a superuser, with the extension in the schema public.
-- doc/guide.md says for which frameworks, and what it leaves alone.
CREATE FUNCTION public.adopt_new_keys() RETURNS event_trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	key record;
BEGIN
	FOR key IN
		SELECT attrelid::regclass AS relation, attname AS name, attidentity <> '' AS is_identity, serial
		FROM pg_event_trigger_ddl_commands() AS command
			JOIN pg_class ON pg_class.oid = objid
			JOIN pg_index ON indrelid = pg_class.oid AND indisprimary
			JOIN pg_attribute ON attrelid = pg_class.oid AND attnum = ANY ((indkey::smallint[])[0:indnkeyatts - 1])
			CROSS JOIN pg_get_serial_sequence(attrelid::regclass::text, attname) AS serial
		WHERE command_tag = 'CREATE TABLE' AND object_type = 'table' AND NOT in_extension
			AND relpersistence <> 't' AND attinhcount = 0
			AND atttypid = 'bigint'::regtype AND serial IS NOT NULL
	LOOP
		IF key.is_identity THEN
			EXECUTE format('ALTER TABLE %s ALTER COLUMN %I DROP IDENTITY', key.relation, key.name);
		END IF;
		EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT public.snowflake_id()', key.relation, key.name);
		IF NOT key.is_identity THEN
			EXECUTE format('DROP SEQUENCE %s', key.serial);
		END IF;
	END LOOP;
END
$$;
CREATE EVENT TRIGGER adopt_new_keys ON ddl_command_end WHEN TAG IN ('CREATE TABLE')
EXECUTE FUNCTION public.adopt_new_keys();
