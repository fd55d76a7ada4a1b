/* Reads coll-bench's command line, which has nccl-tests' flags, by a table with one row for each
 * option. Called by main.c. The other files take names and sizes of kinds from here, and json.c the
 * table. */
#include "options.h"

#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/options.h"
#include "chart/picture.h"
#include "common/kinds.h"

static const coll_kind kinds[] = {COLL_ALL_REDUCE, COLL_ALL_GATHER, COLL_REDUCE_SCATTER,
                                  COLL_BROADCAST,  COLL_REDUCE,     COLL_ALL_TO_ALL,
                                  COLL_GATHER,     COLL_SCATTER,    COLL_SCAN,
                                  COLL_EXSCAN,     COLL_SEND};

enum { KIND_COUNT = sizeof kinds / sizeof kinds[0], NAMES_BYTES = 192 };

static const char *type_name(int value)
{
    return value == 0 ? "all" : value <= COLL_TYPE_LAST ? coll_type_name((coll_type)value) : NULL;
}

static const char *reduce_name(int value)
{
    return value == 0                     ? "all"
           : value <= COLL_REDUCE_OP_LAST ? coll_reduce_op_name((coll_reduce_op)value)
                                          : NULL;
}

static const char *algorithm_name(int value)
{
    return value <= COLL_ALGORITHM_LAST ? coll_algorithm_name((coll_algorithm)value) : NULL;
}

const char *bench_transport_name(int transport)
{
    return transport == BENCH_TRANSPORT_NCCL  ? "nccl"
           : transport <= COLL_TRANSPORT_LAST ? coll_transport_name((coll_transport)transport)
                                              : NULL;
}

const char *bench_memory_name(const bench_options *options)
{
    return (int)options->transport == BENCH_TRANSPORT_NCCL ? "the GPU's memory"
           : options->arena                                ? "an arena"
                                                           : "ordinary memory";
}

static const char *tcp_auth_name(int value)
{
    return value <= COLL_TCP_AUTH_OFF ? coll_tcp_auth_name((coll_tcp_auth)value) : NULL;
}

static base_status parse_root(const base_field *field, const char *text, void *member,
                              base_error *reterr)
{
    char *end = NULL;
    if (strcmp(text, "all") == 0) {
        *(int *)member = BENCH_ROOT_ALL;
        return BASE_OK;
    }
    const long root = strtol(text, &end, 10);
    if (end == text || *end != '\0' || root < field->least || root > field->most) {
        return base_fail(reterr, BASE_ERR_INVALID, "'%.64s': must be a rank, or all", text);
    }
    *(int *)member = (int)root;
    return BASE_OK;
}

static void format_root(const base_field *field, const void *member, char text[BASE_CODED_BYTES])
{
    const int root = *(const int *)member;
    (void)field;
    (void)snprintf(text, BASE_CODED_BYTES, root == BENCH_ROOT_ALL ? "all" : "%d", root);
}

static const base_coding root_coding = {.parse = parse_root, .format = format_root};

#define OWN(kind, member) BASE_##kind(bench_options, member)
#define BYTES_MAX         ((int64_t)1 << 40)

