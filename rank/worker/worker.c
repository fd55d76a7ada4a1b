/* Functions that modes call for the process they run in. */
#include "worker/worker.h"

#include <control.pb-c.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "coll/backend.h"

enum { DESCRIBE_BYTES = 512 };

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

base_status rank_worker_open_device(const rank_worker *worker, rank_device *device,
                                    base_error *reterr)
{
    if (worker->gpu == NULL) {
        return rank_device_open("cpu", device, reterr);
    }
    const proto_job_gpu *wanted = &worker->identity.job.gpu;
    return rank_device_open_of(worker->gpu->plugin.table->backends,
                               wanted->exact                               ? "cuda-exact"
                               : wanted->precision == PROTO_PRECISION_TF32 ? "cuda-tf32"
                                                                           : "cuda",
                               device, reterr);
}

void rank_worker_report_failure(const rank_worker *worker, base_status status,
                                const base_error *error)
{
    char doing[DESCRIBE_BYTES] = "";
    base_error copy = *error;
    if (worker->context != NULL) {
        coll_context_describe(worker->context, doing, sizeof doing);
    }
    Ringfence__Control__Failed failed = RINGFENCE__CONTROL__FAILED__INIT;
    failed.status = status;
    failed.exit_code = worker->exit_code;
    failed.step = worker->step;
    failed.collective = doing;
    failed.message = copy.message;
    failed.secondary = status == BASE_ERR_ABORTED;
    proto_client_failed(worker->client, &failed);
}

void rank_worker_leave_device(const rank_worker *worker, base_status status,
                              const base_error *error)
{
    coll_error stuck;
    base_error both = *error;
    if (worker->gpu == NULL || worker->context == NULL ||
        coll_device_ended(coll_context_world(worker->context), &stuck) != COLL_ERR_TIMEOUT) {
        return;
    }
    (void)snprintf(both.message, sizeof both.message, "%.*s; %.*s", 300, error->message, 180,
                   stuck.message);
    rank_worker_report_failure(worker, status, &both);
    proto_client_close(worker->client); /* which sends the report */
    _exit(worker->exit_code);
}
