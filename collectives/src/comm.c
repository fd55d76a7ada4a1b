/* Communicators, and the arenas made on them. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "internal.h"
#include "segment.h"

base_status coll_comm_fail(coll_comm *comm, base_status status, const char *format, ...)
{
    if (!comm->failed) {
        va_list args;
        va_start(args, format);
        comm->failed = true;
        /* After a mismatch peers still need this rank's line, to learn of it themselves. */
        comm->context->broken = comm->context->broken || status != BASE_ERR_MISMATCH;
        comm->failure.status = status;
        (void)vsnprintf(comm->failure.message, sizeof comm->failure.message, format, args);
        va_end(args);
        if (comm->table->distress != NULL) {
            comm->table->distress(comm);
        }
    }
    return comm->failure.status;
}

base_status coll_comm_check(coll_comm *comm, base_error *reterr)
{
    if (comm->failed) {
        if (reterr != NULL) {
            *reterr = comm->failure;
        }
        return comm->failure.status;
    }
    base_error error;
    const base_status status = coll_abort_check(comm->context, &error);
    if (status != BASE_OK) {
        (void)coll_comm_fail(comm, status, "%s", error.message);
        if (reterr != NULL) {
            *reterr = comm->failure;
        }
    }
    return status;
}

static uint64_t hash_list(const int *ranks, int count)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) + (uint64_t)count;
    for (int i = 0; i < count; i++) {
        hash = (hash ^ (uint64_t)ranks[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return hash;
}

/* The same number on every rank of the list, and a new one each time. */
static base_status next_id(coll_context *context, const int *ranks, int count, uint64_t *id,
                           base_error *reterr)
{
    const uint64_t hash = hash_list(ranks, count);
    for (int i = 0; i < COLL_COMM_LISTS_MAX; i++) {
        coll_comm_count *made = &context->made[i];
        if (made->count == 0 || made->list_hash == hash) {
            made->list_hash = hash;
            *id = (hash & ~UINT64_C(0xffffffff)) ^ ((uint64_t)++made->count << 16);
            return BASE_OK;
        }
    }
    return base_fail(reterr, BASE_ERR_LIMIT, "more than %d different communicators",
                     COLL_COMM_LISTS_MAX);
}

static base_status check_list(const coll_context *context, const int *ranks, int count,
                              base_error *reterr)
{
    bool seen[COLL_RANKS_MAX] = {false};
    if (count < 1 || count > context->size) {
        return base_fail(reterr, BASE_ERR_INVALID, "a communicator of %d ranks in a context of %d",
                         count, context->size);
    }
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= context->size || seen[ranks[i]]) {
            return base_fail(reterr, BASE_ERR_INVALID, "rank %d is no rank, or is listed twice",
                             ranks[i]);
        }
        seen[ranks[i]] = true;
    }
    if (!seen[context->rank]) {
        return base_fail(reterr, BASE_ERR_INVALID, "this rank (%d) is not in its communicator",
                         context->rank);
    }
    return BASE_OK;
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
    coll_tune_layout(comm, &comm->layout);
}

base_status coll_comm_open(coll_context *context, const int *ranks, int count, int64_t deadline_ns,
                           coll_comm **comm, base_error *reterr)
{
    base_status status = check_list(context, ranks, count, reterr);
    if (status != BASE_OK) {
        return status;
    }
    coll_comm *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a communicator");
    }
    made->context = context;
    made->size = count;
    for (int i = 0; i < count; i++) {
        made->ranks[i] = ranks[i];
        made->rank = ranks[i] == context->rank ? i : made->rank;
    }
    made->table = context->table;
    made->shares_memory = context->table->shares_memory;
    made->inline_bytes = COLL_TINY_BYTES;
    made->chunk_bytes = COLL_CHUNK_BYTES;
    find_hosts(made);
    made->next = context->comms;
    context->comms = made;
    status = next_id(context, ranks, count, &made->id, reterr);
    if (status == BASE_OK) {
        status = coll_op_alloc(made, &made->blocking, reterr);
    }
    if (status == BASE_OK) {
        status = made->table->comm_open(made, deadline_ns, reterr);
    }
    if (status == BASE_OK) {
        status = coll_op_agree(made, COLL_KIND_COMM, (uint64_t)count, reterr);
    }
    if (status != BASE_OK) {
        coll_comm_destroy(made);
        return base_error_prepend(reterr, status, "making a communicator of %d ranks", count);
    }
    *comm = made;
    return BASE_OK;
}