static const base_field rows[] = {
    {.key = "minbytes",
     OWN(BYTES, begin_bytes),
     .most = BYTES_MAX,
     .option = "minbytes",
     .letter = 'b',
     .value = "BYTES",
     .help = "smallest size; K, M and G multiply by 1024",
     .group = "As in nccl-tests"},
    {.key = "maxbytes",
     OWN(BYTES, end_bytes),
     .most = BYTES_MAX,
     .option = "maxbytes",
     .letter = 'e',
     .value = "BYTES",
     .help = "largest size"},
    {.key = "stepbytes",
     OWN(BYTES, step_bytes),
     .least = 1,
     .most = BYTES_MAX,
     .optional = true,
     .option = "stepbytes",
     .letter = 'i',
     .value = "BYTES",
     .help = "from a size to the next: this many more,"},
    {.key = "stepfactor",
     OWN(BYTES, factor),
     .least = 1,
     .most = BYTES_MAX,
     .optional = true,
     .option = "stepfactor",
     .letter = 'f',
     .value = "F",
     .help = "or this many times as many (2)"},
    {.key = "iters",
     OWN(INT, iterations),
     .least = 1,
     .most = BENCH_ITERATIONS_MAX,
     .optional = true,
     .option = "iters",
     .letter = 'n',
     .value = "N",
     .help = "iterations; up to 64 bytes, operations in a back-to-back loop "
             "(what 0.1 s hold, at least 20)"},
    {.key = "warmup_iters",
     OWN(INT, warm_up),
     .most = BENCH_ITERATIONS_MAX,
     .option = "warmup_iters",
     .letter = 'w',
     .value = "N",
     .help = "iterations before those"},
    {.key = "check",
     OWN(INT, checks),
     .most = BENCH_ITERATIONS_MAX,
     .option = "check",
     .letter = 'c',
     .value = "N",
     .help = "iterations whose results are checked; 0: none"},
    {.key = "op",
     OWN(ENUM, reduce),
     .name_of = reduce_name,
     .option = "op",
     .letter = 'o',
     .value = "OP",
     .help = "sum, prod, min, max, avg; of integers also and, or, xor; or all"},
    {.key = "datatype",
     OWN(ENUM, type),
     .name_of = type_name,
     .option = "datatype",
     .letter = 'd',
     .value = "TYPE",
     .help = "float, double, half, bfloat16, int8, uint8, int32, uint32, int64, uint64 "
             "or all"},
    {OWN(CODED, root), .coding = &root_coding, .most = FORKED_RANKS_MAX - 1, .option = "root",
     .letter = 'r', .value = "RANK", .help = "the root where there is one, or all"},
    {OWN(PATH, json_path), .filled = true, .option = "output_file", .letter = 'J', .value = "FILE",
     .help = "writes the results as JSON"},

    {.key = "ranks",
     OWN(INT, ranks),
     .least = 1,
     .most = FORKED_RANKS_MAX,
     .option = "ranks",
     .value = "N",
     .help = "processes",
     .group = "Of our own"},
    {.key = "transport",
     OWN(ENUM, transport),
     .name_of = bench_transport_name,
     .option = "transport",
     .value = "NAME",
     .help = "auto, shm, tcp or zmq; nccl: on GPUs, in a job of a launcher, whose flags follow --"},
    {.key = "algorithm",
     OWN(ENUM, algorithm),
     .name_of = algorithm_name,
     .option = "algorithm",
     .value = "NAME",
     .help = "auto, " COLL_ALGORITHM_NAMES},
    {.key = "tcp_auth",
     OWN(ENUM, tcp_auth),
     .name_of = tcp_auth_name,
     .option = "tcp-auth",
     .value = "MODE",
     .help = "what tcp frames carry: mac, encrypt or off; zmq is encrypted unless off"},
    {.key = "interface",
     OWN(TEXT, interface),
     .filled = true,
     .option = "interface",
     .value = "WHICH",
     .help = "that tcp and zmq listen on: a name, an address, a network as 10.0.0.0/8, or names "
             "to leave out as ^docker0,lo"},
    {.key = "arena",
     OWN(BOOL, arena),
     .option = "no-arena",
     .off = true,
     .help = "buffers in ordinary memory, not in an arena"},
    {.key = "counts",
     OWN(BOOL, by_counts),
     .option = "counts",
     .help = "the variable forms, as MPI_Alltoallv, where ranks have blocks: with a count for each "
             "rank, all equal"},
    {.key = "tune",
     OWN(BOOL, tune),
     .option = "tune",
     .help = "instead: each algorithm's time as the cost model predicts it, "
             "beside the measured one; WHAT is all_reduce if left out"},
    {OWN(PATH, plot_path), .filled = true, .option = "plot", .value = "FILE",
     .help = "draws latency and bandwidth against size, as .svg"},
    {OWN(BOOL, help), .option = "help", .letter = 'h', .help = "this"},
    {OWN(BOOL, version), .option = "version",
     .help = "the version, and which sources it was built from"},
};

const base_fields bench_option_fields = {
    .rows = rows, .count = sizeof rows / sizeof rows[0], .what = "coll-bench"};

static const bench_options defaults = {.kind = COLL_ALL_REDUCE,
                                       .ranks = 2,
                                       .begin_bytes = 8,
                                       .end_bytes = 64 << 20,
                                       .warm_up = 5,
                                       .checks = 1,
                                       .type = COLL_FLOAT32,
                                       .reduce = COLL_SUM,
                                       .interface = "127.0.0.1",
                                       .arena = true};

