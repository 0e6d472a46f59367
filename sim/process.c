/*-------------------------------------------------------------------------
 *
 * process.c
 *	  The processes of the simulated server, and who of them runs.
 *
 * A process is a coroutine with a copy of all static variables of the core,
 * which sim/core.ld has put into one section.  It runs until ProcessStep()
 * decides that another one does; so two seeds that are the same run the same.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sim.h"

#define STACK_SIZE		65536
/* A call that takes more steps without any sleep gets nowhere. */
#define MOST_STEPS		4000

/* the linker's names for the bounds of the section */
extern char __start_core_statics[];
extern char __stop_core_statics[];

#define STATICS_SIZE	(__stop_core_statics - __start_core_statics)

Process		processes[MAX_PROCESSES];
Process    *me = NULL;
uint64		step;
uint64		last_step;

/* Why the world, which is not a process, goes on. */
static enum
{
	FAULT, EXIT, END
}			reason;

static jmp_buf world;
static char world_statics[MAX_STATICS];
static char pristine[MAX_STATICS];
static char postmaster[MAX_STATICS];

void
ProcessInit(void)
{
	if (STATICS_SIZE > MAX_STATICS)
		elog(PANIC, "MAX_STATICS is less than %d", (int) STATICS_SIZE);
	memcpy(pristine, __start_core_statics, STATICS_SIZE);
	for (int i = 0; i < MAX_PROCESSES; i++)
		processes[i].stack = malloc(STACK_SIZE);
}

/* A postmaster begins with nothing, and its children with what it has. */
void
ProcessNewPostmaster(void)
{
	memcpy(__start_core_statics, pristine, STATICS_SIZE);
}

void
ProcessSavePostmaster(void)
{
	memcpy(postmaster, __start_core_statics, STATICS_SIZE);
}

/* A static variable of a process that may not be running. */
void *
ProcessStatic(Process *process, volatile void *variable)
{
	return process == me ? (void *) variable :
		process->statics + ((char *) variable - __start_core_statics);
}

/* Go on with a process, or with the world. */
static void
resume(Process *to)
{
	Process    *from = me;

	if (to == from)
		return;
	memcpy(from != NULL ? from->statics : world_statics,
		   __start_core_statics, STATICS_SIZE);
	me = to;
	memcpy(__start_core_statics,
		   to != NULL ? to->statics : world_statics, STATICS_SIZE);
	if (_setjmp(from != NULL ? from->context : world) != 0)
		return;
	if (to != NULL && to->is_new)
	{
		to->is_new = false;
		setcontext(&to->start);
	}
	_longjmp(to != NULL ? to->context : world, 1);
}

static bool
is_ready(const Process *process)
{
	switch (process->state)
	{
		case PROCESS_READY:
			return true;
		case PROCESS_SLEEPS:
		case PROCESS_FLUSHES:
			return process->wake_at <= reference;
		case PROCESS_STALLS:
			return process->stalls_until <= step;
		default:
			return false;
	}
}

/* Choose who goes on.  If all sleep, time passes.  NULL if all wait. */
static Process *
choose(void)
{
	for (;;)
	{
		Process    *ready[MAX_PROCESSES];
		Process    *stalls = NULL;
		Process    *chosen;
		int			num_ready = 0;
		int64		wake_at = PG_INT64_MAX;

		for (int i = 0; i < plan.num_processes; i++)
		{
			Process    *process = &processes[i];

			if (is_ready(process))
				ready[num_ready++] = process;
			else if (process->state == PROCESS_SLEEPS ||
					 process->state == PROCESS_FLUSHES)
				wake_at = Min(wake_at, process->wake_at);
			else if (process->state == PROCESS_STALLS &&
					 (stalls == NULL ||
					  process->stalls_until < stalls->stalls_until))
				stalls = process;
		}
		if (num_ready > 0)
		{
			chosen = ready[RandomBelow(num_ready)];
			for (int i = 0; plan.by_priority && i < num_ready; i++)
			{
				if (ready[i]->priority > chosen->priority)
					chosen = ready[i];
			}
			chosen->state = PROCESS_READY;
			return chosen;
		}
		if (wake_at != PG_INT64_MAX &&
			(stalls == NULL || RandomOneIn(2)))
		{
			PassTime(wake_at - reference);
			WorldSignal();
		}
		else if (stalls != NULL)
			stalls->stalls_until = step;
		else
		{
			PromiseBroken("all processes wait for each other");
			return NULL;
		}
	}
}

/* Go back to the world. */
static void
leave(int why)
{
	reason = why;
	resume(NULL);
}

static void
reschedule(void)
{
	reason = END;
	resume(choose());
}

/* Anything may happen before what the process does next. */
void
ProcessStep(void)
{
	if (me == NULL)
		return;
	step++;
	if (++me->steps > MOST_STEPS)
		PromiseBroken("%s gets nowhere", me->doing);
	if (PromiseWhatBroke() != NULL || step >= last_step)
		leave(END);
	if (RandomOneIn(8))
		PassTime(RandomBelow(plan.step_us));
	if (RandomOneIn(64))
		WorldSignal();
	if (!at_rest && WorldRest())
		at_rest = true;
	if (!at_rest && RandomOneIn(plan.fault_every))
		leave(FAULT);
	if (!at_rest && plan.stall_every > 0 &&
		RandomOneIn(plan.stall_every))
	{
		me->state = PROCESS_STALLS;
		me->stalls_until = step + RandomSize(plan.longest_stall);
		reschedule();
	}
	else if (RandomOneIn(plan.switch_every))
	{
		/* a process that loses its priority is overtaken by all others */
		if (plan.by_priority && RandomOneIn(8))
			me->priority = -(int) step;
		reschedule();
	}
}

void
ProcessSleep(int64 us, ProcessState state)
{
	me->steps = 0;
	me->wake_at = reference + Max(us, 1);
	me->state = state;
	reschedule();
}

void
ProcessWait(const void *object)
{
	me->waits_for = object;
	me->state = PROCESS_WAITS;
	reschedule();
}

void
ProcessWake(const void *object)
{
	for (int i = 0; i < plan.num_processes; i++)
	{
		if (processes[i].state == PROCESS_WAITS &&
			processes[i].waits_for == object)
			processes[i].state = PROCESS_READY;
	}
}

void
ProcessSetLatch(Process *process)
{
	process->latch = true;
	if (process->state == PROCESS_SLEEPS)
		process->wake_at = reference;
}

static void (*to_run) (void);

static void
run_process(void)
{
	to_run();
	me->state = PROCESS_FREE;
	leave(EXIT);
}

/* Start a process, with what the postmaster has. */
void
ProcessStart(Process *process, void (*run) (void))
{
	to_run = run;
	process->state = PROCESS_READY;
	process->is_new = true;
	memcpy(process->statics, postmaster, STATICS_SIZE);
	getcontext(&process->start);
	process->start.uc_stack.ss_sp = process->stack;
	process->start.uc_stack.ss_size = STACK_SIZE;
	process->start.uc_link = NULL;
	makecontext(&process->start, run_process, 0);
}

/* Run processes until something happens to the world; false at the end. */
bool
ProcessRun(void)
{
	reschedule();
	if (reason == FAULT)
		WorldFault();
	return reason != END;
}

/* End this seed, because a promise was broken. */
void
ProcessLeave(void)
{
	if (me != NULL)
		leave(END);
}
