/* Time: CLOCK_MONOTONIC nanoseconds, absolute deadlines, and the wall clock for records.
 *
 * A blocking call takes an absolute deadline_ns on the monotonic clock. So a deadline keeps its
 * meaning when it is passed down through layers. BASE_NO_DEADLINE never passes. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum { BASE_TIMESTAMP_BYTES = 32 };

#define BASE_NS_PER_US   INT64_C(1000)
#define BASE_NS_PER_MS   INT64_C(1000000)
#define BASE_NS_PER_S    INT64_C(1000000000)
#define BASE_NO_DEADLINE INT64_MAX

int64_t base_now_ns(void);

/* now + duration, without overflow; a duration of BASE_NO_DEADLINE gives BASE_NO_DEADLINE. */
int64_t base_deadline_after_ns(int64_t duration_ns);

/* Milliseconds until the deadline for poll(2): rounded up, 0 if it has passed, at most max_ms. */
int base_deadline_poll_ms(int64_t deadline_ns, int max_ms);

/* The deadline as system calls take it that wait until a time on CLOCK_MONOTONIC. */
struct timespec base_deadline_timespec(int64_t deadline_ns);

/* CPU time that the calling thread has had. */
int64_t base_thread_cpu_ns(void);

/* The wall clock as RFC 3339 in UTC with milliseconds, "2026-01-02T03:04:05.678Z". Returns the
 * same in milliseconds since 1970. */
int64_t base_timestamp(char text[BASE_TIMESTAMP_BYTES]);

#endif
