/* What coll-bench lacks where libcoll is built alone (RINGFENCE_LIBCOLL_ONLY): a launcher's job, and
 * JSON. Built in place of launched_run.c and json.c. */
#include <stdlib.h>

#include "base/exitcode.h"
#include "base/log.h"
#include "json.h"
#include "launched_run.h"
#include "ringfence/coll_error.h"

#define ALONE "this coll-bench was built with libcoll alone, and "

/* Any number but 0: bench_run_launched refuses. Ranks of its own would not be the launcher's. */
int bench_launched_ranks(void)
{
    return getenv("RINGFENCE_JOB_FD") != NULL ? 1 : 0;
}

int bench_run_launched(bench_options *options)
{
    (void)options;
    base_log(BASE_LOG_ERROR, ALONE "cannot join a launcher: run it without one");
    return BASE_EXIT_ERROR;
}

coll_status bench_json_check(const char *path, coll_error *reterr)
{
    (void)path;
    return coll_fail(reterr, COLL_ERR_UNSUPPORTED, "--output_file: " ALONE "writes no JSON");
}

coll_status bench_json_write(const char *path, const bench_options *options,
                             const bench_shared *shared, const bench_roofline *roofline,
                             coll_error *reterr)
{
    (void)options;
    (void)shared;
    (void)roofline;
    return bench_json_check(path, reterr);
}
