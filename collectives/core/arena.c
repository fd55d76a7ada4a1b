/* Arenas: memory of a communicator that its ranks can map. Programs make and destroy them. They are
 * destroyed with their communicator at the latest. */
#include <stdint.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "core/failure.h"
#include "core/op.h"
#include "core/segment.h"
#include "ringfence/coll_error.h"

/* Operations made earlier looked for their buffers in other arenas. */
static void forget_refs(coll_comm *comm)
{
    comm->arena_changes++;
    comm->blocking->ready = false;
    for (int i = 0; i < COLL_RECENT_OPS; i++) {
        if (comm->recent[i] != NULL) {
            comm->recent[i]->ready = false;
        }
    }
}

coll_status coll_arena_create(coll_comm *comm, size_t size_bytes, coll_arena **arena,
                              coll_error *reterr)
{
    coll_status status = coll_comm_check(comm, reterr);
    if (status != COLL_OK) {
        return status;
    }
    if (comm->arena_count >= COLL_ARENAS_MAX) {
        return coll_fail(reterr, COLL_ERR_LIMIT, "more than %d arenas", COLL_ARENAS_MAX);
    }
    if (comm->arenas_made == COLL_ARENAS_MADE_MAX) {
        return coll_fail(reterr, COLL_ERR_LIMIT,
                         "this communicator has made %d arenas, and can make no more",
                         COLL_ARENAS_MADE_MAX);
    }
    const size_t mapped_bytes = coll_segment_round(size_bytes);
    if (mapped_bytes == 0) {
        return coll_fail(reterr, COLL_ERR_LIMIT, "an arena of %zu bytes is too long", size_bytes);
    }
    coll_arena *made = calloc(1, sizeof *made); /* while nobody counts on it yet */
    if (made == NULL) {
        return coll_comm_lacks(comm, sizeof *made, "an arena", reterr);
    }
    status = coll_op_agree(comm, COLL_KIND_ARENA, size_bytes, reterr);
    if (status != COLL_OK) {
        free(made);
        return status;
    }
    made->comm = comm;
    made->number = ++comm->arenas_made;
    made->size_bytes = size_bytes;
    made->mapped_bytes = mapped_bytes;
    made->next = comm->arenas;
    comm->arenas = made;
    forget_refs(comm);
    comm->arena_count++;
    status =
        comm->table->arena_open(made, base_deadline_after_ns(comm->context->timeout_ns), reterr);
    if (status != COLL_OK) {
        /* Peers have counted this arena, so the communicator cannot go on. */
        (void)coll_comm_fail(comm, status, "making an arena of %zu bytes: %s", size_bytes,
                             reterr != NULL ? reterr->message : coll_status_name(status));
        coll_arena_destroy(made);
        return coll_error_prepend(reterr, status, "making an arena of %zu bytes", size_bytes);
    }
    *arena = made;
    return COLL_OK;
}

void coll_arena_destroy(coll_arena *arena)
{
    if (arena == NULL) {
        return;
    }
    coll_comm *comm = arena->comm;
    coll_arena **link = &comm->arenas;
    while (*link != arena) {
        link = &(*link)->next;
    }
    *link = arena->next;
    comm->arena_count--;
    forget_refs(comm);
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

void coll_arena_discard(coll_arena *arena, size_t offset_bytes, size_t size_bytes)
{
    BASE_ASSERT(offset_bytes <= arena->size_bytes);
    BASE_ASSERT(size_bytes <= arena->size_bytes - offset_bytes);
    coll_segment_discard(arena->data + offset_bytes, size_bytes);
}

uint8_t *coll_arena_of_peer(const coll_comm *comm, int peer, uint32_t number, uint64_t offset_bytes,
                            size_t size_bytes)
{
    for (const coll_arena *arena = comm->arenas; arena != NULL; arena = arena->next) {
        if (arena->number == number) {
            return arena->peers[peer] != NULL && offset_bytes <= arena->size_bytes &&
                           size_bytes <= arena->size_bytes - offset_bytes
                       ? arena->peers[peer] + offset_bytes
                       : NULL;
        }
    }
    return NULL;
}
