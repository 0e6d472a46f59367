/*-------------------------------------------------------------------------
 *
 * main.c
 *	  Runs seeds, one after the other.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "common/pg_prng.h"

#include "sim.h"

/* PostgreSQL's own would need the server */
#undef printf
#undef fprintf
#undef vfprintf

/* How long a seed runs. */
#define STEPS		20000

Plan		plan;
uint64		num_ids = 0;
bool		at_rest;

static bool verbose = false;

/* All that is random comes from the seed, so the same seed runs the same. */
static pg_prng_state dice;

/* For the core */
uint64
RandomBits(void)
{
	return pg_prng_uint64(&dice);
}

uint64
RandomBelow(uint64 number)
{
	return number <= 1 ? 0 : RandomBits() % number;
}

bool
RandomOneIn(int number)
{
	return RandomBelow(number) == 0;
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

/* Tell the story of a seed. */
void
Say(const char *format,...)
{
	va_list		args;

	if (!verbose)
		return;
	printf("%8llu %10.6f s  ", (unsigned long long) step, reference / 1e6);
	if (me != NULL)
		printf("process %d, %s: ", me->id, me->doing);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

/* Start the processes that are missing. */
static void
start_processes(void)
{
	for (int i = 0; i < plan.num_processes; i++)
	{
		Process    *process = &processes[i];
		char	   *stack = process->stack;

		if (process->state != PROCESS_FREE)
			continue;
		memset(process, 0, sizeof(Process));
		process->stack = stack;
		process->id = i;
		process->pid = 1000 + RandomBelow(64);
		process->database = RandomBelow(plan.num_databases);
		process->group = plan.parallel ? 100 + process->database : i;
		process->priority = RandomBelow(1000);
		process->last_id = -1;
		process->doing = "start";
		process->is_lease_worker = plan.leased && i == 0;
		process->is_deaf = plan.deaf_clients && RandomOneIn(2);
		process->calls_left = process->is_lease_worker ? INT_MAX :
			RandomOneIn(3) ? 1 + RandomBelow(5) : 1 + RandomBelow(200);
		databases[process->database].sessions++;
		ProcessStart(process, SessionRun);
	}
}

/* Whether all promises hold for a seed. */
static bool
run_seed(uint64 seed)
{
	pg_prng_seed(&dice, seed);
	step = 0;
	last_step = STEPS;
	me = NULL;
	WorldBegin();
	do
	{
		start_processes();
	} while (ProcessRun());
	me = NULL;
	WorldEnd();
	return PromiseWhatBroke() == NULL;
}

/* simulate FIRST SEEDS [verbose] */
int
main(int argc, char **argv)
{
	uint64		first = strtoull(argv[1], NULL, 10);
	uint64		seeds = strtoull(argv[2], NULL, 10);
	uint64		num_seeds = 0;
	uint64		steps = 0;
	bool		holds = true;

	verbose = argc > 3;
	memory = aligned_alloc(4096, MEMORY_SIZE);
	ProcessInit();
	while (holds && num_seeds < seeds)
	{
		holds = run_seed(first + num_seeds++);
		steps += step;
	}
	if (!holds)
		printf("seed %llu, step %llu: %s\n",
			   (unsigned long long) (first + num_seeds - 1),
			   (unsigned long long) step, PromiseWhatBroke());
	printf("# %llu seeds, %.1f million steps in %.1f s: %llu ids\n",
		   (unsigned long long) num_seeds, steps / 1e6,
		   (double) clock() / CLOCKS_PER_SEC, (unsigned long long) num_ids);
	return holds ? 0 : 1;
}
