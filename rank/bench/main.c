/* rank-bench: how long a training step takes on one thread, and how long its matrix products alone,
 * taken in turns in one run. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/exitcode.h"
#include "base/number.h"
#include "base/version.h"
#include "bench/bench.h"

static const char usage[] =
    "Usage: rank-bench [OPTION]...\n"
    "Times a training step of the default model and its matrix products, one thread.\n"
    "\n"
    "  --rounds N       rounds of one step and one set of products each (default 60)\n"
    "  --batch N        rows of `context` tokens in a batch (default 16)\n"
    "  --json FILE      also write the figures as JSON\n"
    "  --dropout P      drop elements of the residual stream with this probability (0)\n"
    "  --profile        also show where a step's time goes\n"
    "  -h, --help       this text\n"
    "  --version        the version, and which sources it was built from\n";

enum { OPT_ROUNDS = 256, OPT_BATCH, OPT_JSON, OPT_DROPOUT, OPT_PROFILE };

static const struct option long_options[] = {{"rounds", required_argument, NULL, OPT_ROUNDS},
                                             {"batch", required_argument, NULL, OPT_BATCH},
                                             {"json", required_argument, NULL, OPT_JSON},
                                             {"dropout", required_argument, NULL, OPT_DROPOUT},
                                             {"profile", no_argument, NULL, OPT_PROFILE},
                                             {"help", no_argument, NULL, 'h'},
                                             {NULL, 0, NULL, 0}};

static int parse_count(const char *text, int max)
{
    int64_t value = 0;
    if (!base_parse_int(text, 1, max, &value)) {
        (void)fprintf(stderr, "rank-bench: %s is not a number from 1 to %d\n", text, max);
        exit(BASE_EXIT_USAGE);
    }
    return (int)value;
}

static double parse_probability(const char *text)
{
    char *end = NULL;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0.0 && value < 1.0)) {
        (void)fprintf(stderr, "rank-bench: %s is not a probability below 1\n", text);
        exit(BASE_EXIT_USAGE);
    }
    return value;
}

int main(int argc, char **argv)
{
    bench_options options = {.rounds = 60, .batch = 16};
    if (base_version_asked(argc, argv, "rank-bench")) {
        return BASE_EXIT_DONE;
    }
    for (int option; (option = getopt_long(argc, argv, "h", long_options, NULL)) != -1;) {
        switch (option) {
        case OPT_ROUNDS:
            options.rounds = parse_count(optarg, BENCH_ROUNDS_MAX);
            break;
        case OPT_BATCH:
            options.batch = parse_count(optarg, BENCH_BATCH_MAX);
            break;
        case OPT_JSON:
            options.json_path = optarg;
            break;
        case OPT_DROPOUT:
            options.dropout = parse_probability(optarg);
            break;
        case OPT_PROFILE:
            options.profile = 1;
            break;
        case 'h':
            (void)fputs(usage, stdout);
            return 0;
        default:
            (void)fputs("Try 'rank-bench --help'.\n", stderr);
            return BASE_EXIT_USAGE;
        }
    }
    base_error error = {.message = ""};
    bench_figures figures;
    if (bench_run(&options, &figures, &error) != BASE_OK ||
        bench_report(&options, &figures, &error) != BASE_OK) {
        (void)fprintf(stderr, "rank-bench: %s\n", error.message);
        return BASE_EXIT_ERROR;
    }
    return 0;
}
