/*
 * The clock of a server under libfaketime, for its signal handlers, too.
 *
 * libfaketime opens and reads its file whenever it is asked for the time, and the
 * server's handler of SIGALRM asks as well.  If it interrupts something of that
 * kind, it waits for a lock that the interrupted code has taken, for ever; and
 * while the server waits in epoll_wait(), libfaketime tells it the real time.  So
 * the handler is told the real time and what libfaketime was last seen to add to it.
 *
 * The postmaster up to 15 does its work in handlers, while it waits in select().
 * They, and the processes that they start, would be told the real time as well, if
 * libfaketime knew of the wait.
 *
 * This library is to be preloaded before libfaketime.  Clocks other than that of
 * the day are left alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S	INT64_C(1000000000)

static void (*alarm_handler) (int);
static volatile sig_atomic_t in_alarm_handler = 0;
static volatile int64_t offset;

/* Of the kernel, in ns, whatever is preloaded. */
static int64_t
real_time(void)
{
	struct timespec now;

	syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static int64_t
faked_time(void)
{
	static int	(*next) (clockid_t, struct timespec *) = NULL;
	struct timespec now;
	int64_t		result;

	if (in_alarm_handler)
		return real_time() + offset;
	if (next == NULL)
		next = dlsym(RTLD_NEXT, "clock_gettime");
	next(CLOCK_REALTIME, &now);
	result = now.tv_sec * NS_PER_S + now.tv_nsec;
	offset = result - real_time();
	return result;
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
	int64_t		time;

	if (clock != CLOCK_REALTIME)
		return syscall(SYS_clock_gettime, clock, now);
	time = faked_time();
	now->tv_sec = time / NS_PER_S;
	now->tv_nsec = time % NS_PER_S;
	return 0;
}

int
gettimeofday(struct timeval *now, void *zone __attribute__((unused)))
{
	int64_t		time = faked_time();

	now->tv_sec = time / NS_PER_S;
	now->tv_usec = time % NS_PER_S / 1000;
	return 0;
}

time_t
time(time_t *now)
{
	time_t		result = faked_time() / NS_PER_S;

	if (now != NULL)
		*now = result;
	return result;
}

static void
handle_alarm(int signal)
{
	in_alarm_handler = 1;
	alarm_handler(signal);
	in_alarm_handler = 0;
}

int
sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
	static int	(*next) (int, const struct sigaction *, struct sigaction *) = NULL;
	void		(*old_handler) (int) = alarm_handler;
	struct sigaction ours;
	int			result;

	if (next == NULL)
		next = dlsym(RTLD_NEXT, "sigaction");
	if (signal == SIGALRM && action != NULL &&
		action->sa_handler != SIG_IGN && action->sa_handler != SIG_DFL)
	{
		alarm_handler = action->sa_handler;
		ours = *action;
		ours.sa_handler = handle_alarm;
		action = &ours;
	}
	result = next(signal, action, old);
	if (old != NULL && old->sa_handler == handle_alarm)
		old->sa_handler = old_handler;
	return result;
}

static int	(*libc_select) (int, fd_set *, fd_set *, fd_set *, struct timeval *);

/* Not at the first call, when handlers may come in between. */
static void
__attribute__((constructor))
find_select(void)
{
	libc_select = dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "select");
}

int
select(int number, fd_set * readable, fd_set * writable, fd_set * exceptional,
	   struct timeval *timeout)
{
	return libc_select(number, readable, writable, exceptional, timeout);
}