static const char *kind_name(int value)
{
    return value < KIND_COUNT ? bench_kind_name(kinds[value]) : NULL;
}

void bench_options_help(FILE *stream)
{
    char names[NAMES_BYTES];
    const base_option_set set = {.fields = &bench_option_fields, .defaults = &defaults};
    (void)fputs(
        "Usage: coll-bench WHAT [OPTION]...\n"
        "       coll-bench [WHAT] --tune [OPTION]...\n"
        "       launcher [--nodes N ...] --ranks N -- coll-bench WHAT [OPTION]...\n"
        "Times a collective between ranks that it starts on this host, or between those of a "
        "launcher,\n"
        "and checks every bit of the results. Flags, rows and bandwidths are those of "
        "nccl-tests. Defaults\n"
        "are in brackets. A launcher decides on ranks, transport, algorithm, tcp-auth and "
        "interface.\n"
        "\n",
        stream);
    base_names_list(kind_name, names, sizeof names);
    base_options_operand("WHAT:", names, stream);
    base_options_help(&set, 1, stream);
    (void)fputs("\nSizes are as in nccl-tests: all ranks' blocks together where each has one. "
                "Exits with 0, or 1\n"
                "if a value was wrong or a rank failed, or 2 for a wrong flag.\n",
                stream);
}

static base_status parse_kind(const char *name, coll_kind *kind, base_error *reterr)
{
    base_nearest nearest = base_nearest_begin(name, strlen(name));
    char question[BASE_NEAREST_BYTES];
    char names[NAMES_BYTES];
    const int found = base_names_find(kind_name, name);
    if (found >= 0) {
        *kind = kinds[found];
        return BASE_OK;
    }
    base_nearest_offer_all(&nearest, kind_name);
    base_names_list(kind_name, names, sizeof names);
    return base_fail(reterr, BASE_ERR_INVALID, "no collective '%.64s' (there are: %s)%s", name,
                     names, base_nearest_ask(&nearest, "", question));
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
        return sizes * COLL_ALGORITHM_LAST;
    }
    const bool all_roots = coll_kind_has_root(options->kind) && options->root == BENCH_ROOT_ALL;
    const bool all_reduces = coll_kind_reduces(options->kind) && options->reduce == 0;
    return sizes * (options->type == 0 ? COLL_TYPE_LAST : 1) *
           (all_reduces ? COLL_REDUCE_OP_LAST : 1) * (all_roots ? (size_t)options->ranks : 1);
}

static base_status check_sizes(bench_options *options, base_error *reterr)
{
    if (options->step_bytes != 0 && options->factor > 1) {
        return base_fail(reterr, BASE_ERR_INVALID, "either -i or -f, not both");
    }
    options->factor = options->factor == 0 ? 2 : options->factor;
    if (options->step_bytes == 0 && options->factor == 1) {
        options->step_bytes = 1 << 20; /* as in nccl-tests */
    }
    if (options->begin_bytes > options->end_bytes) {
        return base_fail(reterr, BASE_ERR_INVALID, "-b %zu is more than -e %zu",
                         options->begin_bytes, options->end_bytes);
    }
    if (options->step_bytes == 0 && options->begin_bytes == 0 && options->end_bytes > 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "from 0 bytes on, sizes grow by -i only");
    }
    return BASE_OK;
}

