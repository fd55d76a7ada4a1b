/* The first failure of a communicator, and the failures of peers. Called wherever
 * something can fail. */
#include "core/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/comm.h"
#include "core/text.h"

enum { TEXT_BYTES = 160 };

base_status coll_abort_check(coll_context *context, base_error *reterr)
{
    if (__builtin_expect(atomic_load(&context->abort_state) != 2, 1)) {
        return BASE_OK;
    }
    return base_fail(reterr, BASE_ERR_ABORTED, "aborted: %s", context->abort_reason);
}

base_status coll_comm_fail(coll_comm *comm, base_status status, const char *format, ...)
{
    if (!comm->failed) {
        va_list args;
        va_start(args, format);
        comm->failed = true;
        /* After a mismatch peers still need this rank's flag, to learn of it themselves. */
        comm->context->broken = comm->context->broken || status != BASE_ERR_MISMATCH;
        comm->failure.status = status;
        (void)vsnprintf(comm->failure.message, sizeof comm->failure.message, format, args);
        va_end(args);
        if (comm->table->send_failure != NULL) {
            comm->table->send_failure(comm);
        }
    }
    return comm->failure.status;
}

void coll_comm_fail_as(coll_comm *comm, int peer, uint32_t origin, int32_t status, char *message)
{
    char said[TEXT_BYTES + 16];
    const bool is_known = status == BASE_ERR_TIMEOUT || status == BASE_ERR_PEER;
    const bool is_abort = status == BASE_ERR_ABORTED;
    coll_text_clean(message);
    if (comm->failed) {
        return;
    }
    if (status == BASE_ERR_MISMATCH) { /* names both sides by itself */
        (void)coll_comm_fail(comm, BASE_ERR_MISMATCH, "%s", message);
        return;
    }
    char name[TEXT_BYTES];
    const bool is_relayed = origin >= 1 && origin <= (uint32_t)comm->size;
    const int rank = is_relayed && (int)origin - 1 != comm->rank ? (int)origin - 1 : peer;
    coll_rank_text(comm, rank, name, sizeof name);
    (void)snprintf(said, sizeof said, "%s %s ", name,
                   is_abort ? "was" : (is_known ? "says:" : "failed:"));
    comm->origin = rank + 1;
    comm->message_offset_bytes = strlen(said);
    (void)coll_comm_fail(comm, is_known || is_abort ? (base_status)status : BASE_ERR_PEER, "%s%s",
                         said, message);
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
