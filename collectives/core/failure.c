/* The first failure of a communicator, and the failures of peers. Called wherever
 * something can fail. */
#include "core/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "core/comm.h"
#include "core/device.h"
#include "core/text.h"
#include "ringfence/coll_error.h"

enum { TEXT_BYTES = 160 };

coll_status coll_abort_check(coll_context *context, coll_error *reterr)
{
    if (__builtin_expect(coll_context_is_forked(context), 0)) {
        return coll_fail(reterr, COLL_ERR_STATE,
                         "this process was forked from rank %d, whose context it must not use",
                         context->rank);
    }
    if (__builtin_expect(atomic_load(&context->abort_state) != 2, 1)) {
        return COLL_OK;
    }
    return coll_fail(reterr, COLL_ERR_ABORTED, "aborted: %s", context->abort_reason);
}

/* This clock shows the time of the last tick, and costs a quarter of the precise one to read. */
bool coll_watch_is_due(coll_context *context)
{
    struct timespec now = {.tv_sec = 0};
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    const int64_t now_ns = now.tv_sec * BASE_NS_PER_S + now.tv_nsec;
    const bool due = now_ns != context->watched_ns;
    context->watched_ns = now_ns;
    return due;
}

coll_status coll_comm_fail(coll_comm *comm, coll_status status, const char *format, ...)
{
    if (!comm->failed) {
        va_list args;
        va_start(args, format);
        comm->failed = true;
        /* After a mismatch peers still need this rank's flag, to learn of it themselves. */
        if (status != COLL_ERR_MISMATCH) {
            comm->context->doubted |= coll_comm_members(comm);
        }
        comm->failure.status = status;
        (void)vsnprintf(comm->failure.message, sizeof comm->failure.message, format, args);
        va_end(args);
        if (comm->table->notices != NULL) {
            comm->table->notices->send_failure(comm);
        }
        if (comm->device != NULL) {
            coll_device_abort(comm);
        }
    }
    return comm->failure.status;
}

coll_status coll_comm_lacks(coll_comm *comm, size_t size_bytes, const char *what,
                            coll_error *reterr)
{
    (void)coll_comm_fail(comm, COLL_ERR_MEMORY, "no memory for %s (%zu bytes)", what, size_bytes);
    return coll_comm_check(comm, reterr);
}

void coll_comm_fail_as(coll_comm *comm, int peer, uint32_t origin, int32_t status, char *message)
{
    char said[TEXT_BYTES + 16];
    const bool is_known = status == COLL_ERR_TIMEOUT || status == COLL_ERR_PEER;
    const bool is_abort = status == COLL_ERR_ABORTED;
    coll_text_clean(message);
    if (comm->failed) {
        return;
    }
    if (status == COLL_ERR_MISMATCH) { /* names both sides by itself */
        (void)coll_comm_fail(comm, COLL_ERR_MISMATCH, "%s", message);
        return;
    }
    char name[TEXT_BYTES];
    const bool is_relayed = origin >= 1 && origin <= (uint32_t)comm->size;
    const int rank = is_relayed && (int)origin - 1 != comm->rank ? (int)origin - 1 : peer;
    coll_rank_text(comm, rank, name, sizeof name);
    (void)snprintf(said, sizeof said, "%s %s ", name,
                   is_abort ? "was" : (is_known ? "says:" : "failed:"));
    comm->origin = is_relayed ? (int)origin : peer + 1; /* who is named so passes itself on */
    comm->message_offset_bytes = strlen(said);
    (void)coll_comm_fail(comm, is_known || is_abort ? (coll_status)status : COLL_ERR_PEER, "%s%s",
                         said, message);
}

coll_status coll_comm_check(coll_comm *comm, coll_error *reterr)
{
    coll_error error;
    if (!comm->failed) {
        const coll_status status = coll_abort_check(comm->context, &error);
        if (status == COLL_OK || status == COLL_ERR_STATE) {
            if (status != COLL_OK && reterr != NULL) {
                *reterr = error; /* nothing of the parent's has failed */
            }
            return status;
        }
        (void)coll_comm_fail(comm, status, "%s", error.message);
    }
    if (reterr != NULL) {
        comm->told = true;
        *reterr = comm->failure;
    }
    return comm->failure.status;
}
