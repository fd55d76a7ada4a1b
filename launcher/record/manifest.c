/* Writes manifest.json: everything about a run in one object. What was not measured is null. Called
 * by record.c. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"
#include "record/cloud.h"
#include "record/run.h"
#include "record/stages.h"

static const double MS_PER_NS = 1e-6;

/* A JSON object being filled; remembers whether memory ran out. */
typedef struct sheet {
    json_t *object;
    bool failed;
} sheet;

static sheet sheet_make(void)
{
    json_t *object = json_object();
    return (sheet){.object = object, .failed = object == NULL};
}

static void put(sheet *page, const char *key, json_t *value)
{
    if (value == NULL || json_object_set_new(page->object, key, value) != 0) {
        page->failed = true;
    }
}

static void put_int(sheet *page, const char *key, uint64_t value)
{
    put(page, key, json_integer((json_int_t)value));
}

/* NaN and infinity are null. */
static void put_real(sheet *page, const char *key, double value)
{
    put(page, key, isfinite(value) ? json_real(value) : json_null());
}

static json_t *make_string(const char *value)
{
    const size_t size_bytes = 3 * strlen(value) + 1; /* U+FFFD is three bytes */
    char *clean = malloc(size_bytes);
    if (clean == NULL) {
        return NULL;
    }
    base_utf8_copy(clean, size_bytes, value);
    json_t *string = json_string(clean);
    free(clean);
    return string;
}

/* NULL and "" are null. */
static void put_string(sheet *page, const char *key, const char *value)
{
    put(page, key, value == NULL || value[0] == '\0' ? json_null() : make_string(value));
}

static void put_sheet(sheet *page, const char *key, sheet part)
{
    page->failed = page->failed || part.failed;
    put(page, key, part.object);
}

static void put_spread(sheet *page, const char *key, launch_spread spread)
{
    sheet part = sheet_make();
    put_real(&part, "mean", spread.mean);
    put_real(&part, "median", spread.p50);
    put_real(&part, "p95", spread.p95);
    put_sheet(page, key, part);
}

/* Where a step's time went; nulls if nothing was measured. */
static void put_breakdown(sheet *page, const char *key, const launch_breakdown *breakdown)
{
    sheet parts = sheet_make();
    put_real(&parts, "step_ms", breakdown->step_ms);
    for (int p = 0; p < LAUNCH_PARTS; p++) {
        char name[32];
        (void)snprintf(name, sizeof name, "%s_ms", launch_part_key(p));
        put_real(&parts, name, breakdown->part_ms[p]);
    }
    put_real(&parts, "compute_cpu_ms", breakdown->compute_cpu_ms);
    put_real(&parts, "others_waiting_ms", breakdown->others_waiting_ms);
    put_sheet(page, key, parts);
}

static double speed_at(const launch_run *run, int ranks)
{
    const launch_scaling_point *point = launch_summary_point(run->summary, ranks);
    return point != NULL ? point->tokens_per_second : NAN;
}

static void put_headline(sheet *page, const launch_run *run)
{
    const launch_summary *summary = run->summary;
    put_int(page, "seed", (uint64_t)run->job->job.seed);
    put_string(page, "lab", proto_mode_get(run->job->job.mode)->lab);
    put_string(page, "backend", run->backend);
    put_int(page, "world_size", (uint64_t)run->job->job.world_size);
    put_int(page, "model_params", run->end->model_params);
    put_int(page, "steps", summary->steps_done);
    put_real(page, "allreduce_p50_ms", summary->allreduce_ms.p50);
    put_real(page, "allreduce_p95_ms", summary->allreduce_ms.p95);
    put_real(page, "tokens_per_sec_1proc", speed_at(run, 1));
    put_real(page, "tokens_per_sec_2proc", speed_at(run, 2));
    put(page, "byte_equivalent",
        summary->byte_equivalent == LAUNCH_UNKNOWN ||
                !launch_architecture_copies(&run->architecture, run->job)
            ? json_null()
            : json_boolean(summary->byte_equivalent == LAUNCH_YES));
    put_string(page, "suspect", summary->suspect);
    put_string(page, "lesson_notes", run->lesson_notes);
}

