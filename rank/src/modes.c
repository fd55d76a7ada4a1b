/* Which function runs a mode, and the one way into the modes that may cost money.
 *
 * Every function called rank_cloud_… is named in this file alone, takes a pass, and is called
 * behind rank_gate_enter: tests/rank/gate looks at the symbols of all objects to see that. */
#include "modes.h"

#include <string.h>

#include "base/assert.h"

typedef struct rank_mode {
    const char *name;
    base_status (*run)(rank_worker *worker, base_error *reterr);
    base_status (*run_cloud)(rank_worker *worker, const rank_pass *pass, base_error *reterr);
} rank_mode;

static const rank_mode modes[] = {
    {.name = "ddp-cpu", .run = rank_mode_train},
    {.name = "generate", .run = rank_mode_generate},
    {.name = "gate-check", .run_cloud = rank_cloud_gate_check},
};

static const rank_mode *find_mode(const char *name)
{
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(modes[i].name, name) == 0) {
            return &modes[i];
        }
    }
    return NULL;
}

base_status rank_modes_enter(rank_worker *worker, base_error *reterr)
{
    const proto_job *job = &worker->identity.job;
    const rank_mode *mode = find_mode(job->mode);
    if (mode == NULL) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "this rank does not know the mode %s",
                         job->mode);
    }
    BASE_ASSERT(proto_mode_is_cloud(job->mode) == (mode->run_cloud != NULL));
    if (mode->run_cloud == NULL) {
        return BASE_OK;
    }
    rank_gate_facts facts = {
        .rank = worker->identity.rank,
        .job = job,
        .launcher_public_key = worker->identity.launcher_public_key,
    };
    facts.job_bytes = proto_client_job_bytes(worker->client, &facts.job_size);
    return rank_gate_enter(&facts, &worker->pass, &worker->exit_code, reterr);
}

base_status rank_modes_run(rank_worker *worker, base_error *reterr)
{
    const rank_mode *mode = find_mode(worker->identity.job.mode);
    BASE_ASSERT(mode != NULL);
    if (mode->run_cloud == NULL) {
        return mode->run(worker, reterr);
    }
    BASE_ASSERT(worker->pass != NULL);
    return mode->run_cloud(worker, worker->pass, reterr);
}
