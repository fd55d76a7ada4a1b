/* Parses coll-bench's command line, which takes nccl-tests' flags. Called by main.c; the other
 * files take names and sizes of kinds from here. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "ringfence/coll_error.h"

const char bench_usage[] =
    "Usage: coll-bench WHAT [OPTION]...\n"
    "       coll-bench [WHAT] --tune [OPTION]...\n"
    "Times a collective between ranks that it starts on this host, and checks every bit of the\n"
    "results. Flags, rows and bandwidths are those of nccl-tests.\n"
    "\n"
    "WHAT: all_reduce all_gather reduce_scatter broadcast reduce alltoall gather scatter sendrecv\n"
    "\n"
    "  -b, --minbytes BYTES       smallest size; K, M and G multiply by 1024 (default 8)\n"
    "  -e, --maxbytes BYTES       largest size (default 64M)\n"
    "  -i, --stepbytes BYTES      from a size to the next: this many more,\n"
    "  -f, --stepfactor F         or this many times as many (default 2)\n"
    "  -n, --iters N              iterations; for sizes up to 64 bytes, operations in a "
    "back-to-back\n"
    "                             loop (default: what 0.1 s hold, at least 20)\n"
    "  -w, --warmup_iters N       iterations before those (default 5)\n"
    "  -c, --check N              iterations whose results are checked; 0: none (default 1)\n"
    "  -o, --op OP                sum, prod, min, max, avg or all (default sum)\n"
    "  -d, --datatype TYPE        float, double, half, bfloat16, int8, uint8, int32, int64, uint64 "
    "or\n"
    "                             all (default float)\n"
    "  -r, --root RANK            the root where there is one, or all (default 0)\n"
    "  -J, --output_file FILE     writes the results as JSON\n"
    "      --ranks N              processes (default 2)\n"
    "      --transport NAME       auto, shm, tcp or zmq (default auto)\n"
    "      --algorithm NAME       auto, ring, tree, direct, recursive_doubling, halving_doubling "
    "or\n"
    "                             two_level (default auto)\n"
    "      --tcp-auth MODE        what tcp frames carry: mac, encrypt or off (default mac);\n"
    "                             zmq is encrypted unless off\n"
    "      --interface WHICH      that tcp and zmq listen on: a name, an address, a network\n"
    "                             (10.0.0.0/8) or names to leave out (^docker0,lo) "
    "(default 127.0.0.1)\n"
    "      --no-arena             ordinary memory in the place of an arena\n"
    "      --tune                 instead: each algorithm's time as the cost model predicts it, "
    "beside\n"
    "                             the measured one (WHAT: all_reduce, if nothing is said)\n"
    "      --plot FILE            draws latency and bandwidth against size; .svg or .png\n"
    "  -h, --help                 this\n"
    "\n"
    "Sizes are as in nccl-tests: all ranks' blocks together where each has one. Exits with 0, or "
    "1\n"
    "if a value was wrong or a rank failed, or 2 for a wrong flag.\n";

enum {
    OPTION_RANKS = 256,
    OPTION_TRANSPORT,
    OPTION_ALGORITHM,
    OPTION_TCP_AUTH,
    OPTION_INTERFACE,
    OPTION_NO_ARENA,
    OPTION_TUNE,
    OPTION_PLOT,
};

static const struct option long_options[] = {
    {"minbytes", required_argument, NULL, 'b'},
    {"maxbytes", required_argument, NULL, 'e'},
    {"stepbytes", required_argument, NULL, 'i'},
    {"stepfactor", required_argument, NULL, 'f'},
    {"iters", required_argument, NULL, 'n'},
    {"warmup_iters", required_argument, NULL, 'w'},
    {"check", required_argument, NULL, 'c'},
    {"op", required_argument, NULL, 'o'},
    {"datatype", required_argument, NULL, 'd'},
    {"root", required_argument, NULL, 'r'},
    {"output_file", required_argument, NULL, 'J'},
    {"help", no_argument, NULL, 'h'},
    {"ranks", required_argument, NULL, OPTION_RANKS},
    {"transport", required_argument, NULL, OPTION_TRANSPORT},
    {"algorithm", required_argument, NULL, OPTION_ALGORITHM},
    {"tcp-auth", required_argument, NULL, OPTION_TCP_AUTH},
    {"interface", required_argument, NULL, OPTION_INTERFACE},
    {"no-arena", no_argument, NULL, OPTION_NO_ARENA},
    {"tune", no_argument, NULL, OPTION_TUNE},
    {"plot", required_argument, NULL, OPTION_PLOT},
    {0},
};

#define BYTES_MAX ((size_t)1 << 40)

coll_status bench_parse_size(const char *text, size_t min, size_t max, size_t *value,
                             coll_error *reterr)
{
    static const char units[] = "KMGkmg";
    char *rest = NULL;
    errno = 0;
    const unsigned long long number = strtoull(text, &rest, 10);
    const char *unit = *rest != '\0' ? strchr(units, *rest) : NULL;
    const int shift = unit != NULL ? 10 * (int)((unit - units) % 3 + 1) : 0;
    rest += unit != NULL ? 1 : 0;
    if (rest == text || *rest != '\0' || strchr("0123456789", text[0]) == NULL || errno != 0 ||
        number > max >> shift || number << shift < min) {
        return coll_fail(reterr, COLL_ERR_INVALID, "'%.32s' is no number from %zu to %zu", text,
                         min, max);
    }
    *value = (size_t)(number << shift);
    return COLL_OK;
}

static coll_status parse_int(const char *text, int min, int max, int *value, coll_error *reterr)
{
    size_t number = 0;
    const coll_status status = bench_parse_size(text, (size_t)min, (size_t)max, &number, reterr);
    *value = status == COLL_OK ? (int)number : *value;
    return status;
}

static coll_status parse_types(const char *text, bench_options *options, coll_error *reterr)
{
    if (strcmp(text, "all") != 0) {
        options->type_count = 1;
        return coll_type_parse(text, &options->types[0], reterr);
    }
    options->type_count = BENCH_TYPES;
    for (int i = 0; i < BENCH_TYPES; i++) {
        options->types[i] = (coll_type)(COLL_FLOAT32 + i);
    }
    return COLL_OK;
}

static coll_status parse_reduces(const char *text, bench_options *options, coll_error *reterr)
{
    if (strcmp(text, "all") != 0) {
        options->reduce_count = 1;
        return coll_reduce_parse(text, &options->reduces[0], reterr);
    }
    options->reduce_count = BENCH_REDUCES;
    for (int i = 0; i < BENCH_REDUCES; i++) {
        options->reduces[i] = (coll_reduce)(COLL_SUM + i);
    }
    return COLL_OK;
}

static coll_status parse_root(const char *text, int *root, coll_error *reterr)
{
    if (strcmp(text, "all") == 0) {
        *root = -1;
        return COLL_OK;
    }
    return parse_int(text, 0, FORKED_RANKS_MAX - 1, root, reterr);
}

static coll_status parse_plot(const char *text, const char **path, coll_error *reterr)
{
    const char *extension = strrchr(text, '.');
    if (extension == NULL || (strcmp(extension, ".svg") != 0 && strcmp(extension, ".png") != 0)) {
        return coll_fail(reterr, COLL_ERR_INVALID,
                         "a plot's name ends with .svg or .png, not as %s", text);
    }
    *path = text;
    return COLL_OK;
}

/* nccl-tests' own flags; COLL_ERR_UNSUPPORTED: none of them. */
static coll_status parse_short(bench_options *options, int option, const char *value,
                               coll_error *reterr)
{
    switch (option) {
    case 'b':
        return bench_parse_size(value, 0, BYTES_MAX, &options->begin_bytes, reterr);
    case 'e':
        return bench_parse_size(value, 0, BYTES_MAX, &options->end_bytes, reterr);
    case 'i':
        return bench_parse_size(value, 1, BYTES_MAX, &options->step_bytes, reterr);
    case 'f':
        return bench_parse_size(value, 1, BYTES_MAX, &options->factor, reterr);
    case 'n':
        return parse_int(value, 1, BENCH_ITERATIONS_MAX, &options->iterations, reterr);
    case 'w':
        return parse_int(value, 0, BENCH_ITERATIONS_MAX, &options->warm_up, reterr);
    case 'c':
        return parse_int(value, 0, BENCH_ITERATIONS_MAX, &options->checks, reterr);
    case 'o':
        return parse_reduces(value, options, reterr);
    case 'd':
        return parse_types(value, options, reterr);
    case 'r':
        return parse_root(value, &options->root, reterr);
    case 'J':
        options->json_path = value;
        return COLL_OK;
    default:
        return COLL_ERR_UNSUPPORTED;
    }
}

