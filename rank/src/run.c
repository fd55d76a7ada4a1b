/* Runs a rank process: joins the job, runs the mode, reports failures. Called by main.c. */
#include "run.h"

#include <signal.h>
#include <stdlib.h>

#include "base/exitcode.h"
#include "base/log.h"
#include "base/version.h"
#include "launched/join.h"
#include "modes.h"
#include "proto/pin.h"
#include "ringfence/coll_error.h"

static base_status run_mode(rank_worker *worker, base_error *reterr)
{
    coll_launched_device device = {.backend = NULL};
    base_status status = rank_modes_enter(worker, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (worker->identity.local_rank ==
        0) { /* once for a host: no rank starts before all have joined */
        status = proto_job_check_files(&worker->identity.job, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    worker->reports = true;
    status = proto_client_join(worker->client, base_version_build(), reterr);
    if (status != BASE_OK) {
        return status;
    }
    worker->joined = true;
    if (worker->gpu != NULL) {
        device.backend = worker->gpu->plugin.table->collectives;
        device.user = &worker->gpu->collectives;
    }
    status = (base_status)coll_launched_join(worker->client, &worker->identity, &device,
                                             &worker->context, &worker->unreached,
                                             coll_error_of(reterr));
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "connecting the ranks");
    }
    return rank_modes_run(worker, reterr);
}

/* Supervisors as systemd and Slurm signal all processes of a job. The launcher hears it, and ends the job in
 * order; when it is gone, or tired of waiting, ranks are killed. */
static void leave_signals_to_the_launcher(void)
{
    static const int of_the_launcher[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < sizeof of_the_launcher / sizeof *of_the_launcher; i++) {
        (void)signal(of_the_launcher[i], SIG_IGN);
    }
}

int rank_worker_run(int64_t started_ns)
{
    rank_worker worker = {.started_ns = started_ns, .exit_code = BASE_EXIT_ERROR, .unreached = -1};
    base_error error = {.message = ""};
    leave_signals_to_the_launcher();
    (void)signal(SIGXFSZ, SIG_IGN); /* a file larger than ulimit -f allows is an error of write() */
    base_status status = proto_client_open(&worker.identity, &worker.client, &error);
    if (status != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
        return BASE_EXIT_USAGE;
    }
    status = run_mode(&worker, &error);
    if (status != BASE_OK && !worker.joined && status != BASE_ERR_ABORTED) {
        base_log(BASE_LOG_ERROR, "%s", error.message); /* the launcher may not get this one */
    }
    if (status != BASE_OK && worker.reports) {
        rank_worker_report_failure(&worker, status, &error);
    }
    coll_launched_leave(worker.client);
    coll_context_destroy(worker.context);
    proto_client_close(worker.client);
    rank_pass_destroy(worker.pass);
    free(worker.gpu);
    return status == BASE_OK ? BASE_EXIT_DONE : worker.exit_code;
}
