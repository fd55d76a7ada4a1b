/* Reads pipeline-simulate's command line by a table. Called by main.c. */
#include "pipeline/simulate/options.h"

#include "base/options.h"
#include "pipeline/picture.h"
#include "pipeline/timeline.h"

enum { MS_MAX = LAUNCH_PIPELINE_NS_MAX / 1000000 };

#define OWN(kind, member) BASE_##kind(pipeline_options, member)

static const base_field rows[] = {
    {OWN(INT, stages), .least = 1, .most = PROTO_PIPELINE_STAGES_MAX, .option = "stages",
     .letter = 'p', .value = "N", .help = "ranks, each with its part of the layers",
     .group = "Options"},
    {OWN(INT, micro_batches), .least = 1, .most = PROTO_PIPELINE_MICRO_BATCHES_MAX,
     .option = "micro-batches", .letter = 'm', .value = "N", .help = "of one step"},
    {OWN(INT, chunks), .least = 2, .most = PROTO_PIPELINE_CHUNKS_MAX, .option = "chunks",
     .letter = 'v', .value = "N", .help = "of layers in each stage, in interleaved"},
    {OWN(REAL, forward_ms), .above = true, .max = MS_MAX, .option = "forward", .value = "MS",
     .help = "a stage's forward of one micro-batch"},
    {OWN(REAL, backward_ms), .above = true, .max = MS_MAX, .option = "backward", .value = "MS",
     .help = "its backward"},
    {OWN(REAL, weights_ms), .max = MS_MAX, .option = "weights", .value = "MS",
     .help = "of its backward, the gradients of weights, which zb-h1 puts off (0: half)"},
    {OWN(REAL, hop_ms), .max = MS_MAX, .option = "hop", .value = "MS",
     .help = "a message from one stage to the next"},
    {OWN(BOOL, sweep), .option = "sweep",
     .help = "instead: the bubble for rising numbers of micro-batches"},
    {OWN(PATH, plot_path), .filled = true, .option = "plot", .value = "FILE",
     .help = "also draws the schedules; .svg"},
    {OWN(BOOL, help), .option = "help", .letter = 'h', .help = "this"},
    {OWN(BOOL, version), .option = "version",
     .help = "the version, and which sources it was built from"},
};

static const base_fields fields = {
    .rows = rows, .count = sizeof rows / sizeof rows[0], .what = "pipeline-simulate"};

static const base_other_name others[] = {
    {.name = "ranks", .option = "stages"},
    {.name = "pipeline", .instead = "all schedules are played: gpipe, 1f1b, interleaved, zb-h1"},
};

static const pipeline_options defaults = {
    .stages = 4, .micro_batches = 8, .chunks = 2, .forward_ms = 10, .backward_ms = 20};

void pipeline_options_help(FILE *stream)
{
    const base_option_set set = {.fields = &fields, .defaults = &defaults};
    (void)fputs("Usage: pipeline-simulate [OPTION]...\n"
                "Plays one training step of a pipeline in the schedules gpipe, 1f1b, "
                "interleaved and zb-h1, and prints\n"
                "how long the stages are idle: the bubble. Defaults are in brackets.\n",
                stream);
    base_options_help(&set, 1, stream);
}

base_status pipeline_options_parse(int argc, char **argv, pipeline_options *options,
                                   base_error *reterr)
{
    int rest = 0;
    *options = defaults;
    const base_option_set set = {.fields = &fields, .record = options};
    const base_command_line line = {.argc = argc,
                                    .argv = argv,
                                    .sets = &set,
                                    .set_count = 1,
                                    .others = others,
                                    .other_count = sizeof others / sizeof others[0]};
    base_status status = base_options_parse(&line, &rest, reterr);
    if (status == BASE_OK && !options->help && rest < argc) {
        return base_fail(reterr, BASE_ERR_INVALID, "'%s' is not an option", argv[rest]);
    }
    if (status == BASE_OK && options->weights_ms > options->backward_ms) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--weights %g is a part of --backward, and that is %g",
                         options->weights_ms, options->backward_ms);
    }
    if (status == BASE_OK && options->sweep && options->plot_path[0] != '\0') {
        return base_fail(reterr, BASE_ERR_INVALID, "--sweep or --plot, not both");
    }
    if (status == BASE_OK && options->plot_path[0] != '\0') {
        status = launch_pipeline_picture_check(options->plot_path, reterr);
    }
    return status;
}
