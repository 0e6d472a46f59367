-- psql --file=psql.sql
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_id(), item text);
INSERT INTO orders (item) VALUES ('tea') RETURNING id \gset
\echo :id
SELECT item FROM orders WHERE id = :id;
