/* Reads the figures of results.json. Called by inference.c for manifest, lesson and report. */
#include "record/inference_figures.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

double launch_inference_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

#define RANK_FIELD(key, member)                                                                    \
    {                                                                                              \
        key, offsetof(launch_inference_rank, member)                                               \
    }

static const struct {
    const char *key;
    size_t offset;
} rank_fields[] = {
    RANK_FIELD("weight_bytes", weight_bytes),
    RANK_FIELD("cache_bytes", cache_bytes),
    RANK_FIELD("max_rss_bytes", max_rss_bytes),
    RANK_FIELD("ttft_ms", ttft_ms),
    RANK_FIELD("per_token_ms", per_token_ms),
    RANK_FIELD("step_ms_per_token", step_ms),
    RANK_FIELD("compute_ms_per_token", compute_ms),
    RANK_FIELD("all_reduce_ms_per_token", all_reduce_ms),
    RANK_FIELD("gather_ms_per_token", gather_ms),
    RANK_FIELD("all_reduce_transfer_ms_per_token", reduce_transfer_ms),
    RANK_FIELD("all_reduce_waiting_ms_per_token", reduce_waiting_ms),
    RANK_FIELD("gather_transfer_ms_per_token", gather_transfer_ms),
    RANK_FIELD("gather_waiting_ms_per_token", gather_waiting_ms),
    RANK_FIELD("held_up_others_ms_per_token", held_up_ms),
    RANK_FIELD("slowest_in_steps", slowest_in_steps),
    RANK_FIELD("steps", steps),
    RANK_FIELD("tokens_drawn", drawn),
    RANK_FIELD("tokens_drafted", drafted),
    RANK_FIELD("tokens_accepted", accepted),
    RANK_FIELD("tokens_per_step", tokens_per_step),
};

enum { RANK_FIELDS = sizeof rank_fields / sizeof rank_fields[0] };

_Static_assert(RANK_FIELDS * sizeof(double) == sizeof(launch_inference_rank), "every field");

static double *rank_field(launch_inference_rank *rank, size_t field)
{
    return (double *)(void *)((char *)rank + rank_fields[field].offset);
}

static void read_ranks(const json_t *array, launch_inference_figures *figures)
{
    const size_t count = json_array_size(array);
    figures->rank_count =
        count < LAUNCH_INFERENCE_RANKS_MAX ? (int)count : LAUNCH_INFERENCE_RANKS_MAX;
    figures->slowest = -1;
    for (size_t field = 0; field < RANK_FIELDS; field++) {
        double sum = 0;
        for (int r = 0; r < figures->rank_count; r++) {
            double *value = rank_field(&figures->ranks[r], field);
            *value =
                launch_inference_number(json_array_get(array, (size_t)r), rank_fields[field].key);
            sum += *value;
        }
        *rank_field(&figures->mean, field) =
            figures->rank_count > 0 ? sum / figures->rank_count : (double)NAN;
    }
    for (int r = 0; r < figures->rank_count; r++) {
        const double held_up_ms = figures->ranks[r].held_up_ms;
        const double most_ms =
            figures->slowest >= 0 ? figures->ranks[figures->slowest].held_up_ms : 0;
        figures->slowest = held_up_ms > most_ms ? r : figures->slowest;
    }
}

static double mean_ttft(const json_t *prompts)
{
    size_t index = 0;
    json_t *prompt = NULL;
    double sum = 0;
    double count = 0;
    json_array_foreach(prompts, index, prompt)
    {
        const double ttft_ms = launch_inference_number(prompt, "ttft_ms");
        if (isfinite(ttft_ms)) { /* null: cancelled before there was one */
            sum += ttft_ms;
            count += 1;
        }
    }
    return count > 0 ? sum / count : (double)NAN;
}

/* rounds: of the side; NULL: `once` is all there is. */
static launch_inference_median read_median(const json_t *rounds, const char *key, double once)
{
    char low[32];
    char high[32];
    (void)snprintf(low, sizeof low, "%s_low", key);
    (void)snprintf(high, sizeof high, "%s_high", key);
    return (launch_inference_median){.median = rounds != NULL ? launch_inference_number(rounds, key)
                                                              : once,
                                     .low = launch_inference_number(rounds, low),
                                     .high = launch_inference_number(rounds, high)};
}

/* holder: of "total" and "prompts". */
static launch_inference_side read_side(const json_t *holder, const json_t *rounds)
{
    const json_t *total = json_object_get(holder, "total");
    const double speed = launch_inference_number(total, "tokens_per_s");
    const double ms = launch_inference_number(total, "per_token_ms");
    return (launch_inference_side){
        .tokens = launch_inference_number(total, "tokens"),
        .per_token_ms = read_median(rounds, "per_token_ms", ms),
        .tokens_per_s = read_median(rounds, "tokens_per_s", speed),
        .first_tokens_per_s = speed,
        .ttft_ms = mean_ttft(json_object_get(holder, "prompts")),
    };
}

