-- Functions that mask ids: a masked id shows nothing of the id without the key.  Run this file in
-- psql, in the schema in which the functions are to be.  They are yours, and pg_dump keeps them;
-- they need PostgreSQL's pgcrypto, and work beside both editions of the extension.
--
-- Masking is FF1 of NIST SP 800-38G, a permutation, with radix 2 and AES-256: the id is 63 digits,
-- the most significant first.  The key of AES is the SHA-256 of the given key, and the tweak is
-- taken in UTF-8, so that other programs can compute the same.

CREATE EXTENSION IF NOT EXISTS pgcrypto;

-- Take a number through the ten rounds of FF1, or back.  Arguments have types, so that no function
-- that others create in a schema of the search_path fits better.
CREATE FUNCTION mask_permute(number bigint, key bytea, tweak text, forward boolean)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 10000
AS $$
DECLARE
	aes_key bytea := sha256(key);
	tweak_bytes bytea := convert_to(tweak, 'UTF8'::name);
	-- version, method, networks, radix, rounds, bits of the first half, bits, bytes of the tweak
	parameters bytea := decode('0102010000020a1f0000003f', 'hex'::text) || int4send(length(tweak_bytes));
	-- the tweak and the five bytes after it fill blocks of 16
	head bytea := parameters || tweak_bytes ||
		decode(repeat('00'::text, 15 - (length(tweak_bytes) + 4) % 16), 'hex'::text);
	-- the halves, of 31 and 32 bits, which change places on the way back
	a bigint := number >> 32;
	b bigint := number & 4294967295;
	round int;
	bits bigint;
	mac bytea;
	added bigint;
	next_half bigint;
BEGIN
	IF number < 0 THEN
		RAISE numeric_value_out_of_range USING MESSAGE = format('bigint %s is not a snowflake id'::text, number),
			DETAIL = 'Ids are not negative.';
	ELSIF length(key) = 0 THEN
		RAISE invalid_parameter_value USING MESSAGE = 'key for masking snowflake ids must not be empty';
	END IF;
	IF NOT forward THEN
		a := number & 4294967295;
		b := number >> 32;
	END IF;
	FOR step IN 0 .. 9 LOOP
		round := CASE WHEN forward THEN step ELSE 9 - step END;
		bits := CASE round % 2 WHEN 0 THEN 2147483647 ELSE 4294967295 END;
		-- the last block of AES in CBC mode
		mac := encrypt_iv(head || substr(int4send(round), 4) || substr(int8send(b), 5),
			aes_key, ''::bytea, 'aes-cbc/pad:none'::text);
		added := ('x' || encode(substr(mac, length(mac) - 15, 8), 'hex'::text))::bit(64)::bigint & bits;
		next_half := (CASE WHEN forward THEN a + added ELSE a - added END) & bits;
		a := b;
		b := next_half;
	END LOOP;
	RETURN CASE WHEN forward THEN a << 32 | b ELSE b << 32 | a END;
END
$$;

CREATE FUNCTION mask_id(id bigint, key bytea, tweak text DEFAULT '')
RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE COST 10000
RETURN mask_permute(id, key, tweak, true);

CREATE FUNCTION unmask_id(masked bigint, key bytea, tweak text DEFAULT '')
RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE COST 10000
RETURN mask_permute(masked, key, tweak, false);