/* --save-every and --resume. Rank 0 writes the checkpoints, and says how many when it has finished. */
static void put_checkpoints(sheet *page, const launch_run *run)
{
    const launch_rank_info *first = run->end->ranks;
    const bool known = first != NULL && first->finished;
    sheet checkpoints = sheet_make();
    put_int(&checkpoints, "every", (uint64_t)run->job->train.save_every);
    put(&checkpoints, "written",
        known ? json_integer((json_int_t)first->checkpoints) : json_null());
    put_real(&checkpoints, "seconds",
             known ? (double)first->checkpoint_ns / (double)BASE_NS_PER_S : NAN);
    put_sheet(page, "checkpoints", checkpoints);
    put_int(page, "attempts", (uint64_t)run->attempts);
    put(page, "resumed_at_step",
        run->first_step > 0 ? json_integer((json_int_t)run->first_step) : json_null());
}

/* The cause of a failure. If nothing failed but the loss grew, that. */
static void put_message(sheet *page, const launch_run *run)
{
    const launch_summary *summary = run->summary;
    const bool lost = launch_loss_grew(summary->loss_first, summary->loss_last);
    const bool given = run->end->message != NULL && run->end->message[0] != '\0';
    char message[LAUNCH_LOSS_MESSAGE_BYTES];
    launch_loss_message(summary->loss_first, summary->loss_last, message);
    put(page, "loss_grew", isnan(summary->loss_last) ? json_null() : json_boolean(lost));
    put_string(page, "message", lost && !given ? message : run->end->message);
}

static void put_origin(sheet *page, const launch_run *run)
{
    launch_text text = {0};
    launch_text_printf(&text, "ringfence launcher %s", run->info->version);
    if (run->engine != NULL && run->engine[0] != '\0') {
        launch_text_printf(&text, ", started by %s", run->engine);
    }
    put_string(page, "started_by", text.data);
    launch_text_fini(&text);
    launch_run_command(run, &text);
    put_string(page, "rerun", text.data);
    page->failed = page->failed || text.failed;
    launch_text_fini(&text);
    json_t *argv = json_array();
    for (int i = 0; i < run->argc; i++) {
        if (json_array_append_new(argv, make_string(run->argv[i])) != 0) {
            page->failed = true;
        }
    }
    put(page, "argv", argv);
    put_string(page, "started_at", run->started_at);
    put_string(page, "ended_at", run->ended_at);
    put_real(page, "wall_seconds", run->wall_seconds);
    put_real(page, "job_seconds", run->end->job_seconds);
    put(page, "exit_status", json_integer(run->end->exit_status));
    put_message(page, run);
}

static void put_surroundings(sheet *page, const launch_run *run)
{
    const launch_run_info *info = run->info;
    put_string(page, "git_commit", info->git_commit);
    put_string(page, "compiler", info->compiler);
    put_string(page, "compiler_flags", info->compiler_flags);
    put_string(page, "sanitizers", info->sanitizers);
    put_string(page, "host", info->host);
    put_string(page, "cpu", info->cpu);
    put_int(page, "cpus_online", (uint64_t)info->cpus_online);
    put_int(page, "cpus_allowed", (uint64_t)info->cpus_allowed);
    put_int(page, "memory_bytes", info->memory_bytes);
    put_string(page, "kernel", info->kernel);
    put_real(page, "load_average_before", info->load_before);
    put_real(page, "cpu_steal_share", info->steal_share);
    put_string(page, "unbound_because", run->end->unbound);
    put_string(page, "transport", run->end->transport);
    put_string(page, "algorithm", run->end->algorithm);
    put_string(page, "instruction_set", run->end->instruction_set);
}

