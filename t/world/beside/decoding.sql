-- How wal2json shows an id
SELECT FROM pg_create_logical_replication_slot('json', 'wal2json');
INSERT INTO orders (item) VALUES ('tea');
CREATE TEMPORARY TABLE changes AS
	SELECT data::json FROM pg_logical_slot_peek_changes('json', NULL, NULL, 'format-version', '2', 'include-transaction', 'off');
CREATE TEMPORARY TABLE changes_as_text AS
	SELECT data::json FROM pg_logical_slot_get_changes('json', NULL, NULL, 'format-version', '2', 'include-transaction', 'off',
		'numeric-data-types-as-string', 'on');
SELECT FROM pg_drop_replication_slot('json');
SELECT pg_temp.check('wal2json writes an id as a number',
	json_typeof(data -> 'columns' -> 0 -> 'value') = 'number' AND (data -> 'columns' -> 0 ->> 'value')::bigint = id)
FROM changes, orders WHERE data ->> 'table' = 'orders';
SELECT pg_temp.check('and as text on request',
	json_typeof(data -> 'columns' -> 0 -> 'value') = 'string' AND (data -> 'columns' -> 0 ->> 'value')::bigint = id)
FROM changes_as_text, orders WHERE data ->> 'table' = 'orders';
