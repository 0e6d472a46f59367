-- psql --file=psql.sql
INSERT INTO orders (item) VALUES ('tea') RETURNING id \gset
\echo :id
SELECT item FROM orders WHERE id = :id;
