/* Says that a training is ready: what this rank has, to the launcher; and to all ranks, how much of the data are
 * pairs. Called by train.c. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control.pb-c.h"
#include "train/trainer.h"

/* A text that is learned as it is, but perhaps not as it was meant. */
static void warn_of_text(const rank_data_info *info, const char *path)
{
    if (info->other_encoding) {
        base_log(
            BASE_LOG_WARNING,
            "--data %s is no UTF-8: its bytes are learned as they are; if it is Latin-1: iconv "
            "-f LATIN1 -t UTF-8",
            path);
    }
    if (info->has_returns) {
        base_log(BASE_LOG_WARNING,
                 "--data %s has lines that end with CR LF, as on Windows, and the model learns to "
                 "end lines so: tr -d '\\r' leaves the CR out",
                 path);
    }
}

static void report_ready(const trainer *self)
{
    const rank_worker *worker = self->worker;
    rank_data_info info;
    char first_sentence[256];
    char shown[BASE_TEXT_SHOWN_BYTES];
    rank_backend_info arithmetic;
    rank_data_get_info(self->data, &info);
    self->device.backend->info(self->device.queue, &arithmetic);
    (void)snprintf(first_sentence, sizeof first_sentence, "%s", info.first_sentence);

    Ringfence__Control__Ready ready = RINGFENCE__CONTROL__READY__INIT;
    ready.model_params = self->model_params;
    ready.adapter_params = trainer_adapts(self) ? self->param_count : 0;
    ready.params_blake2b256 =
        (ProtobufCBinaryData){.len = RANK_DIGEST_BYTES, .data = (uint8_t *)self->initial_digest};
    ready.sentences_total = info.sentences_total;
    ready.sentences_shard = info.sentences_shard;
    ready.sentences_long = info.sentences_long;
    ready.first_sentence = first_sentence;
    ready.transport = (char *)(worker->gpu != NULL
                                   ? worker->gpu->plugin.table->collectives->name
                                   : coll_transport_name(coll_context_transport(worker->context)));
    ready.algorithm = (char *)(self->ddp != NULL ? rank_ddp_algorithm(self->ddp) : "");
    ready.instruction_set = (char *)arithmetic.kernels;
    ready.first_step = self->first_step;
    proto_client_ready(worker->client, &ready);
    base_text_shorten(info.first_sentence, shown);
    const bool windows = proto_job_cuts_windows(self->job);
    (void)printf("%" PRIu64 " of %" PRIu64 " %s, the first: %s\n", info.sentences_shard,
                 info.sentences_total, windows ? "windows" : "sentences", shown);
    (void)fflush(stdout);
    if (worker->identity.rank == 0) {
        warn_of_text(&info, self->job->data.train);
    }
    if (info.sentences_long > 0) {
        base_log(BASE_LOG_WARNING,
                 "%" PRIu64 " sentences are longer than the context of %d tokens and are left out",
                 info.sentences_long, self->config.context);
    }
}

/* What a rank has read of the data. */
typedef struct data_counts {
    uint64_t records;
    uint64_t pairs;
} data_counts;

base_status trainer_ready(trainer *self, base_error *reterr)
{
    const rank_worker *worker = self->worker;
    data_counts all[BASE_RANKS_MAX];
    data_counts sum = {.records = 0};
    rank_data_info info;
    rank_data_get_info(self->data, &info);
    const data_counts mine = {.records = info.records, .pairs = info.pairs};
    report_ready(self);
    const base_status status = proto_client_exchange(
        worker->client, &mine, all, sizeof mine,
        base_deadline_after_ns(self->job->parallel.timeout_ms * BASE_NS_PER_MS), reterr);
    for (int64_t i = 0; status == BASE_OK && i < self->job->job.world_size; i++) {
        sum.records += all[i].records;
        sum.pairs += all[i].pairs;
    }
    self->learns_pairs = 2 * sum.pairs > sum.records;
    return status;
}
