/* The trace of a training's last steps. Called by prepare.c, finish.c and train.c. */
#include <stdio.h>

#include "proto/limits.h"
#include "trace/gather.h"
#include "train/trainer.h"

base_status trainer_trace_make(trainer *self, base_error *reterr)
{
    const proto_job *job = self->job;
    const rank_device *device = &self->device;
    if (job->output.trace == 0 || job->output.directory[0] == '\0' ||
        device->backend->set_profile == NULL) {
        return BASE_OK;
    }
    const base_status status =
        rank_trace_create((int)job->output.trace, (int)job->job.world_size, &self->trace, reterr);
    self->profile.trace = self->trace;
    device->backend->set_profile(device->queue, &self->profile);
    return status;
}

void trainer_trace_part(const trainer *self, rank_trace_kind kind, int64_t begun_ns, int index)
{
    if (self->trace != NULL && kind == RANK_TRACE_BATCH) {
        self->trace->micro_batch = index;
    }
    rank_trace_add(self->trace,
                   (rank_trace_span){.kind = kind, .begin_ns = begun_ns, .index = index});
}

void trainer_trace_exchange(const trainer *self, rank_trace_kind kind, int64_t begun_ns)
{
    const bool all = kind == RANK_TRACE_SUMS;
    rank_trace_add(self->trace,
                   (rank_trace_span){.kind = kind,
                                     .of = (uint8_t)(RANK_TRACE_THREAD | RANK_TRACE_EXCHANGE |
                                                     (all ? RANK_TRACE_ALL_RANKS : 0)),
                                     .begin_ns = begun_ns,
                                     .index = -1});
}

static const char *operation_name(int part)
{
    return rank_part_name((rank_part)part);
}

base_status trainer_trace_write(const trainer *self, base_error *reterr)
{
    char path[BASE_PATH_BYTES + sizeof PROTO_TRACE_FILE + 1];
    (void)snprintf(path, sizeof path, "%s/" PROTO_TRACE_FILE, self->job->output.directory);
    return rank_trace_gather(self->trace, coll_context_world(self->worker->context),
                             &(rank_trace_place){.path = path, .operation_name = operation_name},
                             reterr);
}

void trainer_trace_free(trainer *self)
{
    if (self->trace != NULL) {
        self->device.backend->set_profile(self->device.queue, NULL);
        rank_trace_destroy(self->trace);
    }
}
