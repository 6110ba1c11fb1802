/* syslog(3), noted down in place of sent. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

#include "internal.h"

static int messages;

EXPORT int nic_syslogs(void)
{
	return messages;
}

static void message(int priority, const char *format, va_list args)
{
	char text[2048];

	messages++;
	vsnprintf(text, sizeof(text), format, args);
	/* The level's name stands in front; what follows names the source. */
	nic_note("syslog(priority %d, \"%.8s\")", priority, text);
}

EXPORT void syslog(int priority, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	message(priority, format, args);
	va_end(args);
}

EXPORT void vsyslog(int priority, const char *format, va_list args)
{
	message(priority, format, args);
}

void __syslog_chk(int priority, int flag, const char *format, ...);

EXPORT void __syslog_chk(int priority, int flag, const char *format, ...)
{
	va_list args;

	(void)flag;
	va_start(args, format);
	message(priority, format, args);
	va_end(args);
}
