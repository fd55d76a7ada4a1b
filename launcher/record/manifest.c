/* Writes manifest.json: everything about a run in one object. What was not measured is null. Called
 * by record.c. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "record/cloud.h"
#include "record/run.h"
#include "record/sheet.h"
#include "record/stages.h"

static const double MS_PER_NS = 1e-6;

static void put_spread(launch_sheet *page, const char *key, launch_spread spread)
{
    launch_sheet part = sheet_make();
    sheet_real(&part, "mean", spread.mean);
    sheet_real(&part, "median", spread.p50);
    sheet_real(&part, "p95", spread.p95);
    sheet_part(page, key, part);
}

/* Where a step's time went; nulls if nothing was measured. */
static void put_mean_step(launch_sheet *page, const launch_breakdown *breakdown)
{
    launch_sheet parts = sheet_make();
    sheet_real(&parts, "step_ms", breakdown->step_ms);
    for (int p = 0; p < LAUNCH_PARTS; p++) {
        char name[32];
        (void)snprintf(name, sizeof name, "%s_ms", launch_part_key(p));
        sheet_real(&parts, name, breakdown->part_ms[p]);
    }
    sheet_real(&parts, "compute_cpu_ms", breakdown->compute_cpu_ms);
    sheet_real(&parts, "context_ms", breakdown->context_ms);
    sheet_real(&parts, "expert_ms", breakdown->expert_ms);
    sheet_real(&parts, "others_waiting_ms", breakdown->others_waiting_ms);
    sheet_part(page, "mean_step", parts);
}

static double speed_at(const launch_run *run, int ranks)
{
    const launch_scaling_point *point = launch_summary_point(run->summary, ranks);
    return point != NULL ? point->tokens_per_second : NAN;
}

static void put_headline(launch_sheet *page, const launch_run *run)
{
    const launch_summary *summary = run->summary;
    sheet_int(page, "seed", (uint64_t)run->job->job.seed);
    sheet_string(page, "lab", proto_mode_get(run->job->job.mode)->lab);
    sheet_string(page, "backend", run->backend);
    sheet_int(page, "world_size", (uint64_t)run->job->job.world_size);
    sheet_int(page, "model_params", run->end->model_params);
    sheet_int(page, "trained_params", run->end->trained_params);
    sheet_int(page, "steps", summary->steps_done);
    sheet_real(page, "allreduce_p50_ms", summary->allreduce_ms.p50);
    sheet_real(page, "allreduce_p95_ms", summary->allreduce_ms.p95);
    sheet_real(page, "tokens_per_sec_1proc", speed_at(run, 1));
    sheet_real(page, "tokens_per_sec_2proc", speed_at(run, 2));
    sheet_put(page, "byte_equivalent",
              summary->byte_equivalent == LAUNCH_UNKNOWN ||
                      !launch_architecture_copies(&run->architecture, run->job)
                  ? json_null()
                  : json_boolean(summary->byte_equivalent == LAUNCH_YES));
    sheet_string(page, "suspect", summary->suspect);
    sheet_string(page, "lesson_notes", run->lesson_notes);
}

/* Each attempt of --max-restarts, with what it ran on and why it failed. */
static void put_attempts(launch_sheet *page, const launch_record_end *end)
{
    json_t *history = json_array();
    for (size_t i = 0; i < end->attempt_count; i++) {
        const launch_attempt *one = &end->attempts[i];
        launch_sheet attempt = sheet_make();
        sheet_int(&attempt, "attempt", (uint64_t)one->number);
        sheet_int(&attempt, "hosts", (uint64_t)one->hosts);
        sheet_int(&attempt, "ranks", (uint64_t)one->ranks);
        sheet_int(&attempt, "micro_batches", (uint64_t)one->micro_batches);
        sheet_int(&attempt, "expert_ranks", (uint64_t)one->expert_ranks);
        sheet_known(&attempt, "first_step", one->ready, one->first_step);
        sheet_string(&attempt, "failure", one->failure.message);
        sheet_string(&attempt, "planned_end", one->planned.message);
        sheet_row(page, history, attempt);
    }
    sheet_put(page, "attempt_history", history);
}

