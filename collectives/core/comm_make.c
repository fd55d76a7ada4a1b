/* Makes communicators: of a list of ranks, or by splitting one. Called by programs, and by
 * connect.c for the world communicator. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/grow.h"
#include "core/failure.h"
#include "core/op.h"
#include "cost/layout.h"
#include "ringfence/coll_error.h"

static uint64_t hash_list(const int *ranks, int count)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) + (uint64_t)count;
    for (int i = 0; i < count; i++) {
        hash = (hash ^ (uint64_t)ranks[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return hash;
}

/* Room for one more list. False: no memory. */
static bool reserve_count(coll_context *context)
{
    coll_comm_count *larger = base_grow(context->made, context->made_count, &context->made_room,
                                        COLL_COMM_LISTS, sizeof *larger);
    context->made = larger != NULL ? larger : context->made;
    return larger != NULL;
}

/* What was made of a list so far; NULL: no memory. Kept for as long as the context: ranks forget
 * at no moment that all of them know of. */
static coll_comm_count *count_of(coll_context *context, uint64_t list_hash)
{
    for (size_t i = 0; i < context->made_count; i++) {
        if (context->made[i].list_hash == list_hash) {
            return &context->made[i];
        }
    }
    if (!reserve_count(context)) {
        return NULL;
    }
    coll_comm_count *made = &context->made[context->made_count++];
    *made = (coll_comm_count){.list_hash = list_hash};
    return made;
}

/* The same number on every rank of the list, and a new one each time: the upper half is the list's,
 * the lower half how many were made of it; the highest bit of that is set for operations on streams
 * (device.c). A creation that fails counts: it is the one that fails, or has failed, on the other
 * ranks. */
static coll_status next_id(coll_context *context, const int *ranks, int count, uint64_t *id,
                           coll_error *reterr)
{
    coll_comm_count *made = count_of(context, hash_list(ranks, count));
    if (made == NULL) {
        return coll_fail(reterr, COLL_ERR_MEMORY, "no memory to count communicators (%zu lists)",
                         context->made_count);
    }
    if (made->count == COLL_COMMS_MADE_MAX) {
        return coll_fail(
            reterr, COLL_ERR_LIMIT,
            "%d communicators have been made of this list of ranks, and no more can be",
            COLL_COMMS_MADE_MAX);
    }
    *id = (made->list_hash & ~UINT64_C(0xffffffff)) | ++made->count;
    return COLL_OK;
}

static coll_status check_list(const coll_context *context, const int *ranks, int count,
                              coll_error *reterr)
{
    bool seen[COLL_RANKS_MAX] = {false};
    if (ranks == NULL) {
        return coll_fail(reterr, COLL_ERR_INVALID, "a communicator without a list of ranks");
    }
    if (count < 1 || count > context->size) {
        return coll_fail(reterr, COLL_ERR_INVALID, "a communicator of %d ranks in a context of %d",
                         count, context->size);
    }
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= context->size || seen[ranks[i]]) {
            return coll_fail(reterr, COLL_ERR_INVALID, "rank %d is no rank, or is listed twice",
                             ranks[i]);
        }
        seen[ranks[i]] = true;
    }
    if (!seen[context->rank]) {
        return coll_fail(reterr, COLL_ERR_INVALID, "this rank (%d) is not in its communicator",
                         context->rank);
    }
    return COLL_OK;
}

static void find_hosts(coll_comm *comm)
{
    const coll_identity *identities = comm->context->identities;
    uint16_t host_of[COLL_RANKS_MAX];
    for (int rank = 0; rank < comm->size; rank++) {
        int same = 0;
        while (same < rank && !coll_identity_same_host(&identities[comm->ranks[same]],
                                                       &identities[comm->ranks[rank]])) {
            same++;
        }
        host_of[rank] = (uint16_t)same;
    }
    coll_hosts_make(&comm->hosts, host_of, comm->size, comm->host_words);
    coll_cost_layout(&comm->hosts, &comm->layout);
}

/* The next communicator, and room for the count of its list, are there before it is asked for, as the
 * first ones are (context.c): without them, this rank could not tell its peers that it has no memory
 * for one. */
static coll_status make_spare(coll_context *context, coll_error *reterr)
{
    const bool has_room = reserve_count(context);
    context->spare = calloc(1, sizeof *context->spare);
    return has_room && context->spare != NULL
               ? COLL_OK
               : coll_fail(reterr, COLL_ERR_MEMORY,
                           "no memory for the next communicator (%zu bytes)",
                           sizeof *context->spare);
}

/* The first operation: all have come. Each shows its list beside its flag. The lists are the same,
 * as the communicator's id is made of them; over sockets a rank finds there what another one makes
 * instead (transport/socket/lists.c). */
