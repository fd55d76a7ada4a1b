/* Tensor parallelism: who has which leaves, and the ranks that exchange sums. The engine of
 * rank/generate makes a group; a family's decode calls its all-reduce. */
#include "parallel/tensor/tp.h"

#include <stdlib.h>

#include "base/clock.h"

enum { LEAF_STEP = 32 }; /* RANK_PANEL of the backends */

struct rank_tp_group {
    rank_tp tp;
    coll_comm *comm;
    coll_arena *arena;
    float *memory;
    rank_tp_costs costs;   /* but for the count, which libcoll has, */
    uint64_t count_before; /* with the all-reduces of before the group was made */
    base_status failed;
    base_error error;
};

int32_t rank_tp_leaf_width(int vocab_size)
{
    const int32_t width = (vocab_size + RANK_TP_LEAVES - 1) / RANK_TP_LEAVES;
    return (width + LEAF_STEP - 1) / LEAF_STEP * LEAF_STEP;
}

int rank_tp_first_leaf(int ranks, int rank)
{
    return RANK_TP_LEAVES * rank / ranks;
}

int rank_tp_leaves(size_t units, int ranks)
{
    int leaves = 1;
    while (leaves < RANK_TP_LEAVES && units % (2 * (size_t)leaves) == 0) {
        leaves *= 2;
    }
    return leaves % ranks == 0 ? leaves / ranks : 1;
}

static void all_reduce(void *user, float *at, size_t count)
{
    rank_tp_group *group = user;
    if (group->comm == NULL || group->failed != BASE_OK) {
        return;
    }
    const int64_t before_ns = base_now_ns();
    group->failed =
        coll_all_reduce(group->comm, at, at, count, COLL_FLOAT32, COLL_SUM, &group->error);
    group->costs.ns += base_now_ns() - before_ns;
    group->costs.bytes += count * sizeof *at;
}

/* Alone, plain memory will do. */
static base_status make_memory(rank_tp_group *group, size_t float_count, base_error *reterr)
{
    if (group->comm == NULL) {
        group->memory = calloc(float_count, sizeof *group->memory);
        return group->memory != NULL
                   ? BASE_OK
                   : base_fail(reterr, BASE_ERR_MEMORY, "no memory for %zu floats", float_count);
    }
    const base_status status =
        coll_arena_create(group->comm, float_count * sizeof(float), &group->arena, reterr);
    if (status == BASE_OK) {
        group->memory = coll_arena_data(group->arena);
    }
    return status;
}

base_status rank_tp_group_create(coll_comm *comm, int vocab_size, size_t float_count,
                                 rank_tp_group **group, base_error *reterr)
{
    const int rank = comm != NULL ? coll_comm_rank(comm) : 0;
    const int ranks = comm != NULL ? coll_comm_size(comm) : 1;
    const int32_t width = rank_tp_leaf_width(vocab_size);
    *group = NULL;
    if (ranks > RANK_TP_LEAVES) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "a model is cut between %d ranks at most, there are %d", RANK_TP_LEAVES,
                         ranks);
    }
    rank_tp_group *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a group of ranks");
    }
    const int first = rank_tp_first_leaf(ranks, rank);
    made->comm = comm;
    made->tp = (rank_tp){
        .rank = rank,
        .ranks = ranks,
        .vocab_first = first * width,
        .vocab_count = (rank_tp_first_leaf(ranks, rank + 1) - first) * width,
        .all_reduce = all_reduce,
        .group = made,
    };
    const base_status status = make_memory(made, float_count, reterr);
    made->count_before = comm != NULL ? coll_comm_operations(comm, COLL_ALL_REDUCE) : 0;
    if (status != BASE_OK) {
        rank_tp_group_destroy(made);
        return base_error_prepend(reterr, status, "what the ranks exchange");
    }
    *group = made;
    return BASE_OK;
}

void rank_tp_group_destroy(rank_tp_group *group)
{
    if (group == NULL) {
        return;
    }
    if (group->comm == NULL) {
        free(group->memory);
    }
    coll_arena_destroy(group->arena);
    free(group);
}

const rank_tp *rank_tp_group_tp(const rank_tp_group *group)
{
    return &group->tp;
}

float *rank_tp_group_memory(const rank_tp_group *group)
{
    return group->memory;
}

base_status rank_tp_group_check(const rank_tp_group *group, base_error *reterr)
{
    if (group->failed != BASE_OK && reterr != NULL) {
        *reterr = group->error;
    }
    return group->failed;
}

rank_tp_costs rank_tp_group_costs(const rank_tp_group *group)
{
    rank_tp_costs costs = group->costs;
    costs.count = group->comm != NULL
                      ? coll_comm_operations(group->comm, COLL_ALL_REDUCE) - group->count_before
                      : 0;
    return costs;
}
