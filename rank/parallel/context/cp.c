/* The group of ranks that share a micro-batch. Called by train/, and through rank_cp by passes. */
#include "parallel/context/cp.h"

#include <stdlib.h>

#include "base/clock.h"
#include "ringfence/coll_error.h"

struct rank_cp_group {
    rank_cp cp;
    coll_comm *comm;
    rank_trace *trace;
    int64_t ns;
    base_status failed;
    base_error error;
};

rank_cp_tokens rank_cp_tokens_of(size_t tokens, int ranks, int rank)
{
    const size_t block = rank_cp_block(tokens, ranks);
    const size_t first = block * (size_t)rank < tokens ? block * (size_t)rank : tokens;
    const size_t left = tokens - first;
    return (rank_cp_tokens){.first = first, .count = left < block ? left : block};
}

static void exchange(void *user, const float *send, float *received, size_t block_floats)
{
    rank_cp_group *group = user;
    const int64_t begun_ns = base_now_ns();
    if (group->failed != BASE_OK) {
        return;
    }
    group->failed = (base_status)coll_all_to_all(group->comm, send, received, block_floats,
                                                 COLL_FLOAT32, coll_error_of(&group->error));
    group->ns += base_now_ns() - begun_ns;
    rank_trace_add(group->trace, (rank_trace_span){.kind = RANK_TRACE_HEADS,
                                                   .of = RANK_TRACE_THREAD | RANK_TRACE_EXCHANGE,
                                                   .begin_ns = begun_ns,
                                                   .index = -1,
                                                   .bytes = (size_t)group->cp.ranks * block_floats *
                                                            sizeof(float)});
}

base_status rank_cp_group_create(coll_comm *world, int ranks, int apart, size_t tokens_max,
                                 rank_cp_group **group, base_error *reterr)
{
    const int rank = coll_comm_rank(world);
    const int colour = rank / (apart * ranks) * apart + rank % apart;
    rank_cp_group *made = calloc(1, sizeof *made);
    *group = NULL;
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a group of ranks");
    }
    made->cp = (rank_cp){.rank = rank / apart % ranks,
                         .ranks = ranks,
                         .tokens_max = tokens_max,
                         .exchange = exchange,
                         .group = made};
    const base_status status =
        (base_status)coll_comm_split(world, colour, rank, &made->comm, coll_error_of(reterr));
    if (status != BASE_OK) {
        rank_cp_group_destroy(made);
        return status;
    }
    *group = made;
    return BASE_OK;
}

void rank_cp_group_destroy(rank_cp_group *group)
{
    if (group != NULL) {
        coll_comm_destroy(group->comm);
        free(group);
    }
}

const rank_cp *rank_cp_group_cp(const rank_cp_group *group)
{
    return &group->cp;
}

base_status rank_cp_group_check(const rank_cp_group *group, base_error *reterr)
{
    if (group->failed != BASE_OK && reterr != NULL) {
        *reterr = group->error;
    }
    return group->failed;
}

void rank_cp_group_trace(rank_cp_group *group, rank_trace *trace)
{
    group->trace = trace;
}

rank_cp_costs rank_cp_group_costs(const rank_cp_group *group)
{
    return (rank_cp_costs){
        .count = coll_comm_operations(group->comm, COLL_ALL_TO_ALL),
        .bytes = coll_comm_operation_bytes(group->comm, COLL_ALL_TO_ALL),
        .ns = group->ns,
    };
}
