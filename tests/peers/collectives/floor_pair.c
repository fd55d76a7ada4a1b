/* Two ranks of one host.
 *
 * Short: each copies what the other needs to a slot of its own, beside the flag, and takes what it
 * needs from the other's; no second wait, for slots are used by turns.
 *
 * Arena: a flag that says "mine is written", loads and stores where the buffers lie, a flag that
 * says "I am through". Both work: an all-reduce is done by halves, and the root of a broadcast
 * stores one half while the other rank loads the other half. What does not fit the cache is stored
 * past it.
 *
 * Ordinary memory: copied to a window in shared memory by one and from there by the other; a
 * reduction adds from there. Where bytes go both ways, a window that is shown says as well that the
 * last but two was taken, so there is one flag a window. An all-reduce is done by halves again.
 *
 * What was tried, and was not faster: loads and stores of 64 bytes instead of memcpy, which is
 * `rep movsb` here (half as fast: it reads what it is about to overwrite); windows of 8 to 64 KiB
 * both ways and of 8, 32 and 64 KiB one way; stores past the cache out of a window; whole vectors
 * instead of halves. */
#include <string.h>

#include "floor.h"

enum {
    TURNS = 2,
    SLOT_BYTES = 16 * 1024,
    ARENA_SLOT_BYTES = 1024, /* up to which a slot is faster than a second flag */
    WINDOW_BYTES = 128 * 1024,
    PIPE_BYTES = 16 * 1024, /* a window where bytes go one way */
    PIPES = 8,
    STAGING_BYTES = 4 * WINDOW_BYTES,
    PIECE_BYTES = 256 * 1024,
    PAST_CACHE_BYTES = 16 << 20, /* that one rank copies */
};

typedef struct flag {
    _Alignas(128) _Atomic uint64_t value;
} flag;

typedef struct slot {
    _Alignas(128) _Atomic uint64_t sequence;
    uint8_t payload[SLOT_BYTES];
} slot;

typedef struct common {
    slot slots[2][TURNS];
    flag ready[2];
    flag done[2];
    flag staged[2];
    flag consumed[2];
    flag reduced[2];
    _Alignas(4096) uint8_t staging[2][STAGING_BYTES];
    _Alignas(4096) uint8_t results[2][STAGING_BYTES];
} common;

static struct {
    int me;
    int other;
    common *shared;
    uint64_t turn;
    uint64_t windows;
} pair;

static void open_pair(const peer_options *options)
{
    pair.me = options->rank;
    pair.other = 1 - options->rank;
    pair.shared = floor_map(options, "pair", 0, sizeof(common));
}

static void copy_floats(float *to, const float *from, size_t count)
{
    memcpy(to, from, count * sizeof(float));
}

/* In pieces, of which memcpy makes nothing of its own; or past the cache. */
static void copy_long(float *restrict to, const float *restrict from, size_t count)
{
    const size_t piece = PIECE_BYTES / sizeof(float);
    size_t at = 0;
#if defined(__AVX512F__)
    typedef float line __attribute__((vector_size(64), aligned(4), may_alias));
    typedef float aligned_line __attribute__((vector_size(64)));
    const bool past =
        count * sizeof(float) >= PAST_CACHE_BYTES && (uintptr_t)to % sizeof(line) == 0;
    for (; past && at + sizeof(line) / sizeof(float) <= count; at += sizeof(line) / sizeof(float)) {
        const line value = *(const line *)(from + at);
        __asm__ volatile("vmovntps %1, %0" : "=m"(*(aligned_line *)(to + at)) : "v"(value));
    }
    __asm__ volatile("sfence" ::: "memory");
#endif
    for (; at < count; at += piece) {
        copy_floats(to + at, from + at, floor_smaller(piece, count - at));
    }
}

static void take(const floor_swap *s, const float *from, size_t at, size_t count)
{
    if (s->with != NULL) {
        floor_add(s->take + at, s->with + at, from, count);
    } else {
        copy_floats(s->take + at, from, count);
    }
}

