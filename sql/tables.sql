\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only

-- A column default
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text NOT NULL);
INSERT INTO orders (item) VALUES ('tea'), ('milk'), ('honey');
SELECT item, id > 0 AS has_id FROM orders ORDER BY id;
INSERT INTO orders (item) VALUES ('bread') RETURNING id = snowflake_currval() AS returned;
INSERT INTO orders VALUES (DEFAULT, 'butter') RETURNING id > 0 AS returned;
INSERT INTO orders (item) SELECT 'sugar' || i FROM generate_series(1, 10000) AS i;
SELECT count(*), count(DISTINCT id) FROM orders;
-- ordering by id gives the order of insertion
SELECT bool_and(item = 'sugar' || n) AS in_order
FROM (SELECT item, row_number() OVER (ORDER BY id) AS n FROM orders WHERE item LIKE 'sugar%') AS o;
-- explicit values are allowed, and do no harm
INSERT INTO orders VALUES (42, 'salt');
INSERT INTO orders VALUES (42, 'salt');
INSERT INTO orders VALUES (NULL, 'salt');

-- ON CONFLICT
INSERT INTO orders VALUES (42, 'pepper') ON CONFLICT (id) DO UPDATE SET item = excluded.item RETURNING id, item;
INSERT INTO orders VALUES (42, 'mace') ON CONFLICT (id) DO UPDATE SET id = DEFAULT, item = excluded.item
RETURNING id > 42 AS new_id, item;
INSERT INTO orders (item) VALUES ('basil') ON CONFLICT DO NOTHING RETURNING id > 42 AS new_id;
UPDATE orders SET id = DEFAULT WHERE item LIKE 'sugar%';
SELECT count(*), count(DISTINCT id) FROM orders;

-- MERGE
MERGE INTO orders AS o USING (VALUES ('mace'), ('thyme'), ('sage')) AS n(item) ON o.item = n.item
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED THEN INSERT (item) VALUES (n.item);
SELECT item FROM orders WHERE item IN ('mace', 'thyme', 'sage') ORDER BY item;

-- COPY
COPY orders (item) FROM STDIN;
rosemary
dill
\.
SELECT count(*), count(DISTINCT id) FROM orders WHERE item IN ('rosemary', 'dill');

-- with other columns, and a default that is more than the call
CREATE TABLE notes (id bigint DEFAULT snowflake_nextval(), at timestamptz DEFAULT snowflake_timestamp(snowflake_nextval()),
	n bigint DEFAULT 0 + snowflake_nextval(), note text);
COPY notes (note) FROM STDIN;
a
b
c
\.
SELECT count(DISTINCT id), count(DISTINCT n), bool_and(at <= clock_timestamp()), bool_and(n > id) FROM notes;
-- calls in a trigger's commands do not count as those of COPY
CREATE TABLE named (name text);
INSERT INTO named VALUES ('x'), ('y'), ('z');
CREATE FUNCTION add_id() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	ALTER TABLE named ADD COLUMN id bigint DEFAULT snowflake_nextval();
	RETURN NULL;
END
$$;
CREATE TRIGGER add_id AFTER INSERT ON notes EXECUTE FUNCTION add_id();
COPY notes (note) FROM STDIN;
d
\.
SELECT count(DISTINCT id) FROM named;
DROP TABLE named;
DROP TRIGGER add_id ON notes;
DROP FUNCTION add_id();
-- without the privilege to make ids, COPY makes none
CREATE ROLE regress_snowflake_user;
GRANT INSERT ON notes TO regress_snowflake_user;
REVOKE EXECUTE ON FUNCTION snowflake_nextval() FROM PUBLIC;
SET ROLE regress_snowflake_user;
\copy notes (note) FROM /dev/null
\echo :LAST_ERROR_SQLSTATE
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_nextval() TO PUBLIC;
-- and COPY needs no other privilege
REVOKE EXECUTE ON FUNCTION snowflake_internal.nextval_batch(internal) FROM PUBLIC;
SET ROLE regress_snowflake_user;
COPY notes (note) FROM STDIN;
e
f
\.
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_internal.nextval_batch(internal) TO PUBLIC;
SELECT count(DISTINCT id) FROM notes;
DROP TABLE notes;
DROP ROLE regress_snowflake_user;
-- planning a query makes no ids
SELECT snowflake_nextval() AS id \gset
DO $$
BEGIN
	EXECUTE 'EXPLAIN SELECT FROM orders WHERE id IN (snowflake_nextval(), 5)';
	EXECUTE 'EXPLAIN SELECT FROM orders WHERE id NOT IN (1, snowflake_nextval(), 2)';
	EXECUTE 'EXPLAIN SELECT FROM orders WHERE id > ANY (ARRAY[snowflake_nextval(), id])';
END $$;
SELECT snowflake_currval() = :id AS same;

