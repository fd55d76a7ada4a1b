/* Writes the manifest of an inference run from what rank 0 has measured. Called by run_job.c at the
 * end of a job. What was not measured is null. */
#include "record/inference.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_file.h"
#include "base/path.h"
#include "proto/checkpoints.h"
#include "record/cloud.h"
#include "record/inference_figures.h"
#include "record/inference_lesson.h"
#include "record/inference_report.h"
#include "record/out_directory.h"
#include "record/plots.h"
#include "record/run.h"
#include "record/sheet.h"

#define INFERENCE_LAB "02-tp-inference-cloud"

enum { RESULTS_BYTES_MAX = 1 << 30, SMALL_PARAMETERS = 1000000, FLOAT_BYTES = 4 };

static const double APART_MAX = 2; /* the slow rounds of a phase over the fast ones */

static base_status read_json(const char *out, const char *name, json_t **json, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    const base_status status = base_path_join(out, name, path, reterr);
    return status == BASE_OK ? base_json_read(path, RESULTS_BYTES_MAX, json, reterr) : status;
}

static bool is_there(const char *out, const char *name)
{
    char path[BASE_PATH_BYTES];
    return base_path_join(out, name, path, NULL) == BASE_OK && access(path, F_OK) == 0;
}

/* Whether this file of ours is in the directory. *ours: also by what is in it. */
static bool has_file(const char *out, const char *name, const char *key, const char *value,
                     bool *ours)
{
    json_t *object = NULL;
    base_error unread;
    if (!is_there(out, name)) {
        return false;
    }
    *ours = false;
    if (read_json(out, name, &object, &unread) == BASE_OK) {
        const json_t *found = json_object_get(object, key);
        const char *text = json_string_value(found);
        *ours = value != NULL ? text != NULL && strcmp(text, value) == 0 : found != NULL;
    }
    json_decref(object);
    return true;
}

base_status launch_inference_check_out(const char *out, base_error *reterr)
{
    static const char *const written[] = {"timings.jsonl", "report.html", "scaling-curve.dat",
                                          "scaling-curve.svg", PROTO_TRACE_FILE};
    bool ours = true;
    const bool described = has_file(out, "manifest.json", "lab", INFERENCE_LAB, &ours);
    if ((described && !ours) || is_there(out, PROTO_CHECKPOINTS_DIRECTORY) ||
        (!described && is_there(out, "timings.jsonl") && !is_there(out, "results.json"))) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--out %s holds the record of a training, and stays as it is", out);
    }
    if (described) {
        return BASE_OK;
    }
    const bool began = has_file(out, "results.json", "total", NULL, &ours);
    if (began && !ours) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--out %s has a results.json that is no record's: name another directory",
                         out);
    }
    for (size_t i = 0; !began && i < sizeof written / sizeof *written; i++) {
        if (is_there(out, written[i])) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "--out %s holds no record, and has a %s: name another directory", out,
                             written[i]);
        }
    }
    return BASE_OK;
}

base_status launch_inference_lock(const char *out, int *lock_fd, base_error *reterr)
{
    base_status status = launch_out_directory_lock(out, lock_fd, reterr);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "--out");
    }
    status = launch_inference_check_out(out, reterr);
    if (status != BASE_OK) {
        (void)close(*lock_fd);
        *lock_fd = -1;
    }
    return status;
}

const char *launch_inference_suspect(const launch_inference_claim *claim)
{
    const double whole_bytes = claim->parameters * FLOAT_BYTES;
    const bool cache_explains =
        whole_bytes > claim->cache_bytes && whole_bytes / claim->ranks <= claim->cache_bytes;
    if (claim->speedup > 1 && claim->network && claim->parameters < SMALL_PARAMETERS) {
        return "so small a model is not faster over a network: was the baseline really one rank?";
    }
    if (claim->speedup > claim->ranks && !cache_explains) {
        return "more than the ranks can give, and no cache explains it: was the machine busy while "
               "one rank ran, or the baseline not one rank?";
    }
    if (claim->apart > APART_MAX) {
        return "slow rounds took more than twice as long as fast ones: was the machine busy?";
    }
    return NULL;
}