static void read_curve(const json_t *object, launch_curve *curve)
{
    const json_t *link = json_object_get(object, "link");
    size_t index = 0;
    json_t *at = NULL;
    json_array_foreach(json_object_get(object, "points"), index, at)
    {
        if (curve->point_count == LAUNCH_CURVE_POINTS_MAX) {
            break;
        }
        curve->points[curve->point_count++] = (launch_curve_point){
            .d_model = launch_inference_number(at, "d_model"),
            .predicted_single_ms = launch_inference_number(at, "predicted_single_ms"),
            .predicted_tp_ms = launch_inference_number(at, "predicted_tp_ms"),
            .single_ms = launch_inference_number(at, "single_ms"),
            .single_ms_low = launch_inference_number(at, "single_ms_low"),
            .single_ms_high = launch_inference_number(at, "single_ms_high"),
            .tp_ms = launch_inference_number(at, "tp_ms"),
            .tp_ms_low = launch_inference_number(at, "tp_ms_low"),
            .tp_ms_high = launch_inference_number(at, "tp_ms_high"),
        };
    }
    curve->ranks = (int)json_integer_value(json_object_get(object, "ranks"));
    curve->layers = launch_inference_number(object, "layers");
    curve->latency_us = launch_inference_number(link, "latency_us");
    curve->link_gb_per_s = launch_inference_number(link, "gb_per_s");
    curve->crossover_d_model = launch_inference_number(object, "crossover_d_model");
    curve->predicted_crossover_d_model =
        launch_inference_number(object, "predicted_crossover_d_model");
}

void launch_inference_read(const json_t *results, launch_inference_figures *figures)
{
    const json_t *ranks = json_object_get(results, "ranks");
    const json_t *first = json_array_get(ranks, 0);
    const json_t *comparison = json_object_get(results, "comparison");
    memset(figures, 0, sizeof *figures);
    figures->rounds = (int)json_integer_value(json_object_get(comparison, "rounds"));
    figures->tp = read_side(results, json_object_get(comparison, "tp"));
    figures->single =
        read_side(json_object_get(results, "single"), json_object_get(comparison, "single"));
    figures->replicas =
        read_side(json_object_get(results, "replicas"), json_object_get(comparison, "replicas"));
    figures->speedup = launch_inference_number(results, "speedup");
    figures->parameters = launch_inference_number(json_object_get(results, "model"), "parameters");
    figures->all_reduces = launch_inference_number(first, "all_reduces_per_token");
    figures->all_reduce_bytes = launch_inference_number(first, "all_reduce_bytes_per_token");
    read_ranks(ranks, figures);
    read_curve(json_object_get(results, "curve"), &figures->curve);
}

double launch_inference_apart(const launch_inference_figures *figures)
{
    const launch_inference_median *tp = &figures->tp.per_token_ms;
    const launch_inference_median *single = &figures->single.per_token_ms;
    return fmax(tp->high / tp->low, single->high / single->low);
}

double launch_inference_reduces_a_step(const launch_inference_figures *figures)
{
    const launch_inference_rank *first = &figures->ranks[0];
    return figures->rank_count > 0 && first->steps > 0
               ? figures->all_reduces * first->drawn / first->steps
               : (double)NAN;
}

double launch_inference_texts_a_step(const launch_inference_figures *figures)
{
    const launch_inference_rank *first = &figures->ranks[0];
    const double saved =
        isfinite(first->accepted) ? first->accepted : 0; /* old records have none */
    return figures->rank_count > 0 && first->steps > 0 ? (first->drawn - saved) / first->steps
                                                       : (double)NAN;
}

/* Whether the rounds of both sides are among each other. */
static bool is_close(const launch_curve_point *point)
{
    return point->tp_ms_low <= point->single_ms_high && point->single_ms_low <= point->tp_ms_high;
}

const char *launch_curve_no_crossover(const launch_curve *curve)
{
    const launch_curve_point *last = NULL;
    bool any_close = false;
    for (int i = 0; i < curve->point_count; i++) {
        const launch_curve_point *point = &curve->points[i];
        if (isfinite(point->single_ms) && isfinite(point->tp_ms)) {
            last = point;
            any_close = any_close || is_close(point);
        }
    }
    if (last == NULL || isfinite(curve->crossover_d_model)) {
        return NULL;
    }
    if (last->tp_ms < last->single_ms) {
        return any_close
                   ? "At every width that was measured, all ranks together are faster than one, "
                     "but not everywhere by more than the rounds differ: whether the crossover "
                     "is below, these figures do not show."
                   : "At every width that was measured, all ranks together are faster than one: "
                     "the crossover is below.";
    }
    return is_close(last)
               ? "At the largest width that was measured, one rank and all together differ less "
                 "than the rounds do: whether the crossover is above, these figures do not show."
               : "At the largest width that was measured, one rank is still as fast as all "
                 "together: the crossover is above.";
}

double launch_inference_exchange_share(const launch_inference_rank *rank)
{
    return (rank->all_reduce_ms + rank->gather_ms) / rank->step_ms;
}

double launch_inference_comm_compute(const launch_inference_rank *rank)
{
    return (rank->all_reduce_ms + rank->gather_ms) / rank->compute_ms;
}
