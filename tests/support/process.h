/* Programs that a test starts: their output goes to files in the test's directory, and they die with
 * the test's process, however that ends. */
#ifndef SUPPORT_PROCESS_H
#define SUPPORT_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

struct process;

/* How a program is started; what is left zero is the usual. */
struct process_options {
	const char *const *argv; /* NULL at the end; argv[0] is looked for in PATH if it has no slash */
	const char *const *env;  /* "NAME=value" to set, "NAME" to unset, NULL at the end; or NULL */
	const char *directory;   /* where to run; NULL = where the test runs */
	uid_t uid;               /* whom to run as, when the test runs as root; 0 = oneself */
	gid_t gid;
	int death_signal; /* what it gets when the test's process ends; 0 = SIGKILL */
};

/* Start a program. The test fails, with the reason, when it cannot be executed. Signals have their
 * default actions in it and none is blocked. process_free ends it. */
struct process *process_start(const struct process_options *options);

/* The same with an argv (and env or NULL) alone. */
struct process *process_start_argv(const char *const argv[], const char *const env[]);

/* Run a program to its end. Returns its exit status, or 128 + signal; the test fails after
 * deadline_ms (stretched). */
int process_run(const char *const argv[], int deadline_ms);

/* Its process id, also after its end. */
pid_t process_id(const struct process *p);

/* Send it a signal, if it has not ended. */
void process_signal(struct process *p, int signo);

/* Wait for its end. Returns its exit status, 128 + signal if a signal ended it, or -1 if it is still
 * there after deadline_ms (stretched). May be called again after the end. */
int process_wait(struct process *p, int deadline_ms);

/* Whether it has not ended (a stopped process is alive). */
bool process_is_alive(struct process *p);

/* By how much more memory a program takes than it does otherwise: AddressSanitizer keeps what was freed,
 * as much as quarantine_size_mb of ASAN_OPTIONS says. */
#ifdef __SANITIZE_ADDRESS__
#define PROCESS_MEMORY_FACTOR 4
#else
#define PROCESS_MEMORY_FACTOR 1
#endif

/* Resident memory in KiB; the test fails if the process has ended. */
long process_rss_kb(struct process *p);

/* What it has written to standard output so far. */
char *process_output(const struct process *p);

/* What it has written to standard error so far. */
char *process_errors(const struct process *p);

/* The last 2,000 bytes of standard error, for messages of failed tests.; overwritten
 * by the next call. */
const char *process_last_words(const struct process *p);

/* Kill it if it is alive (SIGKILL), wait for it and free p. Its output files stay until the run ends.
 * NULL is allowed. */
void process_free(struct process *p);

/* Allow this process as many open files as the system lets it, for tests with a thousand sockets.
 * Programs started later still get the limit that the test began with. */
void process_raise_file_limit(void);

#endif
