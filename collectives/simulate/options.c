/* Reads coll-simulate's command line by a table with one row for each option. Called by main.c. */
#include "options.h"

#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/options.h"
#include "chart/picture.h"
#include "common/kinds.h"

enum { COST_MAX = 1000000, TRACE_RANKS = 4, NAMES_BYTES = 192 };

/* Reads "1,0.3,0.1": latency, time of a message, time of a byte. */
static base_status parse_link(const base_field *field, const char *text, void *member,
                              base_error *reterr)
{
    double values[3];
    const char *at = text;
    (void)field;
    for (int i = 0; i < 3; i++) {
        char *end = NULL;
        values[i] = strtod(at, &end);
        if (end == at || !(values[i] >= 0 && values[i] <= COST_MAX) ||
            *end != (i < 2 ? ',' : '\0')) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "'%.64s': must be three numbers from 0 to %d, as in 1,0.3,0.1", text,
                             COST_MAX);
        }
        at = end + 1;
    }
    *(coll_link_cost *)member = (coll_link_cost){values[0], values[1], values[2]};
    return BASE_OK;
}

static void format_link(const base_field *field, const void *member, char text[BASE_CODED_BYTES])
{
    const coll_link_cost *cost = member;
    (void)field;
    (void)snprintf(text, BASE_CODED_BYTES, "%g,%g,%g", cost->latency_us, cost->message_us,
                   cost->byte_ns);
}

static const base_coding link_coding = {.parse = parse_link, .format = format_link};

static const char *algorithm_name(int value)
{
    return value <= COLL_ALGORITHM_LAST ? coll_algorithm_name((coll_algorithm)value) : NULL;
}

_Static_assert(TRACE_RANKS_MAX == 8, "the help of --ranks says so");

#define OWN(kind, member) BASE_##kind(sweep_options, member)

static const base_field rows[] = {
    {OWN(BYTES, whole_bytes), .least = 1, .most = (int64_t)1 << 40, .option = "bytes",
     .letter = 'b', .value = "BYTES", .help = "the vector, all ranks' parts together",
     .group = "Options"},
    {OWN(INT, ranks_max), .least = 2, .most = SIMULATE_RANKS_MAX, .option = "ranks-max",
     .letter = 'n', .value = "N",
     .help = "the most ranks; 4096 are possible, and take 4 GB and minutes"},
    {OWN(INT, ranks_per_host), .least = 1, .most = SIMULATE_RANKS_MAX, .option = "ranks-per-host",
     .letter = 'p', .value = "N", .help = "the last host may have fewer"},
    {OWN(CODED, costs.inside), .coding = &link_coding, .option = "inside", .value = "A,O,B",
     .help = "links in a host: latency and message in us, ns per byte"},
    {OWN(CODED, costs.between), .coding = &link_coding, .option = "between", .value = "A,O,B",
     .help = "links between hosts"},
    {OWN(REAL, costs.reduce_byte_ns), .max = COST_MAX, .option = "reduce", .value = "G",
     .help = "combining, ns per byte"},
    {OWN(PATH, plot_path), .filled = true, .option = "plot", .value = "FILE",
     .help = "draws the table, as .svg; a trace as .svg that moves, or .html to step through"},
    {OWN(BOOL, help), .option = "help", .letter = 'h', .help = "this"},
    {OWN(BOOL, version), .option = "version",
     .help = "the version, and which sources it was built from"},

    {OWN(BOOL, trace.asked), .option = "trace",
     .help = "instead: one algorithm round by round: who sends what, and what each rank then holds",
     .group = "One operation, to read"},
    {OWN(ENUM, trace.algorithm), .name_of = algorithm_name, .optional = true, .option = "algorithm",
     .value = "NAME", .help = COLL_ALGORITHM_NAMES},
    {OWN(INT, trace.ranks), .least = 2, .most = TRACE_RANKS_MAX, .optional = true,
     .option = "ranks", .value = "N", .help = "2 to 8; -p says how many share a host (4)"},
};

static const base_fields fields = {
    .rows = rows, .count = sizeof rows / sizeof rows[0], .what = "coll-simulate"};

static const sweep_options defaults = {
    .kind = COLL_ALL_REDUCE,
    .costs = {.inside = {1, 0.3, 0.1}, .between = {20, 3, 0.8}, .reduce_byte_ns = 0.02},
    .whole_bytes = 1 << 20,
    .ranks_max = 256,
    .ranks_per_host = 8};

/* Those that have schedules, from 0 on. */
static coll_kind nth_kind(int index)
{
    int kind = COLL_ALL_REDUCE;
    while (kind <= COLL_KIND_LAST && (!coll_kind_has_plans((coll_kind)kind) || index-- > 0)) {
        kind++;
    }
    return (coll_kind)kind;
}

