/*-------------------------------------------------------------------------
 *
 * mask.c
 *	  Ids that tell nothing to who does not have the key.
 *
 * A keyed permutation of the bigints that are not negative: a Feistel network
 * over 64 bits, which is applied again for as long as the result is negative
 * (cycle walking, twice on average).  Both halves of the id change places in
 * each round, and one is combined with a hash of the other:
 *
 *		HMAC-SHA-256(key, round || half || tweak), its first bytes
 *
 * where the round is one byte, the half four bytes with the most significant
 * first, and the tweak all that is left.  Ten rounds are what NIST SP 800-38G
 * takes for FF1, a network of the same kind.
 *
 * Masked ids are stored outside: the same key must give them for ever.
 *
 * snowflake/src/mask.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hmac.h"
#include "common/sha2.h"
#include "port/pg_bswap.h"

#include "mask.h"

#define MASK_ROUNDS		10

/* A test builds a network that is small enough to see all of it. */
#define MASK_BITS		64

#define HALF_BITS		(MASK_BITS / 2)
#define HALF_MASK		((UINT64CONST(1) << HALF_BITS) - 1)

/* The hash of half a value. */
static uint64
hash_half(pg_hmac_ctx *hmac, MaskBytes key, MaskBytes tweak, uint8 round,
		  uint64 half)
{
	uint32		half_bytes = pg_hton32((uint32) half);
	uint8		digest[PG_SHA256_DIGEST_LENGTH];
	uint32		hash;

	if (pg_hmac_init(hmac, key.data, key.length) < 0 ||
		pg_hmac_update(hmac, &round, sizeof(round)) < 0 ||
		pg_hmac_update(hmac, (uint8 *) &half_bytes, sizeof(half_bytes)) < 0 ||
		pg_hmac_update(hmac, tweak.data, tweak.length) < 0 ||
		pg_hmac_final(hmac, digest, sizeof(digest)) < 0)
		elog(ERROR, "could not compute HMAC");
	memcpy(&hash, digest, sizeof(hash));
	return pg_ntoh32(hash) & HALF_MASK;
}

/* Go through the network, in one direction or the other. */
static int64
permute(int64 id, MaskBytes key, MaskBytes tweak, bool forward)
{
	uint64		left = (uint64) id >> HALF_BITS;
	uint64		right = (uint64) id & HALF_MASK;
	pg_hmac_ctx *hmac = pg_hmac_create(PG_SHA256);

	if (hmac == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));

	do
	{
		for (int i = 0; i < MASK_ROUNDS; i++)
		{
			uint64		swap;

			if (forward)
			{
				swap = left ^ hash_half(hmac, key, tweak, i, right);
				left = right;
				right = swap;
			}
			else
			{
				swap = right ^ hash_half(hmac, key, tweak, MASK_ROUNDS - 1 - i, left);
				right = left;
				left = swap;
			}
		}
		/* until the highest bit is clear, as it was at the beginning */
	} while (left >> (HALF_BITS - 1) != 0);

	pg_hmac_free(hmac);
	return (int64) (left << HALF_BITS | right);
}

int64
MaskId(int64 id, MaskBytes key, MaskBytes tweak)
{
	return permute(id, key, tweak, true);
}

int64
UnmaskId(int64 masked, MaskBytes key, MaskBytes tweak)
{
	return permute(masked, key, tweak, false);
}
