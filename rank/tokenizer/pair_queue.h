/* Pairs of neighbouring ids with their counts, and the most frequent of them first.
 *
 * The owner changes `count` and `first` of a pair as it likes while the pair is not queued. Once queued, its
 * count may only fall. So what the queue holds of a pair is an upper bound: a pair that comes to the front
 * with an outdated count goes back with its true one. One thread at a time. */
#ifndef RANK_TOKENIZER_PAIR_QUEUE_H
#define RANK_TOKENIZER_PAIR_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RANK_PAIR_COUNT_MIN = 2 }; /* a pair that occurs once is no merge */

#define RANK_PAIR_NONE UINT32_MAX

typedef struct rank_pair {
    uint64_t count;
    uint32_t first; /* for the owner: where the pair occurs; RANK_PAIR_NONE at first */
    uint16_t left;
    uint16_t right;
} rank_pair;

typedef struct rank_queued_pair {
    uint64_t count; /* at least that of the pair */
    uint32_t pair;
} rank_queued_pair;

/* All zero: empty. */
typedef struct rank_pair_queue {
    rank_pair *pairs; /* (pair_count), in the order in which they were found */
    size_t pair_count;
    size_t pair_capacity;
    uint32_t *entries; /* (entry_mask + 1), open addressing: a pair's number + 1, 0: free */
    size_t entry_mask;
    rank_queued_pair *heap; /* (pair_capacity); each pair is in it once at most */
    size_t heap_count;
} rank_pair_queue;

/* The number of the pair, which is added where it is new; RANK_PAIR_NONE: there is no memory. Moves
 * `pairs` if it adds one. */
uint32_t rank_pair_queue_find(rank_pair_queue *queue, uint16_t left, uint16_t right);

/* Queues a pair that is not queued, if it occurs often enough. */
void rank_pair_queue_push(rank_pair_queue *queue, uint32_t pair);

/* Takes out the most frequent pair; of equals the one with the smaller left id, then the smaller right
 * one. RANK_PAIR_NONE: there is none that occurs often enough. */
uint32_t rank_pair_queue_pop(rank_pair_queue *queue);

void rank_pair_queue_fini(rank_pair_queue *queue);

#endif
