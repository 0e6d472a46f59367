/*
 * A look at the clock that no signal interrupts, for servers under libfaketime.
 *
 * libfaketime reads its file with fopen() whenever it is asked for the time, and
 * the server's handler of SIGALRM asks as well: if it comes within another fopen(),
 * it waits for the lock that this one has taken, for ever.  A real clock takes no
 * lock.  This library is to be preloaded before libfaketime.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

/* Call the function of that name in the libraries after this one. */
#define GUARDED(result_type, name, parameter_types, ...) \
	result_type (*next) parameter_types = dlsym(RTLD_NEXT, name); \
	sigset_t	all, \
				old; \
	result_type result; \
	\
	sigfillset(&all); \
	sigprocmask(SIG_SETMASK, &all, &old); \
	result = next(__VA_ARGS__); \
	sigprocmask(SIG_SETMASK, &old, NULL); \
	return result

int
gettimeofday(struct timeval *now, void *zone)
{
	GUARDED(int, "gettimeofday", (struct timeval *, void *), now, zone);
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
	GUARDED(int, "clock_gettime", (clockid_t, struct timespec *), clock, now);
}

time_t
time(time_t *now)
{
	GUARDED(time_t, "time", (time_t *), now);
}
