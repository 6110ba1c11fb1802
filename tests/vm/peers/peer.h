/*
 * Shared by the librpma peers: dying with a reason, a limit on the whole run,
 * and what both ends of a log's connection must agree on.
 */
#ifndef PEER_H
#define PEER_H

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <signal.h>

#include <librpma.h>

#define LOG_SIGNATURE "LOG\0\0\0\0" /* with its last NUL: 8 bytes */
#define LOG_USED_AT 8		    /* where the u64 `used` lies */
#define LOG_DATA_AT 16		    /* where the data begins: first `used` */

/* The private data that the log's owner sends when it accepts a connection. */
struct hello {
	uint16_t used_at;
	uint8_t region_bytes;
	uint8_t config_bytes;
	uint8_t descriptors[24];
};
_Static_assert(sizeof(struct hello) == 28, "the hello is 28 bytes on the wire");

static const char *self = "peer";

__attribute__((noreturn, format(printf, 1, 2), unused)) static void
die(const char *format, ...)
{
	va_list arguments;

	fflush(stdout);
	fprintf(stderr, "%s: ", self);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

/* Dies unless a librpma call returned 0. */
static inline void
must(int result, const char *step)
{
	if (result == 0)
		return;
	int saved = errno;
	die("%s: %s (errno %d)", step, rpma_err_2str(result), saved);
}

static void
out_of_time(int signal_number)
{
	static const char text[] = ": out of time\n";

	(void)signal_number;
	/* Only calls that are safe in a signal handler. */
	ssize_t ignored = write(2, self, strlen(self));
	ignored = write(2, text, sizeof(text) - 1);
	(void)ignored;
	_exit(3);
}

/* Nothing here may hang a test suite: PEER_TIMEOUT seconds (60), then exit 3. */
static inline void
start_clock(const char *program)
{
	const char *limit = getenv("PEER_TIMEOUT");
	long seconds = limit != NULL ? strtol(limit, NULL, 10) : 60;

	self = program;
	signal(SIGALRM, out_of_time);
	alarm(seconds > 0 ? (unsigned)seconds : 60);
	rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_WARNING);
	rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_WARNING);
}

static inline const char *
event_name(enum rpma_conn_event event)
{
	/* librpma has names of its own, this one never returns NULL */
	const char *name = rpma_utils_conn_event_2str(event);

	return name != NULL ? name : "an unknown event";
}

#endif
