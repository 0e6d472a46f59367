-- A view that is maintained along with its table
CREATE EXTENSION pg_ivm;
SELECT FROM pgivm.create_immv('items', 'SELECT item, count(*) AS count FROM orders GROUP BY item');
SELECT FROM pgivm.create_immv('times', $$SELECT id, snowflake_timestamp(id, 'snowflake') AS made_at FROM orders$$);
INSERT INTO orders (item) SELECT 'coffee' FROM generate_series(1, 1000);
SELECT pg_temp.check('a view of counts is maintained', count = 1000) FROM items WHERE item = 'coffee';
SELECT pg_temp.check('a view of the ids and their times',
	count(*) = 1000 AND bool_and(made_at = snowflake_timestamp(orders.id)))
FROM orders JOIN times USING (id);
