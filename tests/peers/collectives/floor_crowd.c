/* All-reduce between ranks that share processors: whoever waits calls sched_yield.
 *
 * Short: everybody copies its vector beside a flag of its own, and adds all of them up. Longer: all
 * meet at a counter; whoever runs takes the next chunk of the sum. In an arena a chunk is added
 * from and to the ranks' own buffers; ordinary memory is copied to a window before, and the sum
 * from one after.
 *
 * A window of 1 MiB where one is enough, else of half as much: longer ones leave the cache. Two by
 * turns do with one meeting each: a window may be used again when all have met
 * for the one after, for by then its sums have been copied out. */
#include <sched.h>
#include <string.h>

#include "floor.h"

enum {
    SLOT_BYTES = 4096,
    WINDOW_BYTES = 1 << 20,
    WINDOWS = 2,
    CHUNK_BYTES = 16 * 1024, /* at least; else one for each rank */
    UNIT = 32,               /* floats added at once */
};

typedef struct line {
    _Alignas(128) _Atomic uint64_t sequence;
    float payload[SLOT_BYTES / sizeof(float)];
} line;

typedef struct common {
    line lines[2][PEER_RANKS_MAX];          /* by turns */
    _Alignas(128) _Atomic uint64_t arrived; /* these three count over all operations */
    _Alignas(128) _Atomic uint64_t claimed; /* chunks */
    _Alignas(128) _Atomic uint64_t done;
    _Alignas(4096) uint8_t sums[WINDOWS][WINDOW_BYTES];
    _Alignas(4096) uint8_t windows[PEER_RANKS_MAX][WINDOWS][WINDOW_BYTES];
} common;

typedef float many __attribute__((vector_size(64), aligned(4), may_alias));

static struct {
    int me;
    int size;
    common *shared;
    uint64_t turn;
    uint64_t meetings;
    uint64_t chunks;
    uint64_t windows;
} crowd;

static void open_crowd(const peer_options *options)
{
    crowd.me = options->rank;
    crowd.size = options->size;
    crowd.shared = floor_map(options, "crowd", 0, sizeof(common));
}

static void await_yielding(_Atomic uint64_t *word, uint64_t value)
{
    while (atomic_load_explicit(word, memory_order_acquire) < value) {
        (void)sched_yield();
    }
}

/* All inputs to all outputs, from element `begin` on. */
static void add_all(float *const *outs, int out_count, const float *const *in, size_t begin,
                    size_t count)
{
    const size_t end = begin + count;
    size_t i = begin;
    for (; i + UNIT <= end; i += UNIT) {
        many low = *(const many *)(in[0] + i);
        many high = *(const many *)(in[0] + i + UNIT / 2);
        for (int r = 1; r < crowd.size; r++) {
            low += *(const many *)(in[r] + i);
            high += *(const many *)(in[r] + i + UNIT / 2);
        }
        for (int o = 0; o < out_count; o++) {
            *(many *)(outs[o] + i) = low;
            *(many *)(outs[o] + i + UNIT / 2) = high;
        }
    }
    for (; i < end; i++) {
        float sum = in[0][i];
        for (int r = 1; r < crowd.size; r++) {
            sum += in[r][i];
        }
        for (int o = 0; o < out_count; o++) {
            outs[o][i] = sum;
        }
    }
}

static void run_short(float *data, size_t count)
{
    const uint64_t turn = ++crowd.turn;
    line *lines = crowd.shared->lines[turn % 2];
    const float *in[PEER_RANKS_MAX];
    memcpy(lines[crowd.me].payload, data, count * sizeof(float));
    floor_show(&lines[crowd.me].sequence, turn);
    for (int r = 0; r < crowd.size; r++) {
        await_yielding(&lines[r].sequence, turn);
        in[r] = lines[r].payload;
    }
    add_all(&data, 1, in, 0, count);
}

static void meet(void)
{
    (void)atomic_fetch_add(&crowd.shared->arrived, 1);
    await_yielding(&crowd.shared->arrived, ++crowd.meetings * (uint64_t)crowd.size);
}

static void add_chunks(float *const *outs, int out_count, const float *const *in, size_t count)
{
    const size_t share = (count / (size_t)crowd.size + UNIT - 1) / UNIT * UNIT;
    const size_t most = share > CHUNK_BYTES / sizeof(float) ? share : CHUNK_BYTES / sizeof(float);
    const uint64_t first = crowd.chunks;
    const uint64_t end = first + (count + most - 1) / most;
    uint64_t at = atomic_load(&crowd.shared->claimed);
    while (at < end) {
        if (atomic_compare_exchange_strong(&crowd.shared->claimed, &at, at + 1)) {
            const size_t begin = (at - first) * most;
            add_all(outs, out_count, in, begin, floor_smaller(most, count - begin));
            (void)atomic_fetch_add(&crowd.shared->done, 1);
            at++;
        }
    }
    await_yielding(&crowd.shared->done, end);
    crowd.chunks = end;
}

static void run_windows(float *data, size_t count)
{
    const bool one = count * sizeof(float) <= WINDOW_BYTES;
    const size_t most = (one ? WINDOW_BYTES : WINDOW_BYTES / 2) / sizeof(float);
    for (size_t at = 0; at < count; at += most) {
        const size_t part = floor_smaller(most, count - at);
        const uint64_t window = crowd.windows++ % WINDOWS;
        float *sums = (float *)(void *)crowd.shared->sums[window];
        const float *in[PEER_RANKS_MAX];
        for (int r = 0; r < crowd.size; r++) {
            in[r] = (const float *)(const void *)crowd.shared->windows[r][window];
        }
        memcpy(crowd.shared->windows[crowd.me][window], data + at, part * sizeof(float));
        meet();
        add_chunks(&sums, 1, in, part);
        memcpy(data + at, sums, part * sizeof(float));
    }
}

static void run_crowd(const peer_task *task, int root, const floor_buffers *buffers)
{
    (void)root;
    if (task->count * sizeof(float) <= SLOT_BYTES) {
        run_short(task->recv, task->count);
    } else if (buffers->in_arena) {
        const float *in[PEER_RANKS_MAX];
        memcpy(in, buffers->recv, sizeof in);
        meet();
        add_chunks(buffers->recv, crowd.size, in, task->count);
    } else {
        run_windows(task->recv, task->count);
    }
}

static bool has(peer_kind kind)
{
    return kind == PEER_ALL_REDUCE;
}

const floor_way floor_crowd = {.open = open_crowd, .has = has, .run = run_crowd};
