/* slow_names.c simulates a name server that does not answer: a library to preload. Names below .test are looked up for
 * half a minute, in vain. A process finds once.test the first time. two.test has two addresses. With NAMES_ADDRESS all
 * have this address while the file NAMES_MUTE does not exist. */
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
	static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
	static int asked;
	const char *address = getenv("NAMES_ADDRESS"), *mute = getenv("NAMES_MUTE");
	void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");
	size_t len = name ? strlen(name) : 0;

	memcpy(&real, &symbol, sizeof(real)); /* C has no cast from data to function pointers */
	if (len < 5 || strcmp(name + len - 5, ".test") != 0)
		return real(name, service, hints, found);
	if (address && access(mute, F_OK) != 0)
		return real(address, service, hints, found);
	if (strcmp(name, "once.test") == 0 && !asked++)
		return real("127.0.0.1", service, hints, found);
	if (strcmp(name, "two.test") == 0 && real("127.0.0.1", service, hints, found) == 0)
		return real("127.0.0.2", service, hints, &(*found)->ai_next);
	sleep(30);
	return EAI_AGAIN;
}
