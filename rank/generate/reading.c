/* Reads memory in some streams: the bandwidth that decoding is measured against. Called by
 * inference-bench and curve_run.c. */
#include "generate/reading.h"

#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"

/* Sixteen bytes at a time, which every x86-64 and ARM64 loads at once. */
typedef uint64_t word __attribute__((vector_size(16)));

enum { LINE_WORDS = 4, STREAMS_MAX = 8, AHEAD_LINES = 16 };

static const int streams_of[RANK_READINGS] = {1, 4, 8, 1, 4, 8};

/* Inlined with constants, so that each way of reading has a loop of its own. */
static inline __attribute__((always_inline)) uint64_t read_streams(const word *at, size_t lines,
                                                                   int streams, int prefetch)
{
    word sums[LINE_WORDS] = {{0}};
    const size_t each = lines / (size_t)streams * LINE_WORDS;
    for (size_t i = 0; i < each; i += LINE_WORDS) {
#pragma GCC unroll 8
        for (int s = 0; s < streams; s++) {
            const word *line = at + (size_t)s * each + i;
            if (prefetch) {
                __builtin_prefetch(line + AHEAD_LINES * LINE_WORDS);
            }
#pragma GCC unroll 4
            for (int w = 0; w < LINE_WORDS; w++) {
                sums[w] ^= line[w];
            }
        }
    }
    const word sum = sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
    return sum[0] ^ sum[1];
}

double rank_read_speed(const void *at, size_t size_bytes, int reading)
{
    static _Atomic uint64_t sink; /* what was read is used */
    const size_t lines = size_bytes / (LINE_WORDS * sizeof(word));
    const int64_t before_ns = base_now_ns();
    const int streams = streams_of[reading];
    const int prefetch = reading >= RANK_READINGS / 2;
    uint64_t sum = 0;
    if (streams == 1) {
        sum = prefetch ? read_streams(at, lines, 1, 1) : read_streams(at, lines, 1, 0);
    } else if (streams == 4) {
        sum = prefetch ? read_streams(at, lines, 4, 1) : read_streams(at, lines, 4, 0);
    } else {
        sum = prefetch ? read_streams(at, lines, STREAMS_MAX, 1)
                       : read_streams(at, lines, STREAMS_MAX, 0);
    }
    atomic_store_explicit(&sink, sum, memory_order_relaxed);
    return (double)size_bytes / ((double)(base_now_ns() - before_ns) * 1e-9);
}
