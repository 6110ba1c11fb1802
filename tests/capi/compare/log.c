/* Logging: thresholds, a function of the program's, and the default one. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <sys/mman.h>

#include "case.h"

static const int thresholds[] = { RPMA_LOG_THRESHOLD, RPMA_LOG_THRESHOLD_AUX,
				  RPMA_LOG_THRESHOLD_MAX, 3, -1, INT_MIN, INT_MAX };
static const int levels[] = { INT_MIN, -3, -2, RPMA_LOG_DISABLED, RPMA_LOG_LEVEL_FATAL,
			      RPMA_LOG_LEVEL_ERROR, RPMA_LOG_LEVEL_WARNING, RPMA_LOG_LEVEL_NOTICE,
			      RPMA_LOG_LEVEL_INFO, RPMA_LOG_LEVEL_DEBUG, 6, 7, INT_MAX };

static char heard[256];

static void hear(enum rpma_log_level level, const char *file, const int line, const char *func,
		 const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	int len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	/* The words differ; that there are some, and that they end a line, does not. */
	snprintf(heard + strlen(heard), sizeof(heard) - strlen(heard), "[%d, file %s, line %s, %s, %s]",
		 level, file && *file ? "named" : "none", line > 0 ? "told" : "none",
		 func ? "function" : "no function",
		 len > 1 && text[len - 1] == '\n' ? "a line" : "not a line");
}

static void set_and_get(void)
{
	for (size_t t = 0; t < COUNT(thresholds); t++) {
		enum rpma_log_threshold threshold = (enum rpma_log_threshold)thresholds[t];
		enum rpma_log_level level;
		int ret;

		about("rpma_log_get_threshold");
		begin("threshold %d, out NULL", thresholds[t]);
		ret = rpma_log_get_threshold(threshold, NULL);
		end("%d", ret);
		for (size_t l = 0; l < COUNT(levels); l++) {
			about("rpma_log_set_threshold");
			begin("threshold %d, level %d", thresholds[t], levels[l]);
			ret = rpma_log_set_threshold(threshold, (enum rpma_log_level)levels[l]);
			end("%d", ret);
			about("rpma_log_get_threshold");
			level = (enum rpma_log_level)77;
			begin("threshold %d, after level %d", thresholds[t], levels[l]);
			ret = rpma_log_get_threshold(threshold, &level);
			end("%d, %d", ret, level);
		}
	}
}

/* Something that is logged, of each level that can be had. */
static void provoke(int what)
{
	struct rpma_mr_remote *mr = NULL;
	struct rpma_peer_cfg *cfg = NULL;
	unsigned char bytes[21];

	memset(bytes, 1, sizeof(bytes));
	if (what == 0) {
		(void)rpma_mr_remote_from_descriptor(bytes, 3, &mr);       /* an error */
	} else if (what == 1) {
		NEED(rpma_peer_cfg_from_descriptor(bytes, 1, &cfg));        /* information */
		NEED(rpma_peer_cfg_delete(&cfg));
	} else {
		NEED(rpma_mr_remote_from_descriptor(bytes, 21, &mr));       /* for debugging */
		NEED(rpma_mr_remote_delete(&mr));
	}
}

static const char *const provoked[] = { "an error", "information", "debugging" };

static void own_function(void)
{
	about("rpma_log_set_function");
	for (int level = RPMA_LOG_DISABLED; level <= RPMA_LOG_LEVEL_DEBUG; level++)
		for (int aux = RPMA_LOG_DISABLED; aux <= RPMA_LOG_LEVEL_DEBUG; aux += 3)
			for (int what = 0; what < 3; what++) {
				NEED(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, level));
				NEED(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, aux));
				heard[0] = '\0';
				begin("a function, thresholds %d %d, %s", level, aux, provoked[what]);
				int ret = rpma_log_set_function(hear);

				provoke(what);
				end("%d, %s", ret, heard);
			}
}

/* What went to stderr, without time, thread and place. */
static const char *shape(const char *text)
{
	static char out[256];
	const char *level = strchr(text, '*');
	const char *end_of_level = level ? strchr(level + 1, '*') : NULL;
	const char *thread = strchr(text, '[');
	size_t len = strlen(text);

	if (!len)
		return "nothing";
	if (!end_of_level || !thread)
		return "of another shape";
	/* "Nov 29 20:23:32.123456 [1234] *ERROR* file.c: 12: function: words\n" */
	int month_to_usec = 0;
	char month[8], rest[64];
	int day, hour, minute, second, usec;

	month_to_usec = sscanf(text, "%3s %d %d:%d:%d.%d %63s", month, &day, &hour, &minute, &second,
			       &usec, rest);
	snprintf(out, sizeof(out), "time %s, thread %s, level %.9s, %s", month_to_usec == 7 ? "ok" : "none",
		 strchr(thread, ']') ? "ok" : "none", level, text[len - 1] == '\n' ? "a line" : "no line");
	return out;
}

static void default_function(void)
{
	int saved = dup(STDERR_FILENO), file = memfd_create("stderr", 0);

	about("rpma_log_set_function");
	for (int level = RPMA_LOG_DISABLED; level <= RPMA_LOG_LEVEL_DEBUG; level++)
		for (int aux = RPMA_LOG_DISABLED; aux <= RPMA_LOG_LEVEL_DEBUG; aux++)
			for (int what = 0; what < 3; what++) {
				char text[1024] = "";

				NEED(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, level));
				NEED(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, aux));
				need(ftruncate(file, 0) == 0, "ftruncate", __FILE__, __LINE__);
				lseek(file, 0, SEEK_SET);
				dup2(file, STDERR_FILENO);
				begin("the default, thresholds %d %d, %s", level, aux, provoked[what]);
				int ret = rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION);

				provoke(what);
				dup2(saved, STDERR_FILENO);
				ssize_t got = pread(file, text, sizeof(text) - 1, 0);

				text[got > 0 ? got : 0] = '\0';
				end("%d, stderr %s", ret, shape(text));
			}
	close(file);
	close(saved);
}

void cases_log(void)
{
	set_and_get();
	own_function();
	default_function();
	NEED(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED));
	hear_log();
}