/* --save-every and --resume. Rank 0 writes the checkpoints, and says how many when it has finished. */
static void put_checkpoints(launch_sheet *page, const launch_run *run)
{
    const launch_rank_info *first = run->end->ranks;
    const bool known = first != NULL && first->finished;
    launch_sheet checkpoints = sheet_make();
    sheet_int(&checkpoints, "every", (uint64_t)run->job->train.save_every);
    sheet_known(&checkpoints, "written", known, known ? first->checkpoints : 0);
    sheet_real(&checkpoints, "seconds",
               known ? (double)first->checkpoint_ns / (double)BASE_NS_PER_S : NAN);
    sheet_part(page, "checkpoints", checkpoints);
    sheet_int(page, "attempts", (uint64_t)run->attempts);
    put_attempts(page, run->end);
    sheet_known(page, "resumed_at_step", run->first_step > 0, run->first_step);
}

/* The cause of a failure. If nothing failed but the loss grew, that. */
static void put_message(launch_sheet *page, const launch_run *run)
{
    const launch_summary *summary = run->summary;
    const bool lost = launch_loss_grew(summary->loss_first, summary->loss_last);
    const bool given = run->end->message != NULL && run->end->message[0] != '\0';
    char message[LAUNCH_LOSS_MESSAGE_BYTES];
    launch_loss_message(summary->loss_first, summary->loss_last, message);
    sheet_put(page, "loss_grew", isnan(summary->loss_last) ? json_null() : json_boolean(lost));
    sheet_string(page, "message", lost && !given ? message : run->end->message);
}

static void put_origin(launch_sheet *page, const launch_run *run)
{
    base_buffer text = {0};
    base_buffer_printf(&text, "ringfence launcher %s", run->info->version);
    if (run->engine != NULL && run->engine[0] != '\0') {
        base_buffer_printf(&text, ", started by %s", run->engine);
    }
    sheet_string(page, "started_by", text.data);
    base_buffer_fini(&text);
    launch_run_command(run, &text);
    sheet_string(page, "rerun", text.data);
    page->failed = page->failed || text.failed;
    base_buffer_fini(&text);
    json_t *argv = json_array();
    for (int i = 0; i < run->argc; i++) {
        if (json_array_append_new(argv, sheet_text(run->argv[i])) != 0) {
            page->failed = true;
        }
    }
    sheet_put(page, "argv", argv);
    sheet_string(page, "started_at", run->started_at);
    sheet_string(page, "ended_at", run->ended_at);
    sheet_real(page, "wall_seconds", run->wall_seconds);
    sheet_real(page, "job_seconds", run->end->job_seconds);
    sheet_put(page, "exit_status", json_integer(run->end->exit_status));
    put_message(page, run);
}

static void put_surroundings(launch_sheet *page, const launch_run *run)
{
    const launch_run_info *info = run->info;
    sheet_string(page, "git_commit", info->git_commit);
    sheet_string(page, "compiler", info->compiler);
    sheet_string(page, "compiler_flags", info->compiler_flags);
    sheet_string(page, "sanitizers", info->sanitizers);
    sheet_string(page, "host", info->host);
    sheet_string(page, "cpu", info->cpu);
    sheet_int(page, "cpus_online", (uint64_t)info->cpus_online);
    sheet_int(page, "cpus_allowed", (uint64_t)info->cpus_allowed);
    sheet_int(page, "memory_bytes", info->memory_bytes);
    sheet_string(page, "kernel", info->kernel);
    sheet_real(page, "load_average_before", info->load_before);
    sheet_real(page, "cpu_steal_share", info->steal_share);
    sheet_string(page, "unbound_because", run->end->unbound);
    sheet_string(page, "transport", run->end->transport);
    sheet_string(page, "algorithm", run->end->algorithm);
    sheet_string(page, "instruction_set", run->end->instruction_set);
}

