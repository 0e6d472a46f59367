/*
 * A server clock that a test can set.
 *
 * This preloaded library interposes the functions that tell the time of day.
 * They return the time since boot plus an offset, which no step of the real
 * clock changes.  The file that SNOWFLAKE_TEST_CLOCK names has the offset.
 * All processes of a server map this file, so a look takes no lock and no
 * memory, and a signal handler may take one.  Other clocks are left alone, as
 * they are when a real clock is set.
 *
 * To set the clock, a test fills in another offset than the current one, and
 * then makes it current by writing one byte: nobody sees half of an offset.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S	INT64_C(1000000000)

/* The file, as set_clock() in SnowflakeTest.pm writes it. */
static struct
{
	int64_t		offsets[255];	/* in ns */
	uint8_t		current;
}		   *file;

/* Programs without such a file see the real time. */
__attribute__((constructor))
static void
map_file(void)
{
	const char *path = getenv("SNOWFLAKE_TEST_CLOCK");
	int			fd;

	if (path == NULL)
		return;
	fd = open(path, O_RDWR | O_CLOEXEC);
	file =
		mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		abort();
	close(fd);
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
	int64_t		time;
	int			result;

	if (file == NULL ||
		(clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
		return syscall(SYS_clock_gettime, clock, now);
	result = syscall(SYS_clock_gettime, CLOCK_BOOTTIME, now);
	time = now->tv_sec * NS_PER_S + now->tv_nsec +
		file->offsets[__atomic_load_n(&file->current, __ATOMIC_ACQUIRE)];
	now->tv_sec = time / NS_PER_S;
	now->tv_nsec = time % NS_PER_S;
	return result;
}

int
gettimeofday(struct timeval *now, void *zone __attribute__((unused)))
{
	struct timespec precise;

	clock_gettime(CLOCK_REALTIME, &precise);
	now->tv_sec = precise.tv_sec;
	now->tv_usec = precise.tv_nsec / 1000;
	return 0;
}

time_t
time(time_t *now)
{
	struct timespec precise;

	clock_gettime(CLOCK_REALTIME, &precise);
	if (now != NULL)
		*now = precise.tv_sec;
	return precise.tv_sec;
}
