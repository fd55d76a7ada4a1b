/* pipeline-simulate: a step of each pipeline schedule on paper; proto/pipeline.h and timeline.h say how. */
#include <stdio.h>

#include "base/exitcode.h"
#include "base/log.h"
#include "base/version.h"
#include "pipeline/picture.h"
#include "pipeline/simulate/options.h"

static double weights_ms(const pipeline_options *options)
{
    return options->weights_ms > 0 ? options->weights_ms : options->backward_ms / 2;
}

/* Plays one schedule. BASE_ERR_INVALID: the numbers do not fit it. */
static base_status play(const pipeline_options *options, proto_pipeline_kind kind,
                        int micro_batches, launch_pipeline_run *run, base_error *reterr)
{
    launch_pipeline_part parts[PROTO_PIPELINE_PARTS_MAX];
    const int chunks = kind == PROTO_PIPELINE_INTERLEAVED ? options->chunks : 1;
    for (int i = 0; i < options->stages * chunks; i++) {
        parts[i] =
            (launch_pipeline_part){.forward_ns = (int64_t)(options->forward_ms * 1e6 / chunks),
                                   .backward_ns = (int64_t)(options->backward_ms * 1e6 / chunks),
                                   .weights_ns = (int64_t)(weights_ms(options) * 1e6 / chunks)};
    }
    const proto_pipeline pipeline = {
        .kind = kind, .stages = options->stages, .chunks = chunks, .micro_batches = micro_batches};
    return launch_pipeline_run_make(
        &pipeline,
        &(launch_pipeline_costs){.parts = parts, .hop_ns = (int64_t)(options->hop_ms * 1e6)}, run,
        reterr);
}

static void print_run(const launch_pipeline_run *run)
{
    (void)printf("%-12s %9.3f %9.1f %% %9.1f %% %10.1f %9lld\n",
                 proto_pipeline_name(run->pipeline.kind), (double)run->result.step_ns / 1e6,
                 100 * run->result.bubble, 100 * proto_pipeline_bubble(&run->pipeline),
                 (double)proto_pipeline_held(&run->pipeline, 0) / run->pipeline.chunks,
                 (long long)run->result.messages);
}

/* All schedules that the numbers fit: a row of figures for each, then the pictures. */
static base_status compare(const pipeline_options *options, base_error *reterr)
{
    launch_pipeline_run runs[PROTO_PIPELINE_KINDS];
    base_error left_out[PROTO_PIPELINE_KINDS];
    int count = 0;
    for (int kind = 0; kind < PROTO_PIPELINE_KINDS; kind++) {
        count += play(options, (proto_pipeline_kind)kind, options->micro_batches, &runs[count],
                      &left_out[kind - count]) == BASE_OK;
    }
    if (count == 0) {
        *reterr = left_out[0];
        return BASE_ERR_LIMIT;
    }
    (void)printf(
        "%d stages, %d micro-batches; of a stage and a micro-batch, forward takes %g ms and "
        "backward %g ms,\n%g of it for gradients of weights; a hop %g ms\n\n"
        "%-12s %9s %11s %11s %10s %9s\n",
        options->stages, options->micro_batches, options->forward_ms, options->backward_ms,
        weights_ms(options), options->hop_ms, "schedule", "step ms", "bubble", "by formula", "held",
        "messages");
    for (int i = 0; i < count; i++) {
        print_run(&runs[i]);
    }
    for (int i = 0; i < PROTO_PIPELINE_KINDS - count; i++) {
        (void)printf("left out: %s\n", left_out[i].message);
    }
    for (int i = 0; i < count; i++) {
        (void)printf("\n%s, a column is %g ms\n", proto_pipeline_name(runs[i].pipeline.kind),
                     (double)launch_pipeline_column_ns(&runs[i]) * 1e-6);
        launch_pipeline_picture_text(&runs[i], stdout);
    }
    (void)printf(
        "\nheld: micro-batches whose activations stage 0 keeps at once.\n"
        "0 1 2 ... forward of a micro-batch, a b c ... backward of 0 1 2 ..., . idle; 0 follows\n"
        "9, and a follows j. With chunks each comes once for every chunk of the stage. In zb-h1\n"
        "backward is for activations, and A B C ... the gradients of weights.\n");
    const base_status status =
        options->plot_path[0] == '\0'
            ? BASE_OK
            : launch_pipeline_picture_write(runs, count, options->plot_path, reterr);
    for (int i = 0; i < count; i++) {
        launch_pipeline_run_fini(&runs[i]);
    }
    return status;
}

/* The bubble for 1, 2, 4, … times as many micro-batches as stages. */
static base_status sweep(const pipeline_options *options, base_error *reterr)
{
    (void)printf("%d stages: bubble in %%\n%-13s", options->stages, "micro-batches");
    for (int kind = 0; kind < PROTO_PIPELINE_KINDS; kind++) {
        (void)printf(" %12s", proto_pipeline_name((proto_pipeline_kind)kind));
    }
    (void)putchar('\n');
    for (int m = options->stages;
         m <= PROTO_PIPELINE_MICRO_BATCHES_MAX && m <= 32 * options->stages; m *= 2) {
        (void)printf("%-13d", m);
        for (int kind = 0; kind < PROTO_PIPELINE_KINDS; kind++) {
            launch_pipeline_run run;
            const base_status status = play(options, (proto_pipeline_kind)kind, m, &run, reterr);
            if (status == BASE_OK) {
                (void)printf(" %12.1f", 100 * run.result.bubble);
            } else if (status == BASE_ERR_LIMIT) { /* more tasks than are played */
                (void)printf(" %12s", "-");
            } else {
                return status;
            }
            launch_pipeline_run_fini(&run);
        }
        (void)putchar('\n');
    }
    return BASE_OK;
}

int main(int argc, char **argv)
{
    pipeline_options options;
    base_error error;
    base_log_init("pipeline-simulate: ");
    if (pipeline_options_parse(argc, argv, &options, &error) != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s; try pipeline-simulate --help", error.message);
        return BASE_EXIT_USAGE;
    }
    if (options.help) {
        pipeline_options_help(stdout);
        return BASE_EXIT_DONE;
    }
    if (options.version) {
        base_version_print("pipeline-simulate");
        return BASE_EXIT_DONE;
    }
    if ((options.sweep ? sweep : compare)(&options, &error) != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
        return BASE_EXIT_ERROR;
    }
    if (fflush(stdout) != 0 || ferror(stdout) != 0) {
        base_log(BASE_LOG_ERROR, "cannot write to standard output");
        return BASE_EXIT_ERROR;
    }
    return BASE_EXIT_DONE;
}
