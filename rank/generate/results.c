/* Collects answers as JSON. Called by mode.c, which writes them at the end of an inference run. */
#include "generate/results.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/path.h"
#include "generate/mode.h"
#include "generate/stream_text.h"
#include "model/family.h"

enum { DIGITS = 6, DIGITS_OF_DOUBLES = 17 /* a double comes back with its bits */ };

struct rank_results {
    json_t *object;
    json_t *prompts;      /* in object */
    rank_timing *timings; /* (timing_count), as prompts */
    size_t timing_count;
    int ranks;   /* that share the model */
    char *steps; /* timings.jsonl; NULL: there is none */
    size_t steps_bytes;
    size_t digits; /* of numbers */
    bool failed;   /* memory ran out */
};

base_status rank_results_create(const proto_job *job, const rank_model_config *config,
                                rank_results **results, base_error *reterr)
{
    const char *adapter = job->model.adapter[0] != '\0' ? job->model.adapter : NULL;
    const char *draft = job->model.draft[0] != '\0' ? job->model.draft : NULL;
    rank_results *made = calloc(1, sizeof *made);
    *results = made;
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for results");
    }
    made->digits = DIGITS;
    made->ranks = (int)job->job.world_size;
    made->prompts = json_array();
    made->object = json_pack(
        "{s:I, s:s, s:{s:s, s:s?, s:s?, s:s, s:i, s:i, s:i, s:i, s:i, s:I}, s:I, s:I, s:b, s:O}",
        "world_size", (json_int_t)job->job.world_size, "mode", proto_mode_name((int)job->job.mode),
        "model", "checkpoint", job->model.checkpoint, "adapter", adapter, "draft", draft, "family",
        config->family->model_types[0], "vocab_size", config->vocab_size, "width", config->width,
        "layers", config->layers, "heads", config->heads, "context", rank_mode_context(job, config),
        "parameters", (json_int_t)rank_model_param_count(config), "max_new_tokens",
        (json_int_t)job->infer.max_new_tokens, "max_num_seqs", (json_int_t)job->infer.max_num_seqs,
        "ignore_eos", job->infer.ignore_eos, "prompts", made->prompts);
    json_decref(made->prompts);
    if (made->object == NULL) {
        rank_results_destroy(made);
        *results = NULL;
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for results");
    }
    return BASE_OK;
}

void rank_results_destroy(rank_results *results)
{
    if (results != NULL) {
        json_decref(results->object);
        free(results->timings);
        free(results->steps);
        free(results);
    }
}

