/* Measures and reports for rank-bench. One thread. */
#ifndef RANK_BENCH_BENCH_H
#define RANK_BENCH_BENCH_H

#include "backend/profile.h"
#include "base/status.h"

enum { BENCH_ROUNDS_MAX = 10000, BENCH_BATCH_MAX = 256, BENCH_WARM_UP = 5 };

typedef struct bench_options {
    int rounds;
    int batch;
    const char *json_path; /* NULL: none */
    int profile;
    double dropout;
} bench_options;

/* Medians over the rounds, in milliseconds. */
typedef struct bench_figures {
    double step_ms; /* forward, backward and AdamW */
    double adamw_ms;
    double products_ms;           /* the matrix products alone */
    double attention_products_ms; /* attention's part of them */
    double ratio;                 /* the median of the rounds' step / products */
    double products_gflops;       /* of the linear layers and the logits */
    double tokens_per_second;
    int tokens;
    int params;
    rank_backend_info info;
    double profile_ms[RANK_PART_COUNT]; /* of the best round, part by part */
} bench_figures;

BASE_MUST_CHECK base_status bench_run(const bench_options *options, bench_figures *figures,
                                      base_error *reterr);

/* Prints the figures, and writes them to json_path. */
BASE_MUST_CHECK base_status bench_report(const bench_options *options, const bench_figures *figures,
                                         base_error *reterr);

#endif
