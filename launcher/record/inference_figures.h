/* The figures of an inference run's results.json, for manifest, lesson and report. A missing figure
 * is NaN. */
#ifndef LAUNCH_INFERENCE_FIGURES_H
#define LAUNCH_INFERENCE_FIGURES_H

#include <jansson.h>

#include "base/status.h"

enum { LAUNCH_INFERENCE_RANKS_MAX = 64, LAUNCH_CURVE_POINTS_MAX = 16 };

/* One rank's time in ms for each drawn token, and its memory. */
typedef struct launch_inference_rank {
    double weight_bytes;
    double cache_bytes;
    double max_rss_bytes;
    double ttft_ms;      /* mean over the prompts, by the rank's own clock */
    double per_token_ms; /* mean of a token after the first */
    double step_ms;      /* the sum of the following: */
    double compute_ms;
    double all_reduce_ms;
    double gather_ms;
    double reduce_transfer_ms;
    double reduce_waiting_ms;
    double gather_transfer_ms;
    double gather_waiting_ms;
    double held_up_ms; /* how long others waited for it, summed over them */
    double slowest_in_steps;
    double steps;
    double drawn; /* tokens */
    double drafted;
    double accepted;        /* of the drafted tokens, those that saved a step */
    double tokens_per_step; /* of a text */
} launch_inference_rank;

/* A median, and between what nine of ten rounds are: low and high NaN without rounds. */
typedef struct launch_inference_median {
    double median;
    double low;
    double high;
} launch_inference_median;

/* One of the three sides of the comparison: tensor parallel, one rank, replicas. Without a comparison
 * the medians are what was measured once. */
typedef struct launch_inference_side {
    double tokens; /* of one round */
    launch_inference_median per_token_ms;
    launch_inference_median tokens_per_s;
    double first_tokens_per_s; /* of the first round, as the ranks' figures are */
    double ttft_ms;            /* mean over the prompts, in the first round */
} launch_inference_side;

/* One width of the scaling curve: ms a token, by the cost model and as measured. */
typedef struct launch_curve_point {
    double d_model;
    double predicted_single_ms;
    double predicted_tp_ms;
    double single_ms; /* the median of the rounds */
    double single_ms_low;
    double single_ms_high;
    double tp_ms;
    double tp_ms_low;
    double tp_ms_high;
} launch_curve_point;

typedef struct launch_curve {
    int point_count; /* 0: there is no curve */
    launch_curve_point points[LAUNCH_CURVE_POINTS_MAX];
    int ranks;
    double layers;
    double latency_us; /* of an all-reduce of a few bytes between two ranks */
    double link_gb_per_s;
    double crossover_d_model; /* NaN: it is outside the measured widths */
    double predicted_crossover_d_model;
} launch_curve;

typedef struct launch_inference_figures {
    launch_inference_side tp;
    launch_inference_side single;
    launch_inference_side replicas;
    int rounds;     /* of the comparison; 0: there is none, or it is an old record's */
    double speedup; /* by the medians */
    double parameters;
    double all_reduces; /* for each drawn token, as is the next */
    double all_reduce_bytes;
    int rank_count;
    launch_inference_rank ranks[LAUNCH_INFERENCE_RANKS_MAX];
    launch_inference_rank mean; /* over the ranks; NaN if one of them has none */
    int slowest;                /* the rank for which the others waited longest; -1: not known */
    launch_curve curve;
} launch_inference_figures;

/* The number under the key; NaN: there is none. */
double launch_inference_number(const json_t *object, const char *key);

void launch_inference_read(const json_t *results, launch_inference_figures *figures);

/* How far the rounds of a token's time are apart, as the ratio of high to low: of the two sides that
 * the speed-up is made of the larger one. NaN: not known. Pure. */
double launch_inference_apart(const launch_inference_figures *figures);

/* All-reduces in each step; NaN: not known. Pure, as is the next. */
double launch_inference_reduces_a_step(const launch_inference_figures *figures);

/* Texts that get a token in a step, on average. */
double launch_inference_texts_a_step(const launch_inference_figures *figures);

/* Why the curve has no crossover; NULL: it has one, or nothing was measured. Pure. */
const char *launch_curve_no_crossover(const launch_curve *curve);

/* The share of a rank's steps that is exchange; NaN: not known. Pure, as is the next. */
double launch_inference_exchange_share(const launch_inference_rank *rank);

/* Exchange divided by the rest. */
double launch_inference_comm_compute(const launch_inference_rank *rank);

#endif
