/* How fast one core reads memory. Pure but for the clock. */
#ifndef RANK_GENERATE_READING_H
#define RANK_GENERATE_READING_H

#include <stddef.h>

enum { RANK_READINGS = 6 }; /* 1, 4 and 8 streams, without prefetch and with it */

/* Reads all of at once; bytes per second. size_bytes: a multiple of 512. */
double rank_read_speed(const void *at, size_t size_bytes, int reading);

#endif
