/* The group of ranks that share out experts. Called by train/, and through rank_ep by passes. */
#include "parallel/expert/ep.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "ringfence/coll_error.h"

struct rank_ep_group {
    rank_ep ep;
    coll_comm *members;
    coll_comm *copies;
    int32_t *counts;   /* (E): for each rank those of its experts, */
    int32_t *received; /* (E): and what it got */
    rank_ep_costs costs;
    rank_trace *trace;
    base_status failed;
    base_error error;
};

/* The bytes of so many elements for each rank but this one. */
static uint64_t bytes_to_others(const rank_ep_group *group, size_t each)
{
    return (uint64_t)(group->ep.cut.ranks - 1) * each * sizeof(int32_t);
}

/* An exchange ends that sent the others so many bytes. */
static void count_exchange(rank_ep_group *group, int64_t begun_ns, uint64_t bytes)
{
    group->costs.count++;
    group->costs.bytes += bytes;
    group->costs.ns += base_now_ns() - begun_ns;
    rank_trace_add(group->trace, (rank_trace_span){.kind = RANK_TRACE_EXPERTS,
                                                   .of = RANK_TRACE_THREAD | RANK_TRACE_EXCHANGE,
                                                   .begin_ns = begun_ns,
                                                   .index = -1,
                                                   .bytes = bytes});
}

static void announce(void *user, const int32_t *sent, int32_t *received)
{
    rank_ep_group *group = user;
    const rank_ep_cut *cut = &group->ep.cut;
    const size_t here = rank_ep_here(cut);
    const int64_t begun_ns = base_now_ns();
    memset(received, 0, (cut->experts + 1) * sizeof *received);
    if (group->failed != BASE_OK) {
        return;
    }
    rank_ep_count(cut, sent, group->counts);
    group->failed = (base_status)coll_all_to_all(group->members, group->counts, group->received,
                                                 here, COLL_INT32, coll_error_of(&group->error));
    if (group->failed == BASE_OK && !rank_ep_place(cut, group->received, received)) {
        group->failed = base_fail(&group->error, BASE_ERR_MISMATCH,
                                  "a rank announced more rows for experts here than it can have");
    }
    group->costs.rows += (uint64_t)received[cut->experts];
    count_exchange(group, begun_ns, bytes_to_others(group, here));
}

static void keep(rank_ep_group *group, coll_status status, const base_error *error)
{
    if (status != COLL_OK && group->failed == BASE_OK) {
        group->failed = (base_status)status;
        group->error = *error;
    }
}

/* Starts one side of an exchange with a peer; of no rows there is none. */
static void start(rank_ep_group *group, coll_op_desc desc, coll_request **request)
{
    base_error error;
    desc.size = sizeof desc;
    desc.type = COLL_FLOAT32;
    if (desc.count > 0 && group->failed == BASE_OK) {
        keep(group, coll_start(group->members, &desc, request, coll_error_of(&error)), &error);
    }
}

static void exchange(void *user, const rank_ep_exchange *args)
{
    rank_ep_group *group = user;
    const rank_ep_cut *cut = &group->ep.cut;
    const size_t width = args->width;
    const int own = group->ep.rank;
    coll_request *requests[2 * BASE_COLL_RANKS_MAX] = {NULL};
    size_t count = 0;
    uint64_t bytes = 0;
    base_error error;
    const int64_t begun_ns = base_now_ns();
    if (group->failed != BASE_OK) {
        return;
    }
    for (int i = 1; i < cut->ranks; i++) {
        const int from = (own + cut->ranks - i) % cut->ranks;
        const int to = (own + i) % cut->ranks;
        const rank_ep_places come = rank_ep_block(cut, args->to_begins, from);
        const rank_ep_places go = rank_ep_block(cut, args->from_begins, to);
        start(group,
              (coll_op_desc){.kind = COLL_RECEIVE,
                             .recv = args->to + come.first * width,
                             .count = come.count * width,
                             .root = from},
              &requests[count++]);
        start(group,
              (coll_op_desc){.kind = COLL_SEND,
                             .send = args->from + go.first * width,
                             .count = go.count * width,
                             .root = to},
              &requests[count++]);
        bytes += go.count * width * sizeof(float);
    }
    const rank_ep_places stay = rank_ep_block(cut, args->from_begins, own);
    memcpy(args->to + rank_ep_block(cut, args->to_begins, own).first * width,
           args->from + stay.first * width, stay.count * width * sizeof(float));
    keep(group, coll_request_wait_all(requests, count, coll_error_of(&error)), &error);
    count_exchange(group, begun_ns, bytes);
}

static base_status fill(rank_ep_group *made, coll_comm *world, base_error *reterr)
{
    const rank_ep_cut *cut = &made->ep.cut;
    const int rank = coll_comm_rank(world);
    if (rank_ep_received_max(cut) > INT32_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT,
                         "%zu rows of a batch may come to one rank's experts, from %d ranks: at "
                         "most %d are counted; take a smaller --batch",
                         rank_ep_received_max(cut), cut->ranks, (int)INT32_MAX);
    }
    made->counts = calloc(cut->experts, sizeof *made->counts);
    made->received = calloc(cut->experts, sizeof *made->received);
    if (made->counts == NULL || made->received == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for counts of rows");
    }
    const base_status status = (base_status)coll_comm_split(world, rank / cut->ranks, rank,
                                                            &made->members, coll_error_of(reterr));
    return status == BASE_OK ? (base_status)coll_comm_split(world, rank % cut->ranks, rank,
                                                            &made->copies, coll_error_of(reterr))
                             : status;
}

base_status rank_ep_group_create(coll_comm *world, const rank_ep_cut *cut, rank_ep_group **group,
                                 base_error *reterr)
{
    rank_ep_group *made = calloc(1, sizeof *made);
    *group = NULL;
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a group of ranks");
    }
    made->ep = (rank_ep){.rank = coll_comm_rank(world) % cut->ranks,
                         .cut = *cut,
                         .announce = announce,
                         .exchange = exchange,
                         .group = made};
    const base_status status = fill(made, world, reterr);
    if (status != BASE_OK) {
        rank_ep_group_destroy(made);
        return status;
    }
    *group = made;
    return BASE_OK;
}

void rank_ep_group_destroy(rank_ep_group *group)
{
    if (group != NULL) {
        coll_comm_destroy(group->copies);
        coll_comm_destroy(group->members);
        free(group->counts);
        free(group->received);
        free(group);
    }
}

const rank_ep *rank_ep_group_ep(const rank_ep_group *group)
{
    return &group->ep;
}

coll_comm *rank_ep_group_members(const rank_ep_group *group)
{
    return group->members;
}

coll_comm *rank_ep_group_copies(const rank_ep_group *group)
{
    return group->copies;
}

base_status rank_ep_group_check(const rank_ep_group *group, base_error *reterr)
{
    if (group->failed != BASE_OK && reterr != NULL) {
        *reterr = group->error;
    }
    return group->failed;
}

void rank_ep_group_trace(rank_ep_group *group, rank_trace *trace)
{
    group->trace = trace;
}

rank_ep_costs rank_ep_group_costs(const rank_ep_group *group)
{
    return group->costs;
}
