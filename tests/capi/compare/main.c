/*
 * compare [TABLE...]: calls librpma's functions with every kind of argument and
 * prints a line for each case: the function, the case, what came back, what was
 * asked of the NIC, what was logged and what was left alive, tab-separated.
 *
 * It is run with one library and then with another; the lines must be equal.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "case.h"

char *const arena = (char *)0x100000000000;

static const char *function = "";
static char name[512], levels[64];
static struct nic_live before;
static bool in_child;

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
		in_child = true;
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

void need(bool holds, const char *what, const char *file, int line)
{
	if (holds)
		return;
	fflush(stdout);
	fprintf(stderr, "%s:%d: %s: case \"%s\": this must go well: %s\n", file, line, function, name,
		what);
	_exit(in_child ? 3 : 2);
}

/* ---- the world ------------------------------------------------------------- */

void unblock(int fd)
{
	need(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0, "fcntl", __FILE__, __LINE__);
}

struct rpma_mr_remote *remote_of(const struct rpma_mr_local *mr)
{
	struct rpma_mr_remote *remote = NULL;
	char descriptor[64];
	size_t len = 0;

	NEED(rpma_mr_get_descriptor_size(mr, &len));
	NEED(rpma_mr_get_descriptor(mr, descriptor));
	NEED(rpma_mr_remote_from_descriptor(descriptor, len, &remote));
	return remote;
}

struct ibv_qp *qp_of(const struct rpma_conn *conn)
{
	uint32_t number = 0;

	NEED(rpma_conn_get_qp_num(conn, &number));
	return nic_qp(number);
}

static void established(struct rpma_conn *conn)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
	int fd = -1;

	NEED(rpma_conn_get_event_fd(conn, &fd));
	unblock(fd);
	NEED(rpma_conn_next_event(conn, &event));
	need(event == RPMA_CONN_ESTABLISHED, "established", __FILE__, __LINE__);
}

void world_begin(struct world *world)
{
	memset(world, 0, sizeof(*world));
	NEED(rpma_peer_new(nic_context(), &world->peer));
	NEED(rpma_ep_listen(world->peer, "10.9.0.1", "7001", &world->ep));
	NEED(rpma_mr_reg(world->peer, arena, REGION_LEN, ALL_USES, &world->local));
	NEED(rpma_mr_reg(world->peer, TARGET, REGION_LEN, ALL_USES, &world->target));
	world->remote = remote_of(world->target);
}

void world_connect(struct world *world, const struct rpma_conn_cfg *cfg)
{
	struct rpma_conn_req *req = NULL;

	NEED(rpma_conn_req_new(world->peer, "10.9.0.1", "7001", cfg, &req));
	NEED(rpma_conn_req_connect(&req, NULL, &world->client));
	NEED(rpma_ep_next_conn_req(world->ep, cfg, &req));
	NEED(rpma_conn_req_connect(&req, NULL, &world->server));
	established(world->client);
	established(world->server);
}

void world_new(struct world *world, const struct rpma_conn_cfg *cfg)
{
	world_begin(world);
	world_connect(world, cfg);
}

void drop_late(struct world *world)
{
	struct rpma_conn_req *late = NULL;
	int ret;

	/* It says PROVIDER where there is nothing. */
	while ((ret = rpma_ep_next_conn_req(world->ep, NULL, &late)) != RPMA_E_PROVIDER)
		if (ret == 0)
			NEED(rpma_conn_req_delete(&late));
}

void world_disconnect(struct world *world)
{
	NEED(rpma_conn_delete(&world->client));
	NEED(rpma_conn_delete(&world->server));
}

void world_delete(struct world *world)
{
	if (world->client)
		world_disconnect(world);
	NEED(rpma_mr_remote_delete(&world->remote));
	NEED(rpma_mr_dereg(&world->target));
	NEED(rpma_mr_dereg(&world->local));
	NEED(rpma_ep_shutdown(&world->ep));
	NEED(rpma_peer_delete(&world->peer));
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
	void *got = mmap(arena, ARENA_LEN, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	need(got == arena, "mmap of the arena", __FILE__, __LINE__);
	nic_name("local", arena, ARENA_LEN / 4);
	nic_name("target", TARGET, ARENA_LEN / 4);
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
