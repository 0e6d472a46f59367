/*-------------------------------------------------------------------------
 *
 * mask.c
 *	  Masked ids, which reveal nothing without the key.
 *
 * Masking is FF1 of NIST SP 800-38G, with radix 2, 63 digits and AES-256.  The
 * key of AES is the SHA-256 of the given key; the tweak is used as it is.
 * Both are taken in UTF-8, so that they are the same in all databases.
 *
 * In each of ten rounds, FF1 computes a CBC-MAC of some parameters, the tweak,
 * the round and half of the number.  Only the last block of that depends on
 * the last two.
 *
 * Users store masked ids elsewhere, so the same id, key and tweak must always
 * give the same result, in all versions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#ifdef USE_OPENSSL
#include <openssl/evp.h>
#endif

#include "catalog/pg_type.h"
#include "common/sha2.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "port/pg_bswap.h"

#include "compat.h"
#include "layout.h"

PG_FUNCTION_INFO_V1(snowflake_mask);
PG_FUNCTION_INFO_V1(snowflake_unmask);

#ifdef USE_OPENSSL

#define MASK_ROUNDS		10

/* A mutant has fewer, so that a test can try all numbers. */
#define MASK_BITS		63

/* The bits of the two halves: u and v in the standard. */
#define LEFT_BITS		(MASK_BITS / 2)
#define RIGHT_BITS		(MASK_BITS - LEFT_BITS)

#define BLOCK_SIZE		16		/* of AES */
#define HALF_SIZE		4		/* b in the standard */

/* A CBC-MAC up to its last block, which lacks round and half. */
typedef struct MaskMac
{
	EVP_CIPHER_CTX *aes;
	uint8		value[BLOCK_SIZE];
	uint8		last[BLOCK_SIZE];
} MaskMac;

/* AES with the key of the call before. */
typedef struct MaskKey
{
	EVP_CIPHER_CTX *aes;
	MemoryContextCallback free_aes;
	uint8	   *bytes;
	Size		length;			/* 0: it has none */
} MaskKey;

static void
mask_free_aes(void *arg)
{
	EVP_CIPHER_CTX_free(((MaskKey *) arg)->aes);
}

/* The bytes of a text, in UTF-8, or of a bytea. */
static uint8 *
mask_get_bytes(FunctionCallInfo fcinfo, int arg, Size *length)
{
	struct varlena *value = PG_GETARG_VARLENA_PP(arg);
	char	   *data = VARDATA_ANY(value);

	*length = VARSIZE_ANY_EXHDR(value);
	if (get_fn_expr_argtype(fcinfo->flinfo, arg) != BYTEAOID)
	{
		char	   *converted = pg_server_to_any(data, *length, PG_UTF8);

		if (converted != data)
			*length = strlen(converted);
		data = converted;
	}
	return (uint8 *) data;
}

/* AES with the key of a call. */
static EVP_CIPHER_CTX *
mask_get_aes(FunctionCallInfo fcinfo)
{
	MemoryContext context = fcinfo->flinfo->fn_mcxt;
	MaskKey    *key = fcinfo->flinfo->fn_extra;
	uint8		digest[PG_SHA256_DIGEST_LENGTH];
	Size		length;
	uint8	   *bytes = mask_get_bytes(fcinfo, 1, &length);

	if (length == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("key for masking snowflake ids must not be empty")));
	if (key == NULL)
	{
		key = MemoryContextAllocZero(context, sizeof(MaskKey));
		key->free_aes.func = mask_free_aes;
		key->free_aes.arg = key;
		MemoryContextRegisterResetCallback(context, &key->free_aes);
		fcinfo->flinfo->fn_extra = key;
	}
	if (key->length == length && memcmp(key->bytes, bytes, length) == 0)
		return key->aes;

	key->length = 0;
	if (key->aes == NULL)
		key->aes = EVP_CIPHER_CTX_new();
	if (key->aes == NULL ||
		EVP_Digest(bytes, length, digest, NULL, EVP_sha256(), NULL) != 1 ||
		EVP_EncryptInit_ex(key->aes, EVP_aes_256_ecb(), NULL, digest,
						   NULL) != 1)
		elog(ERROR, "could not prepare AES");
	if (key->bytes != NULL)
		pfree(key->bytes);
	key->bytes = memcpy(MemoryContextAlloc(context, length), bytes, length);
	key->length = length;
	return key->aes;
}

