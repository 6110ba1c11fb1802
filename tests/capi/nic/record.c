/* What is noted down, and the failures that are ordered. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"

#define LOG_MAX 65536
#define NAMES_MAX 16

EXPORT const char *const nic_call_names[NIC_CALL_COUNT] = {
#define X(name) #name,
	NIC_CALLS(X)
#undef X
};

pthread_mutex_t nic_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static char text[LOG_MAX];
static size_t text_len;
static bool logging;
static int called[NIC_CALL_COUNT];
int nic_doorbells_rung;
static struct { enum nic_call call; int after, error; bool due; } failure;
static struct { const char *name; uint64_t base, len; } names[NAMES_MAX];
static int name_count;

void nic_note(const char *format, ...)
{
	va_list args;

	if (!logging || text_len >= LOG_MAX - 3)
		return;
	if (text_len)
		text_len += (size_t)snprintf(text + text_len, LOG_MAX - text_len, "; ");
	va_start(args, format);
	int wrote = vsnprintf(text + text_len, LOG_MAX - text_len, format, args);
	va_end(args);
	text_len += wrote > 0 ? (size_t)wrote : 0;
	if (text_len >= LOG_MAX)
		text_len = LOG_MAX - 1;
}

EXPORT void nic_log_begin(void)
{
	pthread_mutex_lock(&nic_lock);
	text_len = 0;
	text[0] = '\0';
	logging = true;
	memset(called, 0, sizeof(called));
	nic_doorbells_rung = 0;
	pthread_mutex_unlock(&nic_lock);
}

EXPORT const char *nic_log_end(void)
{
	logging = false;
	return text;
}

EXPORT void nic_name(const char *name, const void *base, size_t len)
{
	if (name_count < NAMES_MAX) {
		names[name_count].name = name;
		names[name_count].base = (uintptr_t)base;
		names[name_count++].len = len;
	}
}

const char *nic_where(uint64_t addr, size_t len)
{
	static char out[8][64];
	static int turn;
	char *text_of = out[turn = (turn + 1) % 8];

	for (int i = 0; i < name_count; i++)
		/* One past the end, and a little before, are of interest as well. */
		if (addr + 4096 >= names[i].base && addr <= names[i].base + names[i].len + 4096) {
			snprintf(text_of, 64, "%s%+ld,%zu", names[i].name,
				 (long)(addr - names[i].base), len);
			return text_of;
		}
	/* Where the heap, the stack and what is mapped lie: these differ from run to run. */
	if (addr >> 46 == 1)
		snprintf(text_of, 64, "private,%zu", len);
	else
		snprintf(text_of, 64, "%#lx,%zu", (unsigned long)addr, len);
	return text_of;
}

const char *nic_key(uint32_t key, bool remote)
{
	static char out[4][96];
	static int turn;
	char *text_of = out[turn = (turn + 1) % 4];

	for (struct nic_mr *mr = nic_mrs; mr; mr = mr->next)
		if ((remote ? mr->verbs.rkey : mr->verbs.lkey) == key) {
			snprintf(text_of, 96, "of(%s)",
				 nic_where((uintptr_t)mr->verbs.addr, mr->verbs.length));
			return text_of;
		}
	snprintf(text_of, 96, "%#x", key);
	return text_of;
}

EXPORT void nic_fail(enum nic_call call, int after, int error)
{
	pthread_mutex_lock(&nic_lock);
	failure.call = call;
	failure.after = after;
	failure.error = error;
	failure.due = true;
	pthread_mutex_unlock(&nic_lock);
}

EXPORT bool nic_fail_end(void)
{
	bool was = failure.due;

	failure.due = false;
	return was;
}

bool nic_fails(enum nic_call call, int *error)
{
	called[call]++;
	if (!failure.due || failure.call != call || failure.after-- > 0)
		return false;
	failure.due = false;
	*error = failure.error;
	return true;
}

EXPORT int nic_called(enum nic_call call)
{
	return called[call];
}

EXPORT int nic_doorbells(void)
{
	return nic_doorbells_rung;
}

/* Pages of its own, so that an allocator that fails by order does not fail here. */
void *nic_alloc(size_t len)
{
	size_t whole = len + sizeof(size_t) * 2;
	size_t *at = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	*at = whole;
	return at + 2;
}

void nic_release(void *memory)
{
	if (memory) {
		size_t *at = (size_t *)memory - 2;

		munmap(at, *at);
	}
}

bool nic_grow(void **at, uint32_t *head, uint32_t count, uint32_t *room, size_t size)
{
	if (count < *room)
		return true;
	if (count >= DEPTH_MAX)
		return false;
	uint32_t more = *room ? *room * 2 : 16;
	char *bigger = nic_alloc(more * size);

	if (!bigger)
		return false;
	for (uint32_t i = 0; i < count; i++)
		memcpy(bigger + i * size, (char *)*at + (*head + i) % *room * size, size);
	nic_release(*at);
	*at = bigger;
	*head = 0;
	*room = more;
	return true;
}
