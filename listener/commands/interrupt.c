/* interrupt.c owns the signals of commands. */
#include "commands/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t has_come;

static void on_signal(int number)
{
	(void)number;
	has_come = 1;
}

void interrupt_watch(void)
{
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

bool interrupt_has_come(void)
{
	return has_come;
}