base_status coll_comm_create(coll_context *context, const int *ranks, int count, coll_comm **comm,
                             base_error *reterr)
{
    const base_status status = coll_abort_check(context, reterr);
    if (status != BASE_OK) {
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

base_status coll_comm_split(coll_comm *comm, int colour, int key, coll_comm **split,
                            base_error *reterr)
{
    const int32_t mine[2] = {colour, key};
    int32_t all[COLL_RANKS_MAX][2];
    const coll_op_desc desc = {
        .kind = COLL_ALL_GATHER, .send = mine, .recv = all, .count = 2, .type = COLL_INT32};
    const base_status status = coll_op_run_as(comm, &desc, COLL_KIND_SPLIT, 0, reterr);
    *split = NULL;
    if (status != BASE_OK || colour < 0) {
        return status;
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

base_status coll_comm_settle(coll_comm *comm, base_error *reterr)
{
    (void)coll_progress(comm->context);
    base_status status = coll_comm_check(comm, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (comm->head != NULL || (comm->point != NULL && coll_point_is_busy(comm))) {
        return base_fail(reterr, BASE_ERR_STATE, "operations are under way");
    }
    if (comm->size > 1 && comm->table->settle != NULL) {
        comm->table->settle(comm);
    }
    return coll_comm_check(comm, reterr);
}

void coll_comm_destroy(coll_comm *comm)
{
    if (comm == NULL) {
        return;
    }
    coll_context *context = comm->context;
    coll_comm **link = &context->comms;
    while (*link != NULL && *link != comm) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = comm->next;
    }
    while (comm->arenas != NULL) {
        coll_arena_destroy(comm->arenas);
    }
    coll_op_destroy(comm->blocking);
    for (int i = 0; i < COLL_RECENT_OPS; i++) {
        coll_op_destroy(comm->recent[i]);
    }
    coll_point_close(comm);
    comm->table->comm_close(comm);
    free(comm);
}

int coll_comm_rank(const coll_comm *comm)
{
    return comm->rank;
}

int coll_comm_size(const coll_comm *comm)
{
    return comm->size;
}

/* Operations made earlier looked for their buffers in other arenas. */
static void forget_places(coll_comm *comm)
{
    comm->arena_changes++;
    comm->blocking->ready = false;
    for (int i = 0; i < COLL_RECENT_OPS; i++) {
        if (comm->recent[i] != NULL) {
            comm->recent[i]->ready = false;
        }
    }
}

base_status coll_arena_create(coll_comm *comm, size_t size_bytes, coll_arena **arena,
                              base_error *reterr)
{
    if (comm->arena_count >= COLL_ARENAS_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "more than %d arenas", COLL_ARENAS_MAX);
    }
    coll_arena *made = calloc(1, sizeof *made); /* while nobody counts on it yet */
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for an arena");
    }
    base_status status = coll_op_agree(comm, COLL_KIND_ARENA, size_bytes, reterr);
    if (status != BASE_OK) {
        free(made);
        return status;
    }
    made->comm = comm;
    made->number = ++comm->arenas_made;
    made->size_bytes = size_bytes;
    made->mapped_bytes = coll_segment_round(size_bytes);
    made->next = comm->arenas;
    comm->arenas = made;
    forget_places(comm);
    comm->arena_count++;
    if (made->mapped_bytes == 0) {
        status = base_fail(reterr, BASE_ERR_LIMIT, "%zu bytes are too many", size_bytes);
    } else {
        status = comm->table->arena_open(made, base_deadline_after_ns(comm->context->timeout_ns),
                                         reterr);
    }
    if (status != BASE_OK) {
        /* Peers have counted this arena, so the communicator cannot go on. */
        (void)coll_comm_fail(comm, status, "making an arena of %zu bytes: %s", size_bytes,
                             reterr != NULL ? reterr->message : base_status_name(status));
        coll_arena_destroy(made);
        return base_error_prepend(reterr, status, "making an arena of %zu bytes", size_bytes);
    }
    *arena = made;
    return BASE_OK;
}

void coll_arena_destroy(coll_arena *arena)
{
    if (arena == NULL) {
        return;
    }
    coll_comm *comm = arena->comm;
    coll_arena **link = &comm->arenas;
    while (*link != NULL && *link != arena) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = arena->next;
        comm->arena_count--;
    }
    forget_places(comm);
    comm->table->arena_close(arena);
    free(arena);
}

void *coll_arena_data(coll_arena *arena)
{
    return arena->data;
}

size_t coll_arena_size_bytes(const coll_arena *arena)
{
    return arena->size_bytes;
}