static json_t *id_array(const int32_t *ids, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; array != NULL && i < count; i++) {
        if (json_array_append_new(array, json_integer(ids[i])) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

/* null if there are fewer than two tokens */
static json_t *per_token(const rank_timing *timing)
{
    return timing->drawn < 2
               ? json_null()
               : json_pack("{s:f, s:f, s:f, s:f}", "mean", timing->mean_ms, "p50", timing->p50_ms,
                           "p95", timing->p95_ms, "p99", timing->p99_ms);
}

static base_status keep_timing(rank_results *results, const rank_answer *answer)
{
    rank_timing *more =
        realloc(results->timings, (results->timing_count + 1) * sizeof *results->timings);
    if (more == NULL) {
        return BASE_ERR_MEMORY;
    }
    results->timings = more;
    return rank_timing_of(answer, &results->timings[results->timing_count++], NULL);
}

static json_t *clean_text(const char *text, size_t text_bytes)
{
    char *clean = rank_stream_text_whole(text, text_bytes);
    json_t *string = clean != NULL ? json_string(clean) : NULL;
    free(clean);
    return string;
}

/* Text that a prompt was made of, or what its tokens mean: any bytes. */
static json_t *prompt_text(const char *prompt)
{
    json_t *string = json_string(prompt);
    return string != NULL ? string : clean_text(prompt, strlen(prompt));
}

static const char *finish_name(rank_finish finish)
{
    return finish == RANK_FINISH_STOP        ? "stop"
           : finish == RANK_FINISH_CANCELLED ? "cancelled"
                                             : "length";
}

/* Of each token its own, and those of the best as a list. Stop tokens have none, as in token_ids. */
static json_t *describe_logprobs(const rank_answer *answer)
{
    const size_t each = (size_t)answer->logprob_count;
    json_t *tokens = json_array();
    for (size_t token = 0; token < answer->count; token++) {
        const rank_logprob *of = answer->logprobs + token * each;
        json_t *best = json_array();
        for (size_t i = 1; i < each && of[i].token >= 0; i++) {
            (void)json_array_append_new(
                best, json_pack("{s:i, s:f}", "token_id", of[i].token, "logprob", of[i].value));
        }
        (void)json_array_append_new(tokens,
                                    json_pack("{s:f, s:o}", "logprob", of->value, "best", best));
    }
    return tokens;
}

/* What an answer is, but for its times. */
static json_t *describe_answer(const rank_answer *answer)
{
    json_t *entry = json_pack(
        "{s:o, s:o, s:o, s:o, s:s}", "prompt", prompt_text(answer->prompt), "prompt_token_ids",
        id_array(answer->prompt_tokens, answer->prompt_count), "token_ids",
        id_array(answer->tokens, answer->count), "text",
        clean_text(answer->text, answer->text_bytes), "finish_reason", finish_name(answer->finish));
    if (answer->logprob_count > 0 &&
        json_object_set_new(entry, "logprobs", describe_logprobs(answer)) != 0) {
        json_decref(entry);
        return NULL;
    }
    return entry;
}

char *rank_results_line(const rank_answer *answer, uint64_t index)
{
    json_t *entry = describe_answer(answer);
    json_t *line = json_pack("{s:I}", "index", (json_int_t)index);
    char *text = entry != NULL && json_object_update(line, entry) == 0
                     ? json_dumps(line, JSON_COMPACT | JSON_PRESERVE_ORDER |
                                            JSON_REAL_PRECISION(DIGITS_OF_DOUBLES))
                     : NULL;
    json_decref(entry);
    json_decref(line);
    return text;
}

void rank_results_add(rank_results *results, const rank_answer *answer)
{
    if (keep_timing(results, answer) != BASE_OK) {
        results->failed = true;
        return;
    }
    const rank_timing *timing = &results->timings[results->timing_count - 1];
    json_t *entry = describe_answer(answer);
    json_t *ttft = timing->drawn > 0 ? json_real(timing->ttft_ms) : json_null();
    results->digits = answer->logprob_count > 0 ? DIGITS_OF_DOUBLES : results->digits;
    results->failed = json_object_set_new(entry, "ttft_ms", ttft) != 0 ||
                      json_object_set_new(entry, "per_token_ms", per_token(timing)) != 0 ||
                      results->failed;
    if (entry == NULL || json_array_append_new(results->prompts, entry) != 0) {
        results->failed = true;
    }
}

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static double to_us(int64_t ns)
{
    return (double)ns / (double)BASE_NS_PER_US;
}

static json_t *total_of(const rank_timing *timings, size_t count, double tokens, double seconds)
{
    return json_pack("{s:I, s:f, s:o, s:o}", "tokens", (json_int_t)tokens, "seconds", seconds,
                     "tokens_per_s", number(seconds > 0 ? tokens / seconds : (double)NAN),
                     "per_token_ms", number(rank_timing_per_token_ms(timings, count)));
}

/* The first round of a phase of the baseline, prompt by prompt; same_tokens compares with the
 * tensor-parallel phase's. */
static json_t *describe_phase(const rank_results *results, const rank_phase *phase)
{
    json_t *prompts = json_array();
    bool failed = prompts == NULL;
    for (size_t i = 0; !failed && i < results->timing_count; i++) {
        const rank_timing *timing = &phase->first.timings[i];
        const bool same = timing->digest == results->timings[i].digest;
        failed =
            json_array_append_new(prompts, json_pack("{s:f, s:o, s:b}", "ttft_ms", timing->ttft_ms,
                                                     "per_token_ms", per_token(timing),
                                                     "same_tokens", same)) != 0;
    }
    if (failed) {
        json_decref(prompts);
        return NULL;
    }
    return json_pack("{s:o, s:o}", "total",
                     total_of(phase->first.timings, results->timing_count, phase->first.tokens,
                              phase->first.seconds),
                     "prompts", prompts);
}

static json_t *describe_rounds(const rank_phase *phase, int rounds)
{
    const rank_spread ms = rank_spread_of(phase->per_token_ms, rounds);
    const rank_spread speed = rank_spread_of(phase->tokens_per_s, rounds);
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "per_token_ms", number(ms.median),
                     "per_token_ms_low", number(ms.low), "per_token_ms_high", number(ms.high),
                     "tokens_per_s", number(speed.median), "tokens_per_s_low", number(speed.low),
                     "tokens_per_s_high", number(speed.high));
}

/* What all rounds say together; null: there were none. */
static json_t *describe_comparison(const rank_baseline *baseline)
{
    const int rounds = baseline->rounds;
    return rounds == 0 ? json_null()
                       : json_pack("{s:i, s:o, s:o, s:o}", "rounds", rounds, "tp",
                                   describe_rounds(&baseline->tp, rounds), "single",
                                   describe_rounds(&baseline->single, rounds), "replicas",
                                   describe_rounds(&baseline->replicas, rounds));
}

void rank_results_baseline(rank_results *results, const rank_baseline *baseline)
{
    json_t *object = results->object;
    const bool ran = baseline->rounds > 0;
    const double ours = rank_spread_of(baseline->tp.per_token_ms, baseline->rounds).median;
    const double theirs = rank_spread_of(baseline->single.per_token_ms, baseline->rounds).median;
    const int failures =
        json_object_set_new(object, "single",
                            ran ? describe_phase(results, &baseline->single) : json_null()) +
        json_object_set_new(object, "replicas",
                            ran ? describe_phase(results, &baseline->replicas) : json_null()) +
        json_object_set_new(object, "comparison", describe_comparison(baseline)) +
        json_object_set_new(object, "speedup", number(theirs / ours)) +
        json_object_set_new(object, "baseline_null_because",
                            ran ? json_null() : json_string(baseline->reason));
    results->failed = results->failed || failures != 0;
}

void rank_results_steps(void *user, const rank_step_cost *steps, size_t count)
{
    rank_results *results = user;
    FILE *lines = open_memstream(&results->steps, &results->steps_bytes);
    for (size_t i = 0; lines != NULL && i < count; i++) {
        const rank_step_cost *step = &steps[i];
        (void)fprintf(lines,
                      "{\"step\":%zu,\"tokens_computed\":%d,\"tokens_drawn\":%d,\"step_us\":%.3f,"
                      "\"transfer_us\":%.3f,\"waiting_us\":%.3f,\"slowest_rank\":",
                      i, step->tokens, step->drawn, to_us(step->step_ns), to_us(step->transfer_ns),
                      to_us(step->waiting_ns));
        if (step->slowest >= 0) {
            (void)fprintf(lines, "%d", step->slowest);
        } else {
            (void)fputs("null", lines);
        }
        (void)fprintf(lines, ",\"held_up_us\":%.3f}\n", to_us(step->held_up_ns));
    }
    if (lines == NULL || fclose(lines) != 0) {
        results->failed = true;
    }
}

static json_t *describe_point(const rank_curve_point *point)
{
    return json_pack(
        "{s:i, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "d_model", point->width, "parameters", (json_int_t)point->parameters, "weight_bytes",
        (json_int_t)point->weight_bytes, "single_read_gb_per_s", number(point->single_rate / 1e9),
        "tp_read_gb_per_s", number(point->tp_rate / 1e9), "predicted_single_ms",
        number(point->predicted_single_ms), "predicted_tp_ms", number(point->predicted_tp_ms),
        "predicted_comm_fraction", number(point->predicted_comm_fraction), "rounds", point->rounds,
        "single_ms", number(point->single.median), "single_ms_low", number(point->single.low),
        "single_ms_high", number(point->single.high), "tp_ms", number(point->tp.median),
        "tp_ms_low", number(point->tp.low), "tp_ms_high", number(point->tp.high), "null_because",
        point->reason[0] != '\0' ? json_string(point->reason) : json_null());
}

void rank_results_curve(rank_results *results, const rank_curve *curve)
{
    json_t *points = json_array();
    for (int i = 0; i < curve->count; i++) {
        results->failed = json_array_append_new(points, describe_point(&curve->points[i])) != 0 ||
                          results->failed;
    }
    json_t *object =
        json_pack("{s:i, s:i, s:{s:f, s:f}, s:o, s:o, s:o}", "ranks", curve->ranks, "layers",
                  RANK_CURVE_LAYERS, "link", "latency_us", curve->link.latency_s * 1e6, "gb_per_s",
                  curve->link.bandwidth_bytes_per_s / 1e9, "crossover_d_model",
                  number(rank_curve_crossover(curve, false)), "predicted_crossover_d_model",
                  number(rank_curve_crossover(curve, true)), "points", points);
    if (json_object_set_new(results->object, "curve", object) != 0) {
        results->failed = true;
    }
}

/* A time of all steps in ms for each token that was drawn. */
static json_t *per_drawn(const rank_generate_report *report, double ns)
{
    return report->costs.sampled > 0
               ? json_real(ns / (double)report->costs.sampled / (double)BASE_NS_PER_MS)
               : json_null();
}

static void put(json_t *object, bool *failed, const char *key, json_t *value)
{
    *failed = json_object_set_new(object, key, value) != 0 || *failed;
}

/* Where this rank's time went. Waiting times need a common clock. */
static void put_times(json_t *object, bool *failed, const rank_generate_report *report)
{
    const rank_step_share *share = &report->share;
    const double exchange_ns = (double)(report->costs.all_reduce.ns + report->costs.gather_ns);
    const double step_ns = (double)report->costs.step_ns;
    const struct {
        const char *key;
        double ns;
    } waits[] = {
        {"all_reduce_transfer_ms_per_token", share->reduce_transfer_ns},
        {"all_reduce_waiting_ms_per_token", share->reduce_waiting_ns},
        {"gather_transfer_ms_per_token", share->gather_transfer_ns},
        {"gather_waiting_ms_per_token", share->gather_waiting_ns},
        {"held_up_others_ms_per_token", share->held_up_ns},
    };
    put(object, failed, "ttft_ms", number(report->ttft_ms));
    put(object, failed, "per_token_ms", number(report->per_token_ms));
    put(object, failed, "step_ms_per_token", per_drawn(report, step_ns));
    put(object, failed, "draft_ms_per_token", per_drawn(report, (double)report->costs.draft_ns));
    put(object, failed, "compute_ms_per_token", per_drawn(report, step_ns - exchange_ns));
    put(object, failed, "all_reduce_ms_per_token",
        per_drawn(report, (double)report->costs.all_reduce.ns));
    put(object, failed, "gather_ms_per_token", per_drawn(report, (double)report->costs.gather_ns));
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        put(object, failed, waits[i].key,
            report->traced ? per_drawn(report, waits[i].ns) : json_null());
    }
    put(object, failed, "slowest_in_steps",
        report->traced ? json_integer((json_int_t)share->slowest_steps) : json_null());
    put(object, failed, "exchange_share",
        number(step_ns > 0 ? exchange_ns / step_ns : (double)NAN));
}

