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

/* Whether a record of an inference may be written there: into an empty directory, in place of an older one, or
 * of the beginning of one that its launcher's death has left. Files of other names stay as they are. */
static base_status check_out(const char *out, base_error *reterr)
{
    static const char *const written[] = {"timings.jsonl", "report.html", "plots.gp",
                                          "scaling-curve.dat", "scaling-curve.png"};
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
    status = check_out(out, reterr);
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
        return "more than the ranks can give, and no cache explains it: was the baseline really "
               "one rank?";
    }
    if (claim->apart > APART_MAX) {
        return "slow rounds took more than twice as long as fast ones: was the machine busy?";
    }
    return NULL;
}

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static bool over_network(const proto_job *job)
{
    return job->parallel.transport == PROTO_TRANSPORT_TCP ||
           job->parallel.transport == PROTO_TRANSPORT_ZMQ;
}

/* Takes over the reference to value. */
static void put(json_t *object, bool *failed, const char *key, json_t *value)
{
    *failed = json_object_set_new(object, key, value) != 0 || *failed;
}

/* The fields of the lab's manifests. A mode that is free rents nothing, so it costs nothing. */
static void put_lab(json_t *object, bool *failed, const launch_inference *run)
{
    const launch_cost free = {.vendor = "local"};
    const launch_cost *cost = run->cost != NULL ? run->cost : &free;
    const char *gpu = run->ranks != NULL ? run->ranks[0].gpu.name : "";
    char ended_at[BASE_TIMESTAMP_BYTES];
    (void)base_timestamp(ended_at);
    put(object, failed, "seed", json_integer((json_int_t)run->job->job.seed));
    put(object, failed, "lab", json_string(INFERENCE_LAB));
    put(object, failed, "vendor", json_string(cost->vendor));
    put(object, failed, "device", json_string(gpu[0] != '\0' ? gpu : "cpu"));
    put(object, failed, "instance_type",
        cost->instance_type[0] != '\0' ? json_string(cost->instance_type) : json_null());
    put(object, failed, "nvlink_present",
        launch_answer_json(gpu[0] != '\0' ? run->nvlink : LAUNCH_UNKNOWN));
    put(object, failed, "instance_id", json_null());
    put(object, failed, "terminated_screenshot", json_null());
    put(object, failed, "start_ts", json_string(run->started_at));
    put(object, failed, "end_ts", json_string(ended_at));
    put(object, failed, "duration_hours", number(run->job_seconds / 3600));
    put(object, failed, "estimated_cost_usd", launch_usd_json(cost->estimated_usd_micro));
    put(object, failed, "actual_cost_usd", launch_usd_json(cost->actual_usd_micro));
    put(object, failed, "token", launch_cost_json(run->cost));
    put(object, failed, "gpu", launch_gpus_json(run->ranks, run->job, run->nvlink));
    put(object, failed, "world_size", json_integer((json_int_t)run->job->job.world_size));
}

static json_t *rank_number(int rank)
{
    return rank >= 0 ? json_integer(rank) : json_null();
}