/* The adapters that are trained; null: the model is. */
static void put_lora(launch_sheet *training, const proto_job *job)
{
    const proto_job_lora *asked = &job->lora;
    const char *begun = job->model.adapter[0] != '\0' ? job->model.adapter : NULL;
    if (asked->rank == 0) {
        sheet_put(training, "lora", json_null());
        return;
    }
    launch_sheet lora = sheet_make();
    sheet_int(&lora, "rank", (uint64_t)asked->rank);
    sheet_real(&lora, "alpha", proto_job_lora_alpha(asked));
    sheet_string(&lora, "targets", asked->targets[0] != '\0' ? asked->targets : NULL);
    sheet_put(&lora, "merge", json_boolean(asked->merge));
    sheet_string(&lora, "adapter", begun);
    sheet_part(training, "lora", lora);
}

/* Steps that ranks take alone; null: the outer step that goes with them, where there is none. */
static void put_local(launch_sheet *training, const proto_job *job)
{
    const bool local = proto_job_is_local(job);
    sheet_int(training, "local_steps", (uint64_t)proto_job_local_steps(job));
    sheet_real(training, "outer_lr", local ? job->train.outer_learning_rate : NAN);
    sheet_real(training, "outer_momentum", local ? job->train.outer_momentum : NAN);
}

static void put_job(launch_sheet *page, const launch_run *run)
{
    const proto_job *job = run->job;
    const launch_run_info *info = run->info;
    const launch_rank_info *first = run->end->ranks;
    const bool known = first != NULL && first->sentences_total > 0;
    launch_sheet data = sheet_make();
    sheet_string(&data, "path", info->data_path);
    sheet_string(&data, "sha256", info->data_sha256);
    sheet_known(&data, "bytes", info->data_sha256[0] != '\0', info->data_bytes);
    sheet_known(&data, "sentences", known, known ? first->sentences_total : 0);
    sheet_part(page, "data", data);

    launch_sheet model = sheet_make();
    sheet_string(&model, "architecture", run->architecture.text);
    sheet_int(&model, "vocab_size", (uint64_t)job->model.vocab_size);
    sheet_int(&model, "width", (uint64_t)job->model.width);
    sheet_int(&model, "layers", (uint64_t)job->model.layers);
    sheet_int(&model, "heads", (uint64_t)job->model.heads);
    sheet_int(&model, "context", (uint64_t)job->model.context);
    sheet_part(page, "model", model);

    launch_sheet training = sheet_make();
    sheet_string(&training, "mode", proto_mode_name(job->job.mode));
    sheet_int(&training, "steps_asked_for", (uint64_t)job->train.steps);
    sheet_int(&training, "batch", (uint64_t)job->train.batch);
    sheet_int(&training, "context_ranks", (uint64_t)proto_job_context_ranks(job));
    sheet_int(&training, "expert_ranks", (uint64_t)proto_job_expert_ranks(job));
    sheet_int(&training, "zero", (uint64_t)job->parallel.zero);
    sheet_int(&training, "micro_batches", (uint64_t)job->train.micro_batches);
    put_local(&training, job);
    sheet_put(&training, "recompute", json_boolean(job->train.recompute));
    put_lora(&training, job);
    const bool muon = job->train.optimizer == PROTO_OPTIMIZER_MUON;
    sheet_string(&training, "optimizer", muon ? "Muon" : "AdamW");
    if (muon) {
        sheet_real(&training, "muon_momentum", proto_job_muon_momentum(job));
    }
    sheet_real(&training, "learning_rate", job->train.learning_rate);
    sheet_real(&training, "learning_rate_min", job->train.learning_rate_min);
    sheet_string(&training, "schedule", proto_schedule_name(job->train.schedule));
    sheet_int(&training, "warmup_steps", (uint64_t)job->train.warmup_steps);
    sheet_real(&training, "beta1", job->train.beta1);
    sheet_real(&training, "beta2", job->train.beta2);
    sheet_real(&training, "epsilon", job->train.epsilon);
    sheet_real(&training, "weight_decay", job->train.weight_decay);
    sheet_real(&training, "clip_norm", job->train.clip_norm);
    sheet_real(&training, "dropout", job->train.dropout);
    const bool windows = proto_job_cuts_windows(job); /* all their tokens are targets */
    sheet_string(&training, "loss_on",
                 proto_loss_on_name(windows ? PROTO_LOSS_ON_ALL : job->data.loss_on));
    sheet_put(&training, "windows", json_boolean(windows));
    sheet_string(&training, "chat_date",
                 job->data.chat_date[0] != '\0' ? job->data.chat_date : NULL);
    sheet_int(&training, "eval_every", (uint64_t)job->infer.eval_every);
    sheet_string(&training, "save_dtype", proto_save_dtype_name((int)job->train.save_dtype));
    sheet_put(&training, "keep_best", json_boolean(job->train.keep_best));
    sheet_known(&training, "patience", job->train.patience > 0, (uint64_t)job->train.patience);
    const bool reduces = /* gradients, in buckets */
        !proto_mode_get(job->job.mode)->pipelined || proto_job_copies(job) > 1;
    sheet_string(&training, "timing", reduces ? proto_timing_name(job->parallel.timing) : NULL);
    sheet_known(&training, "bucket_bytes", reduces, (uint64_t)job->parallel.bucket_bytes);
    sheet_int(&training, "threads_per_rank", (uint64_t)job->parallel.threads_per_rank);
    sheet_part(page, "training", training);
}

