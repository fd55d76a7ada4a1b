/* pipeline-simulate: a step of each pipeline schedule on paper; schedule.h and timeline.h say how. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/exitcode.h"
#include "base/log.h"
#include "options.h"
#include "picture.h"

static rank_pipeline_costs costs_of(const pipeline_options *options, int chunks)
{
    return (rank_pipeline_costs){.forward_ns = (int64_t)(options->forward_ms * 1e6 / chunks),
                                 .backward_ns = (int64_t)(options->backward_ms * 1e6 / chunks),
                                 .hop_ns = (int64_t)(options->hop_ms * 1e6)};
}

/* Plays one schedule into new spans, which the caller frees. BASE_ERR_INVALID: the numbers do not fit it. */
static base_status play(const pipeline_options *options, rank_pipeline_kind kind, int micro_batches,
                        pipeline_run *run, base_error *reterr)
{
    const int chunks = kind == RANK_PIPELINE_INTERLEAVED ? options->chunks : 1;
    *run = (pipeline_run){.pipeline = {.kind = kind,
                                       .stages = options->stages,
                                       .chunks = chunks,
                                       .micro_batches = micro_batches},
                          .costs = costs_of(options, chunks)};
    const base_status status = rank_pipeline_check(&run->pipeline, reterr);
    if (status != BASE_OK) {
        return status;
    }
    rank_pipeline_span *spans = calloc(
        (size_t)options->stages * (size_t)rank_pipeline_tasks(&run->pipeline), sizeof *spans);
    if (spans == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the step's tasks");
    }
    rank_pipeline_play(&run->pipeline, &run->costs, spans, &run->result);
    run->spans = spans;
    return BASE_OK;
}

static void print_run(const pipeline_run *run)
{
    (void)printf("%-12s %9.3f %9.1f %% %9.1f %% %10.1f %9lld\n",
                 rank_pipeline_name(run->pipeline.kind), (double)run->result.step_ns / 1e6,
                 100 * run->result.bubble, 100 * rank_pipeline_bubble(&run->pipeline),
                 (double)rank_pipeline_held(&run->pipeline, 0) / run->pipeline.chunks,
                 (long long)run->result.messages);
}

static base_status write_picture(const char *path, const pipeline_run *runs, int count,
                                 base_error *reterr)
{
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        return base_fail_errno(reterr, errno, "cannot write %s", path);
    }
    pipeline_picture_svg(runs, count, file);
    const bool whole = ferror(file) == 0;
    if (fclose(file) != 0 || !whole) {
        return base_fail(reterr, BASE_ERR_IO, "cannot write all of %s", path);
    }
    return BASE_OK;
}

/* All schedules that the numbers fit: a row of figures for each, then the pictures. */
static base_status compare(const pipeline_options *options, base_error *reterr)
{
    pipeline_run runs[RANK_PIPELINE_KINDS];
    base_error left_out = {0};
    int count = 0;
    for (int kind = 0; kind < RANK_PIPELINE_KINDS; kind++) {
        count += play(options, (rank_pipeline_kind)kind, options->micro_batches, &runs[count],
                      &left_out) == BASE_OK;
    }
    (void)printf(
        "%d stages, %d micro-batches; of a stage and a micro-batch, forward takes %g ms and "
        "backward %g ms; a hop %g ms\n\n"
        "%-12s %9s %11s %11s %10s %9s\n",
        options->stages, options->micro_batches, options->forward_ms, options->backward_ms,
        options->hop_ms, "schedule", "step ms", "bubble", "by formula", "held", "messages");
    for (int i = 0; i < count; i++) {
        print_run(&runs[i]);
    }
    if (count < RANK_PIPELINE_KINDS) {
        (void)printf("left out: %s\n", left_out.message);
    }
    for (int i = 0; i < count; i++) {
        (void)printf("\n%s\n", rank_pipeline_name(runs[i].pipeline.kind));
        pipeline_picture_text(&runs[i], stdout);
    }
    (void)printf("\nheld: micro-batches whose activations stage 0 keeps at once.\n"
                 "0 1 2 ... forward of a micro-batch, a b c ... backward of 0 1 2 ..., . idle.\n");
    const base_status status = options->picture_path[0] == '\0'
                                   ? BASE_OK
                                   : write_picture(options->picture_path, runs, count, reterr);
    for (int i = 0; i < count; i++) {
        free((void *)runs[i].spans);
    }
    return status;
}

/* The bubble for 1, 2, 4, … times as many micro-batches as stages. */
static base_status sweep(const pipeline_options *options, base_error *reterr)
{
    (void)printf("%d stages: bubble in %%\n%-13s", options->stages, "micro-batches");
    for (int kind = 0; kind < RANK_PIPELINE_KINDS; kind++) {
        (void)printf(" %12s", rank_pipeline_name((rank_pipeline_kind)kind));
    }
    (void)putchar('\n');
    for (int m = options->stages; m <= RANK_PIPELINE_MICRO_BATCHES_MAX && m <= 32 * options->stages;
         m *= 2) {
        (void)printf("%-13d", m);
        for (int kind = 0; kind < RANK_PIPELINE_KINDS; kind++) {
            pipeline_run run;
            const base_status status = play(options, (rank_pipeline_kind)kind, m, &run, reterr);
            if (status != BASE_OK) {
                return status;
            }
            (void)printf(" %12.1f", 100 * run.result.bubble);
            free((void *)run.spans);
        }
        (void)putchar('\n');
    }
    return BASE_OK;
}

int main(int argc, char **argv)
{
    pipeline_options options;
    base_error error;
    base_log_init("pipeline-simulate: ", BASE_LOG_INFO);
    if (pipeline_options_parse(argc, argv, &options, &error) != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s; try pipeline-simulate --help", error.message);
        return BASE_EXIT_USAGE;
    }
    if (options.help) {
        pipeline_options_help(stdout);
        return BASE_EXIT_DONE;
    }
    if ((options.sweep ? sweep : compare)(&options, &error) != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
        return BASE_EXIT_ERROR;
    }
    return BASE_EXIT_DONE;
}