static coll_status parse_long(bench_options *options, int option, const char *value,
                              coll_error *reterr)
{
    switch (option) {
    case OPTION_RANKS:
        return parse_int(value, 1, FORKED_RANKS_MAX, &options->ranks, reterr);
    case OPTION_TRANSPORT:
        return coll_transport_parse(value, &options->transport, reterr);
    case OPTION_ALGORITHM:
        return coll_algorithm_parse(value, &options->algorithm, reterr);
    case OPTION_TCP_AUTH:
        return coll_tcp_auth_parse(value, &options->tcp_auth, reterr);
    case OPTION_INTERFACE:
        options->interface = value;
        return COLL_OK;
    case OPTION_PLOT:
        return parse_plot(value, &options->plot_path, reterr);
    case OPTION_NO_ARENA:
        options->arena = false;
        return COLL_OK;
    case OPTION_TUNE:
        options->tune = true;
        return COLL_OK;
    default: /* getopt has said what is wrong */
        return coll_fail(reterr, COLL_ERR_INVALID, "try coll-bench --help");
    }
}

static coll_status parse_one(bench_options *options, int option, const char *value,
                             coll_error *reterr)
{
    const coll_status status = parse_short(options, option, value, reterr);
    return status != COLL_ERR_UNSUPPORTED ? status : parse_long(options, option, value, reterr);
}

