// The clock of cron, preloaded into the daemon: time passes when it sleeps, and a job is written down instead
// of being run. FROM and UNTIL are seconds since 1970.
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 6 };

static struct shared {
	time_t now;
	int count;
	time_t times[MOST];
} *shared; // by the daemon and its children
static pid_t daemon_pid;
static time_t until;

__attribute__((constructor)) static void begin(void) {
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	shared->now = atoll(getenv("FROM"));
	until = atoll(getenv("UNTIL"));
	daemon_pid = getpid();
}

time_t time(time_t *t) {
	if (t)
		*t = shared->now;
	return shared->now;
}

unsigned sleep(unsigned seconds) {
	if (getpid() != daemon_pid)
		return 0;
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	shared->now += seconds;
	if (shared->count == MOST || shared->now >= until) {
		for (int i = 0; i < shared->count; i++)
			printf("%lld ", (long long)shared->times[i]);
		fflush(stdout);
		_exit(0);
	}
	return 0;
}

// execle would run the shell of a job. Jobs of one minute are one.
int execle(const char *path, const char *arg, ...) {
	time_t at = shared->now - shared->now % 60;
	if (shared->count < MOST && (shared->count == 0 || shared->times[shared->count - 1] != at))
		shared->times[shared->count++] = at;
	_exit(0);
}

int __syslog_chk(int priority, int flag, const char *format, ...) {
	char text[1000], *end;
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	if (!strncmp(text, "Error: ", 7) && (end = strstr(text, "; while reading"))) {
		*end = 0;
		printf("refused %s", text + 7);
		fflush(stdout);
		_exit(0);
	}
	return 0;
}

// The daemon may run jobs as it is.
int initgroups(const char *user, gid_t group) { return 0; }
int pam_start() { return 0; }
int pam_set_item() { return 0; }
int pam_setcred() { return 0; }
int pam_acct_mgmt() { return 0; }
int pam_open_session() { return 0; }
int pam_close_session() { return 0; }
int pam_end() { return 0; }
char **pam_getenvlist() { return calloc(1, sizeof(char *)); }
