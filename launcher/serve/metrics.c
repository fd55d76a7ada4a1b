/* Counts, and writes what GET /metrics says. Called by routes.c and events.c. */
#include "serve/metrics.h"

#include <inttypes.h>

#include "base/clock.h"

static const double bounds_s[LAUNCH_METRICS_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                        0.1,   0.25,   0.5,   1,    5,     30};

static const char *const outcome_names[LAUNCH_OUTCOMES] = {
    [LAUNCH_OUTCOME_STOP] = "stop",           [LAUNCH_OUTCOME_LENGTH] = "length",
    [LAUNCH_OUTCOME_CANCELLED] = "cancelled", [LAUNCH_OUTCOME_REFUSED] = "refused",
    [LAUNCH_OUTCOME_FULL] = "full",           [LAUNCH_OUTCOME_FAILED] = "failed",
};

void launch_metrics_observe(launch_histogram *histogram, int64_t duration_ns)
{
    const double seconds = (double)duration_ns / (double)BASE_NS_PER_S;
    int bucket = 0;
    while (bucket < LAUNCH_METRICS_BUCKETS && seconds > bounds_s[bucket]) {
        bucket++;
    }
    histogram->counts[bucket]++;
    histogram->count++;
    histogram->sum_s += seconds;
}

static void put_head(base_buffer *text, const char *name, const char *type, const char *help)
{
    base_buffer_printf(text, "# HELP ringfence_%s %s\n# TYPE ringfence_%s %s\n", name, help, name,
                       type);
}

static void put_one(base_buffer *text, const char *name, const char *type, uint64_t value,
                    const char *help)
{
    put_head(text, name, type, help);
    base_buffer_printf(text, "ringfence_%s %" PRIu64 "\n", name, value);
}

static void put_histogram(base_buffer *text, const char *name, const launch_histogram *histogram,
                          const char *help)
{
    uint64_t below = 0;
    put_head(text, name, "histogram", help);
    for (int i = 0; i < LAUNCH_METRICS_BUCKETS; i++) {
        below += histogram->counts[i];
        base_buffer_printf(text, "ringfence_%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, bounds_s[i],
                           below);
    }
    base_buffer_printf(text,
                       "ringfence_%s_bucket{le=\"+Inf\"} %" PRIu64 "\nringfence_%s_sum %.9g\n"
                       "ringfence_%s_count %" PRIu64 "\n",
                       name, histogram->count, name, histogram->sum_s, name, histogram->count);
}

/* Which model drafts, as a label of a number that is always 1. */
static void put_draft_model(base_buffer *text, const char *name)
{
    if (name == NULL || name[0] == '\0') {
        return;
    }
    put_head(text, "draft_model_info", "gauge", "The model that drafts (--draft).");
    base_buffer_put(text, "ringfence_draft_model_info{model=\"");
    for (const char *at = name; *at != '\0'; at++) {
        base_buffer_printf(text, *at == '"' || *at == '\\' ? "\\%c" : "%c", *at);
    }
    base_buffer_put(text, "\"} 1\n");
}

void launch_metrics_write(const launch_metrics *metrics, int running, int waiting,
                          base_buffer *text)
{
    put_head(text, "requests_total", "counter", "Completions by how they ended.");
    for (int i = 0; i < LAUNCH_OUTCOMES; i++) {
        base_buffer_printf(text, "ringfence_requests_total{result=\"%s\"} %" PRIu64 "\n",
                           outcome_names[i], metrics->requests[i]);
    }
    put_one(text, "prompt_tokens_total", "counter", metrics->prompt_tokens,
            "Tokens of accepted prompts.");
    put_one(text, "cached_prompt_tokens_total", "counter", metrics->cached_tokens,
            "Tokens of prompts that were cached, and not computed again.");
    put_one(text, "completion_tokens_total", "counter", metrics->drawn,
            "Tokens that were drawn, stop tokens too.");
    put_one(text, "drafted_tokens_total", "counter", metrics->drafted,
            "Tokens that were drafted (--speculate, --draft).");
    put_one(text, "accepted_draft_tokens_total", "counter", metrics->accepted,
            "Tokens of drafts that saved a step.");
    put_one(text, "preemptions_total", "counter", metrics->preemptions,
            "How often a completion lost its place in the cache to an older one, by its end.");
    put_draft_model(text, metrics->draft_model);
    put_one(text, "requests_running", "gauge", (uint64_t)running,
            "Completions that have their first token.");
    put_one(text, "requests_waiting", "gauge", (uint64_t)waiting,
            "Completions that wait for their first token.");
    put_histogram(text, "time_to_first_token_seconds", &metrics->first,
                  "From the request to its first token.");
    put_histogram(text, "time_per_output_token_seconds", &metrics->per_token,
                  "Mean time between two tokens of a completion.");
}
