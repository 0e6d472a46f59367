/*-------------------------------------------------------------------------
 *
 * shrink.c
 *	  Makes a run that breaks a promise as short as it can.
 *
 * The run is replayed again and again, with some decisions left out or made
 * the dullest one.  What breaks the same promise, in no more steps, is kept.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "sim.h"

/* PostgreSQL's own would need the server */
#undef printf
#undef fprintf

/* It is short enough after so many seconds. */
#define LONGEST_TIME	20

static const char *kind;		/* of the promise that is broken */
static uint64 shortest;			/* in steps */
static time_t began;

static bool
is_late(void)
{
	return time(NULL) >= began + LONGEST_TIME;
}

/* Keep only decisions that were made. */
static void
cut(void)
{
	for (int i = 0; i < NUM_STREAMS; i++)
	{
		Stream	   *stream = &streams[i];

		stream->number = Min(stream->number, stream->next);
		while (stream->number > 0 &&
			   stream->decisions[stream->number - 1] == 0)
			stream->number--;
	}
}

/* Whether the same promise breaks, not later than before. */
static bool
still_breaks(void)
{
	if (RunSeed(seed) || PromiseKind() != kind || step > shortest)
		return false;
	shortest = step;
	return true;
}

/* Try without some decisions of a stream; "drop" moves up those after them. */
static bool
try_without(Stream *stream, int from, int number, bool drop)
{
	static uint64 *before = NULL;
	int			number_before = stream->number;

	before = realloc(before, sizeof(uint64) * stream->number);
	memcpy(before, stream->decisions, sizeof(uint64) * stream->number);
	if (drop)
	{
		memmove(stream->decisions + from, stream->decisions + from + number,
				sizeof(uint64) * (stream->number - from - number));
		stream->number -= number;
	}
	else
		memset(stream->decisions + from, 0, sizeof(uint64) * number);
	if (still_breaks())
		return true;
	stream->number = number_before;
	memcpy(stream->decisions, before, sizeof(uint64) * stream->number);
	return false;
}

static bool
is_dull(const Stream *stream, int from, int number)
{
	for (int i = from; i < from + number; i++)
	{
		if (stream->decisions[i] != 0)
			return false;
	}
	return true;
}

/* Shrink the recorded run, which has just broken a promise. */
void
Shrink(void)
{
	bool		shrinks = true;

	kind = PromiseKind();
	shortest = step;
	began = time(NULL);
	random_mode = RANDOM_REPLAY;
	while (shrinks && !is_late())
	{
		shrinks = false;
		for (int i = 0; i < NUM_STREAMS; i++)
		{
			Stream	   *stream = &streams[i];
			int			part = stream->number;

			for (; part > 0 && !is_late(); part /= 2)
			{
				for (int from = 0; from < stream->number && !is_late();
					 from += part)
				{
					int			number = Min(part, stream->number - from);

					if (is_dull(stream, from, number))
						continue;
					if (try_without(stream, from, number, false) ||
						try_without(stream, from, number, true))
						shrinks = true;
				}
			}
		}
		(void) RunSeed(seed);
		cut();
	}
	(void) RunSeed(seed);
}

/* Write the decisions that are not the dullest, a stream in each line. */
void
DecisionsWrite(FILE * file)
{
	for (int i = 0; i < NUM_STREAMS; i++)
	{
		for (int j = 0; j < streams[i].number; j++)
		{
			if (streams[i].decisions[j] != 0)
				fprintf(file, "%d %d %llu\n", i, j, (unsigned long long) streams[i].decisions[j]);
		}
	}
}

/* Read them, to replay them.  False if the file cannot be read. */
bool
DecisionsRead(const char *name)
{
	FILE	   *file = fopen(name, "r");
	int			which;
	int			index;
	unsigned long long decision;

	if (file == NULL)
		return false;
	while (fscanf(file, "%d %d %llu", &which, &index, &decision) == 3)
	{
		Stream	   *stream;

		if (which < 0 || which >= NUM_STREAMS || index < 0 ||
			index > 100000000)
			return false;
		stream = &streams[which];
		StreamGrow(stream, index + 1);
		stream->decisions[index] = decision;
		stream->number = Max(stream->number, index + 1);
	}
	fclose(file);
	random_mode = RANDOM_REPLAY;
	return true;
}
