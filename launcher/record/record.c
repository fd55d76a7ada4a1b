/* The record of a run: steps as they arrive, and manifest, plots and report at the end.
 * Called by run_job.c, which passes on what ranks report. */
#include "record/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "proto/checkpoints.h"
#include "record/out_inputs.h"
#include "record/plots.h"
#include "record/report.h"
#include "record/run_figures.h"
#include "record/timings.h"
#include "record/timings_file.h"
#include "record/trace.h"

enum { PATH_BYTES = BASE_PATH_BYTES + 64 };

struct launch_record {
    launch_record_options options;
    proto_job job;
    launch_out_directory directory;
    launch_steps steps;
    base_buffer notes;
    launch_file_digest data;
    launch_timings_file timings;
    int64_t started_unix_ms; /* started_at */
    int attempts;            /* that were ready */
    uint64_t first_step;     /* of the checkpoint from which the last attempt went on */
    double load_before;
    launch_cpu_times cpu_before; /* when training began */
    bool begun;
    bool has_manifest;
    bool whole; /* everything was written */
    char started_at[BASE_TIMESTAMP_BYTES];
};

/* Opens and locks the directory. Names the files that the job reads. */
static base_status open_directory(launch_record *record, base_error *reterr)
{
    const proto_job *job = &record->job;
    enum { OF_MODEL = 5, OF_BOTH = 7 };
    static const char *const names[OF_BOTH] = {"model.safetensors",        "config.json",
                                               "generation_config.json",   "tokenizer_config.json",
                                               "chat_template.jinja",      "adapter_config.json",
                                               "adapter_model.safetensors"};
    char files[OF_BOTH][PATH_BYTES];
    const char *inputs[LAUNCH_INPUTS_MAX];
    int count = 0;
    uint64_t step = 0;
    bool goes_on = false;
    const base_status status =
        job->train.resume ? proto_checkpoints_newest(record->options.out, &goes_on, &step, reterr)
                          : BASE_OK;
    if (status != BASE_OK) {
        return status;
    }
    for (int i = 0; i < OF_BOTH; i++) {
        const char *directory = i < OF_MODEL ? job->model.checkpoint : job->model.adapter;
        if (directory[0] != '\0') {
            (void)snprintf(files[i], PATH_BYTES, "%s/%s", directory, names[i]);
            inputs[count++] = files[i];
        }
    }
    const char *const named[] = {job->data.tokenizer, job->data.train, job->data.heldout,
                                 job->infer.prompts};
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        if (named[i][0] != '\0') {
            inputs[count++] = named[i];
        }
    }
    const launch_out_options options = {
        .path = record->options.out,
        .overwrite = record->options.overwrite,
        .goes_on = goes_on,
        .needs_model = job->lora.rank > 0,
        .log_dir = record->options.log_dir,
        .inputs = inputs,
        .input_count = count,
    };
    return launch_out_directory_open(&options, &record->directory, reterr);
}

base_status launch_record_open(const launch_record_options *options, launch_record **record,
                               base_error *reterr)
{
    launch_record *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the record");
    }
    made->options = *options;
    made->job = *options->job;
    made->options.job = &made->job;
    made->directory.fd = -1;
    made->started_unix_ms = base_timestamp(made->started_at);
    made->load_before = launch_load_average();
    base_status status = launch_steps_of_job(&made->steps, &made->job, reterr);
    if (status == BASE_OK) {
        status = open_directory(made, reterr);
        launch_timings_file_name(&made->timings, made->directory.path);
    }
    if (status != BASE_OK) {
        launch_record_close(made);
        return status;
    }
    launch_file_digest_start(&made->data, made->job.data.train);
    *record = made;
    return BASE_OK;
}

/* The steps before the checkpoint are of other ranks or another mode, or some are missing: they can be in no
 * figure, but their file is kept. */
static void set_aside(launch_record *record, uint64_t first_step)
{
    char kept[LAUNCH_TIMINGS_PATH_BYTES + 32];
    if (launch_timings_file_set_aside(&record->timings, first_step, kept)) {
        base_buffer_printf(&record->notes,
                           "timings.jsonl begins after step %" PRIu64
                           ": the lines before are in %s, for they are not of these ranks, or not "
                           "whole\n",
                           first_step, kept);
    }
}