static void run_slot(const floor_swap *s)
{
    const uint64_t turn = ++pair.turn;
    slot *own = &pair.shared->slots[pair.me][turn % TURNS];
    slot *other = &pair.shared->slots[pair.other][turn % TURNS];
    if (s->give_count > 0) {
        memcpy(own->payload, s->give, s->give_count * sizeof(float));
        floor_show(&own->sequence, turn);
    }
    if (s->keep_count > 0) {
        copy_floats(s->kept, s->keep, s->keep_count);
    }
    if (s->take_count > 0) {
        floor_await(&other->sequence, turn);
        take(s, (const float *)(const void *)other->payload, 0, s->take_count);
    }
}

/* One half of the sums, to both. */
static void add_half(float *restrict mine, float *restrict theirs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const float sum = mine[i] + theirs[i];
        mine[i] = sum;
        theirs[i] = sum;
    }
}

static void run_arena(const peer_task *task, const floor_swap *s, const floor_buffers *buffers)
{
    const uint64_t turn = ++pair.turn;
    const size_t n = task->count;
    const size_t half = n / 2;
    const size_t begin = pair.me == 0 ? 0 : half;
    const float *sent = buffers->send[pair.other];
    float *theirs = buffers->recv[pair.other];
    floor_show(&pair.shared->ready[pair.me].value, turn);
    if (s->keep_count > 0) {
        copy_long(s->kept, s->keep, s->keep_count);
    }
    floor_await(&pair.shared->ready[pair.other].value, turn);
    switch (task->kind) {
    case PEER_ALL_REDUCE:
        add_half(task->recv + begin, theirs + begin, pair.me == 0 ? half : n - half);
        break;
    case PEER_REDUCE_SCATTER:
        floor_add(s->take, s->with, sent + (size_t)pair.me * n, n);
        break;
    case PEER_ALL_GATHER:
        copy_long(s->take, sent, n);
        break;
    case PEER_ALL_TO_ALL:
        copy_long(s->take, sent + (size_t)pair.me * n, n);
        break;
    default:
        if (s->give_count > 0) {
            copy_long(theirs, task->recv, half);
        } else {
            copy_long(task->recv + half, theirs + half, n - half);
        }
    }
    floor_show(&pair.shared->done[pair.me].value, turn);
    floor_await(&pair.shared->done[pair.other].value, turn);
}

static float *place_of(uint8_t (*buffers)[STAGING_BYTES], int rank, uint64_t window, size_t bytes)
{
    return (float *)(void *)(buffers[rank] + window * bytes % STAGING_BYTES);
}

/* Both give as much as they take. */
static void run_both_ways(const floor_swap *s)
{
    const size_t room = WINDOW_BYTES / sizeof(float);
    const size_t count = (s->take_count + room - 1) / room;
    const uint64_t first = pair.windows;
    for (size_t w = 0; w <= count; w++) {
        if (w < count) {
            const size_t at = w * room;
            const size_t part = floor_smaller(room, s->give_count - at);
            copy_floats(place_of(pair.shared->staging, pair.me, first + w, WINDOW_BYTES),
                        s->give + at, part);
            floor_show(&pair.shared->staged[pair.me].value, first + w + 1);
            if (s->keep_count > 0) {
                copy_floats(s->kept + at, s->keep + at, part);
            }
        }
        if (w > 0) {
            const size_t at = (w - 1) * room;
            floor_await(&pair.shared->staged[pair.other].value, first + w);
            take(s, place_of(pair.shared->staging, pair.other, first + w - 1, WINDOW_BYTES), at,
                 floor_smaller(room, s->take_count - at));
        }
    }
    pair.windows += count;
}

