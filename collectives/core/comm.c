/* Destroys communicators, and answers what programs ask of them. comm_make.c makes them. */
#include <stdlib.h>

#include "core/comm.h"
#include "core/device.h"
#include "core/failure.h"
#include "core/op.h"
#include "core/p2p.h"
#include "core/progress.h"
#include "ringfence/coll_error.h"

coll_status coll_comm_finalize(coll_comm *comm, coll_error *reterr)
{
    (void)coll_progress(comm->context);
    coll_status status = coll_comm_check(comm, reterr);
    if (status != COLL_OK) {
        return status;
    }
    if (comm->head != NULL || (comm->p2p != NULL && coll_p2p_is_busy(comm))) {
        return coll_fail(reterr, COLL_ERR_STATE, "operations are under way");
    }
    if (comm->size > 1) {
        comm->table->notices->finalize(comm);
        coll_p2p_finalize(comm);
    }
    status = coll_comm_check(comm, reterr);
    return status == COLL_OK && comm->device != NULL
               ? coll_device_close(comm, comm->context->timeout_ns, reterr)
               : status;
}

void coll_comm_destroy(coll_comm *comm)
{
    if (comm == NULL) {
        return;
    }
    coll_context *context = comm->context;
    if (coll_context_is_forked(context)) {
        comm->failed = true; /* peers are told nothing */
        comm->device = NULL;
    }
    coll_op_orphan(comm);
    coll_device_destroy(comm);
    coll_comm **link = &context->comms;
    while (*link != comm) {
        link = &(*link)->next;
    }
    *link = comm->next;
    coll_busy_remove(comm);
    while (comm->arenas != NULL) {
        coll_arena_destroy(comm->arenas);
    }
    coll_op_destroy(comm->blocking);
    for (int i = 0; i < COLL_RECENT_OPS; i++) {
        coll_op_destroy(comm->recent[i]);
    }
    coll_p2p_close(comm);
    comm->table->comm_close(comm);
    if (context->spare != NULL) {
        free(comm);
    } else { /* it could not be made: the next one can fail as audibly */
        *comm = (coll_comm){.context = NULL};
        context->spare = comm;
    }
}

int coll_comm_rank(const coll_comm *comm)
{
    return comm->rank;
}

int coll_comm_size(const coll_comm *comm)
{
    return comm->size;
}

coll_context *coll_comm_context(const coll_comm *comm)
{
    return comm->context;
}

const int *coll_comm_ranks(const coll_comm *comm)
{
    return comm->ranks;
}

coll_status coll_comm_status(coll_comm *comm, coll_error *reterr)
{
    return coll_comm_check(comm, reterr);
}

uint64_t coll_comm_operations(const coll_comm *comm, coll_kind kind)
{
    return kind >= COLL_ALL_REDUCE && kind <= COLL_KIND_LAST ? comm->started[kind] : 0;
}

uint64_t coll_comm_operation_bytes(const coll_comm *comm, coll_kind kind)
{
    return kind >= COLL_ALL_REDUCE && kind <= COLL_KIND_LAST ? comm->started_bytes[kind] : 0;
}

void coll_tune_layout(const coll_comm *comm, coll_layout *shape)
{
    *shape = comm->layout;
}