/* A training that goes on keeps its record: timings.jsonl is read back, up to its checkpoint. */
static base_status go_on(launch_record *record, uint64_t first_step, base_error *reterr)
{
    launch_steps *steps = &record->steps;
    base_status status = launch_timings_read(record->timings.path, steps, reterr);
    launch_steps_go_on_from(steps, first_step);
    if (status == BASE_OK && steps->first == first_step) {
        set_aside(record, first_step);
    }
    if (status == BASE_OK) {
        status = launch_out_directory_drop_states(
            &record->directory, steps->stages > 0 ? 1 : steps->world_size, reterr);
    }
    return status == BASE_OK ? launch_timings_file_keep(&record->timings, &record->steps, reterr)
                             : status;
}

static base_status begin_first(launch_record *record, uint64_t first_step, base_error *reterr)
{
    record->begun = true;
    record->cpu_before = launch_cpu_times_now();
    if (first_step > 0) {
        return go_on(record, first_step, reterr);
    }
    const base_status status = launch_out_directory_clear(&record->directory, reterr);
    if (record->directory.moved_to[0] != '\0') {
        base_buffer_printf(&record->notes, "the record of an earlier run is now in %s\n",
                           record->directory.moved_to);
    }
    return status == BASE_OK ? launch_timings_file_open(&record->timings, reterr) : status;
}

base_status launch_record_check_room(const launch_record *record, int64_t ranks,
                                     const launch_record_params *params, uint64_t first_step,
                                     base_error *reterr)
{
    const proto_job_train *train = &record->job.train;
    const uint64_t kept = train->keep > 0 ? (uint64_t)train->keep : PROTO_CHECKPOINTS_KEPT;
    const uint64_t every = (uint64_t)train->save_every;
    const uint64_t written = /* the last one at the end */
        every > 0 ? ((uint64_t)train->steps + every - 1) / every : 0;
    const uint64_t values_bytes = params->trained * sizeof(float);
    const uint64_t merged_bytes = record->job.lora.merge ? params->model * sizeof(float) : 0;
    const launch_out_need need = {
        .results_bytes = ((uint64_t)ranks + 1) * values_bytes + merged_bytes,
        .checkpoint_bytes = train->save_every > 0 ? 3 * values_bytes : 0,
        .checkpoints_written = written,
        .checkpoints_kept = kept,
        .goes_on = record->begun || first_step > 0,
    };
    return launch_out_directory_check_room(&record->directory, &need, reterr);
}

base_status launch_record_begin(launch_record *record, uint64_t first_step, base_error *reterr)
{
    if (record->begun && record->timings.stream == NULL) {
        return base_fail(reterr, BASE_ERR_STATE, "the record is finished");
    }
    record->attempts++;
    record->first_step = first_step;
    if (record->begun || first_step > 0) { /* an older attempt's */
        (void)unlinkat(record->directory.fd, PROTO_TRACE_FILE, 0);
    }
    launch_steps_go_on_from(&record->steps, first_step);
    if (!record->begun) {
        return begin_first(record, first_step, reterr);
    }
    return record->timings.failed
               ? BASE_OK
               : launch_timings_file_keep(&record->timings, &record->steps, reterr);
}

base_status launch_record_share_out(launch_record *record, const proto_job *job,
                                    uint64_t first_step, base_error *reterr)
{
    const bool same = job->job.world_size == record->job.job.world_size;
    const bool has_lines = record->timings.stream != NULL && !record->timings.failed;
    base_status status = BASE_OK;
    base_buffer_fini(&record->notes); /* those of an earlier attempt were said */
    if (!same && has_lines) {
        launch_steps_go_on_from(&record->steps, first_step);
        status = launch_timings_file_keep(&record->timings, &record->steps, reterr);
    }
    record->job = *job;
    if (same || status != BASE_OK) {
        return status;
    }
    if (has_lines) {
        set_aside(record, first_step);
    }
    launch_steps_fini(&record->steps);
    status = launch_steps_of_job(&record->steps, &record->job, reterr);
    launch_steps_go_on_from(&record->steps, first_step);
    if (status == BASE_OK && has_lines) { /* the ranks before may have saved theirs */
        status =
            launch_out_directory_drop_states(&record->directory, record->steps.world_size, reterr);
    }
    return status == BASE_OK && has_lines
               ? launch_timings_file_keep(&record->timings, &record->steps, reterr)
               : status;
}

launch_steps *launch_record_steps(launch_record *record)
{
    return &record->steps;
}

base_status launch_record_step(launch_record *record, const launch_step *step, base_error *reterr)
{
    if (record->timings.stream == NULL) {
        return base_fail(reterr, BASE_ERR_STATE, "the record has not begun");
    }
    return launch_timings_file_put(&record->timings, step, &record->job, reterr);
}