/* Add a block to a CBC-MAC. */
static void
mask_add_block(MaskMac *mac, const uint8 *block)
{
	int			length;

	for (int i = 0; i < BLOCK_SIZE; i++)
		mac->value[i] ^= block[i];
	if (EVP_EncryptUpdate(mac->aes, mac->value, &length, mac->value,
						  BLOCK_SIZE) != 1)
		elog(ERROR, "could not encrypt with AES");
}

/*
 * Begin a CBC-MAC.  Zeros, the round and the half fill the tweak's last block.
 */
static void
mask_begin(MaskMac *mac, const uint8 *tweak, uint32 length)
{
	/* version, method, networks, radix, rounds, bits, bytes of the tweak */
	const uint8 parameters[BLOCK_SIZE] = {
		1, 2, 1, 0, 0, 2, MASK_ROUNDS, LEFT_BITS, 0, 0, 0, MASK_BITS,
		length >> 24, length >> 16, length >> 8, length
	};
	int64		left = length;

	memset(mac->value, 0, BLOCK_SIZE);
	mask_add_block(mac, parameters);
	for (;; left -= BLOCK_SIZE, tweak += BLOCK_SIZE)
	{
		memset(mac->last, 0, BLOCK_SIZE);
		if (left > 0)
			memcpy(mac->last, tweak, Min(left, BLOCK_SIZE));
		if (left + 1 + HALF_SIZE <= BLOCK_SIZE)
			break;
		mask_add_block(mac, mac->last);
	}
}

/* What a round adds to the other half. */
static uint64
mask_round(MaskMac mac, int round, uint64 half)
{
	uint32		half_bytes = pg_hton32((uint32) half);
	uint64		result;

	mac.last[BLOCK_SIZE - HALF_SIZE - 1] = round;
	memcpy(mac.last + BLOCK_SIZE - HALF_SIZE, &half_bytes, HALF_SIZE);
	mask_add_block(&mac, mac.last);
	memcpy(&result, mac.value, sizeof(result));
	return pg_ntoh64(result);
}

/* Take an id through the rounds, in one direction or the other. */
static int64
mask_permute(FunctionCallInfo fcinfo, bool forward)
{
	int64		id = PG_GETARG_INT64(0);
	uint64		a = (uint64) id >> RIGHT_BITS;
	uint64		b = (uint64) id & ((UINT64CONST(1) << RIGHT_BITS) - 1);
	Size		length;
	uint8	   *tweak = mask_get_bytes(fcinfo, 2, &length);
	MaskMac		mac;

	LayoutCheckId(NULL, id);
	mac.aes = mask_get_aes(fcinfo);
	mask_begin(&mac, tweak, length);
	for (int i = 0; i < MASK_ROUNDS; i++)
	{
		int			round = forward ? i : MASK_ROUNDS - 1 - i;
		int			bits = round % 2 == 0 ? LEFT_BITS : RIGHT_BITS;
		uint64		mask = (UINT64CONST(1) << bits) - 1;
		uint64		added = mask_round(mac, round, forward ? b : a);
		uint64		half = (forward ? a + added : b - added) & mask;

		if (forward)
			a = b, b = half;
		else
			b = a, a = half;
	}
	return (int64) (a << RIGHT_BITS | b);
}

#else							/* USE_OPENSSL */

static int64
mask_permute(FunctionCallInfo fcinfo, bool forward)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("masking of snowflake ids is not supported by this build"),
			 errdetail("It requires a server that was built with OpenSSL.")));
}

#endif							/* USE_OPENSSL */

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