static bool over_network(const proto_job *job)
{
    return job->parallel.transport == PROTO_TRANSPORT_TCP ||
           job->parallel.transport == PROTO_TRANSPORT_ZMQ;
}

/* The fields of the lab's manifests. A mode that is free rents nothing, so it costs nothing. */
static void put_lab(launch_sheet *sheet, const launch_inference *run)
{
    const launch_cost free = {.vendor = "local"};
    const launch_cost *cost = run->cost != NULL ? run->cost : &free;
    const char *gpu = run->ranks != NULL ? run->ranks[0].gpu.name : "";
    const char *chat_date = run->job->data.chat_date;
    char ended_at[BASE_TIMESTAMP_BYTES];
    (void)base_timestamp(ended_at);
    sheet_int(sheet, "seed", (uint64_t)run->job->job.seed);
    sheet_string(sheet, "chat_date", chat_date[0] != '\0' ? chat_date : NULL);
    sheet_string(sheet, "lab", INFERENCE_LAB);
    sheet_string(sheet, "vendor", cost->vendor);
    sheet_string(sheet, "device", gpu[0] != '\0' ? gpu : "cpu");
    sheet_string(sheet, "instance_type", cost->instance_type);
    sheet_put(sheet, "nvlink_present",
              launch_answer_json(gpu[0] != '\0' ? run->nvlink : LAUNCH_UNKNOWN));
    sheet_put(sheet, "instance_id", json_null());
    sheet_put(sheet, "terminated_screenshot", json_null());
    sheet_string(sheet, "start_ts", run->started_at);
    sheet_string(sheet, "end_ts", ended_at);
    sheet_real(sheet, "duration_hours", run->job_seconds / 3600);
    sheet_put(sheet, "estimated_cost_usd", launch_usd_json(cost->estimated_usd_micro));
    sheet_put(sheet, "actual_cost_usd", launch_usd_json(cost->actual_usd_micro));
    sheet_put(sheet, "token", launch_cost_json(run->cost));
    sheet_put(sheet, "gpu", launch_gpus_json(run->ranks, run->job, run->nvlink));
    sheet_int(sheet, "world_size", (uint64_t)run->job->job.world_size);
}

/* What drafts have saved: the same on all ranks that share a model, else the mean. */
static void put_drafts(launch_sheet *sheet, const proto_job *job, const launch_inference_rank *mean)
{
    sheet_string(sheet, "draft_model", job->model.draft[0] != '\0' ? job->model.draft : NULL);
    sheet_real(sheet, "tokens_drafted", mean->drafted);
    sheet_real(sheet, "tokens_accepted", mean->accepted);
    sheet_real(sheet, "tokens_per_step", mean->tokens_per_step);
}

/* The cost of the exchange for each drawn token: the mean over the ranks. */
static void put_exchange(launch_sheet *sheet, const launch_inference_figures *of)
{
    const launch_inference_rank *mean = &of->mean;
    const launch_inference_rank *slowest = of->slowest >= 0 ? &of->ranks[of->slowest] : NULL;
    sheet_real(sheet, "all_reduces_per_token", of->all_reduces);
    sheet_real(sheet, "all_reduce_bytes_per_token", of->all_reduce_bytes);
    sheet_real(sheet, "all_reduce_ms_per_token", mean->all_reduce_ms);
    sheet_real(sheet, "all_reduce_transfer_ms_per_token", mean->reduce_transfer_ms);
    sheet_real(sheet, "all_reduce_waiting_ms_per_token", mean->reduce_waiting_ms);
    sheet_real(sheet, "gather_ms_per_token", mean->gather_ms);
    sheet_real(sheet, "compute_ms_per_token", mean->compute_ms);
    sheet_real(sheet, "comm_compute_ratio", launch_inference_comm_compute(mean));
    sheet_known(sheet, "slowest_rank", of->slowest >= 0, (uint64_t)of->slowest);
    sheet_known(sheet, "slowest_rank_steps", slowest != NULL,
                slowest != NULL ? (uint64_t)slowest->slowest_in_steps : 0);
    sheet_real(sheet, "slowest_rank_held_up_others_ms_per_token",
               slowest != NULL ? slowest->held_up_ms : (double)NAN);
}

