#include "coll/launched.h"

#include <control.pb-c.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/exitcode.h"
#include "proto/client.h"

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

static void abort_collectives(void *user, const char *reason)
{
    coll_context_abort(user, reason);
}

static void dump_collectives(void *user, int fd, const char *reason)
{
    (void)!coll_context_dump(user, fd, reason, NULL);
}

static base_status make_context(coll_launched *launched, base_error *reterr)
{
    const proto_job *job = &launched->identity.job;
    coll_context_options options = {
        .rank = launched->identity.rank,
        .world_size = launched->identity.world_size,
        .exchange = proto_client_exchange,
        .exchange_user = launched->client,
        .timeout_ns = job->timeout_ms * BASE_NS_PER_MS,
        .interface = job->interface,
        .rendezvous_address = launched->identity.launcher_address,
        .job_key = launched->identity.collectives_key,
    };
    base_status status = coll_transport_parse(job->transport, &options.transport, reterr);
    if (status == BASE_OK) {
        status = coll_algorithm_parse(job->algorithm, &options.algorithm, reterr);
    }
    if (status == BASE_OK) {
        status = coll_tcp_auth_parse(job->tcp_auth, &options.tcp_auth, reterr);
    }
    if (status == BASE_OK) {
        status = coll_context_create(&options, &launched->context, reterr);
    }
    proto_wipe(launched->identity.collectives_key, PROTO_KEY_BYTES);
    if (status == BASE_OK) {
        proto_client_on_abort(launched->client, abort_collectives, launched->context);
        proto_client_on_dump(launched->client, dump_collectives, launched->context);
    }
    return status;
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
        status = make_context(made, &error);
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
    base_status status = BASE_OK;
    if (launched == NULL) {
        return BASE_OK;
    }
    if (!launched->failed) {
        Ringfence__Control__Finished finished = RINGFENCE__CONTROL__FINISHED__INIT;
        finished.max_rss_bytes = max_rss_bytes();
        status = proto_client_finish(launched->client, &finished, reterr);
    }
    proto_client_on_abort(launched->client, NULL, NULL);
    proto_client_on_dump(launched->client, NULL, NULL);
    coll_context_destroy(launched->context);
    proto_client_close(launched->client);
    free(launched);
    return status;
}
