/* A rank of coll-bench that a launcher has started: joins it, measures over the launcher's context,
 * and lets rank 0 write the results. Called by main.c. */
#include "launched_run.h"

#include <stdlib.h>

#include "base/exitcode.h"
#include "base/log.h"
#include "coll/launched.h"
#include "run.h"

int bench_launched_ranks(void)
{
    const char *ranks = coll_launched_here() ? getenv("WORLD_SIZE") : NULL;
    return ranks != NULL ? (int)strtol(ranks, NULL, 10) : 0;
}

/* The launcher's ranks of this host share its memory. */
static coll_status check_room(const bench_options *options, coll_error *reterr)
{
    const char *ranks_here = getenv("LOCAL_WORLD_SIZE");
    return bench_check_room(options, ranks_here != NULL ? (int)strtol(ranks_here, NULL, 10) : 1,
                            reterr);
}

int bench_run_launched(bench_options *options)
{
    coll_launched *launched = NULL;
    coll_error error = {.status = COLL_OK};
    int code = BASE_EXIT_DONE;
    coll_status status = coll_launched_open(&launched, &error);
    if (status != COLL_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
        return BASE_EXIT_ERROR;
    }
    coll_context *context = coll_launched_context(launched);
    options->ranks = coll_comm_size(coll_context_world(context));
    options->transport = coll_context_transport(context);
    options->algorithm = coll_context_algorithm(context);
    status = check_room(options, &error);
    if (status == COLL_OK) {
        status = bench_run_apart(options, context, NULL, &code, &error);
    }
    if (status != COLL_OK) {
        coll_launched_fail(launched, &error); /* the launcher says it */
    }
    const coll_status closed = coll_launched_close(launched, &error);
    return status == COLL_OK && closed == COLL_OK ? code : BASE_EXIT_ERROR;
}
