/* coll-bench: times collectives between ranks that it forks itself; bench.h says how. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/exitcode.h"
#include "base/log.h"
#include "bench.h"
#include "forked.h"

static const char usage[] =
    "Usage: coll-bench all_reduce [OPTION]...\n"
    "Times all-reduce of float32 sums between ranks on this host, and checks every result's bits.\n"
    "\n"
    "  -n, --ranks N          processes (default 2)\n"
    "  -b, --begin BYTES      smallest size; K, M and G multiply by 1024 (default 4)\n"
    "  -e, --end BYTES        largest size (default 64M)\n"
    "  -f, --factor F         from a size to the next (default 4)\n"
    "      --transport NAME   auto, shm or zmq (default auto)\n"
    "      --algorithm NAME   auto, ring, tree or direct (default auto)\n"
    "      --no-arena         ordinary memory in the place of an arena\n"
    "      --help             this\n";

enum { OPTION_TRANSPORT = 256, OPTION_ALGORITHM, OPTION_NO_ARENA, OPTION_HELP };

static const struct option long_options[] = {
    {"ranks", required_argument, NULL, 'n'},
    {"begin", required_argument, NULL, 'b'},
    {"end", required_argument, NULL, 'e'},
    {"factor", required_argument, NULL, 'f'},
    {"transport", required_argument, NULL, OPTION_TRANSPORT},
    {"algorithm", required_argument, NULL, OPTION_ALGORITHM},
    {"no-arena", no_argument, NULL, OPTION_NO_ARENA},
    {"help", no_argument, NULL, OPTION_HELP},
    {0},
};

static base_status parse_one(bench_options *options, int option, const char *value,
                             base_error *reterr)
{
    size_t ranks = 0;
    base_status status = BASE_OK;
    switch (option) {
    case 'n':
        status = bench_parse_size(value, 1, FORKED_RANKS_MAX, &ranks, reterr);
        options->ranks = (int)ranks;
        return status;
    case 'b':
        return bench_parse_size(value, 4, BENCH_BYTES_MAX, &options->begin_bytes, reterr);
    case 'e':
        return bench_parse_size(value, 4, BENCH_BYTES_MAX, &options->end_bytes, reterr);
    case 'f':
        return bench_parse_size(value, 2, 1 << 20, &options->factor, reterr);
    case OPTION_TRANSPORT:
        return coll_transport_parse(value, &options->transport, reterr);
    case OPTION_ALGORITHM:
        return coll_algorithm_parse(value, &options->algorithm, reterr);
    case OPTION_NO_ARENA:
        options->arena = false;
        return BASE_OK;
    default:
        return base_fail(reterr, BASE_ERR_INVALID, "try coll-bench --help");
    }
}

int main(int argc, char **argv)
{
    base_error error = {.status = BASE_OK};
    base_status status = BASE_OK;
    bench_options options = {
        .ranks = 2, .begin_bytes = 4, .end_bytes = 64 << 20, .factor = 4, .arena = true};
    base_log_init("coll-bench: ", BASE_LOG_INFO);
    for (int option = 0; status == BASE_OK;) {
        option = getopt_long(argc, argv, "n:b:e:f:", long_options, NULL);
        if (option == -1) {
            break;
        }
        if (option == OPTION_HELP) {
            (void)fputs(usage, stdout);
            return BASE_EXIT_DONE;
        }
        status = parse_one(&options, option, optarg, &error);
    }
    if (status == BASE_OK && (optind + 1 != argc || strcmp(argv[optind], "all_reduce") != 0)) {
        status = base_fail(&error, BASE_ERR_INVALID, "say what to time: all_reduce");
    }
    if (status != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
        return BASE_EXIT_USAGE;
    }
    return bench_run(&options);
}