static void put_results(launch_sheet *page, const launch_run *run)
{
    const launch_summary *summary = run->summary;
    launch_sheet measured = sheet_make();
    const bool any = summary->steps_done > 0;
    sheet_known(&measured, "first_step", any, run->steps->first + summary->measured_first);
    sheet_known(&measured, "last_step", any, run->steps->first + summary->steps_done - 1);
    sheet_string(&measured, "percentiles", "linear interpolation between the two closest values");
    sheet_string(&measured, "step_ms_is", "the slowest rank's time in each step");
    sheet_string(&measured, "clock",
                 proto_mode_get(run->job->job.mode)->on_gpus ? "the GPU's; step_ms: the host's"
                                                             : "the host's");
    sheet_part(page, "measured_over", measured);
    put_mean_step(page, &summary->mean_step);
    put_spread(page, "step_ms", summary->step_ms);
    put_spread(page, "compute_ms", summary->compute_ms);
    put_spread(page, "allreduce_ms", summary->allreduce_ms);
    put_spread(page, "allreduce_exposed_ms", summary->exposed_ms);
    put_spread(page, "optimizer_ms", summary->optimizer_ms);
    sheet_real(page, "tokens_per_sec", summary->tokens_per_second);
    sheet_int(page, "tokens", summary->tokens);
    sheet_real(page, "loss_first", summary->loss_first);
    sheet_real(page, "loss_last", summary->loss_last);
    sheet_real(page, "max_abs_difference", summary->max_abs_difference);
}

/* How many sentences were to be corrected, and were. Of what has no pairs: how many the loss is of. */
static void put_exact(launch_sheet *page, uint64_t total, uint64_t correct, uint64_t measured)
{
    sheet_int(page, "sentences", total > 0 ? total : measured);
    sheet_known(page, "correct", total > 0, correct);
    sheet_real(page, "exact_match", total > 0 ? (double)correct / (double)total : NAN);
}