static coll_status parse_kind(const char *name, coll_kind *kind, coll_error *reterr)
{
    static const coll_kind kinds[] = {COLL_ALL_REDUCE, COLL_ALL_GATHER, COLL_REDUCE_SCATTER,
                                      COLL_BROADCAST,  COLL_REDUCE,     COLL_ALL_TO_ALL,
                                      COLL_GATHER,     COLL_SCATTER,    COLL_SEND};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(name, bench_kind_name(kinds[i])) == 0) {
            *kind = kinds[i];
            return COLL_OK;
        }
    }
    return coll_fail(reterr, COLL_ERR_INVALID,
                     "no collective '%.64s' (there are: all_reduce all_gather reduce_scatter "
                     "broadcast reduce alltoall gather scatter sendrecv)",
                     name);
}

static size_t count_rows(const bench_options *options)
{
    size_t sizes = 0;
    for (size_t bytes = options->begin_bytes; sizes <= BENCH_ROWS_MAX; sizes++) {
        bytes = bench_next_size(options, bytes);
        if (bytes == 0) {
            sizes++;
            break;
        }
    }
    if (options->tune) {
        return sizes * BENCH_ALGORITHMS;
    }
    return sizes * (size_t)options->type_count *
           (bench_kind_reduces(options->kind) ? (size_t)options->reduce_count : 1) *
           (bench_kind_has_root(options->kind) && options->root < 0 ? (size_t)options->ranks : 1);
}

