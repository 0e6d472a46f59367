/*-------------------------------------------------------------------------
 *
 * mask.c
 *	  Masked ids, which reveal nothing without the key.
 *
 * Masking is a keyed permutation of the bigints that are not negative: a
 * Feistel network over 64 bits, applied again as long as the result is
 * negative (cycle walking, two passes on average).  In each round the halves
 * of the id change places, and one is XORed with the first bytes of a hash of
 * the other:
 *
 *		HMAC-SHA-256(key, round || half || tweak)
 *
 * The round is one byte, the half is four bytes, the most significant first,
 * and the tweak is the rest.  There are ten rounds, as in FF1 of NIST SP
 * 800-38G, a network of the same kind.
 *
 * Users store masked ids elsewhere, so the same id, key and tweak must always
 * give the same result, in all versions.
 *
 * HMAC computes two hashes, each of which begins with a block made of the key.
 * A MaskKey keeps the two states of SHA-256 after these blocks, from one call to
 * the next.  A state must be a plain struct, as OpenSSL's oldest functions have
 * it: a hash context of PostgreSQL belongs to a resource owner.  Where they are
 * missing, PostgreSQL's HMAC gives the same result, but takes much longer.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#ifdef USE_OPENSSL
#include <openssl/sha.h>
#endif

#include "catalog/pg_type.h"
#include "common/hmac.h"
#include "common/sha2.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "port/pg_bswap.h"

#include "compat.h"
#include "layout.h"

PG_FUNCTION_INFO_V1(snowflake_mask);
PG_FUNCTION_INFO_V1(snowflake_unmask);

#if defined(USE_OPENSSL) && !defined(OPENSSL_NO_DEPRECATED_3_0)
#define HASH_FROM_STATES
#endif

#define MASK_ROUNDS		10

/* A mutant has fewer, so that a test can try all numbers. */
#define MASK_BITS		64

#define HALF_BITS		(MASK_BITS / 2)
#define HALF_MASK		((UINT64CONST(1) << HALF_BITS) - 1)

/* The part of a message before the tweak. */
#define PREFIX_LENGTH	(1 + sizeof(uint32))

/* Bytes that somebody else has allocated. */
typedef struct MaskBytes
{
	const uint8 *data;
	size_t		length;
} MaskBytes;

/* A key and a tweak, prepared for many ids. */
typedef struct MaskKey
{
	MaskBytes	key;
	MaskBytes	tweak;			/* within the message */
	uint8	   *message;		/* the prefix changes */
#ifdef HASH_FROM_STATES
	SHA256_CTX	inner;			/* the states after the blocks of the key */
	SHA256_CTX	outer;
#endif
} MaskKey;

#ifdef HASH_FROM_STATES

/* What SHA256_Init() sets; some OpenSSL releases forbid that call for FIPS. */
static const SHA256_CTX initial_state = {
	.h = {
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
		0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19
	},
	.md_len = PG_SHA256_DIGEST_LENGTH
};

/* The state after the block of the key, combined with "pad". */
static SHA256_CTX
mask_state_after_key(MaskBytes key, uint8 pad)
{
	uint8		block[PG_SHA256_BLOCK_LENGTH] = {0};
	SHA256_CTX	state = initial_state;

	if (key.length <= sizeof(block))
		memcpy(block, key.data, key.length);
	else
	{
		SHA256_Update(&state, key.data, key.length);
		SHA256_Final(block, &state);
		state = initial_state;
	}
	for (int i = 0; i < sizeof(block); i++)
		block[i] ^= pad;
	SHA256_Update(&state, block, sizeof(block));
	return state;
}

#endif							/* HASH_FROM_STATES */

/* The first four bytes of the hash of the message, as a number. */
static uint32
mask_hash_message(const MaskKey *prepared)
{
	size_t		length = PREFIX_LENGTH + prepared->tweak.length;
	uint8		digest[PG_SHA256_DIGEST_LENGTH];
	uint32		hash;
#ifdef HASH_FROM_STATES
	SHA256_CTX	state = prepared->inner;

	SHA256_Update(&state, prepared->message, length);
	SHA256_Final(digest, &state);
	state = prepared->outer;
	SHA256_Update(&state, digest, sizeof(digest));
	SHA256_Final(digest, &state);
#else
	pg_hmac_ctx *hmac = pg_hmac_create(PG_SHA256);

	if (hmac == NULL ||
		pg_hmac_init(hmac, prepared->key.data, prepared->key.length) < 0 ||
		pg_hmac_update(hmac, prepared->message, length) < 0 ||
		pg_hmac_final(hmac, digest, sizeof(digest)) < 0)
		elog(ERROR, "could not compute HMAC");
	pg_hmac_free(hmac);
#endif
	memcpy(&hash, digest, sizeof(hash));
	return pg_ntoh32(hash);
}