static coll_status meet(coll_comm *comm, coll_error *reterr)
{
    uint8_t mine[COLL_RANKS_MAX];
    uint8_t all[COLL_RANKS_MAX * COLL_RANKS_MAX];
    for (int rank = 0; rank < comm->size; rank++) {
        mine[rank] = (uint8_t)comm->ranks[rank];
    }
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = COLL_ALL_GATHER,
                               .send = mine,
                               .recv = all,
                               .count = (size_t)comm->size,
                               .type = COLL_UINT8};
    return coll_op_run_as(comm, &desc,
                          &(coll_descriptor){.kind = COLL_KIND_COMM, .count = (uint64_t)comm->size},
                          reterr);
}

coll_status coll_comm_open(coll_context *context, const int *ranks, int count, int64_t deadline_ns,
                           coll_comm **comm, coll_error *reterr)
{
    coll_status status = check_list(context, ranks, count, reterr);
    if (status != COLL_OK) {
        return status;
    }
    uint64_t id = 0;
    status = next_id(context, ranks, count, &id, reterr);
    if (status != COLL_OK) {
        return status;
    }
    coll_comm *made = context->spare;
    context->spare = NULL;
    made->context = context;
    made->id = id;
    made->size = count;
    for (int i = 0; i < count; i++) {
        made->ranks[i] = ranks[i];
        made->rank = ranks[i] == context->rank ? i : made->rank;
    }
    made->table = context->table;
    made->shares_memory = context->table->memory != NULL;
    made->inline_bytes = COLL_TINY_BYTES;
    made->chunk_bytes = COLL_CHUNK_BYTES;
    find_hosts(made);
    made->next = context->comms;
    context->comms = made;
    status = made->table->comm_open(made, deadline_ns, reterr);
    if (status == COLL_OK) {
        made->blocking = coll_op_alloc(made);
        status = made->blocking != NULL ? COLL_OK : coll_op_lacks(made, reterr);
    }
    if (status == COLL_OK) {
        status = make_spare(context, reterr);
    }
    if (status == COLL_OK) {
        status = meet(made, reterr);
    }
    if (status != COLL_OK) {
        /* Peers that come to it later learn it from what they were sent. */
        (void)coll_comm_fail(made, status, "%s",
                             reterr != NULL ? reterr->message : coll_status_name(status));
        coll_comm_destroy(made);
        return coll_error_prepend(reterr, status, "making a communicator of %d ranks", count);
    }
    context->doubted &= ~coll_comm_members(made);
    *comm = made;
    return COLL_OK;
}

coll_status coll_comm_create(coll_context *context, const int *ranks, int count, coll_comm **comm,
                             coll_error *reterr)
{
    const coll_status status = coll_abort_check(context, reterr);
    if (status != COLL_OK) {
        return status;
    }
    return coll_comm_open(context, ranks, count, base_deadline_after_ns(context->timeout_ns), comm,
                          reterr);
}

typedef struct split_member {
    int key;
    int rank; /* in the communicator that is split */
} split_member;

static int compare_members(const void *a, const void *b)
{
    const split_member *x = a;
    const split_member *y = b;
    const int by_key = (x->key > y->key) - (x->key < y->key);
    return by_key != 0 ? by_key : (x->rank > y->rank) - (x->rank < y->rank);
}

coll_status coll_comm_split(coll_comm *comm, int colour, int key, coll_comm **split,
                            coll_error *reterr)
{
    const int32_t mine[2] = {colour, key};
    int32_t all[COLL_RANKS_MAX][2];
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = COLL_ALL_GATHER,
                               .send = mine,
                               .recv = all,
                               .count = 2,
                               .type = COLL_INT32};
    const coll_descriptor shown = {.kind = COLL_KIND_SPLIT, .type = COLL_INT32};
    const coll_status status = coll_op_run_as(comm, &desc, &shown, reterr);
    if (status != COLL_OK) {
        return status;
    }
    if (colour < 0) {
        *split = NULL;
        return COLL_OK;
    }
    split_member members[COLL_RANKS_MAX];
    int ranks[COLL_RANKS_MAX];
    int count = 0;
    for (int rank = 0; rank < comm->size; rank++) {
        if (all[rank][0] == colour) {
            members[count++] = (split_member){all[rank][1], rank};
        }
    }
    qsort(members, (size_t)count, sizeof members[0], compare_members);
    for (int i = 0; i < count; i++) {
        ranks[i] = comm->ranks[members[i].rank];
    }
    return coll_comm_create(comm->context, ranks, count, split, reterr);
}
