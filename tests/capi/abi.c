/*
 * What a program takes from librpma.h: the sizes and places of the structures
 * that are not opaque, and the types. The constants' lines are made by `abi`.
 */
#include <stddef.h>
#include <stdio.h>

#include <librpma.h>

#define PLACE(type, field) \
	printf(#type "." #field " at %zu, %zu bytes\n", offsetof(type, field), sizeof(((type *)0)->field))
#define SIZE(type) printf("sizeof(" #type ") = %zu, aligned to %zu\n", sizeof(type), _Alignof(type))
#define IS_SIGNED(type) printf(#type " is %s\n", (long)(type)-1 < 0 ? "signed" : "unsigned")

/* The address of a function is enough to hold its type against this one. */
static void log_function(enum rpma_log_level level, const char *file, const int line,
			 const char *function, const char *format, ...)
{
	(void)level, (void)file, (void)line, (void)function, (void)format;
}

int main(void)
{
	rpma_log_function *own = log_function, *none = RPMA_LOG_USE_DEFAULT_FUNCTION;

	SIZE(struct rpma_conn_private_data);
	PLACE(struct rpma_conn_private_data, ptr);
	PLACE(struct rpma_conn_private_data, len);
	SIZE(enum rpma_util_ibv_context_type);
	SIZE(enum rpma_conn_event);
	SIZE(enum rpma_flush_type);
	SIZE(enum rpma_log_level);
	SIZE(enum rpma_log_threshold);
	IS_SIGNED(enum rpma_conn_event);
	IS_SIGNED(enum rpma_log_level);
	IS_SIGNED(enum rpma_flush_type);
	printf("a log function: %d, none: %d\n", own != NULL, none == NULL);
#define CONSTANT(name) printf(#name " = %ld, %zu bytes\n", (long)(name), sizeof(name));
#include "constants.inc"
	return 0;
}
