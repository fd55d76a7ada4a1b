/* Tensor parallelism: which rank has which leaves, and the group of ranks that exchange sums.
 * rank/generate's engine makes a group, and a family's decode calls its all-reduce. */
#include "parallel/tensor/tp.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "ringfence/coll_error.h"

enum { LEAF_STEP = 32 }; /* RANK_PANEL of the backends */

struct rank_tp_group {
    rank_tp tp;
    coll_comm *comm;
    coll_arena *arena;
    float *memory;
    size_t float_count;     /* of memory */
    int64_t ns;             /* in all-reduces */
    rank_tp_costs before;   /* libcoll's counters when the group was made */
    rank_exchange_log *log; /* NULL: none */
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
    coll_error error;
    rank_tp_group *group = user;
    if (group->comm == NULL || group->failed != BASE_OK) {
        return;
    }
    BASE_ASSERT(at >= group->memory);
    BASE_ASSERT(count <= group->float_count - (size_t)(at - group->memory));
    const int64_t before_ns = base_now_ns();
    group->failed =
        coll_to_base(coll_all_reduce(group->comm, at, at, count, COLL_FLOAT32, COLL_SUM, &error),
                     &error, &group->error);
    const rank_span span = {.begin_ns = before_ns, .end_ns = base_now_ns()};
    group->ns += span.end_ns - span.begin_ns;
    if (group->log != NULL) {
        rank_exchange_log_add(group->log, span);
    }
}

/* A rank alone needs only plain memory. */
static base_status make_memory(rank_tp_group *group, size_t float_count, base_error *reterr)
{
    coll_error error;
    if (group->comm == NULL) {
        group->memory = calloc(float_count, sizeof *group->memory);
        return group->memory != NULL
                   ? BASE_OK
                   : base_fail(reterr, BASE_ERR_MEMORY, "no memory for %zu floats", float_count);
    }
    const base_status status = coll_to_base(
        coll_arena_create(group->comm, float_count * sizeof(float), &group->arena, &error), &error,
        reterr);
    if (status == BASE_OK) {
        group->memory = coll_arena_data(group->arena);
    }
    return status;
}

static rank_tp_costs counters(const coll_comm *comm)
{
    rank_tp_costs now = {0};
    if (comm != NULL) {
        now.count = coll_comm_operations(comm, COLL_ALL_REDUCE);
        now.bytes = coll_comm_operation_bytes(comm, COLL_ALL_REDUCE);
    }
    return now;
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
    made->float_count = float_count;
    made->tp = (rank_tp){
        .rank = rank,
        .ranks = ranks,
        .vocab_first = first * width,
        .vocab_count = (rank_tp_first_leaf(ranks, rank + 1) - first) * width,
        .all_reduce = all_reduce,
        .group = made,
    };
    const base_status status = make_memory(made, float_count, reterr);
    made->before = counters(comm);
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
    rank_tp_costs costs = counters(group->comm);
    costs.count -= group->before.count;
    costs.bytes -= group->before.bytes;
    costs.ns = group->ns;
    return costs;
}

void rank_tp_group_log(rank_tp_group *group, rank_exchange_log *log)
{
    group->log = log;
}
