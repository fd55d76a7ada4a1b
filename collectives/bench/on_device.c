/* coll-bench inside a process of mode bench-nccl. Called by rank/src/bench_mode.c. */
#include "bench/on_device.h"

#include <string.h>

#include "options.h"
#include "rank.h"
#include "ringfence/coll_error.h"
#include "run.h"

enum { WORDS_MAX = 64, WORDS_BYTES = 1024 };

static base_status parse(const char *words, int ranks, bench_options *options, base_error *reterr)
{
    static char name[] = "coll-bench";
    char copy[WORDS_BYTES];
    char *argv[WORDS_MAX + 2] = {name};
    char *rest = NULL;
    int argc = 1;
    if (strlen(words) >= sizeof copy) {
        return base_fail(reterr, BASE_ERR_LIMIT, "coll-bench: more than %d bytes of flags",
                         WORDS_BYTES - 1);
    }
    memcpy(copy, words, strlen(words) + 1);
    for (char *word = strtok_r(copy, " ", &rest); word != NULL && argc <= WORDS_MAX;
         word = strtok_r(NULL, " ", &rest)) {
        argv[argc++] = word;
    }
    const base_status status = bench_options_parse(argc, argv, ranks, options, reterr);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "coll-bench");
    }
    options->ranks = ranks;
    options->transport = (coll_transport)BENCH_TRANSPORT_NCCL;
    return bench_options_check_nccl(options, reterr);
}

base_status bench_check_words(const char *words, int ranks, base_error *reterr)
{
    static bench_options options;
    return parse(words, ranks, &options, reterr);
}

coll_status bench_run_on_device(const char *words, coll_context *context,
                                const bench_device *device, int *code, coll_error *reterr)
{
    static bench_options options;
    coll_comm *world = coll_context_world(context);
    const bool is_first = coll_comm_rank(world) == 0;
    const coll_status parsed =
        (coll_status)parse(words, coll_comm_size(world), &options, base_error_of(reterr));
    if (parsed != COLL_OK) {
        return parsed;
    }
    bench_shared *shared = bench_map_shared(&options);
    if (shared == NULL) {
        return coll_fail(reterr, COLL_ERR_MEMORY, "no memory for the samples");
    }
    shared->apart = true;
    options.algorithm = device->algorithm;
    coll_status status = is_first ? bench_check_files(&options, reterr) : COLL_OK;
    const bench_job job = {.options = &options, .shared = shared, .device = device};
    if (status == COLL_OK) {
        status = bench_rank_work(&job, context, reterr);
    }
    if (status == COLL_OK && is_first) {
        *code = bench_finish(&options, shared, NULL);
    }
    return status;
}
