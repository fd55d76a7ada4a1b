/* Chooses the function of a mode. Modes that may cost money are entered only here. Called by run.c.
 *
 * Every function called rank_cloud_… is named in this file alone, takes a pass, and is called after
 * rank_gate_enter. tests/rank/gate checks this in the symbols of all objects. */
#include "modes.h"

#include "base/assert.h"
#include "generate/mode.h"
#include "train/mode.h"

typedef struct rank_mode {
    base_status (*run)(rank_worker *worker, base_error *reterr);
    /* Before the rank joins; NULL: nothing is to be done. */
    base_status (*begin_cloud)(rank_worker *worker, const rank_pass *pass, base_error *reterr);
    base_status (*run_cloud)(rank_worker *worker, const rank_pass *pass, base_error *reterr);
} rank_mode;

static const rank_mode modes[PROTO_MODE_COUNT] = {
    [PROTO_MODE_DDP_CPU] = {.run = rank_mode_train},
    [PROTO_MODE_PP_CPU] = {.run = rank_mode_train},
    [PROTO_MODE_GENERATE] = {.run = rank_mode_generate},
    [PROTO_MODE_TP_CPU] = {.run = rank_mode_generate},
    [PROTO_MODE_GATE_CHECK] = {.run_cloud = rank_cloud_gate_check},
    [PROTO_MODE_DDP_NCCL] = {.begin_cloud = rank_cloud_open_gpu, .run_cloud = rank_cloud_train},
    [PROTO_MODE_BENCH_NCCL] = {.begin_cloud = rank_cloud_open_gpu, .run_cloud = rank_cloud_bench},
    [PROTO_MODE_TP_NCCL] = {.begin_cloud = rank_cloud_open_gpu, .run_cloud = rank_cloud_generate},
};

base_status rank_modes_enter(rank_worker *worker, base_error *reterr)
{
    const proto_job *job = &worker->identity.job;
    const rank_mode *mode = &modes[job->job.mode];
    if (mode->run == NULL && mode->run_cloud == NULL) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "this rank does not know the mode %s",
                         proto_mode_name(job->job.mode));
    }
    BASE_ASSERT(proto_mode_costs_money(job->job.mode) == (mode->run_cloud != NULL));
    if (mode->run_cloud == NULL) {
        return BASE_OK;
    }
    rank_gate_info info = {
        .rank = worker->identity.rank,
        .job = job,
        .launcher_public_key = worker->identity.launcher_public_key,
    };
    info.job_bytes = proto_client_job_bytes(worker->client, &info.job_size);
    const base_status status = rank_gate_enter(&info, &worker->pass, &worker->exit_code, reterr);
    return status == BASE_OK && mode->begin_cloud != NULL
               ? mode->begin_cloud(worker, worker->pass, reterr)
               : status;
}

base_status rank_modes_run(rank_worker *worker, base_error *reterr)
{
    const rank_mode *mode = &modes[worker->identity.job.job.mode];
    if (mode->run_cloud == NULL) {
        return mode->run(worker, reterr);
    }
    BASE_ASSERT(worker->pass != NULL);
    return mode->run_cloud(worker, worker->pass, reterr);
}