/* What drafts have saved, and what the model that makes them takes. */
static void put_drafts(json_t *object, bool *failed, const rank_generate_report *report)
{
    const rank_engine_costs *costs = &report->costs;
    const rank_engine_memory *memory = &report->memory;
    const double in_steps = (double)(costs->sampled - costs->accepted);
    put(object, failed, "draft_weight_bytes", json_integer((json_int_t)memory->draft_weight_bytes));
    put(object, failed, "draft_cache_bytes", json_integer((json_int_t)memory->draft_cache_bytes));
    put(object, failed, "tokens_drafted", json_integer((json_int_t)costs->drafted));
    put(object, failed, "tokens_accepted", json_integer((json_int_t)costs->accepted));
    put(object, failed, "tokens_per_step",
        number(in_steps > 0 ? (double)costs->sampled / in_steps : (double)NAN));
}

/* One rank's part: what it has loaded and computed, and its cost of the exchange for each drawn
 * token. */
static json_t *describe(const rank_results_rank *rank)
{
    const rank_generate_report *report = &rank->report;
    const double drawn = report->costs.sampled > 0 ? (double)report->costs.sampled : 1.0;
    const double seconds = (double)report->costs.step_ns / (double)BASE_NS_PER_S;
    bool failed = false;
    json_t *object = json_pack(
        "{s:s, s:I, s:I, s:I, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f}",
        "weight_type", rank_type_name(report->weight_type), "weight_bytes",
        (json_int_t)report->memory.weight_bytes, "weight_elements",
        (json_int_t)report->memory.weight_elements, "cache_bytes",
        (json_int_t)report->memory.cache_bytes, "cache_blocks", report->memory.cache_blocks,
        "cache_tokens", report->memory.cache_tokens, "work_bytes",
        (json_int_t)report->memory.work_bytes, "max_rss_bytes", (json_int_t)rank->max_rss_bytes,
        "steps", (json_int_t)report->costs.steps, "tokens_computed",
        (json_int_t)report->costs.tokens, "tokens_drawn", (json_int_t)report->costs.sampled,
        "preemptions", (json_int_t)report->costs.preemptions, "seconds", seconds, "tokens_per_s",
        seconds > 0 ? drawn / seconds : 0.0, "all_reduces_per_token",
        (double)report->costs.all_reduce.count / drawn, "all_reduce_bytes_per_token",
        (double)report->costs.all_reduce.bytes / drawn);
    put_drafts(object, &failed, report);
    put_times(object, &failed, report);
    if (failed) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *describe_all(const rank_results_rank *ranks, int count)
{
    json_t *array = json_array();
    for (int rank = 0; array != NULL && rank < count; rank++) {
        if (json_array_append_new(array, describe(&ranks[rank])) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

/* Removes the file of an older run if there are no steps. */
static base_status write_steps(const rank_results *results, const char *directory,
                               base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    const base_status status = base_path_join(directory, "timings.jsonl", path, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (results->steps != NULL) {
        return base_file_write(path, results->steps, results->steps_bytes, reterr);
    }
    (void)unlink(path);
    return BASE_OK;
}

static base_status write_text(const char *text, const char *directory, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    base_status status = base_mkdirs(directory, reterr);
    if (status == BASE_OK) {
        status = base_path_join(directory, "results.json", path, reterr);
    }
    return status == BASE_OK ? base_file_write(path, text, strlen(text), reterr) : status;
}

base_status rank_results_write(rank_results *results, const rank_results_rank *ranks,
                               const char *directory, base_error *reterr)
{
    const rank_generate_report *first = &ranks[0].report;
    char *text = NULL;
    json_t *total = total_of(results->timings, results->timing_count, (double)first->costs.sampled,
                             (double)first->costs.step_ns / (double)BASE_NS_PER_S);
    if (json_object_set_new(results->object, "total", total) == 0 && !results->failed &&
        json_object_set_new(results->object, "ranks", describe_all(ranks, results->ranks)) == 0) {
        text = json_dumps(results->object, JSON_INDENT(2) | JSON_PRESERVE_ORDER |
                                               JSON_REAL_PRECISION(results->digits));
    }
    if (text == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "results.json: no memory, or a text that is not UTF-8");
    }
    base_status status = write_text(text, directory, reterr);
    if (status == BASE_OK) {
        status = write_steps(results, directory, reterr);
    }
    free(text);
    return status;
}