static void put_job(sheet *page, const launch_run *run)
{
    const proto_job *job = run->job;
    const launch_run_info *info = run->info;
    const launch_rank_info *first = run->end->ranks;
    const bool known = first != NULL && first->sentences_total > 0;
    sheet data = sheet_make();
    put_string(&data, "path", info->data_path);
    put_string(&data, "sha256", info->data_sha256);
    put(&data, "bytes",
        info->data_sha256[0] != '\0' ? json_integer((json_int_t)info->data_bytes) : json_null());
    put(&data, "sentences", known ? json_integer((json_int_t)first->sentences_total) : json_null());
    put_sheet(page, "data", data);

    sheet model = sheet_make();
    put_string(&model, "architecture", run->architecture.text);
    put_int(&model, "vocab_size", (uint64_t)job->model.vocab_size);
    put_int(&model, "width", (uint64_t)job->model.width);
    put_int(&model, "layers", (uint64_t)job->model.layers);
    put_int(&model, "heads", (uint64_t)job->model.heads);
    put_int(&model, "context", (uint64_t)job->model.context);
    put_sheet(page, "model", model);

    sheet training = sheet_make();
    put_string(&training, "mode", proto_mode_name(job->job.mode));
    put_int(&training, "steps_asked_for", (uint64_t)job->train.steps);
    put_int(&training, "batch", (uint64_t)job->train.batch);
    put_int(&training, "zero", (uint64_t)job->parallel.zero);
    put_int(&training, "micro_batches", (uint64_t)job->train.micro_batches);
    put_string(&training, "optimizer", "AdamW");
    put_real(&training, "learning_rate", job->train.learning_rate);
    put_real(&training, "learning_rate_min", job->train.learning_rate_min);
    put_string(&training, "schedule", proto_schedule_name(job->train.schedule));
    put_int(&training, "warmup_steps", (uint64_t)job->train.warmup_steps);
    put_real(&training, "beta1", job->train.beta1);
    put_real(&training, "beta2", job->train.beta2);
    put_real(&training, "epsilon", job->train.epsilon);
    put_real(&training, "weight_decay", job->train.weight_decay);
    put_real(&training, "clip_norm", job->train.clip_norm);
    put_string(&training, "loss_on", proto_loss_on_name(job->data.loss_on));
    put_int(&training, "eval_every", (uint64_t)job->infer.eval_every);
    const bool reduces = !proto_mode_get(job->job.mode)->pipelined; /* gradients, in buckets */
    put_string(&training, "timing", reduces ? proto_timing_name(job->parallel.timing) : NULL);
    put(&training, "bucket_bytes",
        reduces ? json_integer((json_int_t)job->parallel.bucket_bytes) : json_null());
    put_int(&training, "threads_per_rank", (uint64_t)job->parallel.threads_per_rank);
    put_sheet(page, "training", training);
}

static void put_results(sheet *page, const launch_run *run)
{
    const launch_summary *summary = run->summary;
    sheet measured = sheet_make();
    const bool any = summary->steps_done > 0;
    put(&measured, "first_step",
        any ? json_integer((json_int_t)(run->steps->first + summary->measured_first))
            : json_null());
    put(&measured, "last_step",
        any ? json_integer((json_int_t)(run->steps->first + summary->steps_done) - 1)
            : json_null());
    put_string(&measured, "percentiles", "linear interpolation between the two closest values");
    put_string(&measured, "step_ms_is", "the slowest rank's time in each step");
    put_string(&measured, "clock",
               proto_mode_get(run->job->job.mode)->on_gpus ? "the GPU's; step_ms: the host's"
                                                           : "the host's");
    put_sheet(page, "measured_over", measured);
    put_breakdown(page, "mean_step", &summary->mean_step);
    put_spread(page, "step_ms", summary->step_ms);
    put_spread(page, "compute_ms", summary->compute_ms);
    put_spread(page, "allreduce_ms", summary->allreduce_ms);
    put_spread(page, "allreduce_exposed_ms", summary->exposed_ms);
    put_spread(page, "optimizer_ms", summary->optimizer_ms);
    put_real(page, "tokens_per_sec", summary->tokens_per_second);
    put_int(page, "tokens", summary->tokens);
    put_real(page, "loss_first", summary->loss_first);
    put_real(page, "loss_last", summary->loss_last);
    put_real(page, "max_abs_difference", summary->max_abs_difference);
}

