/* Makes and writes the trace of a job's last steps. Called by train/ and generate/mode.c. */
#include "worker/traced.h"

#include <stdio.h>

#include "trace/gather.h"

base_status rank_traced_begin(const rank_worker *worker, const rank_device *device, bool operations,
                              rank_traced *traced, base_error *reterr)
{
    const proto_job *job = &worker->identity.job;
    *traced = (rank_traced){.trace = NULL};
    if (job->output.trace == 0 || job->output.directory[0] == '\0' ||
        device->backend->set_profile == NULL) {
        return BASE_OK;
    }
    const base_status status =
        rank_trace_create((int)job->output.trace, (int)job->job.world_size, &traced->trace, reterr);
    if (operations) {
        traced->profile.trace = traced->trace;
        device->backend->set_profile(device->queue, &traced->profile);
    }
    return status;
}

static const char *operation_name(int part)
{
    return part >= 0 && part < RANK_PART_COUNT ? rank_part_name((rank_part)part) : NULL;
}

base_status rank_traced_write(const rank_worker *worker, const rank_traced *traced,
                              base_error *reterr)
{
    char path[BASE_PATH_BYTES + sizeof PROTO_TRACE_FILE + 1];
    coll_comm *comm = worker->context != NULL ? coll_context_world(worker->context) : NULL;
    (void)snprintf(path, sizeof path, "%s/" PROTO_TRACE_FILE,
                   worker->identity.job.output.directory);
    return rank_trace_gather(traced->trace, comm,
                             &(rank_trace_place){.path = path, .operation_name = operation_name},
                             reterr);
}

void rank_traced_end(rank_traced *traced, const rank_device *device)
{
    if (traced->trace != NULL) {
        device->backend->set_profile(device->queue, NULL);
        rank_trace_destroy(traced->trace);
        traced->trace = NULL;
    }
}
