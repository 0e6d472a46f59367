/*-------------------------------------------------------------------------
 *
 * random.c
 *	  All that is random is a decision, and comes from the seed.
 *
 * Decisions come in streams: who goes on, what old values are read, what
 * befalls the world, and what each process does.  A run can be recorded, and
 * replayed with some decisions changed: those of one stream do not move those
 * of the others.  0 is always the dullest decision, so the fewer others a run
 * needs to break a promise, the easier it is to read; see shrink.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sim.h"

RandomMode	random_mode = RANDOM_FROM_SEED;
Stream		streams[NUM_STREAMS];

void
RandomSeed(uint64 value)
{
	for (int i = 0; i < NUM_STREAMS; i++)
	{
		Stream	   *stream = &streams[i];

		pg_prng_seed(&stream->prng, value * NUM_STREAMS + i);
		stream->next = 0;
		if (random_mode == RANDOM_RECORD)
			stream->number = 0;
	}
}

/* Make room for a number of decisions, of which new ones are the dullest. */
void
StreamGrow(Stream *stream, int number)
{
	if (number <= stream->space)
		return;
	stream->decisions =
		realloc(stream->decisions, sizeof(uint64) * number * 2);
	memset(stream->decisions + stream->space, 0,
		   sizeof(uint64) * (number * 2 - stream->space));
	stream->space = number * 2;
}

/* A decision of a stream, below a number. */
uint64
RandomOf(int which, uint64 number)
{
	Stream	   *stream = &streams[which];
	uint64		decision;

	if (number <= 1)
		return 0;
	if (random_mode == RANDOM_REPLAY)
		return stream->next < stream->number ?
			stream->decisions[stream->next++] % number : 0;
	decision = pg_prng_uint64(&stream->prng) % number;
	if (random_mode == RANDOM_RECORD)
	{
		StreamGrow(stream, stream->number + 1);
		stream->decisions[stream->number++] = decision;
	}
	return decision;
}

bool
RandomOneInOf(int which, int number)
{
	return RandomOf(which, number) == number - 1;
}

/* The stream of the running process, or of the world. */
static int
mine(void)
{
	return me != NULL ? STREAM_PROCESS + me->id : STREAM_WORLD;
}

uint64
RandomBelow(uint64 number)
{
	return RandomOf(mine(), number);
}

bool
RandomOneIn(int number)
{
	return RandomOneInOf(mine(), number);
}

/* For the core */
uint64
RandomBits(void)
{
	return RandomBelow(PG_UINT32_MAX);
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
