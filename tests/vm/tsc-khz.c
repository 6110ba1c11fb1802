/*
 * tsc-khz: how fast this machine's time stamp counter runs, in kHz. An emulated
 * guest sees the same counter, and cannot measure it on a busy host.
 */
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

struct reading {
	double nanoseconds;
	unsigned long long ticks;
};

/* Both at one moment: of several tries, the one that took the least time. */
static struct reading
now(void)
{
	struct reading best = {0};
	unsigned long long least = ~0ULL;

	for (int i = 0; i < 50; i++) {
		struct timespec t;
		unsigned long long before = __rdtsc();
		clock_gettime(CLOCK_MONOTONIC_RAW, &t);
		unsigned long long after = __rdtsc();

		if (after - before < least) {
			least = after - before;
			best.nanoseconds = t.tv_sec * 1e9 + t.tv_nsec;
			best.ticks = before + least / 2;
		}
	}
	return best;
}

int
main(void)
{
	struct reading first = now();
	struct timespec pause = {.tv_nsec = 100 * 1000 * 1000};

	nanosleep(&pause, NULL);
	struct reading last = now();
	double ticks = (double)(last.ticks - first.ticks);

	printf("%.0f\n", ticks / (last.nanoseconds - first.nanoseconds) * 1e6);
	return 0;
}
