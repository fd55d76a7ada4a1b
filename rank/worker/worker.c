/* Functions that modes call for the process they run in. */
#include "worker/worker.h"

#include <control.pb-c.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "coll/backend.h"
#include "ringfence/coll_error.h"

enum { DESCRIBE_BYTES = 512, AWAIT_US = 500 };

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

/* A kernel that never ends is then a timeout, as a collective that never ends is. */
static base_status wait_for_gpu(void *user, rank_queue *queue, base_error *reterr)
{
    const rank_worker *worker = user;
    (void)queue; /* the one of the stream */
    return (base_status)coll_device_wait(coll_context_world(worker->context), worker->gpu->stream,
                                         coll_error_of(reterr));
}

base_status rank_worker_open_device(rank_worker *worker, rank_device *device, base_error *reterr)
{
    if (worker->gpu == NULL) {
        return rank_device_open("cpu", device, reterr);
    }
    const proto_job_gpu *wanted = &worker->identity.job.gpu;
    const base_status status =
        rank_device_open_of(worker->gpu->plugin.table->backends,
                            wanted->exact                               ? "cuda-exact"
                            : wanted->precision == PROTO_PRECISION_TF32 ? "cuda-tf32"
                                                                        : "cuda",
                            device, reterr);
    if (status == BASE_OK && worker->context != NULL) {
        worker->gpu->stream = device->backend->stream(device->queue);
        device->backend->set_waiter(device->queue, wait_for_gpu, worker);
    }
    return status;
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
    failed.connecting = worker->context == NULL;
    failed.unreached = (uint32_t)(worker->unreached + 1);
    proto_client_failed(worker->client, &failed);
}

/* COLL_ERR_TIMEOUT: operations of the queue do not end. Other errors of the device end them. */
static coll_status await_stream(const rank_gpu *gpu, coll_error *reterr)
{
    const int64_t deadline_ns = base_deadline_after_ns(COLL_DEVICE_ABORT_SECONDS * BASE_NS_PER_S);
    const coll_backend *collectives = gpu->plugin.table->collectives;
    coll_status status = COLL_OK;
    bool done = gpu->stream == NULL;
    while (status == COLL_OK && !done) {
        status = collectives->idle(NULL, gpu->stream, &done, reterr);
        if (status == COLL_OK && !done && base_now_ns() >= deadline_ns) {
            (void)snprintf(reterr->message, sizeof reterr->message,
                           "its GPU does not end what it computes");
            return COLL_ERR_TIMEOUT;
        }
        (void)usleep(AWAIT_US);
    }
    return status;
}

void rank_worker_leave_device(void *user, base_status status, const base_error *error)
{
    const rank_worker *worker = user;
    coll_error stuck;
    base_error both = *error;
    if (worker->gpu == NULL || worker->context == NULL) {
        return;
    }
    coll_status left = coll_device_ended(coll_context_world(worker->context), &stuck);
    if (left != COLL_ERR_TIMEOUT) {
        left = await_stream(worker->gpu, &stuck);
    }
    if (left != COLL_ERR_TIMEOUT) {
        return;
    }
    (void)snprintf(both.message, sizeof both.message, "%.*s; %.*s", 300, error->message, 180,
                   stuck.message);
    rank_worker_report_failure(worker, status, &both);
    proto_client_close(worker->client); /* which sends the report */
    _exit(worker->exit_code);
}
