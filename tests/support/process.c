/* Programs that a test starts: fork and exec, output files, signals, the wait for their end. */
#include "process.h"
#include "support.h"

#include <grp.h>
#include <sys/prctl.h>
#include <sys/wait.h>

extern char **environ;

struct process {
	pid_t pid;
	bool is_reaped; /* status is known; pid may belong to another process by now */
	int status;     /* exit status, or 128 + signal */
	char *output;   /* path of the file with standard output */
	char *errors;   /* path of the file with standard error */
};

/* Everything the child needs, made before fork. Another thread (a feed's) may hold the heap's lock at that time, so
 * the child must not allocate. */
struct launch {
	const struct process_options *options;
	char **env;
	int in_fd, out_fd, err_fd;
	int report_fd; /* the child writes errno here if it cannot become the program */
	pid_t parent;
	struct rlimit files;
};

static struct rlimit first_file_limit; /* zero until raised */

void process_raise_file_limit(void)
{
	struct rlimit limit;

	if (first_file_limit.rlim_cur)
		return;
	getrlimit(RLIMIT_NOFILE, &limit);
	first_file_limit = limit;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static bool has_name_of(const char *variable, const char *setting)
{
	size_t len = strcspn(setting, "=");

	return strncmp(variable, setting, len) == 0 && variable[len] == '=';
}

/* This process's environment with the settings applied. The strings are not copied; the caller
 * frees the array. */
static char **merge_env(const char *const *settings)
{
	size_t n = 0, extra = 0, used = 0;

	while (environ[n])
		n++;
	while (settings && settings[extra])
		extra++;
	char **env = calloc(n + extra + 1, sizeof *env);

	for (size_t i = 0; i < n; i++) {
		bool is_replaced = false;
		for (size_t j = 0; j < extra; j++)
			is_replaced |= has_name_of(environ[i], settings[j]);
		if (!is_replaced)
			env[used++] = environ[i];
	}
	for (size_t j = 0; j < extra; j++)
		if (strchr(settings[j], '='))
			env[used++] = (char *)settings[j];
	return env;
}

static void default_signals(void)
{
	sigset_t none;

	for (int signo = 1; signo < NSIG; signo++)
		signal(signo, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* In the child: executes the program, or reports the error through report_fd. */
static _Noreturn void become(const struct launch *l)
{
	const struct process_options *o = l->options;
	int death_signal = o->death_signal ? o->death_signal : SIGKILL;
	int error;

	default_signals();
	dup2(l->in_fd, STDIN_FILENO);
	dup2(l->out_fd, STDOUT_FILENO);
	dup2(l->err_fd, STDERR_FILENO);
	if (l->files.rlim_cur)
		setrlimit(RLIMIT_NOFILE, &l->files);
	if (o->uid && geteuid() == 0 && (setgroups(0, NULL) == -1 || setgid(o->gid) == -1 || setuid(o->uid) == -1))
		goto fail;
	if (prctl(PR_SET_PDEATHSIG, death_signal) == -1) /* after setuid, which clears it */
		goto fail;
	if (getppid() != l->parent)
		_exit(1);
	if (o->directory && chdir(o->directory) == -1)
		goto fail;
	execvpe(o->argv[0], (char **)o->argv, l->env);
fail:
	error = errno;
	if (write(l->report_fd, &error, sizeof error) < 0)
		_exit(126);
	_exit(127);
}

static int open_output(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);

	if (fd == -1)
		cr_assert_fail("cannot write %s: %s", path, strerror(errno));
	return fd;
}

/* Forks and returns the child's pid once the program is running. */
static pid_t launch(struct launch *l)
{
	int report[2], error;

	if (pipe2(report, O_CLOEXEC) == -1)
		cr_assert_fail("cannot make a pipe: %s", strerror(errno));
	l->report_fd = report[1];
	l->parent = getpid();
	pid_t pid = fork();
	if (pid == 0)
		become(l);
	close(report[1]);
	if (pid == -1)
		cr_assert_fail("cannot fork: %s", strerror(errno));
	ssize_t got = read(report[0], &error, sizeof error);
	close(report[0]);
	if (got == sizeof error) {
		waitpid(pid, NULL, 0);
		cr_assert_fail("cannot run %s: %s", l->options->argv[0], strerror(error));
	}
	return pid;
}

struct process *process_start(const struct process_options *options)
{
	struct process *p = calloc(1, sizeof *p);
	const char *slash = strrchr(options->argv[0], '/');
	const char *name = slash ? slash + 1 : options->argv[0];
	int number = suite_number();

	p->output = suite_path("%s-%d.out", name, number);
	p->errors = suite_path("%s-%d.err", name, number);
	struct launch l = {
		.options = options,
		.env = merge_env(options->env),
		.in_fd = open("/dev/null", O_RDONLY | O_CLOEXEC),
		.out_fd = open_output(p->output),
		.err_fd = open_output(p->errors),
		.files = first_file_limit,
	};
	p->pid = launch(&l);
	close(l.in_fd);
	close(l.out_fd);
	close(l.err_fd);
	free(l.env);
	return p;
}

struct process *process_start_argv(const char *const argv[], const char *const env[])
{
	return process_start(&(struct process_options){.argv = argv, .env = env});
}

int process_run(const char *const argv[], int deadline_ms)
{
	struct process *p = process_start_argv(argv, NULL);
	int status = process_wait(p, deadline_ms);

	if (status == -1)
		cr_assert_fail("%s did not end within %d ms: %s", argv[0], deadline_ms, process_last_words(p));
	process_free(p);
	return status;
}

pid_t process_id(const struct process *p)
{
	return p->pid;
}

static void reap(struct process *p, int flags)
{
	int status;
	pid_t pid;

	if (p->is_reaped)
		return;
	do
		pid = waitpid(p->pid, &status, flags);
	while (pid == -1 && errno == EINTR);
	if (pid == 0)
		return;
	if (pid == -1)
		cr_assert_fail("cannot wait for process %d: %s", (int)p->pid, strerror(errno));
	p->is_reaped = true;
	p->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void process_signal(struct process *p, int signo)
{
	reap(p, WNOHANG);
	if (!p->is_reaped)
		kill(p->pid, signo);
}

int process_wait(struct process *p, int deadline_ms)
{
	return wait_until(!process_is_alive(p), deadline_ms) ? p->status : -1;
}

bool process_is_alive(struct process *p)
{
	reap(p, WNOHANG);
	return !p->is_reaped;
}

/* The content of a file from offset on (from its end if negative). The caller frees it. */
static char *read_text(const char *path, long offset)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t room = 0;

	if (!file)
		cr_assert_fail("cannot read %s: %s", path, strerror(errno));
	if (offset < 0 && fseek(file, offset, SEEK_END) == -1)
		rewind(file); /* the file is shorter: read all of it */
	if (getdelim(&text, &room, '\0', file) == -1) {
		free(text);
		text = strdup("");
	}
	fclose(file);
	return text;
}

long process_rss_kb(struct process *p)
{
	char path[64], *text;
	long kb = -1;

	reap(p, WNOHANG);
	if (p->is_reaped)
		cr_assert_fail("process %d has ended with status %d", (int)p->pid, p->status);
	snprintf(path, sizeof path, "/proc/%d/status", (int)p->pid);
	text = read_text(path, 0);
	const char *line = strstr(text, "\nVmRSS:");
	if (line)
		kb = strtol(line + strlen("\nVmRSS:"), NULL, 10);
	free(text);
	return kb;
}

char *process_output(const struct process *p)
{
	return read_text(p->output, 0);
}

char *process_errors(const struct process *p)
{
	return read_text(p->errors, 0);
}

const char *process_last_words(const struct process *p)
{
	static char words[2001];
	char *text = read_text(p->errors, -2000);

	snprintf(words, sizeof words, "%s", *text ? text : "(nothing on standard error)");
	free(text);
	return words;
}

void process_free(struct process *p)
{
	if (!p)
		return;
	process_signal(p, SIGKILL);
	reap(p, 0);
	free(p->output);
	free(p->errors);
	free(p);
}

void process_limit_files(const struct process *p, long most)
{
	struct rlimit limit;

	cr_assert_eq(prlimit(process_id(p), RLIMIT_NOFILE, NULL, &limit), 0);
	limit.rlim_cur = (rlim_t)most;
	cr_assert_eq(prlimit(process_id(p), RLIMIT_NOFILE, &limit, NULL), 0);
}
