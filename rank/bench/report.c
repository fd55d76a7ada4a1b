/* Prints the figures of rank-bench, and writes them as JSON. Called by its main.c. */
#include <stdio.h>

#include "base/file.h"
#include "bench/bench.h"

static void print_profile(const bench_figures *figures)
{
    double sum = 0.0;
    for (int part = 0; part < RANK_PART_COUNT; part++) {
        sum += figures->profile_ms[part];
    }
    (void)printf("\n%-24s %9s %6s\n", "part (best round)", "ms", "%");
    for (int part = 0; part < RANK_PART_COUNT; part++) {
        (void)printf("%-24s %9.3f %6.1f\n", rank_part_name((rank_part)part),
                     figures->profile_ms[part], 100.0 * figures->profile_ms[part] / sum);
    }
}

static base_status write_json(const char *path, const bench_figures *figures, base_error *reterr)
{
    char text[1024];
    const int length =
        snprintf(text, sizeof text,
                 "{\"params\":%d,\"tokens\":%d,\"step_ms_p50\":%.4f,\"adamw_ms_p50\":%.4f,"
                 "\"products_ms_p50\":%.4f,\"attention_products_ms_p50\":%.4f,\"ratio_p50\":%.4f,"
                 "\"products_gflops\":%.1f,\"tokens_per_sec\":%.1f,\"instruction_set\":\"%s\"}\n",
                 figures->params, figures->tokens, figures->step_ms, figures->adamw_ms,
                 figures->products_ms, figures->attention_products_ms, figures->ratio,
                 figures->products_gflops, figures->tokens_per_second, figures->info.kernels);
    return base_file_write(path, text, (size_t)length, reterr);
}

base_status bench_report(const bench_options *options, const bench_figures *figures,
                         base_error *reterr)
{
    (void)printf("%d parameters, %d tokens per step, one thread; kernels %s\n", figures->params,
                 figures->tokens, figures->info.kernels);
    (void)printf("step (forward, backward, AdamW)  %8.3f ms   %.0f tokens/s\n", figures->step_ms,
                 figures->tokens_per_second);
    (void)printf("AdamW                            %8.3f ms\n", figures->adamw_ms);
    (void)printf("matrix products alone            %8.3f ms   %.0f GFLOP/s without attention's\n",
                 figures->products_ms, figures->products_gflops);
    (void)printf("  of these attention's (ours)    %8.3f ms\n", figures->attention_products_ms);
    (void)printf("step / matrix products           %8.3f\n", figures->ratio);
    if (options->profile) {
        print_profile(figures);
    }
    return options->json_path != NULL ? write_json(options->json_path, figures, reterr) : BASE_OK;
}