static base_status check_together(bench_options *options, base_error *reterr)
{
    base_status status = check_sizes(options, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (coll_kind_has_root(options->kind) && options->root >= options->ranks) {
        return base_fail(reterr, BASE_ERR_INVALID, "there is no rank %d among %d", options->root,
                         options->ranks);
    }
    if (options->kind == COLL_SEND && options->ranks < 2) {
        return base_fail(reterr, BASE_ERR_INVALID, "sendrecv takes at least 2 ranks");
    }
    if (options->by_counts && !coll_kind_is_by_rank(options->kind)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--counts is for all_gather, reduce_scatter, alltoall, gather and "
                         "scatter, not %s",
                         bench_kind_name(options->kind));
    }
    if (options->plot_path[0] != '\0') {
        status = chart_picture_name_check(options->plot_path, reterr);
        if (status != BASE_OK) {
            return base_error_prepend(reterr, status, "--plot");
        }
    }
    if (options->tune && (options->kind == COLL_SEND || options->plot_path[0] != '\0')) {
        return base_fail(reterr, BASE_ERR_INVALID, "--tune is not for %s",
                         options->plot_path[0] != '\0' ? "--plot" : "sendrecv");
    }
    if (options->tune && (options->type != defaults.type || options->reduce != defaults.reduce ||
                          options->algorithm != defaults.algorithm || options->by_counts)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--tune takes sums of floats with each algorithm: not with --datatype, "
                         "--op, --algorithm or --counts");
    }
    if (coll_kind_reduces(options->kind) && options->type != 0 &&
        !coll_reduce_op_takes(options->reduce, options->type)) {
        return base_fail(reterr, BASE_ERR_INVALID, "--op %s is for integers, not --datatype %s",
                         coll_reduce_op_name(options->reduce), coll_type_name(options->type));
    }
    if (!coll_kind_takes(options->kind, options->reduce)) {
        return base_fail(reterr, BASE_ERR_INVALID, "--op avg is not for %s",
                         bench_kind_name(options->kind));
    }
    if (count_rows(options) > BENCH_ROWS_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "that would be more than %d rows", BENCH_ROWS_MAX);
    }
    return BASE_OK;
}

base_status bench_options_check_nccl(const bench_options *options, base_error *reterr)
{
    const char *name =
        options->tune        ? "--tune"
        : options->by_counts ? "--counts"
        : options->kind == COLL_SEND || coll_kind_is_scan(options->kind)
            ? bench_kind_name(options->kind)
        : coll_kind_reduces(options->kind) && coll_reduce_op_is_bitwise(options->reduce)
            ? "--op and, or or xor"
            : NULL;
    return name != NULL
               ? base_fail(reterr, BASE_ERR_INVALID, "%s is not for --transport nccl", name)
               : BASE_OK;
}

/* Notes the first option that a launcher has in our place. */
static void note_option(void *user, const base_field *row)
{
    static const char *const launchers[] = {"transport", "algorithm", "tcp-auth", "interface"};
    const char **noted = user;
    for (size_t i = 0; *noted == NULL && i < sizeof launchers / sizeof launchers[0]; i++) {
        *noted = strcmp(row->option, launchers[i]) == 0 ? launchers[i] : NULL;
    }
}

static base_status check_launched(const bench_options *options, int launched_ranks,
                                  const char *noted, base_error *reterr)
{
    if (launched_ranks == 0) {
        return BASE_OK;
    }
    if (noted != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "the launcher decides on --%s: launcher --%s ... -- coll-bench", noted,
                         noted);
    }
    return options->ranks == launched_ranks && launched_ranks <= FORKED_RANKS_MAX
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "the launcher has started %d ranks, not %d (at most %d)", launched_ranks,
                           options->ranks, FORKED_RANKS_MAX);
}

base_status bench_options_parse(int argc, char **argv, int launched_ranks, bench_options *options,
                                base_error *reterr)
{
    int rest = 0;
    const char *noted = NULL;
    *options = defaults;
    options->ranks = launched_ranks > 0 ? launched_ranks : defaults.ranks;
    const base_option_set set = {.fields = &bench_option_fields, .record = options};
    const base_command_line line = {.argc = argc,
                                    .argv = argv,
                                    .sets = &set,
                                    .set_count = 1,
                                    .seen = note_option,
                                    .user = &noted};
    base_status status = base_options_parse(&line, &rest, reterr);
    if (status != BASE_OK || options->help || options->version) {
        return status;
    }
    if (rest + 1 < argc) {
        return base_fail(reterr, BASE_ERR_INVALID, "one collective at a time");
    }
    if (rest == argc && !options->tune) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "say what to time: coll-bench all_reduce, for one");
    }
    if (rest < argc) {
        status = parse_kind(argv[rest], &options->kind, reterr);
    }
    if (status == BASE_OK) {
        status = check_launched(options, launched_ranks, noted, reterr);
    }
    return status == BASE_OK ? check_together(options, reterr) : status;
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

const char *bench_kind_name(coll_kind kind)
{
    return kind == COLL_SEND ? "sendrecv" : coll_kind_name(kind);
}
