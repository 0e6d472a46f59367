\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only

-- As drawn by hand
SELECT * FROM snowflake_inspect(117426025905842031, 'snowflake');
SELECT * FROM snowflake_inspect(9007199254740991, 'js53');
SELECT * FROM snowflake_inspect(0, 'sonyflake');
SELECT * FROM snowflake_inspect(50 << 24, 'sonyflake');
SELECT * FROM snowflake_inspect(1541815603606036480, 'twitter');
SELECT * FROM snowflake_inspect(5, 'time:62 datacenter:1 tick:1us');
SELECT * FROM snowflake_inspect(7, 'time:10');
SELECT * FROM snowflake_inspect(9223372036854775807, 'time:9 datacenter:9 worker:9 timeline:9 lane:9 sequence:9 tag:9 epoch:0');
-- Beyond the years that ISO 8601 can express
SELECT line FROM snowflake_inspect(9222550790399999, 'time:62') AS line WHERE line ~ 'time';

-- The lines of any id of any layout fit in 80 columns, and show its fields
SELECT count(*) AS cases, max(length(line)) <= 80 AS fits, bool_and(replace(bits, ' ', '') = right((id::bit(64))::text, length(replace(bits, ' ', '')))) AS bits
FROM (SELECT layout, (random() * (SELECT largest FROM snowflake_layout(layout) WHERE name = 'time'))::bigint << (SELECT shift FROM snowflake_layout(layout) WHERE name = 'time') AS id
	FROM unnest(ARRAY['snowflake', 'twitter', 'leaf', 'discord', 'instagram', 'sonyflake', 'sonyflake2', 'uid-generator', 'cosid', 'pgedge', 'pgactive', 'js53', 'time:32 sequence:30 datacenter:1', 'time:1 datacenter:31 worker:31']) AS layout, generate_series(1, 20)) AS s,
	LATERAL (SELECT string_agg(l, E'\n') AS lines, max(l) FILTER (WHERE n = 1) AS bits FROM snowflake_inspect(id, layout) WITH ORDINALITY AS i (l, n)) AS i,
	LATERAL regexp_split_to_table(lines, E'\n') AS line;

-- The default layout is the one in force
SELECT (SELECT string_agg(l, E'\n') FROM snowflake_inspect(id) AS l) = (SELECT string_agg(l, E'\n') FROM snowflake_inspect(id, 'snowflake') AS l) AS same
FROM (SELECT snowflake_nextval() AS id OFFSET 0) AS new;
SELECT * FROM snowflake_inspect(-1);
SELECT * FROM snowflake_inspect(9007199254740992, 'js53');
SELECT * FROM snowflake_inspect(1, 'nonsense');
SELECT count(*) AS strict FROM snowflake_inspect(NULL, 'js53');
