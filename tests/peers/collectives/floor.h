/* What the machine allows: the collectives with nothing around them. No checks, no deadline, no
 * word on what went wrong, no memory but what the bench gives; the figure that says when a bar is
 * out of reach. peer_floor.c takes from here what a place needs:
 *
 *   floor_pair.c   two ranks of one host
 *   floor_crowd.c  all-reduce of four and more
 *   floor_net.c    two ranks over tcp or zmq
 *
 * Thread rule: one thread a process. */
#ifndef FLOOR_H
#define FLOOR_H

#include <stdatomic.h>
#include <stdbool.h>

#include "peer.h"

/* Of every rank, where this one can reach them: in an arena; in ordinary memory only its own. */
typedef struct floor_buffers {
    bool in_arena;
    const float *send[PEER_RANKS_MAX];
    float *recv[PEER_RANKS_MAX];
} floor_buffers;

/* What one of two ranks gives the other, takes from it, and keeps of its own. */
typedef struct floor_swap {
    const float *give;
    size_t give_count;
    float *take;
    size_t take_count;
    const float *with; /* is added to what is taken; NULL: nothing is */
    const float *keep;
    float *kept;
    size_t keep_count;
} floor_swap;

/* A way to be quick at a place. */
typedef struct floor_way {
    void (*open)(const peer_options *options);
    bool (*has)(peer_kind kind);
    void (*prepare)(void); /* before the runs of a cell; NULL: nothing to do */
    void (*run)(const peer_task *task, int root, const floor_buffers *buffers);
} floor_way;

extern const floor_way floor_pair;
extern const floor_way floor_crowd;
extern const floor_way floor_tcp;
extern const floor_way floor_zmq;

/* directory/name-rank, mapped and shared; made, zeroed, by whoever comes first. */
void *floor_map(const peer_options *options, const char *name, int rank, size_t size_bytes);

/* count: of one of two ranks. */
floor_swap floor_swap_of(const peer_task *task, int rank, int root);

static inline size_t floor_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline void floor_await(_Atomic uint64_t *word, uint64_t value)
{
    while (atomic_load_explicit(word, memory_order_acquire) < value) {
    }
}

static inline void floor_show(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

/* sum = left + right; sum may be one of them. */
static inline void floor_add(float *sum, const float *left, const float *right, size_t count)
{
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) {
        sum[i] = left[i] + right[i];
    }
}

#endif
