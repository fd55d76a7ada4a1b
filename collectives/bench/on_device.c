/* coll-bench inside a process of mode bench-nccl. Called by rank/src/bench_mode.c. */
#include "bench/on_device.h"

#include <string.h>

#include "options.h"
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
    const int ranks = coll_comm_size(coll_context_world(context));
    const base_status status = parse(words, ranks, &options, base_error_of(reterr));
    if (status != BASE_OK) {
        return (coll_status)status;
    }
    options.algorithm = device->algorithm;
    return bench_run_apart(&options, context, device, code, reterr);
}
