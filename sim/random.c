/*-------------------------------------------------------------------------
 *
 * random.c
 *	  All that is random comes from the seed.
 *
 * snowflake/sim/random.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"

#include "sim.h"

static pg_prng_state state;


void
RandomSeed(uint64 value)
{
	pg_prng_seed(&state, value);
}

uint64
RandomBits(void)
{
	return pg_prng_uint64(&state);
}

uint64
RandomBelow(uint64 number)
{
	return number > 0 ? RandomBits() % number : 0;
}

bool
RandomOneIn(int number)
{
	return RandomBits() % number == 0;
}

/* From 1 to a size, of all orders of magnitude. */
int64
RandomSize(int64 largest)
{
	int64		size = 1;

	while (size < largest && RandomOneIn(2))
		size *= 4;
	return RandomBelow(Min(size, largest)) + 1;
}
