/* The record of a run: timings.jsonl as steps arrive, and manifest, plots and report at the end.
 * Called by run_job.c, which passes on what ranks report. */
#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "proto/checkpoints.h"
#include "proto/mode.h"
#include "record/out_inputs.h"
#include "record/plots.h"
#include "record/report.h"
#include "record/run_figures.h"
#include "record/timings.h"
#include "record/trace.h"

enum {
    PATH_BYTES = BASE_PATH_BYTES + 64,
    STREAM_BUFFER_BYTES = 64 * 1024,
};

#define FLUSH_EVERY_NS (500 * BASE_NS_PER_MS) /* so that a reader can follow the run */

struct launch_record {
    launch_record_options options;
    proto_job job;
    launch_out_directory directory;
    launch_steps steps;
    base_buffer notes;
    launch_file_digest data;
    FILE *timings;
    int64_t flushed_ns;
    int64_t started_unix_ms; /* started_at */
    int attempts;            /* that were ready */
    uint64_t first_step;     /* of the checkpoint from which the last attempt went on */
    double load_before;
    launch_cpu_times cpu_before; /* when training began */
    bool begun;
    bool write_failed; /* timings.jsonl has lost lines; that was reported, and nothing more is
                        * written to it */
    bool has_manifest;
    bool whole; /* everything was written */
    char timings_path[PATH_BYTES];
    char started_at[BASE_TIMESTAMP_BYTES];
};

static void name_timings(launch_record *record)
{
    (void)snprintf(record->timings_path, sizeof record->timings_path, "%s/timings.jsonl",
                   record->directory.path);
}

static base_status open_timings(launch_record *record, base_error *reterr)
{
    name_timings(record);
    record->timings = fopen(record->timings_path, "w+e");
    if (record->timings == NULL) {
        return base_fail_errno(reterr, errno, "cannot write %s", record->timings_path);
    }
    (void)setvbuf(record->timings, NULL, _IOFBF, STREAM_BUFFER_BYTES);
    return BASE_OK;
}

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
    made->flushed_ns = base_now_ns();
    base_status status = launch_steps_of_job(&made->steps, &made->job, reterr);
    if (status == BASE_OK) {
        status = open_directory(made, reterr);
    }
    if (status != BASE_OK) {
        launch_record_close(made);
        return status;
    }
    launch_file_digest_start(&made->data, made->job.data.train);
    *record = made;
    return BASE_OK;
}

/* Cuts the file after its last whole line, and writes nothing more to it. So the record on a full
 * disk has lines, and not a piece of one. */
static void cut_to_lines(launch_record *record)
{
    char tail[LAUNCH_TIMINGS_LINE_BYTES_MAX];
    const int fd = fileno(record->timings);
    const off_t end = lseek(fd, 0, SEEK_END);
    const off_t from = end > (off_t)sizeof tail ? end - (off_t)sizeof tail : 0;
    ssize_t got = end > 0 ? pread(fd, tail, (size_t)(end - from), from) : 0;
    while (got > 0 && tail[got - 1] != '\n') {
        got--;
    }
    __fpurge(record->timings);
    if (got >= 0) {
        (void)!ftruncate(fd, from + got);
    }
    record->write_failed = true;
}

/* The stream keeps its error flag. So one check after writing is enough. */
static base_status check_timings(launch_record *record, bool failed, base_error *reterr)
{
    const int reason = errno;
    if (!failed && !ferror(record->timings)) {
        return BASE_OK;
    }
    cut_to_lines(record);
    return base_fail_errno(reterr, reason != 0 ? reason : EIO, "cannot write %s",
                           record->timings_path);
}

static base_status flush_timings(launch_record *record, base_error *reterr)
{
    errno = 0;
    return check_timings(record, fflush(record->timings) != 0, reterr);
}

/* Writes timings.jsonl again, without the steps that are not kept. The old one stays until the new one is
 * whole. */
static base_status write_kept(launch_record *record, base_error *reterr)
{
    char temporary[PATH_BYTES + 8];
    const base_status flushed = record->timings != NULL ? flush_timings(record, reterr) : BASE_OK;
    if (flushed != BASE_OK) {
        return flushed;
    }
    (void)snprintf(temporary, sizeof temporary, "%s.tmp", record->timings_path);
    FILE *kept = fopen(temporary, "w+e");
    bool written = kept != NULL;
    if (written) {
        (void)setvbuf(kept, NULL, _IOFBF, STREAM_BUFFER_BYTES);
        written = launch_timings_copy(record->timings_path, &record->steps, kept) &&
                  fflush(kept) == 0 && rename(temporary, record->timings_path) == 0;
    }
    if (!written) {
        const base_status status =
            base_fail_errno(reterr, errno, "cannot write %s", record->timings_path);
        if (kept != NULL) {
            (void)fclose(kept);
            (void)unlink(temporary);
        }
        record->write_failed = true;
        return status;
    }
    if (record->timings != NULL) {
        (void)fclose(record->timings);
    }
    record->timings = kept;
    return BASE_OK;
}

