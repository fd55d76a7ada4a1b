/* A rank of coll-bench that a launcher has started: joins it, measures over the launcher's context,
 * and lets rank 0 write the results. Called by main.c. */
#include "launched_run.h"

#include <stdlib.h>

#include "base/exitcode.h"
#include "base/log.h"
#include "coll/launched.h"
#include "rank.h"
#include "ringfence/coll_error.h"
#include "roofline.h"
#include "run.h"

int bench_launched_ranks(void)
{
    const char *ranks = coll_launched_here() ? getenv("WORLD_SIZE") : NULL;
    return ranks != NULL ? (int)strtol(ranks, NULL, 10) : 0;
}

/* Measures; *code is that of the results. */
static coll_status measure(const bench_options *options, coll_context *context, int *code,
                           coll_error *reterr)
{
    const bool is_first = coll_comm_rank(coll_context_world(context)) == 0;
    bench_roofline roofline = {.processors = 0};
    bench_shared *shared = bench_map_shared(options);
    if (shared == NULL) {
        return coll_fail(reterr, COLL_ERR_MEMORY, "no memory for the samples");
    }
    shared->apart = true;
    const char *ranks_here = getenv("LOCAL_WORLD_SIZE");
    coll_status status = bench_check_room(
        options, ranks_here != NULL ? (int)strtol(ranks_here, NULL, 10) : 1, reterr);
    if (status == COLL_OK && is_first) {
        status = bench_check_files(options, reterr);
    }
    if (status == COLL_OK && is_first) {
        roofline = bench_roofline_measure(options->ranks > 2 ? options->ranks : 2);
    }
    const bench_job job = {.options = options, .roofline = &roofline, .shared = shared};
    if (status == COLL_OK) {
        status = bench_rank_work(&job, context, reterr);
    }
    if (status == COLL_OK && is_first) {
        *code = bench_finish(options, shared, &roofline);
    }
    return status;
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
    status = measure(options, context, &code, &error);
    if (status != COLL_OK) {
        coll_launched_fail(launched, &error); /* the launcher says it */
    }
    const coll_status closed = coll_launched_close(launched, &error);
    return status == COLL_OK && closed == COLL_OK ? code : BASE_EXIT_ERROR;
}
