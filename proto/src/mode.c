/* The table of modes. Read by the launcher, the ranks and their tests. */
#include "proto/mode.h"

#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "proto/pipeline.h"

enum { TRACE_STEPS = 3 };

static const proto_mode_row rows[PROTO_MODE_COUNT] = {
    [PROTO_MODE_DDP_CPU] =
        {
            .name = "ddp-cpu",
            .trains = true,
            .record = PROTO_RECORD_TRAINING,
            .lab = "01-ddp-on-cpu",
            .trace = TRACE_STEPS,
            .out = "experiments/35-ddp-cpu",
            .ranks = 2,
            .ranks_min = 1,
            .ranks_max = BASE_COLL_RANKS_MAX,
        },
    [PROTO_MODE_GENERATE] =
        {
            .name = "generate",
            .answers = true,
            .record = PROTO_RECORD_INFERENCE,
            .lab = "02-tp-inference-cloud",
            .trace = TRACE_STEPS,
            .out = "experiments/35-ddp-cpu", /* the model is read from there */
            .seed = 35200,
            .ranks = 1,
            .ranks_min = 1,
            .ranks_max = BASE_RANKS_MAX,
        },
    [PROTO_MODE_TP_CPU] =
        {
            .name = "tp-cpu",
            .answers = true,
            .tensor_parallel = true,
            .record = PROTO_RECORD_INFERENCE,
            .lab = "02-tp-inference-cloud",
            .trace = TRACE_STEPS,
            .out = "experiments/35-tp-inference",
            .checkpoint = "experiments/35-ddp-cpu",
            .seed = 35200,
            .ranks = 2,
            .ranks_min = 1,
            .ranks_max = 16, /* RANK_TP_LEAVES */
        },
    [PROTO_MODE_PROGRAM] =
        {
            .name = "program",
            .may_restart = true,
            .ranks = 2,
            .ranks_min = 1,
            .ranks_max = BASE_RANKS_MAX,
        },
    [PROTO_MODE_GATE_CHECK] =
        {
            .name = "gate-check",
            .costs_money = true, /* it stands in for modes that do */
            .may_restart = true,
            .ranks = 2,
            .ranks_min = 1,
            .ranks_max = BASE_RANKS_MAX,
        },
    [PROTO_MODE_DDP_NCCL] =
        {
            .name = "ddp-nccl",
            .costs_money = true,
            .trains = true,
            .on_gpus = true,
            .record = PROTO_RECORD_TRAINING,
            .lab = "01-ddp-on-cpu",
            .out = "experiments/35-ddp-nccl",
            .bucket_bytes = 25 << 20, /* an all-reduce there has a cost of its own */
            .ranks = 1,
            .ranks_min = 1,
            .ranks_max = BASE_COLL_RANKS_MAX,
        },
    [PROTO_MODE_BENCH_NCCL] =
        {
            .name = "bench-nccl",
            .costs_money = true,
            .on_gpus = true,
            .measures = true,
            .ranks = 2,
            .ranks_min = 1,
            .ranks_max = BASE_COLL_RANKS_MAX,
        },
    [PROTO_MODE_PP_CPU] =
        {
            .name = "pp-cpu",
            .trains = true,
            .pipelined = true,
            .record = PROTO_RECORD_TRAINING,
            .lab = "01-ddp-on-cpu",
            .trace = TRACE_STEPS,
            .out = "experiments/35-pp-cpu",
            .ranks = 2,
            .ranks_min = 1,
            .ranks_max = PROTO_PIPELINE_STAGES_MAX,
        },
    [PROTO_MODE_TP_NCCL] =
        {
            .name = "tp-nccl",
            .costs_money = true,
            .answers = true,
            .on_gpus = true,
            .tensor_parallel = true,
            .record = PROTO_RECORD_INFERENCE,
            .lab = "02-tp-inference-cloud",
            .out = "experiments/35-tp-inference",
            .checkpoint = "experiments/35-ddp-cpu",
            .seed = 35200,
            .ranks = 1,
            .ranks_min = 1,
            .ranks_max = 16, /* RANK_TP_LEAVES */
        },
};

const proto_mode_row *proto_mode_get(proto_mode mode)
{
    BASE_ASSERT(mode < PROTO_MODE_COUNT);
    return &rows[mode];
}

const char *proto_mode_name(int mode)
{
    return mode >= 0 && mode < PROTO_MODE_COUNT ? rows[mode].name : NULL;
}

bool proto_mode_row_costs_money(const proto_mode_row *row)
{
    static const char suffix[] = "-nccl";
    if (row == NULL || row->costs_money) {
        return true;
    }
    const size_t length = strlen(row->name);
    return length >= sizeof suffix - 1 &&
           strcmp(row->name + length - (sizeof suffix - 1), suffix) == 0;
}

bool proto_mode_costs_money(proto_mode mode)
{
    return proto_mode_row_costs_money(mode < PROTO_MODE_COUNT ? &rows[mode] : NULL);
}
