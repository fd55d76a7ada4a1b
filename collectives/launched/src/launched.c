/* The public calls of a program started by `launcher -- PROGRAM`: open, context, fail, close.
 * Called by users' programs, examples/sum.c among them. */
#include "coll/launched.h"

#include <control.pb-c.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/exitcode.h"
#include "launched/join.h"
#include "ringfence/coll_error.h"

enum { DESCRIBE_BYTES = 512 };

struct coll_launched {
    proto_client *client;
    proto_identity identity;
    coll_context *context;
    int unreached; /* a rank that this one could not be connected to; -1: none */
    bool failed;
    coll_error failure; /* what coll_launched_fail was told */
};

bool coll_launched_here(void)
{
    return getenv("RINGFENCE_JOB_FD") != NULL && getenv("RINGFENCE_KEY_FD") != NULL;
}

static coll_status fail(const coll_error *error, coll_error *reterr)
{
    if (reterr != NULL) {
        *reterr = *error;
    }
    return error->status;
}

coll_status coll_launched_open(coll_launched **launched, coll_error *reterr)
{
    static atomic_bool joined; /* what the launcher has handed over serves once */
    coll_error error = {.status = COLL_ERR_STATE,
                        .message = "this process has joined its launcher already: "
                                   "coll_launched_open can be called once"};
    if (atomic_load(&joined)) {
        return fail(&error, reterr);
    }
    error = (coll_error){.status = COLL_ERR_MEMORY, .message = "no memory to join the launcher"};
    coll_launched *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return fail(&error, reterr);
    }
    made->unreached = -1;
    coll_status status =
        (coll_status)proto_client_open(&made->identity, &made->client, base_error_of(&error));
    if (status != COLL_OK) {
        free(made);
        return fail(&error, reterr);
    }
    atomic_store(&joined, true);
    status = (coll_status)proto_client_join(made->client, "", base_error_of(&error));
    if (status == COLL_OK) {
        status = coll_launched_join(made->client, &made->identity, NULL, &made->context,
                                    &made->unreached, &error);
    }
    if (status != COLL_OK) {
        coll_launched_fail(made, &error);
        (void)coll_launched_close(made, NULL);
        return fail(&error, reterr);
    }
    *launched = made;
    return COLL_OK;
}

coll_context *coll_launched_context(coll_launched *launched)
{
    return launched->context;
}

bool coll_launched_stop_requested(const coll_launched *launched)
{
    return proto_client_stop_requested(launched->client);
}

void coll_launched_fail(coll_launched *launched, const coll_error *error)
{
    static const coll_error no_text = {.status = COLL_ERR_STATE, .message = "it gave no reason"};
    char doing[DESCRIBE_BYTES] = "";
    coll_error *own = &launched->failure;
    if (launched->failed) {
        return;
    }
    launched->failed = true;
    *own = error != NULL ? *error : no_text;
    own->message[sizeof own->message - 1] = '\0';
    if (launched->context != NULL) {
        coll_context_describe(launched->context, doing, sizeof doing);
    }
    Ringfence__Control__Failed failed = RINGFENCE__CONTROL__FAILED__INIT;
    failed.status = own->status;
    failed.exit_code = BASE_EXIT_ERROR;
    failed.collective = doing;
    failed.message = own->message;
    failed.secondary = own->status == COLL_ERR_ABORTED;
    failed.connecting = launched->context == NULL;
    failed.unreached = (uint32_t)(launched->unreached + 1);
    proto_client_failed(launched->client, &failed);
    own->status = own->status < 0 ? own->status : COLL_ERR_STATE; /* what close returns */
}

static uint64_t max_rss_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}

coll_status coll_launched_close(coll_launched *launched, coll_error *reterr)
{
    coll_error error = {.message = ""};
    coll_status status = COLL_OK;
    if (launched == NULL) {
        return COLL_OK;
    }
    if (!launched->failed &&
        coll_comm_finalize(coll_context_world(launched->context), &error) != COLL_OK) {
        coll_launched_fail(launched, &error);
    }
    if (launched->failed) {
        status = fail(&launched->failure, reterr);
    } else {
        Ringfence__Control__Finished finished = RINGFENCE__CONTROL__FINISHED__INIT;
        finished.max_rss_bytes = max_rss_bytes();
        status =
            (coll_status)proto_client_finish(launched->client, &finished, base_error_of(reterr));
    }
    coll_launched_leave(launched->client);
    coll_context_destroy(launched->context);
    proto_client_close(launched->client);
    free(launched);
    return status;
}