/* The cost of the exchange for each drawn token: the mean over the ranks. */
static void put_exchange(json_t *object, bool *failed, const launch_inference_figures *of)
{
    const launch_inference_rank *mean = &of->mean;
    const launch_inference_rank *slowest = of->slowest >= 0 ? &of->ranks[of->slowest] : NULL;
    put(object, failed, "all_reduces_per_token", number(of->all_reduces));
    put(object, failed, "all_reduce_bytes_per_token", number(of->all_reduce_bytes));
    put(object, failed, "all_reduce_ms_per_token", number(mean->all_reduce_ms));
    put(object, failed, "all_reduce_transfer_ms_per_token", number(mean->reduce_transfer_ms));
    put(object, failed, "all_reduce_waiting_ms_per_token", number(mean->reduce_waiting_ms));
    put(object, failed, "gather_ms_per_token", number(mean->gather_ms));
    put(object, failed, "compute_ms_per_token", number(mean->compute_ms));
    put(object, failed, "comm_compute_ratio", number(launch_inference_comm_compute(mean)));
    put(object, failed, "slowest_rank", rank_number(of->slowest));
    put(object, failed, "slowest_rank_steps",
        slowest != NULL ? json_integer((json_int_t)slowest->slowest_in_steps) : json_null());
    put(object, failed, "slowest_rank_held_up_others_ms_per_token",
        slowest != NULL ? number(slowest->held_up_ms) : json_null());
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

static void put_median(json_t *object, bool *failed, const char *key,
                       const launch_inference_median *of)
{
    char name[64];
    put(object, failed, key, number(of->median));
    (void)snprintf(name, sizeof name, "%s_low", key);
    put(object, failed, name, number(of->low));
    (void)snprintf(name, sizeof name, "%s_high", key);
    put(object, failed, name, number(of->high));
}

static void put_figures(json_t *object, bool *failed, const launch_inference *run,
                        const launch_inference_figures *of, const launch_text *lesson)
{
    const char *suspect = suspect_of(run, of);
    put(object, failed, "rounds", of->rounds > 0 ? json_integer(of->rounds) : json_null());
    put_median(object, failed, "single_gpu_per_token_ms", &of->single.per_token_ms);
    put_median(object, failed, "tp_per_token_ms", &of->tp.per_token_ms);
    put(object, failed, "speedup", number(of->speedup));
    put_median(object, failed, "tp_tokens_per_s", &of->tp.tokens_per_s);
    put_median(object, failed, "replicas_tokens_per_s", &of->replicas.tokens_per_s);
    put(object, failed, "suspect", suspect != NULL ? json_string(suspect) : json_null());
    put(object, failed, "crossover_d_model",
        of->curve.point_count > 0 ? number(of->curve.crossover_d_model) : json_null());
    put(object, failed, "predicted_crossover_d_model",
        of->curve.point_count > 0 ? number(of->curve.predicted_crossover_d_model) : json_null());
    put_exchange(object, failed, of);
    put(object, failed, "lesson_notes",
        lesson->data != NULL && !lesson->failed ? json_string(lesson->data) : NULL);
}

static void put_origin(json_t *object, bool *failed, const launch_inference *run)
{
    const launch_run line = {.argc = run->argc, .argv = run->argv};
    launch_text command = {0};
    json_t *peaks = json_array();
    launch_run_command(&line, &command);
    put(object, failed, "rerun", command.failed ? NULL : json_string(command.data));
    launch_text_fini(&command);
    put(object, failed, "exit_status", json_integer(run->exit_status));
    put(object, failed, "message",
        run->message[0] != '\0' ? json_string(run->message) : json_null());
    for (int rank = 0; run->ranks != NULL && rank < (int)run->job->job.world_size; rank++) {
        const launch_rank_info *info = &run->ranks[rank];
        *failed = json_array_append_new(peaks, info->finished
                                                   ? json_integer((json_int_t)info->max_rss_bytes)
                                                   : json_null()) != 0 ||
                  *failed;
    }
    put(object, failed, "max_rss_bytes", peaks);
}

static json_t *known_string(const char *text)
{
    return text[0] != '\0' ? json_string(text) : json_null();
}

static void put_machine(json_t *object, bool *failed, const launch_run_info *info)
{
    put(object, failed, "host", known_string(info->host));
    put(object, failed, "cpu", known_string(info->cpu));
    put(object, failed, "cpus_allowed", json_integer(info->cpus_allowed));
    put(object, failed, "load_average_before", number(info->load_before));
    put(object, failed, "cpu_steal_share", number(info->steal_share));
    put(object, failed, "git_commit", known_string(info->git_commit));
}

/* manifest.json's text, which the caller frees; NULL: no memory. */
static char *describe(const launch_inference_view *view, const launch_text *lesson)
{
    const launch_inference *run = view->run;
    bool failed = false;
    json_t *object = json_object();
    put_lab(object, &failed, run);
    put_figures(object, &failed, run, view->figures, lesson);
    put_origin(object, &failed, run);
    put_machine(object, &failed, view->info);
    char *text =
        failed ? NULL
               : json_dumps(object, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    json_decref(object);
    return text;
}

/* Removes the curve's files of an older run. */
static void remove_curve(int directory_fd)
{
    static const char *const names[] = {"scaling-curve.png", "scaling-curve.dat", "plots.gp"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)unlinkat(directory_fd, names[i], 0);
    }
}

static base_status write_curve(const launch_inference_view *view, launch_text *notes,
                               base_error *reterr)
{
    const char *out = view->run->job->output.directory;
    const int directory_fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory_fd < 0) {
        return base_fail_errno(reterr, errno, "cannot open %s", out);
    }
    base_status status = BASE_OK;
    remove_curve(directory_fd);
    if (view->figures->curve.point_count > 0) {
        launch_plot_files curve = {"scaling-curve", launch_curve_figure(&view->figures->curve)};
        status = launch_plots_write(out, &curve, 1, view->info, reterr);
        if (status == BASE_OK && view->run->plots) {
            launch_plots_draw(directory_fd, out, LAUNCH_RECORD_PLOT_SECONDS * BASE_NS_PER_S, notes);
        }
    }
    (void)close(directory_fd);
    return status;
}

static base_status write_report(const launch_inference_view *view, base_error *reterr)
{
    launch_text page = {0};
    base_status status = launch_inference_report(view, &page, reterr);
    if (status == BASE_OK) {
        status = launch_text_save(&page, view->run->job->output.directory, "report.html", reterr);
    }
    launch_text_fini(&page);
    return status;
}

static base_status write_all(launch_inference_view *view, launch_text *notes, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    launch_text lesson = {0};
    launch_inference_lesson(view->figures, suspect_of(view->run, view->figures), view->info,
                            &lesson);
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
        status = write_curve(view, notes, reterr);
    }
    if (status == BASE_OK) {
        status = write_report(view, reterr);
    }
    free(manifest);
    launch_text_fini(&lesson);
    return status;
}

void launch_inference_begin(launch_inference *run)
{
    (void)base_timestamp(run->started_at);
    run->load_before = launch_load_average();
    run->cpu_before = launch_cpu_times_now();
}

base_status launch_inference_write(const launch_inference *run, launch_text *lines,
                                   launch_text *notes, base_error *reterr)
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
    const base_status written = write_all(&view, notes, reterr);
    launch_inference_lines(&figures, results, lines);
    json_decref(results);
    return written;
}