/* Prepare a key and a tweak, in one piece of memory, for pfree(). */
static MaskKey *
mask_prepare(MaskBytes key, MaskBytes tweak, MemoryContext context)
{
	Size		message_size = PREFIX_LENGTH + tweak.length;
	MaskKey    *prepared = MemoryContextAllocZero(context,
												  sizeof(MaskKey) + message_size + key.length);
	uint8	   *key_copy;

	prepared->message = (uint8 *) (prepared + 1);
	memcpy(prepared->message + PREFIX_LENGTH, tweak.data, tweak.length);
	prepared->tweak.data = prepared->message + PREFIX_LENGTH;
	prepared->tweak.length = tweak.length;
	key_copy = prepared->message + message_size;
	memcpy(key_copy, key.data, key.length);
	prepared->key.data = key_copy;
	prepared->key.length = key.length;
#ifdef HASH_FROM_STATES
	prepared->inner = mask_state_after_key(prepared->key, 0x36);
	prepared->outer = mask_state_after_key(prepared->key, 0x5c);
#endif
	return prepared;
}

static bool
mask_same_bytes(MaskBytes a, MaskBytes b)
{
	return a.length == b.length && memcmp(a.data, b.data, a.length) == 0;
}

/*
 * The bytes of a text, in UTF-8, so that they are the same in all databases, or
 * of a bytea.
 */
static MaskBytes
mask_get_bytes(FunctionCallInfo fcinfo, int arg)
{
	struct varlena *value = PG_GETARG_VARLENA_PP(arg);
	char	   *data = VARDATA_ANY(value);
	int			length = VARSIZE_ANY_EXHDR(value);
	MaskBytes	bytes = {(const uint8 *) data, length};

	if (GetDatabaseEncoding() != PG_UTF8 &&
		get_fn_expr_argtype(fcinfo->flinfo, arg) != BYTEAOID)
	{
		char	   *converted = pg_server_to_any(data, length, PG_UTF8);

		if (converted != data)
		{
			bytes.data = (const uint8 *) converted;
			bytes.length = strlen(converted);
		}
	}
	return bytes;
}

/* The key and the tweak of a call, usually those of the call before. */
static MaskKey *
mask_get_key(FunctionCallInfo fcinfo)
{
	MaskKey    *prepared = fcinfo->flinfo->fn_extra;
	MaskBytes	key = mask_get_bytes(fcinfo, 1);
	MaskBytes	tweak = mask_get_bytes(fcinfo, 2);

	if (key.length == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("key for masking snowflake ids must not be empty")));
	if (prepared == NULL || !mask_same_bytes(prepared->key, key) ||
		!mask_same_bytes(prepared->tweak, tweak))
	{
		fcinfo->flinfo->fn_extra = mask_prepare(key, tweak, fcinfo->flinfo->fn_mcxt);
		if (prepared != NULL)
			pfree(prepared);
	}
	return fcinfo->flinfo->fn_extra;
}

/* The hash of half a value. */
static uint64
mask_hash_half(MaskKey *prepared, uint8 round, uint64 half)
{
	uint32		half_bytes = pg_hton32((uint32) half);

	prepared->message[0] = round;
	memcpy(prepared->message + 1, &half_bytes, sizeof(half_bytes));
	return mask_hash_message(prepared) & HALF_MASK;
}

/* Take an id through the network, in one direction or the other. */
static int64
mask_permute(FunctionCallInfo fcinfo, bool forward)
{
	int64		id = PG_GETARG_INT64(0);
	uint64		left = (uint64) id >> HALF_BITS;
	uint64		right = (uint64) id & HALF_MASK;
	MaskKey    *prepared;

	LayoutCheckId(NULL, id);
	prepared = mask_get_key(fcinfo);
	do
	{
		for (int i = 0; i < MASK_ROUNDS; i++)
		{
			uint64		swap;

			if (forward)
			{
				swap = left ^ mask_hash_half(prepared, i, right);
				left = right;
				right = swap;
			}
			else
			{
				swap = right ^ mask_hash_half(prepared, MASK_ROUNDS - 1 - i, left);
				right = left;
				left = swap;
			}
		}
		/* until the highest bit is clear, as it was at the beginning */
	} while (left >> (HALF_BITS - 1) != 0);

	return (int64) (left << HALF_BITS | right);
}

/* mask(id bigint, key text or bytea, tweak text) */
Datum
snowflake_mask(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(mask_permute(fcinfo, true));
}

/* unmask(masked bigint, key text or bytea, tweak text) */
Datum
snowflake_unmask(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(mask_permute(fcinfo, false));
}
