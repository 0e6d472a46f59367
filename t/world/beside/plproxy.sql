-- Functions that run in one of two databases, or in both
CREATE EXTENSION plproxy;
CREATE SERVER shop FOREIGN DATA WRAPPER plproxy
	OPTIONS (p0 'host=HOST dbname=shard_0', p1 'host=HOST dbname=shard_1');
CREATE USER MAPPING FOR CURRENT_USER SERVER shop;
CREATE FUNCTION add_order(item text) RETURNS SETOF bigint LANGUAGE plproxy
	AS 'CLUSTER ''shop''; RUN ON hashtext(item);';
CREATE FUNCTION new_ids() RETURNS SETOF bigint LANGUAGE plproxy
	AS 'CLUSTER ''shop''; RUN ON ALL; SELECT snowflake_nextval() FROM generate_series(1, 10000);';
SELECT pg_temp.check('ids of both shards differ', count(DISTINCT id) = 20000) FROM new_ids() AS id;
SELECT pg_temp.check('functions return ids', count(DISTINCT id) = 100)
FROM generate_series(1, 100) AS i, add_order(i::text) AS id;