static const char *kind_name(int index)
{
    const coll_kind kind = nth_kind(index);
    return kind <= COLL_KIND_LAST ? coll_kind_name(kind) : NULL;
}

void sweep_options_help(FILE *stream)
{
    char names[NAMES_BYTES];
    char choices[NAMES_BYTES + 32];
    const base_option_set set = {.fields = &fields, .defaults = &defaults};
    (void)fputs(
        "Usage: coll-simulate [COLLECTIVE] [OPTION]...\n"
        "Plays every algorithm's schedule on a network that exists on paper, for rising "
        "numbers of ranks,\n"
        "and prints its time beside the cost model's formula. With --trace, plays one of them "
        "on symbols\n"
        "and prints each round. Defaults are in brackets.\n"
        "\n",
        stream);
    base_names_list(kind_name, names, sizeof names);
    (void)snprintf(choices, sizeof choices, "%s (%s)", names, coll_kind_name(defaults.kind));
    base_options_operand("COLLECTIVE:", choices, stream);
    base_options_help(&set, 1, stream);
}

/* What belongs to a trace comes with one, and what belongs to the table without. */
static base_status check_trace(sweep_options *options, base_error *reterr)
{
    trace_request *asked = &options->trace;
    if (!asked->asked) {
        return asked->algorithm == COLL_ALGORITHM_AUTO && asked->ranks == 0
                   ? BASE_OK
                   : base_fail(reterr, BASE_ERR_INVALID,
                               "--algorithm and --ranks are for --trace; the table has all "
                               "algorithms, up to --ranks-max");
    }
    if (asked->algorithm == COLL_ALGORITHM_AUTO) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--trace shows one algorithm: give --algorithm ring, for example");
    }
    if (options->ranks_max != defaults.ranks_max || options->whole_bytes != defaults.whole_bytes ||
        memcmp(&options->costs, &defaults.costs, sizeof defaults.costs) != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--bytes, --ranks-max and times are for the table: a trace has blocks "
                         "without a size, rounds without a duration, and --ranks");
    }
    asked->ranks = asked->ranks == 0 ? TRACE_RANKS : asked->ranks;
    return BASE_OK;
}

/* A trace can be a page too. */
static base_status check_plot(const sweep_options *options, base_error *reterr)
{
    const char *path = options->plot_path;
    const char *ending = strrchr(path, '.');
    if (options->trace.asked) {
        return ending != NULL && (strcmp(ending, ".svg") == 0 || strcmp(ending, ".html") == 0)
                   ? BASE_OK
                   : base_fail(reterr, BASE_ERR_INVALID,
                               "--plot: %s: a trace's name must end with .svg, to move, or with "
                               ".html, to step through",
                               path);
    }
    const base_status status = chart_picture_name_check(path, reterr);
    return status == BASE_OK ? status : base_error_prepend(reterr, status, "--plot");
}

static base_status parse_kind(const char *name, coll_kind *kind, base_error *reterr)
{
    base_nearest nearest = base_nearest_begin(name, strlen(name));
    char question[BASE_NEAREST_BYTES];
    char known[NAMES_BYTES];
    const int found = base_names_find(kind_name, name);
    if (found >= 0) {
        *kind = nth_kind(found);
        return BASE_OK;
    }
    base_nearest_offer_all(&nearest, kind_name);
    base_names_list(kind_name, known, sizeof known);
    return base_fail(reterr, BASE_ERR_INVALID,
                     "no collective '%.64s' has a schedule (these have: %s)%s", name, known,
                     base_nearest_ask(&nearest, "", question));
}

base_status sweep_options_parse(int argc, char **argv, sweep_options *options, base_error *reterr)
{
    int rest = 0;
    *options = defaults;
    const base_option_set set = {.fields = &fields, .record = options};
    const base_command_line line = {.argc = argc, .argv = argv, .sets = &set, .set_count = 1};
    base_status status = base_options_parse(&line, &rest, reterr);
    if (status == BASE_OK && !options->help) {
        status = check_trace(options, reterr);
    }
    if (status == BASE_OK && !options->help && options->plot_path[0] != '\0') {
        status = check_plot(options, reterr);
    }
    if (status != BASE_OK || options->help || options->version || rest == argc) {
        return status;
    }
    if (rest + 1 < argc) {
        return base_fail(reterr, BASE_ERR_INVALID, "one collective at a time, not '%s' too",
                         argv[rest + 1]);
    }
    return parse_kind(argv[rest], &options->kind, reterr);
}
