/* inference-bench: one rank of `launcher --ranks N -- inference-bench CHECKPOINT`. */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/number.h"
#include "base/version.h"
#include "bench/inference.h"
#include "coll/launched.h"
#include "ringfence/coll_error.h"

static const char usage[] =
    "Usage: launcher --ranks N -- inference-bench CHECKPOINT [ROUNDS [int8|int4]]\n"
    "Times decoding and prefill on one rank and on all N, against the memory's bandwidth and the\n"
    "matrix products alone, in turns (default 10 rounds, at most 100). CHECKPOINT has a context\n"
    "of 708 at least. int8, int4: matrices are held as with launcher --weights int8 or int4.\n";

/* NULL: they are as the checkpoint has them. */
static bool is_type(const char *text, rank_type *type)
{
    *type = text == NULL ? RANK_FLOAT32 : strcmp(text, "int8") == 0 ? RANK_INT8 : RANK_INT4;
    return text == NULL || strcmp(text, rank_type_name(*type)) == 0;
}

int main(int argc, char **argv)
{
    coll_error error = {.message = ""};
    coll_launched *launched = NULL;
    int64_t rounds = 10;
    rank_type type = RANK_FLOAT32;
    if (base_version_asked(argc, argv, "inference-bench")) {
        return BASE_EXIT_DONE;
    }
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        (void)fputs(usage, stdout);
        return 0;
    }
    if (argc < 2 || argc > 4 || !coll_launched_here() ||
        !is_type(argc == 4 ? argv[3] : NULL, &type) ||
        (argc >= 3 && !base_parse_int(argv[2], 1, BENCH_INFERENCE_ROUNDS_MAX, &rounds))) {
        (void)fputs(usage, stderr);
        return BASE_EXIT_USAGE;
    }
    if (coll_launched_open(&launched, &error) != COLL_OK) {
        (void)fprintf(stderr, "inference-bench: %s\n", error.message);
        return BASE_EXIT_ERROR;
    }
    const base_status status = bench_inference(coll_launched_context(launched), argv[1],
                                               (int)rounds, type, base_error_of(&error));
    if (status != BASE_OK) {
        coll_launched_fail(launched, &error);
    }
    return coll_launched_close(launched, &error) == COLL_OK ? 0 : BASE_EXIT_ERROR;
}
