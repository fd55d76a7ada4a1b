/* The public calls of a program started by `launcher -- PROGRAM`: open, context, fail, close.
 * Called by users' programs, examples/sum.c among them. */
#include "coll/launched.h"

#include <control.pb-c.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/exitcode.h"
#include "launched/join.h"

enum { DESCRIBE_BYTES = 512 };

struct coll_launched {
    proto_client *client;
    proto_identity identity;
    coll_context *context;
    bool failed;
};

bool coll_launched_here(void)
{
    return getenv("RINGFENCE_JOB_FD") != NULL && getenv("RINGFENCE_KEY_FD") != NULL;
}

base_status coll_launched_open(coll_launched **launched, base_error *reterr)
{
    coll_launched *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to join the launcher");
    }
    base_error error = {.message = ""};
    base_status status = proto_client_open(&made->identity, &made->client, &error);
    if (status != BASE_OK) {
        free(made);
        return base_fail(reterr, status, "%s", error.message);
    }
    status = proto_client_join(made->client, &error);
    if (status == BASE_OK) {
        status = coll_launched_join(made->client, &made->identity, &made->context, &error);
    }
    if (status != BASE_OK) {
        (void)base_fail(reterr, status, "%s", error.message);
        coll_launched_fail(made, &error);
        (void)coll_launched_close(made, NULL);
        return status;
    }
    *launched = made;
    return BASE_OK;
}

coll_context *coll_launched_context(coll_launched *launched)
{
    return launched->context;
}

bool coll_launched_stop_requested(const coll_launched *launched)
{
    return proto_client_stop_requested(launched->client);
}

void coll_launched_fail(coll_launched *launched, const base_error *error)
{
    char doing[DESCRIBE_BYTES] = "";
    char message[BASE_ERROR_MESSAGE_BYTES];
    if (launched->failed) {
        return;
    }
    launched->failed = true;
    if (launched->context != NULL) {
        coll_context_describe(launched->context, doing, sizeof doing);
    }
    memcpy(message, error->message, sizeof message);
    message[sizeof message - 1] = '\0';
    Ringfence__Control__Failed failed = RINGFENCE__CONTROL__FAILED__INIT;
    failed.status = error->status;
    failed.exit_code = BASE_EXIT_ERROR;
    failed.collective = doing;
    failed.message = message;
    failed.secondary = error->status == BASE_ERR_ABORTED;
    proto_client_failed(launched->client, &failed);
}

static uint64_t max_rss_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}

base_status coll_launched_close(coll_launched *launched, base_error *reterr)
{
    base_error error = {.message = ""};
    base_status status = BASE_OK;
    if (launched == NULL) {
        return BASE_OK;
    }
    if (!launched->failed) {
        status = coll_comm_finalize(coll_context_world(launched->context), &error);
    }
    if (status != BASE_OK) {
        coll_launched_fail(launched, &error);
        (void)base_fail(reterr, status, "%s", error.message);
    }
    if (!launched->failed) {
        Ringfence__Control__Finished finished = RINGFENCE__CONTROL__FINISHED__INIT;
        finished.max_rss_bytes = max_rss_bytes();
        status = proto_client_finish(launched->client, &finished, reterr);
    }
    coll_launched_leave(launched->client);
    coll_context_destroy(launched->context);
    proto_client_close(launched->client);
    free(launched);
    return status;
}
