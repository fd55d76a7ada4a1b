/* budget-bench: runs the benchmarks named on the command line (verify, authorize, million).
 * docs/BENCHMARKS.md has its figures. */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "bench.h"
#include "budget/token.h"

static const budget_benchmark benchmarks[] = {
    {"verify", "a token, offline, with public keys alone", bench_verify, 0},
    {"authorize", "durable, one client and 24, against a CURVE echo and an append",
     bench_authorizations, 0},
    {"million", "status and audit of a million rows (takes minutes; only when named)",
     bench_million, 1},
};
enum { BENCHMARK_COUNT = sizeof benchmarks / sizeof benchmarks[0] };

static void help(FILE *stream)
{
    (void)fputs("Usage: budget-bench [NAME]...\nTimes the guard; all of it when nothing is "
                "named.\n\n",
                stream);
    for (int i = 0; i < BENCHMARK_COUNT; i++) {
        (void)fprintf(stream, "  %-12s %s\n", benchmarks[i].name, benchmarks[i].what);
    }
}

static int run(const char *name)
{
    for (int i = 0; i < BENCHMARK_COUNT; i++) {
        if (strcmp(benchmarks[i].name, name) == 0) {
            return benchmarks[i].run();
        }
    }
    help(stderr);
    return BASE_EXIT_USAGE;
}

int main(int argument_count, char **arguments)
{
    int exit_code = BASE_EXIT_DONE;
    if (argument_count == 2 && strcmp(arguments[1], "--help") == 0) {
        help(stdout);
        return BASE_EXIT_DONE;
    }
    if (budget_crypto_init(NULL) != BASE_OK) {
        return BASE_EXIT_ERROR;
    }
    for (int i = 1; i < argument_count && exit_code == BASE_EXIT_DONE; i++) {
        exit_code = run(arguments[i]);
    }
    for (int i = 0; i < BENCHMARK_COUNT && argument_count == 1 && exit_code == BASE_EXIT_DONE;
         i++) {
        exit_code = benchmarks[i].only_when_named ? BASE_EXIT_DONE : benchmarks[i].run();
    }
    return exit_code;
}