static coll_status check_together(bench_options *options, coll_error *reterr)
{
    if (options->step_bytes != 0 && options->factor > 1) {
        return coll_fail(reterr, COLL_ERR_INVALID, "either -i or -f, not both");
    }
    options->factor = options->factor == 0 ? 2 : options->factor;
    if (options->step_bytes == 0 && options->factor == 1) {
        options->step_bytes = 1 << 20; /* as in nccl-tests */
    }
    if (options->begin_bytes > options->end_bytes) {
        return coll_fail(reterr, COLL_ERR_INVALID, "-b %zu is more than -e %zu",
                         options->begin_bytes, options->end_bytes);
    }
    if (options->step_bytes == 0 && options->begin_bytes == 0 && options->end_bytes > 0) {
        return coll_fail(reterr, COLL_ERR_INVALID, "from 0 bytes on, sizes grow by -i only");
    }
    if (bench_kind_has_root(options->kind) && options->root >= options->ranks) {
        return coll_fail(reterr, COLL_ERR_INVALID, "there is no rank %d among %d", options->root,
                         options->ranks);
    }
    if (options->kind == COLL_SEND && options->ranks < 2) {
        return coll_fail(reterr, COLL_ERR_INVALID, "sendrecv takes at least 2 ranks");
    }
    if (options->tune && (options->kind == COLL_SEND || options->plot_path != NULL)) {
        return coll_fail(reterr, COLL_ERR_INVALID, "--tune is not for %s",
                         options->plot_path != NULL ? "--plot" : "sendrecv");
    }
    if (count_rows(options) > BENCH_ROWS_MAX) {
        return coll_fail(reterr, COLL_ERR_LIMIT, "that would be more than %d rows", BENCH_ROWS_MAX);
    }
    return COLL_OK;
}

coll_status bench_options_parse(int argc, char **argv, bench_options *options,
                                bench_command *command, coll_error *reterr)
{
    coll_status status = COLL_OK;
    *command = BENCH_COMMAND_RUN;
    *options = (bench_options){.ranks = 2,
                               .begin_bytes = 8,
                               .end_bytes = 64 << 20,
                               .warm_up = 5,
                               .checks = 1,
                               .types = {COLL_FLOAT32},
                               .type_count = 1,
                               .reduces = {COLL_SUM},
                               .reduce_count = 1,
                               .arena = true};
    optind = 0;
    while (status == COLL_OK) {
        const int option = getopt_long(argc, argv, "b:e:i:f:n:w:c:o:d:r:J:h", long_options, NULL);
        if (option == -1) {
            break;
        }
        if (option == 'h') {
            *command = BENCH_COMMAND_HELP;
            return COLL_OK;
        }
        status = parse_one(options, option, optarg, reterr);
        if (status != COLL_OK && optarg != NULL) {
            return coll_error_prepend(reterr, status, "%s",
                                      argv[optind - 1 - (optarg == argv[optind - 1])]);
        }
    }
    if (status == COLL_OK && options->tune && optind == argc) {
        options->kind = COLL_ALL_REDUCE;
        return check_together(options, reterr);
    }
    if (status == COLL_OK && optind + 1 != argc) {
        return coll_fail(reterr, COLL_ERR_INVALID,
                         optind == argc ? "say what to time: coll-bench all_reduce, for one"
                                        : "one collective at a time");
    }
    if (status == COLL_OK) {
        status = parse_kind(argv[optind], &options->kind, reterr);
    }
    return status == COLL_OK ? check_together(options, reterr) : status;
}

size_t bench_next_size(const bench_options *options, size_t size_bytes)
{
    if (options->step_bytes != 0) {
        return options->end_bytes - size_bytes < options->step_bytes
                   ? 0
                   : size_bytes + options->step_bytes;
    }
    return size_bytes == 0 || size_bytes > options->end_bytes / options->factor
               ? 0
               : size_bytes * options->factor;
}

bool bench_kind_reduces(coll_kind kind)
{
    return kind == COLL_ALL_REDUCE || kind == COLL_REDUCE || kind == COLL_REDUCE_SCATTER;
}

bool bench_kind_has_root(coll_kind kind)
{
    return kind == COLL_BROADCAST || kind == COLL_REDUCE || kind == COLL_GATHER ||
           kind == COLL_SCATTER;
}

const char *bench_kind_name(coll_kind kind)
{
    return kind == COLL_SEND ? "sendrecv" : coll_kind_name(kind);
}
