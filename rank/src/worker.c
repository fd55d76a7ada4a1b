#include "worker.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/exitcode.h"
#include "base/log.h"
#include "control.pb-c.h"
#include "launched/join.h"
#include "modes.h"
#include "proto/digest.h"

enum { DESCRIBE_BYTES = 512 };

/* A file that the job names with its digest must be that file still. */
static base_status check_file(const char *what, const char *path, const char *wanted,
                              base_error *reterr)
{
    uint8_t digest[PROTO_DIGEST_BYTES];
    char hex[PROTO_DIGEST_HEX_BYTES];
    if (wanted[0] == '\0') {
        return BASE_OK;
    }
    const base_status status = proto_sha256_file(path, digest, reterr);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "%s", what);
    }
    proto_digest_hex(digest, hex);
    return strcmp(hex, wanted) == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "%s: %s is not the file that the job names: its SHA-256 is %s, JOB.json "
                           "has %s",
                           what, path, hex, wanted);
}

static base_status check_pinned(const proto_job *job, base_error *reterr)
{
    char path[BASE_PATH_BYTES + 32];
    const base_status status = check_file("--data", job->data, job->data_sha256, reterr);
    (void)snprintf(path, sizeof path, "%s/model.safetensors", job->checkpoint);
    return status == BASE_OK ? check_file("--checkpoint", path, job->checkpoint_sha256, reterr)
                             : status;
}

static base_status run_mode(rank_worker *worker, base_error *reterr)
{
    base_status status = rank_modes_enter(worker, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = check_pinned(&worker->identity.job, reterr);
    if (status != BASE_OK) {
        return status;
    }
    worker->reports = true;
    status = proto_client_join(worker->client, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = coll_launched_join(worker->client, &worker->identity, &worker->context, reterr);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "connecting the ranks");
    }
    return rank_modes_run(worker, reterr);
}

static void report_failure(const rank_worker *worker, base_status status, base_error *error)
{
    char doing[DESCRIBE_BYTES] = "";
    if (worker->context != NULL) {
        coll_context_describe(worker->context, doing, sizeof doing);
    }
    Ringfence__Control__Failed failed = RINGFENCE__CONTROL__FAILED__INIT;
    failed.status = status;
    failed.exit_code = worker->exit_code;
    failed.step = worker->step;
    failed.collective = doing;
    failed.message = error->message;
    failed.secondary = status == BASE_ERR_ABORTED;
    proto_client_failed(worker->client, &failed);
}

int rank_worker_run(int64_t started_ns)
{
    rank_worker worker = {.started_ns = started_ns, .exit_code = BASE_EXIT_ERROR};
    base_error error = {.message = ""};
    base_status status = proto_client_open(&worker.identity, &worker.client, &error);
    if (status != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
        return BASE_EXIT_USAGE;
    }
    status = run_mode(&worker, &error);
    if (status != BASE_OK && !worker.reports) {
        base_log(BASE_LOG_ERROR, "%s", error.message); /* the launcher does not hear it */
    } else if (status != BASE_OK) {
        report_failure(&worker, status, &error);
    }
    coll_launched_leave(worker.client);
    coll_context_destroy(worker.context);
    proto_client_close(worker.client);
    rank_pass_destroy(worker.pass);
    return status == BASE_OK ? BASE_EXIT_DONE : worker.exit_code;
}

base_status rank_worker_evaluate(const rank_worker *worker, const rank_generate_options *options,
                                 uint64_t *total, uint64_t *correct, base_error *reterr)
{
    const proto_identity *identity = &worker->identity;
    rank_pairs *pairs = NULL;
    base_status status = rank_pairs_open(identity->job.heldout, identity->rank,
                                         identity->world_size, &pairs, reterr);
    if (status == BASE_OK) {
        status = rank_evaluate(options, pairs, total, correct, reterr);
    }
    rank_pairs_close(pairs);
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "evaluating");
}

bool rank_worker_should_stop(void *user)
{
    const rank_worker *worker = user;
    return proto_client_stop_requested(worker->client);
}

uint64_t rank_worker_max_rss_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}