static const char *suspect_of(const launch_inference *run, const launch_inference_figures *of)
{
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return launch_inference_suspect(
        &(launch_inference_claim){.speedup = of->speedup,
                                  .parameters = of->parameters,
                                  .ranks = (int)run->job->job.world_size,
                                  .network = over_network(run->job),
                                  .cache_bytes = cache > 0 ? (double)cache : 0,
                                  .apart = launch_inference_apart(of)});
}

static void put_median(launch_sheet *sheet, const char *key, const launch_inference_median *of)
{
    char name[64];
    sheet_real(sheet, key, of->median);
    (void)snprintf(name, sizeof name, "%s_low", key);
    sheet_real(sheet, name, of->low);
    (void)snprintf(name, sizeof name, "%s_high", key);
    sheet_real(sheet, name, of->high);
}

static void put_figures(launch_sheet *sheet, const launch_inference *run,
                        const launch_inference_figures *of, const base_buffer *lesson)
{
    sheet_known(sheet, "rounds", of->rounds > 0, (uint64_t)of->rounds);
    put_median(sheet, "single_gpu_per_token_ms", &of->single.per_token_ms);
    put_median(sheet, "tp_per_token_ms", &of->tp.per_token_ms);
    sheet_real(sheet, "speedup", of->speedup);
    put_median(sheet, "tp_tokens_per_s", &of->tp.tokens_per_s);
    put_median(sheet, "replicas_tokens_per_s", &of->replicas.tokens_per_s);
    sheet_string(sheet, "suspect", suspect_of(run, of));
    sheet_real(sheet, "crossover_d_model", of->curve.crossover_d_model);
    sheet_real(sheet, "predicted_crossover_d_model", of->curve.predicted_crossover_d_model);
    put_drafts(sheet, run->job, &of->mean);
    put_exchange(sheet, of);
    sheet->failed = sheet->failed || lesson->failed;
    sheet_string(sheet, "lesson_notes", lesson->data);
}

static void put_origin(launch_sheet *sheet, const launch_inference *run)
{
    const launch_run line = {.argc = run->argc, .argv = run->argv};
    base_buffer command = {0};
    json_t *peaks = json_array();
    launch_run_command(&line, &command);
    sheet->failed = sheet->failed || command.failed;
    sheet_string(sheet, "rerun", command.data);
    base_buffer_fini(&command);
    sheet_put(sheet, "exit_status", json_integer(run->exit_status));
    sheet_string(sheet, "message", run->message);
    for (int rank = 0; run->ranks != NULL && rank < (int)run->job->job.world_size; rank++) {
        const launch_rank_info *info = &run->ranks[rank];
        json_t *peak = info->finished ? json_integer((json_int_t)info->max_rss_bytes) : json_null();
        sheet->failed = json_array_append_new(peaks, peak) != 0 || sheet->failed;
    }
    sheet_put(sheet, "max_rss_bytes", peaks);
}

static void put_machine(launch_sheet *sheet, const launch_run_info *info)
{
    sheet_string(sheet, "host", info->host);
    sheet_string(sheet, "cpu", info->cpu);
    sheet_int(sheet, "cpus_allowed", (uint64_t)info->cpus_allowed);
    sheet_real(sheet, "load_average_before", info->load_before);
    sheet_real(sheet, "cpu_steal_share", info->steal_share);
    sheet_string(sheet, "git_commit", info->git_commit);
}

