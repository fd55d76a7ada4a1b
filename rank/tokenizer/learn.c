/* Learns merges: keeps the positions of each pair, and joins the most frequent one. Called by program.c
 * and by corpus-gen.
 *
 * A unit stands at each byte of the different pieces. It is the begin of an id, or is joined to one before
 * it. The pair of a unit is its id and the one behind it in its piece. */
#include "learn.h"

#include <stdlib.h>

#include "pair_queue.h"

#define NO_UNIT UINT32_MAX

typedef struct learn_unit {
    uint32_t piece;
    uint32_t before; /* in its piece; NO_UNIT: it is the first */
    uint32_t next;
    uint32_t pair;        /* RANK_PAIR_NONE: it is the last of its piece, or joined to another */
    uint32_t same_before; /* of the units with the same pair */
    uint32_t same_next;
    uint16_t id;
} learn_unit;

struct rank_learner {
    const rank_piece_table *table;
    learn_unit *units; /* (table->bytes_used) */
    rank_pair_queue queue;
    uint8_t token_bytes[RANK_BPE_BYTES + RANK_BPE_MERGES_MAX]; /* how many each id stands for */
    int merge_count;
    uint64_t id_count;
};

_Static_assert((int)RANK_BPE_TOKEN_BYTES_MAX <= UINT8_MAX, "a token's size fits");
_Static_assert((int)RANK_BPE_BYTES + (int)RANK_BPE_MERGES_MAX <= UINT16_MAX + 1, "an id fits");

/* Notes that the unit's pair occurs there. False: there is no memory. */
static bool enter(rank_learner *learner, uint32_t at)
{
    learn_unit *unit = &learner->units[at];
    unit->pair = RANK_PAIR_NONE;
    if (unit->next == NO_UNIT) {
        return true;
    }
    unit->pair = rank_pair_queue_find(&learner->queue, unit->id, learner->units[unit->next].id);
    if (unit->pair == RANK_PAIR_NONE) {
        return false;
    }
    rank_pair *pair = &learner->queue.pairs[unit->pair];
    unit->same_before = NO_UNIT;
    unit->same_next = pair->first;
    if (pair->first != NO_UNIT) {
        learner->units[pair->first].same_before = at;
    }
    pair->first = at;
    pair->count += learner->table->pieces[unit->piece].occurrences;
    return true;
}

/* Notes that the unit's pair, if it has one, does not occur there any more. */
static void leave(rank_learner *learner, uint32_t at)
{
    learn_unit *unit = &learner->units[at];
    if (unit->pair == RANK_PAIR_NONE) {
        return;
    }
    rank_pair *pair = &learner->queue.pairs[unit->pair];
    pair->count -= learner->table->pieces[unit->piece].occurrences;
    if (unit->same_before != NO_UNIT) {
        learner->units[unit->same_before].same_next = unit->same_next;
    } else {
        pair->first = unit->same_next;
    }
    if (unit->same_next != NO_UNIT) {
        learner->units[unit->same_next].same_before = unit->same_before;
    }
    unit->pair = RANK_PAIR_NONE;
}

/* Joins a unit and the one behind it. */
static bool join(rank_learner *learner, uint32_t at, uint16_t made)
{
    learn_unit *left = &learner->units[at];
    learn_unit *right = &learner->units[left->next];
    if (left->before != NO_UNIT) {
        leave(learner, left->before);
    }
    leave(learner, at);
    leave(learner, left->next);
    left->id = made;
    left->next = right->next;
    if (left->next != NO_UNIT) {
        learner->units[left->next].before = at;
    }
    learner->id_count -= learner->table->pieces[left->piece].occurrences;
    return (left->before == NO_UNIT || enter(learner, left->before)) && enter(learner, at);
}

/* Joins the pair wherever it occurs. Of "aaa" the first two are joined, so a run of one id is begun at its
 * begin. */
static bool join_all(rank_learner *learner, uint32_t pair, uint16_t made)
{
    const learn_unit *units = learner->units;
    while (learner->queue.pairs[pair].first != NO_UNIT) {
        uint32_t at = learner->queue.pairs[pair].first;
        while (units[at].before != NO_UNIT && units[units[at].before].pair == pair) {
            at = units[at].before;
        }
        for (; at != NO_UNIT && units[at].pair == pair; at = units[at].next) {
            if (!join(learner, at, made)) {
                return false;
            }
        }
    }
    return true;
}

/* Queues the pairs found since there were `from`, but for those that would make too long a token. */
static void queue_pairs(rank_learner *learner, size_t from)
{
    for (size_t i = from; i < learner->queue.pair_count; i++) {
        const rank_pair *pair = &learner->queue.pairs[i];
        if (learner->token_bytes[pair->left] + learner->token_bytes[pair->right] <=
            RANK_BPE_TOKEN_BYTES_MAX) {
            rank_pair_queue_push(&learner->queue, (uint32_t)i);
        }
    }
}

static bool fill(rank_learner *learner)
{
    const rank_piece_table *table = learner->table;
    for (size_t i = 0; i < table->piece_count; i++) {
        const uint32_t first = table->pieces[i].offset;
        const uint32_t last = first + table->pieces[i].size_bytes - 1;
        for (uint32_t at = first; at <= last; at++) {
            learner->units[at] = (learn_unit){.piece = (uint32_t)i,
                                              .before = at == first ? NO_UNIT : at - 1,
                                              .next = at == last ? NO_UNIT : at + 1,
                                              .id = table->bytes[at]};
        }
        for (uint32_t at = first; at <= last; at++) {
            if (!enter(learner, at)) {
                return false;
            }
        }
    }
    return true;
}

base_status rank_learner_create(const rank_piece_table *table, rank_learner **learner,
                                base_error *reterr)
{
    *learner = NULL;
    rank_learner *made = calloc(1, sizeof *made);
    if (made != NULL) {
        made->table = table;
        made->units = malloc((table->bytes_used + 1) * sizeof *made->units);
        made->id_count = table->text_bytes;
        for (int i = 0; i < RANK_BPE_BYTES; i++) {
            made->token_bytes[i] = 1;
        }
    }
    if (made == NULL || made->units == NULL || !fill(made)) {
        rank_learner_destroy(made);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to learn from %zu different words",
                         table->piece_count);
    }
    queue_pairs(made, 0);
    *learner = made;
    return BASE_OK;
}

void rank_learner_destroy(rank_learner *learner)
{
    if (learner == NULL) {
        return;
    }
    free(learner->units);
    rank_pair_queue_fini(&learner->queue);
    free(learner);
}

base_status rank_learner_next(rank_learner *learner, rank_bpe_pair *merge, bool *found,
                              base_error *reterr)
{
    *found = false;
    if (learner->merge_count == RANK_BPE_MERGES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "at most %d merges", (int)RANK_BPE_MERGES_MAX);
    }
    const uint32_t best = rank_pair_queue_pop(&learner->queue);
    if (best == RANK_PAIR_NONE) {
        return BASE_OK;
    }
    const rank_pair pair = learner->queue.pairs[best];
    const size_t known = learner->queue.pair_count;
    const int made = RANK_BPE_BYTES + learner->merge_count++;
    learner->token_bytes[made] =
        (uint8_t)(learner->token_bytes[pair.left] + learner->token_bytes[pair.right]);
    if (!join_all(learner, best, (uint16_t)made)) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to learn merge %d",
                         learner->merge_count);
    }
    queue_pairs(learner, known);
    *merge = (rank_bpe_pair){pair.left, pair.right};
    *found = true;
    return BASE_OK;
}

uint64_t rank_learner_id_count(const rank_learner *learner)
{
    return learner->id_count;
}