static void run_one_way(const floor_swap *s)
{
    const size_t room = PIPE_BYTES / sizeof(float);
    const size_t total = s->give_count + s->take_count; /* one of them is 0 */
    const size_t count = (total + room - 1) / room;
    for (size_t w = 0; w < count; w++) {
        const uint64_t number = pair.windows + w;
        const size_t at = w * room;
        const size_t part = floor_smaller(room, total - at);
        if (s->give_count > 0) {
            if (number >= PIPES) {
                floor_await(&pair.shared->consumed[pair.other].value, number - PIPES + 1);
            }
            copy_floats(place_of(pair.shared->staging, pair.me, number % PIPES, PIPE_BYTES),
                        s->give + at, part);
            floor_show(&pair.shared->staged[pair.me].value, number + 1);
        } else {
            floor_await(&pair.shared->staged[pair.other].value, number + 1);
            take(s, place_of(pair.shared->staging, pair.other, number % PIPES, PIPE_BYTES), at,
                 part);
            floor_show(&pair.shared->consumed[pair.me].value, number + 1);
        }
    }
    pair.windows += count;
    floor_show(&pair.shared->consumed[pair.me].value, pair.windows);
}

/* Of a window this rank adds one half, from `mine` on; the other half is the other's. */
typedef struct halves {
    float *mine;
    size_t mine_count;
    float *theirs;
    size_t theirs_count;
} halves;

static halves halves_of(float *data, size_t count, size_t window)
{
    const size_t room = WINDOW_BYTES / sizeof(float);
    float *at = data + window * room;
    const size_t part = floor_smaller(room, count - window * room);
    const size_t half = part / 2;
    return pair.me == 0 ? (halves){at, half, at + half, part - half}
                        : (halves){at + half, part - half, at, half};
}

static void run_halves(float *data, size_t n)
{
    const size_t room = WINDOW_BYTES / sizeof(float);
    const size_t count = (n + room - 1) / room;
    const uint64_t first = pair.windows;
    for (size_t w = 0; w < count + 2; w++) {
        if (w < count) {
            const halves h = halves_of(data, n, w);
            copy_floats(place_of(pair.shared->staging, pair.me, first + w, WINDOW_BYTES), h.theirs,
                        h.theirs_count);
            floor_show(&pair.shared->staged[pair.me].value, first + w + 1);
        }
        if (w > 0 && w <= count) {
            const halves h = halves_of(data, n, w - 1);
            const uint64_t number = first + w - 1;
            floor_await(&pair.shared->staged[pair.other].value, number + 1);
            floor_add(h.mine, h.mine,
                      place_of(pair.shared->staging, pair.other, number, WINDOW_BYTES),
                      h.mine_count);
            copy_floats(place_of(pair.shared->results, pair.me, number, WINDOW_BYTES), h.mine,
                        h.mine_count);
            floor_show(&pair.shared->reduced[pair.me].value, number + 1);
        }
        if (w > 1) {
            const halves h = halves_of(data, n, w - 2);
            const uint64_t number = first + w - 2;
            floor_await(&pair.shared->reduced[pair.other].value, number + 1);
            copy_floats(h.theirs, place_of(pair.shared->results, pair.other, number, WINDOW_BYTES),
                        h.theirs_count);
        }
    }
    pair.windows += count;
}

static void run_pair(const peer_task *task, int root, const floor_buffers *buffers)
{
    const floor_swap s = floor_swap_of(task, pair.me, root);
    const size_t count = s.give_count > 0 ? s.give_count : s.take_count;
    if (count * sizeof(float) <= (buffers->in_arena ? ARENA_SLOT_BYTES : SLOT_BYTES)) {
        run_slot(&s);
    } else if (buffers->in_arena) {
        run_arena(task, &s, buffers);
    } else if (task->kind == PEER_BROADCAST) {
        run_one_way(&s);
    } else if (task->kind == PEER_ALL_REDUCE) {
        run_halves(task->recv, task->count);
    } else {
        run_both_ways(&s);
    }
}

/* What was not done one way counts as consumed, and as staged, once all have met. */
static void prepare_pair(void)
{
    floor_show(&pair.shared->consumed[pair.me].value, pair.windows);
}

static bool has(peer_kind kind)
{
    return kind < PEER_SCAN;
}

const floor_way floor_pair = {
    .open = open_pair, .has = has, .prepare = prepare_pair, .run = run_pair};
