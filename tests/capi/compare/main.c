/*
 * compare [TABLE...]: calls librpma's functions with every kind of argument and
 * prints a line for each case: the function, the case, what came back, what was
 * asked of the NIC, what was logged and what was left alive, tab-separated.
 *
 * It is run with one library and then with another; the lines must be equal.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "case.h"

static const char *function = "";
static char name[512], levels[64];
static struct nic_live before;

/* ---- lines ----------------------------------------------------------------- */

static void hear(enum rpma_log_level level, const char *file, const int line, const char *func,
		 const char *format, ...)
{
	size_t len = strlen(levels);

	(void)file, (void)line, (void)func, (void)format;
	if (len < sizeof(levels) - 1)
		levels[len] = level >= 0 && level < 6 ? "FEWNID"[level] : '?';
}

void hear_log(void)
{
	NEED(rpma_log_set_function(hear));
	NEED(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_DEBUG));
}

const char *pointer(const void *value)
{
	return !value ? "NULL" : value == UNTOUCHED_PTR ? "untouched" : "set";
}

void about(const char *called)
{
	function = called;
}

static void vbegin(const char *format, va_list args)
{
	vsnprintf(name, sizeof(name), format, args);
	case_now = name;
	memset(levels, 0, sizeof(levels));
	before = nic_live();
	nic_log_begin();
}

void begin(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vbegin(format, args);
	va_end(args);
}

static void left(const char *what, int was, int is)
{
	if (was != is)
		printf(" %s%+d", what, is - was);
}

static void vend(const char *format, va_list args)
{
	const char *log = nic_log_end();
	struct nic_live now = nic_live();

	printf("%s\t%s\t", function, name);
	vprintf(format, args);
	printf("\t%s\t%s\t", log, levels);
	left("domains", before.pds, now.pds);
	left("regions", before.mrs, now.mrs);
	left("channels", before.channels, now.channels);
	left("cqs", before.cqs, now.cqs);
	left("srqs", before.srqs, now.srqs);
	left("qps", before.qps, now.qps);
	left("event channels", before.event_channels, now.event_channels);
	left("ids", before.ids, now.ids);
	left("addresses", before.infos, now.infos);
	printf("\n");
}

void end(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vend(format, args);
	va_end(args);
}

bool begin_risky(const char *format, ...)
{
	va_list args;
	int status;

	va_start(args, format);
	vbegin(format, args);
	va_end(args);
	fflush(stdout);
	pid_t child = fork();

	need(child >= 0, "fork", __FILE__, __LINE__);
	if (!child) {
		/* What a library says of its own death is not compared. */
		int null = open("/dev/null", O_WRONLY);

		dup2(null, STDERR_FILENO);
		alarm(20);
		return true;
	}
	need(waitpid(child, &status, 0) == child, "waitpid", __FILE__, __LINE__);
	if (WIFSIGNALED(status))
		printf("%s\t%s\tkilled by signal %d\t\t\t\n", function, name, WTERMSIG(status));
	else if (WEXITSTATUS(status))
		printf("%s\t%s\tended with status %d\t\t\t\n", function, name, WEXITSTATUS(status));
	return false;
}

void end_risky(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vend(format, args);
	va_end(args);
	fflush(stdout);
	_exit(0);
}

/* ---- the tables ------------------------------------------------------------ */

static const struct {
	const char *name;
	void (*run)(void);
	bool apart;                            /* only when it is asked for */
} tables[] = {
	{ "config", cases_config, false },
	{ "peer", cases_peer, false },
	{ "region", cases_region, false },
	{ "utils", cases_utils, false },
	{ "log", cases_log, false },
	{ "request", cases_request, false },
	{ "listen", cases_listen, false },
	{ "conn", cases_conn, false },
	{ "write", cases_write, false },
	{ "atomic_write", cases_atomic_write, false },
	{ "flush", cases_flush, false },
	{ "message", cases_message, false },
	{ "completion", cases_completion, false },
	{ "wait", cases_wait, false },
	{ "srq", cases_srq, false },
	{ "native", cases_native, false },
	/* Needs an allocator that fails by order: see memory.c. */
	{ "memory", cases_memory, true },
};

int main(int argc, char **argv)
{
	const struct rlimit no_core = { 0, 0 };

	setrlimit(RLIMIT_CORE, &no_core);
	arena_new();
	/* Before anything is set: the thresholds that a program starts with. */
	if (argc < 2 || !strcmp(argv[1], "log")) {
		enum rpma_log_level main_level = RPMA_LOG_DISABLED, other = RPMA_LOG_DISABLED;

		about("rpma_log_get_threshold");
		begin("at the start");
		int ret = rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &main_level);
		int ret_aux = rpma_log_get_threshold(RPMA_LOG_THRESHOLD_AUX, &other);
		end("%d %d, levels %d %d", ret, ret_aux, main_level, other);
	}
	hear_log();
	for (size_t i = 0; i < COUNT(tables); i++) {
		bool asked = argc < 2 && !tables[i].apart;

		for (int arg = 1; arg < argc; arg++)
			asked |= !strcmp(argv[arg], tables[i].name);
		if (asked)
			tables[i].run();
	}
	/* A table that leaves something behind spoils those after it. */
	about("(every function)");
	begin("what is alive at the end of %s", argc < 2 ? "all" : argv[1]);
	struct nic_live now = nic_live();
	end("%d domains, %d regions, %d channels, %d cqs, %d srqs, %d qps, %d event channels, %d addresses",
	    now.pds, now.mrs, now.channels, now.cqs, now.srqs, now.qps, now.event_channels, now.infos);
	return fflush(stdout) ? 2 : 0;
}