/* manifest.json's text, which the caller frees; NULL: no memory. */
static char *describe(const launch_inference_view *view, const base_buffer *lesson)
{
    launch_sheet sheet = sheet_make();
    put_lab(&sheet, view->run);
    put_figures(&sheet, view->run, view->figures, lesson);
    put_origin(&sheet, view->run);
    put_machine(&sheet, view->info);
    json_t *object = sheet_take(sheet);
    char *text = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    json_decref(object);
    return text;
}

/* Removes the curve's files of an older run, and its trace, if this one has none. */
static base_status remove_older(const char *out, bool traced, base_error *reterr)
{
    /* the last two: of older records */
    static const char *const names[] = {"scaling-curve.svg", "scaling-curve.dat",
                                        "scaling-curve.png", "plots.gp"};
    const int directory_fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory_fd < 0) {
        return base_fail_errno(reterr, errno, "cannot open %s", out);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)unlinkat(directory_fd, names[i], 0);
    }
    if (!traced) {
        (void)unlinkat(directory_fd, PROTO_TRACE_FILE, 0);
    }
    (void)close(directory_fd);
    return BASE_OK;
}

static base_status write_curve(const launch_inference_view *view, base_error *reterr)
{
    const char *out = view->run->job->output.directory;
    const base_status status = remove_older(out, view->run->job->output.trace > 0, reterr);
    if (status != BASE_OK || view->figures->curve.point_count == 0) {
        return status;
    }
    launch_plot_files curve = {"scaling-curve", launch_curve_figure(&view->figures->curve)};
    return launch_plots_write(out, &curve, 1, view->info, reterr);
}

static base_status write_report(const launch_inference_view *view, base_error *reterr)
{
    base_buffer page = {0};
    base_status status = launch_inference_report(view, &page, reterr);
    if (status == BASE_OK) {
        status = base_buffer_save(&page, view->run->job->output.directory, "report.html", reterr);
    }
    base_buffer_fini(&page);
    return status;
}

static base_status write_all(launch_inference_view *view, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    base_buffer lesson = {0};
    view->suspect = suspect_of(view->run, view->figures);
    launch_inference_lesson(view->figures, view->suspect, view->info, &lesson);
    char *manifest = describe(view, &lesson);
    base_status status =
        manifest != NULL
            ? base_path_join(view->run->job->output.directory, "manifest.json", path, reterr)
            : base_fail(reterr, BASE_ERR_MEMORY, "no memory for manifest.json");
    if (status == BASE_OK) {
        status = base_file_write(path, manifest, strlen(manifest), reterr);
    }
    view->manifest = manifest;
    view->lesson_notes = lesson.data;
    if (status == BASE_OK) {
        status = write_curve(view, reterr);
    }
    if (status == BASE_OK) {
        status = write_report(view, reterr);
    }
    free(manifest);
    base_buffer_fini(&lesson);
    return status;
}

void launch_inference_begin(launch_inference *run)
{
    (void)base_timestamp(run->started_at);
    run->load_before = launch_load_average();
    run->cpu_before = launch_cpu_times_now();
}

base_status launch_inference_write(const launch_inference *run, base_buffer *lines,
                                   base_error *reterr)
{
    static const launch_file_digest no_data = {.path = ""};
    json_t *results = NULL;
    launch_inference_figures figures;
    launch_run_info info;
    const base_status status =
        read_json(run->job->output.directory, "results.json", &results, reterr);
    if (status != BASE_OK) {
        return status;
    }
    launch_inference_read(results, &figures);
    launch_run_info_gather(&info, &no_data);
    info.load_before = run->load_before;
    info.steal_share = launch_steal_share(run->cpu_before, launch_cpu_times_now());
    launch_inference_view view = {
        .run = run, .figures = &figures, .results = results, .info = &info};
    launch_trace trace;
    view.trace = launch_trace_find(run->job->output.directory, run->job, &trace);
    const base_status written = write_all(&view, reterr);
    launch_trace_fini(&trace);
    launch_inference_lines(&figures, results, lines);
    json_decref(results);
    return written;
}