static void put_eval(sheet *page, const launch_run *run)
{
    const uint64_t total = run->summary->eval_total;
    const uint64_t correct = run->summary->eval_correct;
    if (total == 0) {
        put(page, "eval", json_null());
        return;
    }
    sheet eval = sheet_make();
    put_int(&eval, "sentences", total);
    put_int(&eval, "correct", correct);
    put_real(&eval, "exact_match", (double)correct / (double)total);
    put_sheet(page, "eval", eval);
}

/* The results of --eval-every, in the order of the steps. */
static void put_eval_curve(sheet *page, const launch_run *run)
{
    json_t *curve = json_array();
    for (size_t i = 0; i < run->summary->steps_done; i++) {
        const launch_step *step = &run->steps->ranks[0].steps[i];
        if (!step->evaluated) {
            continue;
        }
        sheet point = sheet_make();
        put_int(&point, "step", step->step);
        put_real(&point, "loss", step->loss_global);
        put_real(&point, "heldout_loss", step->heldout_loss);
        put_int(&point, "sentences", step->heldout_sentences);
        put_int(&point, "correct", step->heldout_correct);
        put_real(&point, "exact_match",
                 (double)step->heldout_correct / (double)step->heldout_sentences);
        if (point.failed || json_array_append_new(curve, point.object) != 0) {
            page->failed = true;
        }
    }
    put(page, "eval_curve", curve);
}

static void put_finished(sheet *row, const launch_rank_info *info)
{
    char hex[PROTO_DIGEST_HEX_BYTES];
    const bool done = info->finished;
    proto_digest_hex(info->params_sha256, hex);
    put_string(row, "params_sha256", done ? hex : NULL);
    put(row, "byte_equal", done ? json_boolean(info->byte_equal) : json_null());
    put_real(row, "max_abs_difference", done ? info->max_abs_difference : NAN);
    put(row, "max_rss_bytes", done ? json_integer((json_int_t)info->max_rss_bytes) : json_null());
    put_real(row, "startup_ms", done ? (double)info->startup_ns * MS_PER_NS : NAN);
}

/* The CPUs that this rank has for itself. */
static json_t *make_cpus(const launch_rank_info *info)
{
    if (!info->bound) {
        return json_null();
    }
    json_t *cpus = json_array();
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &info->cpus) && json_array_append_new(cpus, json_integer(cpu)) != 0) {
            json_decref(cpus);
            return NULL;
        }
    }
    return cpus;
}

/* Puts a list of rows; null where there are none. */
static void put_rows(sheet *page, const char *key, sheet *rows, int count)
{
    json_t *list = count > 0 ? json_array() : json_null();
    for (int i = 0; i < count; i++) {
        page->failed =
            page->failed || rows[i].failed || json_array_append_new(list, rows[i].object) != 0;
    }
    put(page, key, list);
}

/* What the rank had of the model's state, and what it exchanged in the mean step. */
static void put_share(sheet *page, const launch_rank_info *info)
{
    sheet state[PROTO_MEMORY_USES_MAX];
    sheet exchanges[PROTO_EXCHANGE_USES_MAX];
    for (int i = 0; i < info->state_count; i++) {
        state[i] = sheet_make();
        put_string(&state[i], "purpose", info->state[i].purpose);
        put_int(&state[i], "planned_bytes", info->state[i].planned_bytes);
        put_int(&state[i], "allocated_bytes", info->state[i].peak_bytes);
    }
    for (int i = 0; i < info->exchange_count; i++) {
        exchanges[i] = sheet_make();
        put_string(&exchanges[i], "kind", info->exchanges[i].kind);
        put_real(&exchanges[i], "calls", info->exchanges[i].calls);
        put_real(&exchanges[i], "bytes", info->exchanges[i].bytes);
    }
    put_rows(page, "state", state, info->state_count);
    put_rows(page, "exchanges", exchanges, info->exchange_count);
}