-- Adding a column to a table with rows gives each row an id of its own
CREATE TABLE legacy AS SELECT i AS n FROM generate_series(1, 10000) AS i;
ALTER TABLE legacy ADD COLUMN id bigint DEFAULT snowflake_nextval();
SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE id IS NULL) AS nulls FROM legacy;
ALTER TABLE legacy ADD COLUMN other bigint NOT NULL DEFAULT snowflake_nextval() + 1;
SELECT count(DISTINCT other) FROM legacy;
ALTER TABLE legacy ALTER COLUMN other TYPE bigint USING snowflake_nextval();
SELECT count(DISTINCT other) FROM legacy;
ALTER TABLE legacy DROP COLUMN other;
-- and places that require immutable expressions refuse it as usual; 19 shows the
-- position
\set VERBOSITY sqlstate
CREATE INDEX ON legacy (snowflake_nextval());
\set VERBOSITY default
ALTER TABLE legacy ADD COLUMN g bigint GENERATED ALWAYS AS (snowflake_nextval()) STORED;
ALTER TABLE legacy ADD PRIMARY KEY (id);
ALTER TABLE legacy ALTER COLUMN id DROP DEFAULT;
INSERT INTO legacy (n) VALUES (0);
ALTER TABLE legacy ALTER COLUMN id SET DEFAULT snowflake_nextval();
INSERT INTO legacy (n) VALUES (0);
SELECT count(*), count(DISTINCT id) FROM legacy;

-- Partitions, by the id and by another column
CREATE TABLE events (id bigint DEFAULT snowflake_nextval(), at timestamptz DEFAULT now(), PRIMARY KEY (id))
PARTITION BY RANGE (id);
CREATE TABLE events_past PARTITION OF events FOR VALUES FROM (MINVALUE) TO (snowflake_compose('2026-02-01'));
CREATE TABLE events_now PARTITION OF events FOR VALUES FROM (snowflake_compose('2026-02-01')) TO (MAXVALUE);
INSERT INTO events SELECT FROM generate_series(1, 1000);
INSERT INTO events (id) VALUES (snowflake_compose('2026-01-15'));
SELECT tableoid::regclass, count(*) FROM events GROUP BY 1 ORDER BY 1;
CREATE TABLE measures (id bigint NOT NULL DEFAULT snowflake_nextval(), sensor int) PARTITION BY HASH (sensor);
CREATE TABLE measures_0 PARTITION OF measures FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE measures_1 PARTITION OF measures FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO measures (sensor) SELECT i FROM generate_series(1, 1000) AS i;
SELECT count(*), count(DISTINCT id), count(DISTINCT tableoid) AS partitions FROM measures;

-- Rules, triggers, foreign keys, views, functions and prepared statements
CREATE TABLE lines (order_id bigint REFERENCES orders, line int);
CREATE FUNCTION place_order(item text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	new_id bigint;
BEGIN
	INSERT INTO orders (item) VALUES (item) RETURNING id INTO new_id;
	INSERT INTO lines VALUES (new_id, 1), (snowflake_currval(), 2);
	RETURN new_id;
END $$;
SELECT place_order('flour') = snowflake_currval() AS placed;
SELECT count(*), count(DISTINCT order_id) FROM lines;
CREATE VIEW order_view AS SELECT * FROM orders;
INSERT INTO order_view (item) VALUES ('rice') RETURNING id IS NOT NULL AS has_id;
PREPARE place (text) AS INSERT INTO orders (item) VALUES ($1) RETURNING id = snowflake_currval() AS has_id;
EXECUTE place ('oats');
EXECUTE place ('rye');
SELECT count(DISTINCT id) FROM orders WHERE item IN ('oats', 'rye');
DEALLOCATE place;
WITH o AS (INSERT INTO orders (item) VALUES ('nuts') RETURNING id), l AS (INSERT INTO lines SELECT id, 1 FROM o RETURNING order_id)
SELECT o.id = l.order_id AS same FROM o, l;

-- Temporary and unlogged tables
CREATE TEMP TABLE t (id bigint DEFAULT snowflake_nextval());
INSERT INTO t SELECT FROM generate_series(1, 10);
CREATE UNLOGGED TABLE u (id bigint DEFAULT snowflake_nextval());
INSERT INTO u SELECT FROM generate_series(1, 10);
SELECT count(*), count(DISTINCT id) FROM (SELECT * FROM t UNION ALL SELECT * FROM u) AS b;

-- Ordinary users can make ids, too
CREATE ROLE regress_snowflake_user;
CREATE TABLE theirs (id bigint DEFAULT snowflake_nextval());
GRANT INSERT ON theirs TO regress_snowflake_user;
SET ROLE regress_snowflake_user;
INSERT INTO theirs DEFAULT VALUES;
SELECT (snowflake_decode(snowflake_nextval())).worker_id;
RESET ROLE;
DROP TABLE theirs;
DROP ROLE regress_snowflake_user;

-- The default protects the extension from being dropped by accident
\set VERBOSITY terse
DROP EXTENSION snowflake;

DROP TABLE orders, lines, legacy, events, measures, t, u CASCADE;
DROP FUNCTION place_order;
