/* Programs that a test starts. Their output goes to files in the test's directory, and they die with the test's
 * process. */
#ifndef SUPPORT_PROCESS_H
#define SUPPORT_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

struct process;

/* How a program is started; zeros are the defaults. */
struct process_options {
	const char *const *argv; /* ends in NULL; argv[0] is searched in PATH if it has no slash */
	const char *const *env;  /* "NAME=value" to set, "NAME" to unset, NULL at the end; or NULL */
	const char *directory;   /* where to run; NULL = where the test runs */
	uid_t uid;               /* user to run as, if the test runs as root; 0 = unchanged */
	gid_t gid;
	int death_signal; /* signal it gets when the test's process ends; 0 = SIGKILL */
};

/* Starts a program. Fails the test with the reason if it cannot be executed. Its signals have their default actions
 * and are not blocked. process_free ends it. */
struct process *process_start(const struct process_options *options);

/* The same with only an argv (and env or NULL). */
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

/* How much more memory a program uses under AddressSanitizer, which keeps freed memory up to quarantine_size_mb in
 * ASAN_OPTIONS. */
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

/* The last 2,000 bytes of standard error, for messages of failed tests. Overwritten by the next call. */
const char *process_last_words(const struct process *p);

/* Kill it if it is alive (SIGKILL), wait for it and free p. Its output files stay until the run ends.
 * NULL is allowed. */
void process_free(struct process *p);

/* Sets its limit of open files. */
void process_limit_files(const struct process *p, long most);

/* Raises this process's limit of open files to the maximum, for tests with a thousand sockets. Programs started later
 * get the original limit. */
void process_raise_file_limit(void);

#endif