static json_t *make_rank(const launch_run *run, int rank)
{
    sheet row = sheet_make();
    put_int(&row, "rank", (uint64_t)rank);
    if (run->end->ranks != NULL) {
        const launch_rank_info *info = &run->end->ranks[rank];
        put_string(&row, "host", info->host);
        put_int(&row, "pid", (uint64_t)info->pid);
        put(&row, "cpus", make_cpus(info));
        put(&row, "finished", json_boolean(info->finished));
        put_finished(&row, info);
        put_share(&row, info);
        put_int(&row, "sentences_shard", info->sentences_shard);
        put_int(&row, "sentences_long", info->sentences_long);
        char shown[BASE_TEXT_SHOWN_BYTES];
        base_text_shorten(info->first_sentence, shown);
        put_string(&row, "first_sentence", shown);
    }
    put_breakdown(&row, "mean_step", &run->summary->ranks[rank]);
    if (row.failed) {
        json_decref(row.object);
        return NULL;
    }
    return row.object;
}

static json_t *make_point(const launch_run *run, const launch_scaling_point *point)
{
    const launch_summary *summary = run->summary;
    const double speedup = launch_scaling_speedup(summary->scaling, summary->scaling_count, point);
    sheet row = sheet_make();
    put_int(&row, "ranks", (uint64_t)point->ranks);
    put_int(&row, "rounds", (uint64_t)point->rounds);
    put_int(&row, "steps", point->steps);
    put_real(&row, "tokens_per_sec", point->tokens_per_second);
    put_real(&row, "tokens_per_sec_low", point->tokens_per_second_low);
    put_real(&row, "tokens_per_sec_high", point->tokens_per_second_high);
    put_real(&row, "speedup", speedup);
    put_real(&row, "efficiency", speedup / point->ranks);
    put_breakdown(&row, "mean_step", &point->mean_step);
    if (row.failed) {
        json_decref(row.object);
        return NULL;
    }
    return row.object;
}

static json_t *make_failure(const launch_scaling_failure *failure)
{
    sheet row = sheet_make();
    put_int(&row, "ranks", (uint64_t)failure->ranks);
    put_string(&row, "reason", failure->reason);
    if (row.failed) {
        json_decref(row.object);
        return NULL;
    }
    return row.object;
}

static void put_lists(sheet *page, const launch_run *run)
{
    json_t *scaling = json_array();
    json_t *failed = json_array();
    json_t *ranks = json_array();
    for (int i = 0; i < run->end->scaling_failed_count; i++) {
        if (json_array_append_new(failed, make_failure(&run->end->scaling_failed[i])) != 0) {
            page->failed = true;
        }
    }
    for (int i = 0; i < run->summary->scaling_count; i++) {
        if (json_array_append_new(scaling, make_point(run, &run->summary->scaling[i])) != 0) {
            page->failed = true;
        }
    }
    for (int r = 0; r < run->job->job.world_size; r++) {
        if (json_array_append_new(ranks, make_rank(run, r)) != 0) {
            page->failed = true;
        }
    }
    put(page, "scaling", scaling);
    put(page, "scaling_failed", failed);
    put(page, "ranks", ranks);
}

base_status launch_manifest_write(const launch_run *run, launch_text *text, base_error *reterr)
{
    sheet page = sheet_make();
    put_headline(&page, run);
    put_origin(&page, run);
    put_surroundings(&page, run);
    put_job(&page, run);
    put_results(&page, run);
    put_checkpoints(&page, run);
    put(&page, "token", launch_cost_json(run->end->cost));
    put(&page, "gpu", launch_gpus_json(run->end->ranks, run->job, run->end->nvlink));
    put(&page, "pipeline", launch_stages_json(run));
    put_eval(&page, run);
    put_eval_curve(&page, run);
    put_lists(&page, run);
    char *json =
        page.failed ? NULL : json_dumps(page.object, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(page.object);
    if (json == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to write the manifest");
    }
    launch_text_put(text, json);
    launch_text_put(text, "\n");
    free(json);
    return BASE_OK;
}
