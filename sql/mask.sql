\set SHOW_CONTEXT never

-- Without OpenSSL, there are no masks, and the expected answers are in mask_1.out
SELECT snowflake_mask(1, 'key') AS mask \gset
\if :ERROR
\quit
\endif

\pset format unaligned
\pset tuples_only
-- These answers never change: masked ids are stored elsewhere.  Until 2026, an
-- implementation in SQL that gives the answers of NIST's samples gave the same.
SELECT id, snowflake_mask(id, 'secret') AS text_key, snowflake_mask(id, decode('00ff', 'hex')) AS bytea_key,
	snowflake_mask(id, 'secret', 'orders') AS with_tweak
FROM unnest(ARRAY[0, 1, 117426025905842031, 9223372036854775807]) AS id;

-- A permutation: masked ids can be unmasked, and no two are the same
CREATE TABLE samples AS
SELECT id, snowflake_mask(id, 'k') AS masked FROM (
	SELECT i AS id FROM generate_series(0, 2999) AS i
	UNION SELECT 117426025905842031 + i FROM generate_series(0, 2999) AS i
	UNION SELECT (random() * 9e18)::bigint FROM generate_series(1, 2000)
	UNION SELECT 9223372036854775807) AS s;
SELECT count(DISTINCT masked) = count(*) AS distinct, min(masked) >= 0 AS not_negative,
	count(*) FILTER (WHERE snowflake_unmask(masked, 'k') <> id) AS not_read_back,
	count(*) FILTER (WHERE snowflake_mask(snowflake_unmask(id, 'k'), 'k') <> id) AS not_onto,
	count(*) FILTER (WHERE masked = id) AS unchanged
FROM samples;
DROP TABLE samples;

-- Keys of any kind; a wrong key gives another id
SELECT snowflake_mask(1, 'secret') = snowflake_mask(1, 'secret'::bytea) AS same_bytes,
	snowflake_mask(1, 'secret', '') = snowflake_mask(1, 'secret') AS no_tweak,
	snowflake_unmask(snowflake_mask(1, 'secret'), 'Secret') <> 1 AS wrong_key,
	snowflake_unmask(snowflake_mask(1, 'secret', 'a'), 'secret', 'b') <> 1 AS wrong_tweak,
	snowflake_unmask(snowflake_mask(1, repeat('long', 1000)), repeat('long', 1000)) AS long_key;
SELECT snowflake_mask(NULL, 'k') IS NULL AND snowflake_mask(1, NULL::text) IS NULL AND snowflake_mask(1, 'k', NULL) IS NULL AND snowflake_unmask(NULL, 'k') IS NULL AS strict;
SELECT snowflake_mask(1, '');
SELECT snowflake_unmask(1, ''::bytea);
SELECT snowflake_mask(-1, 'k');
SELECT snowflake_unmask(-1, 'k');

-- What is prepared for one key is not used for another one: rows, NULLs and errors in
-- between
SELECT key, tweak, snowflake_mask(1, key, tweak) = CASE key || tweak
	WHEN 'a' THEN snowflake_mask(1, 'a') WHEN 'b' THEN snowflake_mask(1, 'b') WHEN 'ab' THEN snowflake_mask(1, 'a', 'b') END AS same
FROM (VALUES (1, 'a', ''), (2, 'a', 'b'), (3, NULL, 'b'), (4, 'b', ''), (5, 'b', NULL), (6, 'a', ''), (7, 'a', 'b'), (8, 'a', '')) AS v (i, key, tweak)
ORDER BY i;
DO $$
DECLARE
	k text;
	masked bigint;
BEGIN
	FOREACH k IN ARRAY ARRAY['a', 'b', '', 'b', 'a'] LOOP
		BEGIN
			masked := snowflake_mask(1, k);
			RAISE NOTICE '%: %', k, masked = CASE k WHEN 'a' THEN snowflake_mask(1, 'a') ELSE snowflake_mask(1, 'b') END;
		EXCEPTION WHEN invalid_parameter_value THEN
			RAISE NOTICE '%', SQLERRM;
		END;
	END LOOP;
END $$;
