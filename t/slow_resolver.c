/*-------------------------------------------------------------------------
 *
 * slow_resolver.c
 *	  A resolver that gets no answer, for a test that preloads it.
 *
 * Like a resolver whose name servers are silent, it goes on when a signal
 * arrives.
 *
 * snowflake/t/slow_resolver.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SLOW_NAME "slow.invalid"
#define SECONDS 100

typedef int (*Resolver) (const char *, const char *, const struct addrinfo *,
						 struct addrinfo **);

int
getaddrinfo(const char *node, const char *service,
			const struct addrinfo *hints, struct addrinfo **result)
{
	unsigned	left = SECONDS;

	if (node == NULL || strcmp(node, SLOW_NAME) != 0)
		return ((Resolver) dlsym(RTLD_NEXT, "getaddrinfo")) (node, service, hints, result);

	fprintf(stderr, "looking up %s\n", node);
	while (left > 0)
		left = sleep(left);
	return EAI_AGAIN;
}
