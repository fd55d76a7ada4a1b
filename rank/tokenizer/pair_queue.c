/* Finds pairs in a hash table, and the most frequent one by a heap. Called by learn.c. */
#include "pair_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum { PAIRS_FIRST = 1 << 11 };

/* The pair's entry, or the free one where it belongs. */
static uint32_t *find(const rank_pair_queue *queue, uint16_t left, uint16_t right)
{
    const uint64_t key = (uint64_t)left << 16 | right;
    size_t at = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & queue->entry_mask;
    for (; queue->entries[at] != 0; at = (at + 1) & queue->entry_mask) {
        const rank_pair *known = &queue->pairs[queue->entries[at] - 1];
        if (known->left == left && known->right == right) {
            break;
        }
    }
    return &queue->entries[at];
}

/* Makes room for one more pair, and for all of them in the heap. At least half of the entries stay
 * free. */
static bool grow(rank_pair_queue *queue)
{
    if (queue->entries != NULL && queue->pair_count < queue->pair_capacity) {
        return true;
    }
    const size_t capacity = queue->pair_capacity == 0 ? PAIRS_FIRST : 2 * queue->pair_capacity;
    rank_pair *pairs = realloc(queue->pairs, capacity * sizeof *pairs);
    queue->pairs = pairs != NULL ? pairs : queue->pairs;
    rank_queued_pair *heap = realloc(queue->heap, capacity * sizeof *heap);
    queue->heap = heap != NULL ? heap : queue->heap;
    uint32_t *entries = calloc(2 * capacity, sizeof *entries);
    if (pairs == NULL || heap == NULL || entries == NULL) {
        free(entries);
        return false;
    }
    free(queue->entries);
    queue->entries = entries;
    queue->entry_mask = 2 * capacity - 1;
    queue->pair_capacity = capacity;
    for (size_t i = 0; i < queue->pair_count; i++) {
        *find(queue, pairs[i].left, pairs[i].right) = (uint32_t)i + 1;
    }
    return true;
}

uint32_t rank_pair_queue_find(rank_pair_queue *queue, uint16_t left, uint16_t right)
{
    if (!grow(queue)) {
        return RANK_PAIR_NONE;
    }
    uint32_t *entry = find(queue, left, right);
    if (*entry == 0) {
        queue->pairs[queue->pair_count++] =
            (rank_pair){.first = RANK_PAIR_NONE, .left = left, .right = right};
        *entry = (uint32_t)queue->pair_count;
    }
    return *entry - 1;
}

static bool comes_first(const rank_pair_queue *queue, rank_queued_pair a, rank_queued_pair b)
{
    const rank_pair *one = &queue->pairs[a.pair];
    const rank_pair *other = &queue->pairs[b.pair];
    if (a.count != b.count) {
        return a.count > b.count;
    }
    return one->left != other->left ? one->left < other->left : one->right < other->right;
}

/* Puts an entry where the front one was. */
static void replace_front(rank_pair_queue *queue, rank_queued_pair entry)
{
    size_t at = 0;
    for (size_t child = 1; child < queue->heap_count; child = 2 * at + 1) {
        child += child + 1 < queue->heap_count &&
                 comes_first(queue, queue->heap[child + 1], queue->heap[child]);
        if (!comes_first(queue, queue->heap[child], entry)) {
            break;
        }
        queue->heap[at] = queue->heap[child];
        at = child;
    }
    queue->heap[at] = entry;
}

void rank_pair_queue_push(rank_pair_queue *queue, uint32_t pair)
{
    const rank_queued_pair entry = {queue->pairs[pair].count, pair};
    if (entry.count < RANK_PAIR_COUNT_MIN) {
        return;
    }
    BASE_ASSERT(queue->heap_count < queue->pair_count);
    size_t at = queue->heap_count++;
    while (at > 0 && comes_first(queue, entry, queue->heap[(at - 1) / 2])) {
        queue->heap[at] = queue->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    queue->heap[at] = entry;
}

uint32_t rank_pair_queue_pop(rank_pair_queue *queue)
{
    while (queue->heap_count > 0) {
        const rank_queued_pair front = queue->heap[0];
        const uint64_t count = queue->pairs[front.pair].count;
        BASE_ASSERT(count <= front.count);
        if (count != front.count && count >= RANK_PAIR_COUNT_MIN) {
            replace_front(queue, (rank_queued_pair){count, front.pair});
            continue;
        }
        queue->heap_count--;
        replace_front(queue, queue->heap[queue->heap_count]);
        if (count == front.count) {
            return front.pair;
        }
    }
    return RANK_PAIR_NONE;
}

void rank_pair_queue_fini(rank_pair_queue *queue)
{
    free(queue->pairs);
    free(queue->entries);
    free(queue->heap);
    memset(queue, 0, sizeof *queue);
}