static void put_eval(launch_sheet *page, const launch_run *run)
{
    const uint64_t total = run->summary->eval_total;
    const uint64_t correct = run->summary->eval_correct;
    const uint64_t measured = run->summary->eval_measured;
    if (total == 0 && measured == 0) {
        sheet_put(page, "eval", json_null());
        return;
    }
    launch_sheet eval = sheet_make();
    sheet_real(&eval, "loss", run->summary->eval_loss);
    put_exact(&eval, total, correct, measured);
    sheet_part(page, "eval", eval);
}

/* The results of --eval-every, in the order of the steps. */
static void put_eval_curve(launch_sheet *page, const launch_run *run)
{
    json_t *curve = json_array();
    const launch_steps *steps = run->steps;
    for (size_t i = 0; i < steps->evaluation_count; i++) {
        const launch_evaluation *found = &steps->evaluations[i];
        if (found->index >= run->summary->steps_done) {
            break;
        }
        launch_sheet point = sheet_make();
        sheet_int(&point, "step", steps->first + found->index);
        sheet_real(&point, "loss", steps->losses[found->index]);
        sheet_real(&point, "heldout_loss", found->heldout_loss);
        put_exact(&point, found->sentences, found->correct, found->measured);
        sheet_row(page, curve, point);
    }
    sheet_put(page, "eval_curve", curve);
}

/* --keep-best: the step of eval_curve that the model is of. */
static void put_best(launch_sheet *page, const launch_run *run)
{
    const launch_rank_info *info = run->end->ranks;
    if (info == NULL || !info->finished || info->best_step == 0) {
        sheet_put(page, "best", json_null());
        return;
    }
    launch_sheet best = sheet_make();
    sheet_int(&best, "step", info->best_step - 1);
    sheet_real(&best, "heldout_loss", info->best_loss);
    sheet_put(&best, "stopped_early", json_boolean(info->stopped_early));
    sheet_part(page, "best", best);
}

