/* How fast one core reads memory. Pure but for the clock. */
#ifndef RANK_BENCH_READING_H
#define RANK_BENCH_READING_H

#include <stddef.h>

enum { BENCH_READINGS = 6 }; /* 1, 4 and 8 streams, without prefetch and with it */

/* Reads all of at once; bytes per second. size_bytes: a multiple of 512. */
double bench_read(const void *at, size_t size_bytes, int reading);

#endif
