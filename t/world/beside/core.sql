-- The guide's statements about PostgreSQL itself: rules, generated columns, JSON

-- A rule evaluates the default again; a trigger sees the row
CREATE TABLE log (order_id bigint, how text);
CREATE RULE log_order AS ON INSERT TO orders DO ALSO INSERT INTO log VALUES (NEW.id, 'rule');
CREATE FUNCTION log_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log VALUES (NEW.id, 'trigger');
	RETURN NULL;
END
$$;
CREATE TRIGGER log_order AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION log_order();
INSERT INTO orders (item) VALUES ('tea');
SELECT pg_temp.check('a rule makes another id', order_id <> id)
FROM orders, log WHERE how = 'rule';
SELECT pg_temp.check('a trigger has the id of the row', order_id = id)
FROM orders, log WHERE how = 'trigger';

-- Generated columns
SELECT pg_temp.check('a virtual generated column refuses functions of extensions',
	pg_temp.error_of('ALTER TABLE orders ADD COLUMN made_at timestamptz
		GENERATED ALWAYS AS (snowflake_timestamp(id, ''snowflake'')) VIRTUAL') LIKE '0A000 %');
ALTER TABLE orders ADD COLUMN made_at timestamptz
	GENERATED ALWAYS AS (snowflake_timestamp(id, 'snowflake')) STORED;
INSERT INTO orders (item) VALUES ('coffee');
SELECT pg_temp.check('a stored one can have the time of the id', bool_and(made_at = snowflake_timestamp(id)))
FROM orders;
