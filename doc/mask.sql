-- Functions that mask ids: a masked id shows nothing of the id without the key.  Run this file in
-- psql.  It creates the functions in the first schema of the search_path, and pgcrypto if the
-- database does not have it.  They are yours, and pg_dump keeps them.
--
-- Masking is FF1 of NIST SP 800-38G, a permutation, with radix 2 and AES-256: the id is 63 digits,
-- the most significant first.  The key of AES is the SHA-256 of the given key, and the tweak is
-- taken in UTF-8, so that other programs can compute the same.
--
-- What the functions call is looked up now, once and for all: no search_path of a caller matters.
-- If one of them exists already, none is created.

BEGIN;
CREATE EXTENSION IF NOT EXISTS pgcrypto;
SELECT nspname AS pgcrypto FROM pg_namespace
WHERE oid = (SELECT extnamespace FROM pg_extension WHERE extname = 'pgcrypto') \gset

-- The number, if it can be masked with the key.
CREATE FUNCTION mask_checked(number bigint, key bytea)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF number < 0 THEN
		RAISE numeric_value_out_of_range USING MESSAGE = format('bigint %s is not a snowflake id', number),
			DETAIL = 'Ids are not negative.';
	ELSIF length(key) = 0 THEN
		RAISE invalid_parameter_value USING MESSAGE = 'key for masking snowflake ids must not be empty';
	END IF;
	RETURN number;
END
$$;

-- What a round of FF1 adds to one half of the number, given the other half: the start of the last
-- block of a text in AES, in CBC mode.  The text has the version, the method, the networks, the
-- radix, the rounds, the bits of the first half and of both, and the bytes of the tweak; the tweak,
-- which fills blocks of 16 bytes with the five bytes after it; the round, and the half.
CREATE FUNCTION mask_round(half bigint, round integer, key bytea, tweak bytea)
RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN ('x'::text || encode(substr(
		:"pgcrypto".encrypt_iv(decode('0102010000020a1f0000003f'::text, 'hex'::text) || int4send(length(tweak)) ||
			tweak || decode(repeat('00'::text, 15 - (length(tweak) + 4) % 16), 'hex'::text) ||
			substr(int4send(round), 4) || substr(int8send(half), 5),
			key, ''::bytea, 'aes-cbc/pad:none'::text),
		17 + (length(tweak) + 4) / 16 * 16, 8), 'hex'::text))::bit(64)::bigint & 4294967295;

-- The halves have 31 and 32 bits, in turn.
CREATE FUNCTION mask_id(id bigint, key bytea, tweak text DEFAULT '')
RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE COST 10000
BEGIN ATOMIC
	WITH RECURSIVE step(round, a, b, aes_key, bytes) AS (
		SELECT 0, mask_checked(id, key) >> 32, id & 4294967295, sha256(key), convert_to(tweak, 'UTF8'::name)
		UNION ALL
		SELECT round + 1, b, (a + mask_round(b, round, aes_key, bytes)) & (4294967295 >> 1 - round % 2), aes_key, bytes
		FROM step WHERE round < 10
	)
	SELECT a << 32 | b FROM step WHERE round = 10;
END;

CREATE FUNCTION unmask_id(masked bigint, key bytea, tweak text DEFAULT '')
RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE COST 10000
BEGIN ATOMIC
	WITH RECURSIVE step(round, a, b, aes_key, bytes) AS (
		SELECT 9, mask_checked(masked, key) >> 32, masked & 4294967295, sha256(key), convert_to(tweak, 'UTF8'::name)
		UNION ALL
		SELECT round - 1, (b - mask_round(a, round, aes_key, bytes)) & (4294967295 >> 1 - round % 2), a, aes_key, bytes
		FROM step WHERE round >= 0
	)
	SELECT a << 32 | b FROM step WHERE round = -1;
END;
COMMIT;
