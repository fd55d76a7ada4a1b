/* Monotonic clock, absolute deadlines, and the time stamps of records. Every blocking loop of the
 * tree takes its time from here. */
#include "base/clock.h"

#include <stdio.h>

#include "base/assert.h"

int64_t base_now_ns(void)
{
    struct timespec now;
    const int failed = clock_gettime(CLOCK_MONOTONIC, &now);
    BASE_ASSERT(failed == 0);
    return (int64_t)now.tv_sec * BASE_NS_PER_S + now.tv_nsec;
}

int64_t base_deadline_after_ns(int64_t duration_ns)
{
    const int64_t now_ns = base_now_ns();
    return duration_ns >= BASE_NO_DEADLINE - now_ns ? BASE_NO_DEADLINE : now_ns + duration_ns;
}

int base_deadline_poll_ms(int64_t deadline_ns, int max_ms)
{
    if (deadline_ns == BASE_NO_DEADLINE) {
        return max_ms;
    }
    const int64_t left_ns = deadline_ns - base_now_ns();
    if (left_ns <= 0) {
        return 0;
    }
    const int64_t left_ms = (left_ns - 1) / BASE_NS_PER_MS + 1;
    return left_ms < max_ms ? (int)left_ms : max_ms;
}

struct timespec base_deadline_timespec(int64_t deadline_ns)
{
    return (struct timespec){.tv_sec = deadline_ns / BASE_NS_PER_S,
                             .tv_nsec = deadline_ns % BASE_NS_PER_S};
}

int64_t base_thread_cpu_ns(void)
{
    struct timespec used;
    const int failed = clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    BASE_ASSERT(failed == 0);
    return (int64_t)used.tv_sec * BASE_NS_PER_S + used.tv_nsec;
}

int64_t base_timestamp(char text[BASE_TIMESTAMP_BYTES])
{
    struct timespec now;
    struct tm parts;
    char seconds[24] = "";
    const int failed = clock_gettime(CLOCK_REALTIME, &now);
    BASE_ASSERT(failed == 0);
    if (gmtime_r(&now.tv_sec, &parts) != NULL) {
        (void)strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &parts);
    }
    const int64_t ms = now.tv_nsec / BASE_NS_PER_MS;
    (void)snprintf(text, BASE_TIMESTAMP_BYTES, "%s.%03dZ", seconds, (int)ms);
    return (int64_t)now.tv_sec * 1000 + ms;
}