/* The steps before the checkpoint are of other ranks or another mode, or some are missing: they can be in no
 * figure, but their file is kept. */
static void set_aside(launch_record *record, uint64_t first_step)
{
    char kept[PATH_BYTES + 32];
    struct stat info;
    if (stat(record->timings_path, &info) != 0 || info.st_size == 0) {
        return;
    }
    (void)snprintf(kept, sizeof kept, "%s/" LAUNCH_TIMINGS_BEFORE "%" PRIu64 ".jsonl",
                   record->directory.path, first_step);
    if (renameat2(AT_FDCWD, record->timings_path, AT_FDCWD, kept, RENAME_NOREPLACE) == 0) {
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
    name_timings(record);
    base_status status = launch_timings_read(record->timings_path, steps, reterr);
    launch_steps_go_on_from(steps, first_step);
    if (status == BASE_OK && steps->first == first_step) {
        set_aside(record, first_step);
    }
    if (status == BASE_OK) {
        status = launch_out_directory_drop_states(
            &record->directory, steps->stages > 0 ? 1 : steps->world_size, reterr);
    }
    return status == BASE_OK ? write_kept(record, reterr) : status;
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
    return status == BASE_OK ? open_timings(record, reterr) : status;
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
    if (record->begun && record->timings == NULL) {
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
    return record->write_failed ? BASE_OK : write_kept(record, reterr);
}

base_status launch_record_share_out(launch_record *record, const proto_job *job,
                                    uint64_t first_step, base_error *reterr)
{
    const bool same = job->job.world_size == record->job.job.world_size;
    const bool has_lines = record->timings != NULL && !record->write_failed;
    base_status status = BASE_OK;
    base_buffer_fini(&record->notes); /* those of an earlier attempt were said */
    if (!same && has_lines) {
        launch_steps_go_on_from(&record->steps, first_step);
        status = write_kept(record, reterr);
    }
    record->job = *job;
    if (same || status != BASE_OK) {
        return status;
    }
    if (has_lines) {
        (void)fclose(record->timings);
        record->timings = NULL;
        set_aside(record, first_step);
    }
    launch_steps_fini(&record->steps);
    status = launch_steps_of_job(&record->steps, &record->job, reterr);
    launch_steps_go_on_from(&record->steps, first_step);
    if (status == BASE_OK && has_lines) { /* the ranks before may have saved theirs */
        status =
            launch_out_directory_drop_states(&record->directory, record->steps.world_size, reterr);
    }
    return status == BASE_OK && has_lines ? write_kept(record, reterr) : status;
}

launch_steps *launch_record_steps(launch_record *record)
{
    return &record->steps;
}

base_status launch_record_step(launch_record *record, const launch_step *step, base_error *reterr)
{
    if (record->timings == NULL) {
        return base_fail(reterr, BASE_ERR_STATE, "the record has not begun");
    }
    if (record->write_failed) {
        return BASE_OK;
    }
    errno = 0;
    launch_timings_put(record->timings, step, &record->job);
    const base_status status = check_timings(record, false, reterr);
    const int64_t now_ns = base_now_ns();
    const int64_t every = record->job.train.save_every;
    const bool saved =
        every > 0 && (step->step + 1) % (uint64_t)every == 0; /* its checkpoint is next */
    if (status != BASE_OK || (!saved && now_ns - record->flushed_ns < FLUSH_EVERY_NS)) {
        return status;
    }
    record->flushed_ns = now_ns;
    return flush_timings(record, reterr);
}

/* An earlier failure was reported when it happened. */
static base_status close_timings(launch_record *record, base_error *reterr)
{
    const base_status status = record->write_failed ? BASE_OK : flush_timings(record, reterr);
    FILE *timings = record->timings;
    record->timings = NULL;
    if (fclose(timings) != 0 && status == BASE_OK && !record->write_failed) {
        return base_fail_errno(reterr, errno, "cannot write %s", record->timings_path);
    }
    return status;
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
    if (record->timings == NULL) {
        return base_fail(reterr, BASE_ERR_STATE, "the record is finished, or has not begun");
    }
    keep_first(&first, reterr, close_timings(record, &error), &error);
    const base_status status = launch_summary_init(&summary, &record->steps, 0, end, &error);
    keep_first(&first, reterr, status, &error);
    if (status == BASE_OK) {
        keep_first(&first, reterr, describe_and_write(record, end, &summary, &error), &error);
        launch_summary_fini(&summary);
    }
    launch_out_directory_finish(&record->directory);
    record->whole = first == BASE_OK && !record->write_failed;
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
    if (record->timings != NULL) {
        (void)fclose(record->timings); /* the record was not finished, so nobody can get an error */
    }
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
