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
 * the last two, so what is before it is encrypted once.
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
#include "mb/pg_wchar.h"
#include "port/pg_bswap.h"

#include "snowflake.h"

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

/* For the session: AES in CBC mode, and the key that it has. */
static EVP_CIPHER_CTX * mask_aes;
static uint8 mask_key[PG_SHA256_DIGEST_LENGTH];

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

/* Give AES the key of a call. */
static void
mask_use_key(FunctionCallInfo fcinfo)
{
	uint8		key[PG_SHA256_DIGEST_LENGTH];
	Size		length;
	uint8	   *bytes = mask_get_bytes(fcinfo, 1, &length);

	if (length == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("key for masking snowflake ids must not be empty")));
	if (EVP_Digest(bytes, length, key, NULL, EVP_sha256(), NULL) != 1)
		elog(ERROR, "could not compute SHA-256 of key");
	if (mask_aes != NULL && memcmp(mask_key, key, sizeof(key)) == 0)
		return;

	/* What fails here leaves no key, rather than half of one. */
	EVP_CIPHER_CTX_free(mask_aes);
	mask_aes = EVP_CIPHER_CTX_new();
	if (mask_aes == NULL ||
		EVP_EncryptInit_ex(mask_aes, EVP_aes_256_cbc(), NULL, key, NULL) != 1)
	{
		EVP_CIPHER_CTX_free(mask_aes);
		mask_aes = NULL;
		elog(ERROR, "could not prepare AES");
	}
	memcpy(mask_key, key, sizeof(key));
}

/* Encrypt bytes in place; the last block is their CBC-MAC that goes on. */
static void
mask_encrypt(const uint8 *mac, uint8 *bytes, Size length)
{
	int			encrypted;

	if (EVP_EncryptInit_ex(mask_aes, NULL, NULL, NULL, mac) != 1 ||
		EVP_EncryptUpdate(mask_aes, bytes, &encrypted, bytes, length) != 1)
		elog(ERROR, "could not encrypt with AES");
}

/* What a round adds to the other half. */
static uint64
mask_round(const uint8 *last, int round, uint64 half)
{
	uint32		half_bytes = pg_hton32((uint32) half);
	uint8		block[BLOCK_SIZE];
	uint64		result;

	memcpy(block, last, BLOCK_SIZE);
	block[BLOCK_SIZE - HALF_SIZE - 1] = round;
	memcpy(block + BLOCK_SIZE - HALF_SIZE, &half_bytes, HALF_SIZE);
	mask_encrypt(last - BLOCK_SIZE, block, BLOCK_SIZE);
	memcpy(&result, block, sizeof(result));
	return pg_ntoh64(result);
}

/* Take an id through the rounds, in one direction or the other. */
static int64
mask_permute(FunctionCallInfo fcinfo, bool forward)
{
	static const uint8 zeros[BLOCK_SIZE];
	int64		id = PG_GETARG_INT64(0);
	uint64		a = (uint64) id >> RIGHT_BITS;
	uint64		b = (uint64) id & ((UINT64CONST(1) << RIGHT_BITS) - 1);
	Size		length;
	uint8	   *tweak = mask_get_bytes(fcinfo, 2, &length);

	/* version, method, networks, radix, rounds, bits, bytes of the tweak */
	const uint8 parameters[BLOCK_SIZE] = {
		1, 2, 1, 0, 0, 2, MASK_ROUNDS, LEFT_BITS, 0, 0, 0, MASK_BITS,
		length >> 24, length >> 16, length >> 8, length
	};

	/* The last block ends with the round and the half. */
	Size		size = TYPEALIGN(BLOCK_SIZE, length + 1 + HALF_SIZE);
	uint8	   *bytes = palloc0(BLOCK_SIZE + size);

	LayoutCheckId(NULL, id);
	mask_use_key(fcinfo);
	memcpy(bytes, parameters, BLOCK_SIZE);
	memcpy(bytes + BLOCK_SIZE, tweak, length);
	mask_encrypt(zeros, bytes, size);
	for (int i = 0; i < MASK_ROUNDS; i++)
	{
		int			round = forward ? i : MASK_ROUNDS - 1 - i;
		int			bits = round % 2 == 0 ? LEFT_BITS : RIGHT_BITS;
		uint64		mask = (UINT64CONST(1) << bits) - 1;
		uint64		added = mask_round(bytes + size, round, forward ? b : a);
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