static void put_finished(launch_sheet *row, const launch_rank_info *info)
{
    char hex[PROTO_DIGEST_HEX_BYTES];
    const bool done = info->finished;
    proto_digest_hex(info->params_sha256, hex);
    sheet_string(row, "params_sha256", done ? hex : NULL);
    sheet_put(row, "byte_equal", done ? json_boolean(info->byte_equal) : json_null());
    sheet_real(row, "max_abs_difference", done ? info->max_abs_difference : NAN);
    sheet_known(row, "max_rss_bytes", done, info->max_rss_bytes);
    sheet_real(row, "startup_ms", done ? (double)info->startup_ns * MS_PER_NS : NAN);
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
static void put_rows(launch_sheet *page, const char *key, launch_sheet *rows, int count)
{
    json_t *list = count > 0 ? json_array() : json_null();
    for (int i = 0; i < count; i++) {
        sheet_row(page, list, rows[i]);
    }
    sheet_put(page, key, list);
}

/* What the rank had of the model's state, and what it exchanged in the mean step. */
static void put_share(launch_sheet *page, const launch_rank_info *info)
{
    launch_sheet state[PROTO_MEMORY_USES_MAX];
    launch_sheet exchanges[PROTO_EXCHANGE_USES_MAX];
    for (int i = 0; i < info->state_count; i++) {
        state[i] = sheet_make();
        sheet_string(&state[i], "purpose", info->state[i].purpose);
        sheet_int(&state[i], "planned_bytes", info->state[i].planned_bytes);
        sheet_int(&state[i], "allocated_bytes", info->state[i].peak_bytes);
    }
    for (int i = 0; i < info->exchange_count; i++) {
        exchanges[i] = sheet_make();
        sheet_string(&exchanges[i], "kind", info->exchanges[i].kind);
        sheet_real(&exchanges[i], "calls", info->exchanges[i].calls);
        sheet_real(&exchanges[i], "bytes", info->exchanges[i].bytes);
    }
    put_rows(page, "state", state, info->state_count);
    put_rows(page, "exchanges", exchanges, info->exchange_count);
}

static launch_sheet make_rank(const launch_run *run, int rank)
{
    launch_sheet row = sheet_make();
    sheet_int(&row, "rank", (uint64_t)rank);
    if (run->end->ranks != NULL) {
        const launch_rank_info *info = &run->end->ranks[rank];
        sheet_string(&row, "host", info->host);
        sheet_int(&row, "pid", (uint64_t)info->pid);
        sheet_put(&row, "cpus", make_cpus(info));
        sheet_put(&row, "finished", json_boolean(info->finished));
        put_finished(&row, info);
        put_share(&row, info);
        sheet_int(&row, "sentences_shard", info->sentences_shard);
        sheet_int(&row, "sentences_long", info->sentences_long);
        char shown[BASE_TEXT_SHOWN_BYTES];
        base_text_shorten(info->first_sentence, shown);
        sheet_string(&row, "first_sentence", shown);
    }
    put_mean_step(&row, &run->summary->ranks[rank]);
    return row;
}

static launch_sheet make_point(const launch_run *run, const launch_scaling_point *point)
{
    const launch_summary *summary = run->summary;
    const double speedup = launch_scaling_speedup(summary->scaling, summary->scaling_count, point);
    launch_sheet row = sheet_make();
    sheet_int(&row, "ranks", (uint64_t)point->ranks);
    sheet_int(&row, "rounds", (uint64_t)point->rounds);
    sheet_int(&row, "steps", point->steps);
    sheet_real(&row, "tokens_per_sec", point->tokens_per_second);
    sheet_real(&row, "tokens_per_sec_low", point->tokens_per_second_low);
    sheet_real(&row, "tokens_per_sec_high", point->tokens_per_second_high);
    sheet_real(&row, "speedup", speedup);
    sheet_real(&row, "efficiency", speedup / point->ranks);
    put_mean_step(&row, &point->mean_step);
    return row;
}

static launch_sheet make_failure(const launch_scaling_failure *failure)
{
    launch_sheet row = sheet_make();
    sheet_int(&row, "ranks", (uint64_t)failure->ranks);
    sheet_string(&row, "reason", failure->reason);
    return row;
}

static void put_lists(launch_sheet *page, const launch_run *run)
{
    json_t *scaling = json_array();
    json_t *failed = json_array();
    json_t *ranks = json_array();
    for (int i = 0; i < run->end->scaling_failed_count; i++) {
        sheet_row(page, failed, make_failure(&run->end->scaling_failed[i]));
    }
    for (int i = 0; i < run->summary->scaling_count; i++) {
        sheet_row(page, scaling, make_point(run, &run->summary->scaling[i]));
    }
    for (int r = 0; r < run->job->job.world_size; r++) {
        sheet_row(page, ranks, make_rank(run, r));
    }
    sheet_put(page, "scaling", scaling);
    sheet_put(page, "scaling_failed", failed);
    sheet_put(page, "ranks", ranks);
}

base_status launch_manifest_write(const launch_run *run, base_buffer *text, base_error *reterr)
{
    launch_sheet page = sheet_make();
    put_headline(&page, run);
    put_origin(&page, run);
    put_surroundings(&page, run);
    put_job(&page, run);
    put_results(&page, run);
    put_checkpoints(&page, run);
    sheet_put(&page, "token", launch_cost_json(run->end->cost));
    sheet_put(&page, "gpu", launch_gpus_json(run->end->ranks, run->job, run->end->nvlink));
    sheet_put(&page, "pipeline", launch_stages_json(run));
    launch_manifest_experts(&page, run);
    put_eval(&page, run);
    put_eval_curve(&page, run);
    put_best(&page, run);
    put_lists(&page, run);
    char *json =
        page.failed ? NULL : json_dumps(page.object, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(page.object);
    if (json == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to write the manifest");
    }
    base_buffer_put(text, json);
    base_buffer_put(text, "\n");
    free(json);
    return BASE_OK;
}
