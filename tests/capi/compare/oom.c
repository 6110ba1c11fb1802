/* An allocator that fails by order, in front of the C library's. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static int left = -1;
static bool go_on;

void fail_allocation(int after, bool all)
{
	left = after;
	go_on = all;
}

static bool fails(void)
{
	if (left < 0 || left-- > 0)
		return false;
	if (go_on)
		left = 0;
	errno = ENOMEM;
	return true;
}

void *malloc(size_t len)
{
	return fails() ? NULL : __libc_malloc(len);
}

void *calloc(size_t count, size_t len)
{
	return fails() ? NULL : __libc_calloc(count, len);
}

void *realloc(void *old, size_t len)
{
	return fails() ? NULL : __libc_realloc(old, len);
}

void *aligned_alloc(size_t align, size_t len)
{
	return fails() ? NULL : __libc_memalign(align, len);
}

int posix_memalign(void **out, size_t align, size_t len)
{
	if (fails())
		return ENOMEM;
	*out = __libc_memalign(align, len);
	return *out ? 0 : ENOMEM;
}