/* Keeps the first failure. */
static void keep_first(base_status *first, base_error *first_error, base_status status,
                       const base_error *error)
{
    if (*first == BASE_OK && status != BASE_OK) {
        *first = status;
        if (first_error != NULL) {
            *first_error = *error;
        }
    }
}

/* Writes everything that needs the whole run. */
static base_status write_results(launch_record *record, const launch_run *run, base_error *reterr)
{
    base_error error;
    base_status first = BASE_OK;
    base_buffer manifest = {0};
    base_status status = launch_manifest_write(run, &manifest, &error);
    keep_first(&first, reterr, status, &error);
    if (status == BASE_OK) {
        status = base_buffer_save(&manifest, record->directory.path, "manifest.json", &error);
        record->has_manifest = status == BASE_OK;
        keep_first(&first, reterr, status, &error);
        keep_first(&first, reterr,
                   launch_report_save(run, manifest.data, record->directory.path, &error), &error);
    }
    base_buffer_fini(&manifest);
    launch_plot_files plots[] = {{"steptime", launch_step_figure(run)},
                                 {"loss", launch_loss_figure(run, false)},
                                 {"scaling", launch_scaling_figure(run)}};
    status = launch_plots_write(record->directory.path, plots, 3, run->info, &error);
    keep_first(&first, reterr, status, &error);
    return first;
}

static base_status describe_and_write(launch_record *record, const launch_record_end *end,
                                      const launch_summary *summary, base_error *reterr)
{
    launch_run_info info;
    base_buffer lesson = {0};
    base_buffer backend = {0};
    launch_file_digest_finish(&record->data);
    launch_run_info_gather(&info, &record->data);
    info.load_before = record->load_before;
    info.steal_share = launch_steal_share(record->cpu_before, launch_cpu_times_now());
    launch_run run = {
        .out = record->directory.path,
        .job = &record->job,
        .argc = record->options.argc,
        .argv = record->options.argv,
        .engine = record->options.engine,
        .steps = &record->steps,
        .summary = summary,
        .attempts = record->attempts,
        .first_step = record->first_step,
        .info = &info,
        .end = end,
    };
    launch_architecture_find(&record->job.model, &run.architecture);
    memcpy(run.started_at, record->started_at, sizeof run.started_at);
    run.wall_seconds = (double)(base_timestamp(run.ended_at) - record->started_unix_ms) / 1000;
    launch_run_backend(end, &backend);
    launch_lesson_write(&run, &lesson);
    run.backend = backend.data;
    run.lesson_notes = lesson.data;
    launch_trace trace;
    run.trace = launch_trace_find(record->directory.path, &record->job, &trace);
    const base_status status =
        backend.failed || lesson.failed
            ? base_fail(reterr, BASE_ERR_MEMORY, "no memory to write the record")
            : write_results(record, &run, reterr);
    launch_trace_fini(&trace);
    base_buffer_fini(&lesson);
    base_buffer_fini(&backend);
    return status;
}

base_status launch_record_finish(launch_record *record, const launch_record_end *end,
                                 base_error *reterr)
{
    launch_summary summary;
    base_error error;
    base_status first = BASE_OK;
    if (record->timings.stream == NULL) {
        return base_fail(reterr, BASE_ERR_STATE, "the record is finished, or has not begun");
    }
    keep_first(&first, reterr, launch_timings_file_close(&record->timings, &error), &error);
    const base_status status = launch_summary_init(&summary, &record->steps, 0, end, &error);
    keep_first(&first, reterr, status, &error);
    if (status == BASE_OK) {
        keep_first(&first, reterr, describe_and_write(record, end, &summary, &error), &error);
        launch_summary_fini(&summary);
    }
    launch_out_directory_finish(&record->directory);
    record->whole = first == BASE_OK && !record->timings.failed;
    return first == BASE_OK || record->has_manifest
               ? first
               : base_error_prepend(reterr, first, "this run has no manifest.json");
}

bool launch_record_is_whole(const launch_record *record)
{
    return record->whole;
}

const char *launch_record_notes(const launch_record *record)
{
    return record->notes.data != NULL ? record->notes.data : "";
}

void launch_record_close(launch_record *record)
{
    if (record == NULL) {
        return;
    }
    launch_timings_file_fini(&record->timings); /* not finished: nobody can get an error */
    launch_file_digest_finish(&record->data);
    launch_out_directory_finish(&record->directory);
    if (!record->begun && record->directory.fd >= 0) {
        launch_out_directory_discard(&record->directory);
    }
    launch_out_directory_close(&record->directory);
    launch_steps_fini(&record->steps);
    base_buffer_fini(&record->notes);
    free(record);
}
