\pset format unaligned
\pset tuples_only
\set SHOW_CONTEXT never

-- Answers of other implementations, and edge cases
SELECT encoding, snowflake_to_text(9223372036854775807, encoding) AS largest, snowflake_to_text(0, encoding) AS zero,
	snowflake_to_text(117426025905842031, encoding) AS an_id
FROM unnest(ARRAY['base32', 'base36', 'base58', 'base62', 'hex']) AS encoding;
SELECT snowflake_to_text(1234567890123456789, 'HEX') = lpad(to_hex(1234567890123456789), 16, '0') AS hex;

SELECT snowflake_to_text(1428076403798048768, 'base58-bwmarrin') AS base58, snowflake_to_text(1427970479175499776, 'base32-bwmarrin') AS base32,
	snowflake_from_text('4jgmnx8Js8A', 'base58-bwmarrin') = 1428076403798048768 AS read_58, snowflake_from_text('b8wjm1zroyyyy', 'base32-bwmarrin') = 1427970479175499776 AS read_32;
SELECT snowflake_from_text('B8wjm1zroyyyy', 'base32-bwmarrin');
SELECT count(*) FILTER (WHERE snowflake_from_text(snowflake_to_text(id, encoding), encoding) = id) AS read_back
FROM generate_series(0, 9000000000000000000, 90000000000000001) AS id, unnest('{base32-bwmarrin,base58-bwmarrin}'::text[]) AS encoding;

-- Round trips, and text that sorts like the ids
CREATE TABLE samples AS
SELECT id FROM (
	SELECT (random() * power(2, 63 * random()))::bigint AS id FROM generate_series(1, 2000)
	UNION SELECT (1::bigint << i) - 1 FROM generate_series(0, 62) AS i
	UNION SELECT 1::bigint << i FROM generate_series(0, 62) AS i
	UNION SELECT 9223372036854775807) AS s
WHERE id >= 0;
SELECT encoding, count(*) FILTER (WHERE snowflake_from_text(code, encoding) IS DISTINCT FROM id) AS not_read_back,
	count(DISTINCT length(code)) AS widths, count(DISTINCT code) = count(*) AS distinct,
	count(*) FILTER (WHERE code <= earlier) AS out_of_order
FROM (
	SELECT encoding, id, code, lag(code) OVER (PARTITION BY encoding ORDER BY id) AS earlier
	FROM samples, unnest(ARRAY['base32', 'base36', 'base58', 'base62', 'hex']) AS encoding,
		LATERAL (SELECT snowflake_to_text(id, encoding) COLLATE "C" AS code) AS t) AS s
GROUP BY encoding ORDER BY encoding;
DROP TABLE samples;

-- Input that differs from the output: either case where that makes no difference, other
-- letters and hyphens as Crockford defines them, fewer digits
SELECT snowflake_from_text('7zzz-zzzz-zzzzz', 'base32') AS lower_case, snowflake_from_text('oO0', 'base32') AS o,
	snowflake_from_text('iIlL1', 'base32') = snowflake_from_text('11111', 'base32') AS i_and_l,
	snowflake_from_text('1Y2P0IJ32E8E7', 'base36') AS base36, snowflake_from_text('FF', 'hex') AS hex,
	snowflake_from_text('2', 'base58') AS short;

-- Errors
SELECT snowflake_from_text('0l', 'base62') AS fine, snowflake_from_text('2l', 'base58');
SELECT snowflake_from_text('20', 'base58');
SELECT snowflake_from_text('12u4', 'base32');
SELECT snowflake_from_text(' 12', 'hex');
SELECT snowflake_from_text('12-3', 'base36');
SELECT snowflake_from_text('', 'hex');
SELECT snowflake_from_text('---', 'base32');
SELECT snowflake_from_text('8000000000000', 'base32');
SELECT snowflake_from_text('8000000000000000', 'hex');
SELECT snowflake_from_text('1y2p0ij32e8e8', 'base36');
SELECT snowflake_from_text('AzL8n0Y58m8', 'base62');
SELECT snowflake_from_text('NQm6nKp8qFD', 'base58');
SELECT snowflake_from_text('00000000000000001', 'hex');
SELECT snowflake_from_text(repeat('0', 100000) || 'x', 'base62');
SELECT snowflake_to_text(-1, 'hex');
SELECT snowflake_to_text(1, 'base64');
SELECT snowflake_to_text(1, '');
-- random text is either refused, or read as an id whose own text is equivalent
DO $$
DECLARE
	code text;
	encoding text;
	id bigint;
BEGIN
	FOR i IN 1 .. 20000 LOOP
		encoding := (ARRAY['base32', 'base36', 'base58', 'base62', 'hex'])[1 + i % 5];
		code := (SELECT string_agg(CASE WHEN random() < 0.98 THEN chr(48 + floor(random() * 75)::int) ELSE chr(1 + floor(random() * 125)::int) END, '')
			FROM generate_series(1, 1 + i % 18));
		BEGIN
			id := snowflake_from_text(code, encoding);
			IF NOT coalesce(id >= 0 AND ltrim(translate(upper(snowflake_to_text(id, encoding)), 'OIL', '011'), '01') =
				ltrim(translate(replace(upper(code), '-', ''), 'OIL', '011'), '01'), false) THEN
				RAISE WARNING '% in % is %', code, encoding, id;
			END IF;
		EXCEPTION WHEN invalid_text_representation OR numeric_value_out_of_range THEN
		END;
	END LOOP;
END $$;
SELECT snowflake_to_text(NULL, 'hex') IS NULL AND snowflake_to_text(1, NULL) IS NULL AND snowflake_from_text(NULL, 'hex') IS NULL AS strict;
