/* Mode bench-nccl: coll-bench's rows between GPUs. Called by modes.c. */
#include <control.pb-c.h>

#include "bench/on_device.h"
#include "modes.h"
#include "ringfence/coll_error.h"

static coll_status copy(void *user, void *to, const void *from, size_t size_bytes,
                        coll_error *reterr)
{
    const rank_device *device = user;
    device->backend->copy(device->queue, to, from, size_bytes);
    return (coll_status)device->backend->sync(device->queue, base_error_of(reterr));
}

/* What ops say of the algorithm: the job's, or `auto`. */
static coll_algorithm algorithm_of(const proto_job *job)
{
    coll_algorithm found = COLL_ALGORITHM_AUTO;
    const char *name = proto_algorithm_name((int)job->parallel.algorithm);
    return coll_algorithm_parse(name, &found, NULL) == COLL_OK ? found : COLL_ALGORITHM_AUTO;
}

base_status rank_cloud_bench(rank_worker *worker, const rank_pass *pass, base_error *reterr)
{
    const proto_job *job = &worker->identity.job;
    Ringfence__Control__Finished finished = RINGFENCE__CONTROL__FINISHED__INIT;
    rank_device device = {.backend = NULL};
    int code = 0;
    base_status status = rank_gpu_begin(worker, pass, reterr);
    if (status == BASE_OK) {
        status = rank_worker_open_device(worker, &device, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    const bench_device on = {.stream = device.backend->stream(device.queue),
                             .algorithm = algorithm_of(job),
                             .copy = copy,
                             .user = &device};
    status = (base_status)bench_run_on_device(job->bench.words, worker->context, &on, &code,
                                              coll_error_of(reterr));
    if (status == BASE_OK && code != 0) {
        status = base_fail(reterr, BASE_ERR_STATE, "values were wrong, or could not be written");
    }
    if (status != BASE_OK) {
        rank_worker_leave_device(worker, status, reterr);
    }
    rank_device_close(&device);
    finished.max_rss_bytes = rank_worker_max_rss_bytes();
    return status == BASE_OK ? proto_client_finish(worker->client, &finished, reterr) : status;
}
