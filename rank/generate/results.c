/* Gathers answers as JSON; mode.c writes them at the end of an inference run. */
#include "generate/results.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/path.h"
#include "generate/stream_text.h"
#include "model/family.h"

struct rank_results {
    json_t *object;
    json_t *prompts;      /* in object */
    rank_timing *timings; /* (timing_count), as prompts */
    size_t timing_count;
    bool failed; /* no memory somewhere */
};

base_status rank_results_create(const proto_job *job, const rank_model_config *config,
                                rank_results **results, base_error *reterr)
{
    rank_results *made = calloc(1, sizeof *made);
    *results = made;
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for results");
    }
    made->prompts = json_array();
    made->object = json_pack(
        "{s:I, s:s, s:{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:I}, s:I, s:I, s:b, s:O}", "world_size",
        (json_int_t)job->job.world_size, "mode", proto_mode_name((int)job->job.mode), "model",
        "checkpoint", job->model.checkpoint, "family", config->family->model_types[0], "vocab_size",
        config->vocab_size, "width", config->width, "layers", config->layers, "heads",
        config->heads, "context", config->context, "parameters",
        (json_int_t)rank_model_param_count(config), "max_new_tokens",
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

/* null with fewer than two tokens */
static json_t *per_token(const rank_timing *timing)
{
    return timing->drawn < 2 ? json_null()
                             : json_pack("{s:f, s:f, s:f}", "mean", timing->mean_ms, "p50",
                                         timing->p50_ms, "p95", timing->p95_ms);
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

static json_t *clean_text(const char *text)
{
    char *clean = rank_stream_text_whole(text);
    json_t *string = clean != NULL ? json_string(clean) : NULL;
    free(clean);
    return string;
}

void rank_results_add(rank_results *results, const rank_answer *answer)
{
    if (keep_timing(results, answer) != BASE_OK) {
        results->failed = true;
        return;
    }
    const rank_timing *timing = &results->timings[results->timing_count - 1];
    json_t *entry =
        json_pack("{s:s, s:o, s:o, s:o, s:f, s:o}", "prompt", answer->prompt, "prompt_token_ids",
                  id_array(answer->prompt_tokens, answer->prompt_count), "token_ids",
                  id_array(answer->tokens, answer->count), "text", clean_text(answer->text),
                  "ttft_ms", timing->ttft_ms, "per_token_ms", per_token(timing));
    if (entry == NULL || json_array_append_new(results->prompts, entry) != 0) {
        results->failed = true;
    }
}

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *total_of(const rank_timing *timings, size_t count, double tokens, double seconds)
{
    return json_pack("{s:I, s:f, s:o, s:o}", "tokens", (json_int_t)tokens, "seconds", seconds,
                     "tokens_per_s", number(seconds > 0 ? tokens / seconds : (double)NAN),
                     "per_token_ms", number(rank_timing_per_token_ms(timings, count)));
}

/* A phase of the baseline, prompt by prompt; same_tokens compares with the shared model's. */
static json_t *describe_phase(const rank_results *results, const rank_phase *phase)
{
    json_t *prompts = json_array();
    bool failed = prompts == NULL;
    for (size_t i = 0; !failed && i < results->timing_count; i++) {
        const rank_timing *timing = &phase->timings[i];
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
                     total_of(phase->timings, results->timing_count, phase->tokens, phase->seconds),
                     "prompts", prompts);
}

void rank_results_baseline(rank_results *results, const rank_baseline *baseline)
{
    json_t *object = results->object;
    const bool ran = baseline->reason[0] == '\0';
    const double ours = rank_timing_per_token_ms(results->timings, results->timing_count);
    const double theirs =
        ran ? rank_timing_per_token_ms(baseline->single.timings, results->timing_count)
            : (double)NAN;
    const int failures =
        json_object_set_new(object, "single",
                            ran ? describe_phase(results, &baseline->single) : json_null()) +
        json_object_set_new(object, "replicas",
                            ran ? describe_phase(results, &baseline->replicas) : json_null()) +
        json_object_set_new(object, "speedup", number(theirs / ours)) +
        json_object_set_new(object, "baseline_null_because",
                            ran ? json_null() : json_string(baseline->reason));
    results->failed = results->failed || failures != 0;
}

/* This rank's share, and what exchanging cost it for each token that was drawn. */
static json_t *describe(const rank_generate_report *report)
{
    const double drawn = report->sampled > 0 ? (double)report->sampled : 1.0;
    const double exchange_ns = (double)(report->all_reduce_ns + report->gather_ns);
    const double step_ns = (double)report->step_ns;
    return json_pack(
        "{s:I, s:I, s:I, s:i, s:i, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f}",
        "weight_bytes", (json_int_t)report->weight_bytes, "weight_elements",
        (json_int_t)report->weight_elements, "cache_bytes", (json_int_t)report->cache_bytes,
        "cache_blocks", report->cache_blocks, "cache_tokens", report->cache_tokens, "work_bytes",
        (json_int_t)report->work_bytes, "steps", (json_int_t)report->steps, "tokens_computed",
        (json_int_t)report->tokens, "tokens_drawn", (json_int_t)report->sampled, "seconds",
        step_ns / 1e9, "tokens_per_s", step_ns > 0 ? drawn / (step_ns / 1e9) : 0.0,
        "all_reduces_per_token", (double)report->all_reduces / drawn, "all_reduce_bytes_per_token",
        (double)report->all_reduce_bytes / drawn, "all_reduce_ms_per_token",
        (double)report->all_reduce_ns / drawn / (double)BASE_NS_PER_MS, "exchange_share",
        step_ns > 0 ? exchange_ns / step_ns : 0.0);
}

base_status rank_results_write(rank_results *results, const rank_generate_report *report,
                               const char *directory, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    char *text = NULL;
    json_t *total = total_of(results->timings, results->timing_count, (double)report->sampled,
                             (double)report->step_ns / 1e9);
    if (json_object_set_new(results->object, "total", total) == 0 && !results->failed &&
        json_object_set_new(results->object, "rank_0", describe(report)) == 0) {
        text = json_dumps(results->object,
                          JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    }
    if (text == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "results.json: no memory, or a text that is not UTF-8");
    }
    base_status status = base_mkdirs(directory, reterr);
    if (status == BASE_OK) {
        status = base_path_join(directory, "results.json", path, reterr);
    }
    if (status == BASE_OK) {
        status = base_file_write(path, text, strlen(text), reterr);
    }
    free(text);
    return status;
}
