/* coll-simulate: schedules on paper networks; sweep.h and network.h say how. */
#include <getopt.h>
#include <stdlib.h>

#include "base/exitcode.h"
#include "base/log.h"
#include "ringfence/coll_error.h"
#include "sweep.h"

static const char usage[] =
    "Usage: coll-simulate [COLLECTIVE] [OPTION]...\n"
    "Plays every algorithm's schedule on a network that exists on paper, for rising numbers of\n"
    "ranks, and prints its time beside the cost model's formula. COLLECTIVE: all_reduce "
    "(default),\n"
    "all_gather reduce_scatter broadcast reduce alltoall gather scatter\n\n"
    "  -b, --bytes BYTES         the vector, all ranks' parts together (1048576)\n"
    "  -n, --ranks-max N         up to 4096, which takes 4 GB and minutes (256)\n"
    "  -p, --ranks-per-host N    (8)\n"
    "      --inside A,O,B        links in a host: latency and message in us, ns per byte "
    "(1,0.3,0.1)\n"
    "      --between A,O,B       links between hosts (20,3,0.8)\n"
    "      --reduce G            combining, ns per byte (0.02)\n"
    "      --plot FILE           draws the table; .svg or .png\n"
    "  -h, --help                this\n";

enum { OPTION_INSIDE = 256, OPTION_BETWEEN, OPTION_REDUCE, OPTION_PLOT };

static const struct option words[] = {
    {"bytes", required_argument, NULL, 'b'},
    {"ranks-max", required_argument, NULL, 'n'},
    {"ranks-per-host", required_argument, NULL, 'p'},
    {"inside", required_argument, NULL, OPTION_INSIDE},
    {"between", required_argument, NULL, OPTION_BETWEEN},
    {"reduce", required_argument, NULL, OPTION_REDUCE},
    {"plot", required_argument, NULL, OPTION_PLOT},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* `count` numbers from 0 to 1e12 with commas between them. */
static bool read_numbers(const char *text, double *values, int count)
{
    for (int i = 0; i < count; i++) {
        char *rest = NULL;
        values[i] = strtod(text, &rest);
        if (rest == text || !(values[i] >= 0 && values[i] <= 1e12) ||
            *rest != (i + 1 < count ? ',' : '\0')) {
            return false;
        }
        text = rest + 1;
    }
    return true;
}

static bool read_option(int option, const char *text, sweep_options *options)
{
    double v[3] = {0, 0, 0};
    const bool link = option == OPTION_INSIDE || option == OPTION_BETWEEN;
    if (option == OPTION_PLOT) {
        options->plot_path = text;
        return true;
    }
    if (!read_numbers(text, v, link ? 3 : 1)) {
        return false;
    }
    const bool small = v[0] >= 1 && v[0] <= SIMULATE_RANKS_MAX;
    switch (option) {
    case OPTION_INSIDE:
        options->costs.inside = (coll_link_cost){v[0], v[1], v[2]};
        return true;
    case OPTION_BETWEEN:
        options->costs.between = (coll_link_cost){v[0], v[1], v[2]};
        return true;
    case OPTION_REDUCE:
        options->costs.reduce_byte_ns = v[0];
        return true;
    case 'n':
        options->ranks_max = small ? (int)v[0] : 0;
        return small;
    case 'p':
        options->ranks_per_host = small ? (int)v[0] : 0;
        return small;
    default:
        options->whole_bytes = (size_t)v[0];
        return option == 'b';
    }
}

static coll_status read_words(int argc, char **argv, sweep_options *options, coll_error *reterr)
{
    for (int at = 0; (at = getopt_long(argc, argv, "b:n:p:h", words, NULL)) != -1;) {
        if (at == 'h') {
            options->whole_bytes = 0;
            options->ranks_max = 0;
            return COLL_OK;
        }
        if (at == '?' || !read_option(at, optarg, options)) {
            return coll_fail(reterr, COLL_ERR_INVALID, "a flag or its value is wrong; see --help");
        }
    }
    if (optind < argc - 1) {
        return coll_fail(reterr, COLL_ERR_INVALID, "one collective at a time, not '%s' too",
                         argv[optind + 1]);
    }
    coll_status status = COLL_OK;
    if (optind < argc) {
        status = coll_kind_parse(argv[optind], &options->kind, reterr);
    }
    if (status == COLL_OK && (options->kind == COLL_BARRIER || options->kind >= COLL_SEND)) {
        status = coll_fail(reterr, COLL_ERR_INVALID, "%s has no schedule", argv[optind]);
    }
    return status;
}

int main(int argc, char **argv)
{
    static sweep result;
    coll_error error = {.status = COLL_OK};
    sweep_options options = {
        .kind = COLL_ALL_REDUCE,
        .costs = {.inside = {1, 0.3, 0.1}, .between = {20, 3, 0.8}, .reduce_byte_ns = 0.02},
        .whole_bytes = 1 << 20,
        .ranks_max = 256,
        .ranks_per_host = 8};
    base_log_init("coll-simulate: ", BASE_LOG_INFO);
    if (read_words(argc, argv, &options, &error) != COLL_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
        return BASE_EXIT_USAGE;
    }
    if (options.ranks_max == 0) {
        (void)fputs(usage, stdout);
        return BASE_EXIT_DONE;
    }
    coll_status status = sweep_run(&options, stdout, &result, &error);
    if (status == COLL_OK && options.plot_path != NULL) {
        status = sweep_plot(&options, &result, &error);
    }
    if (status != COLL_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
    }
    return status == COLL_OK ? BASE_EXIT_DONE : BASE_EXIT_ERROR;
}
