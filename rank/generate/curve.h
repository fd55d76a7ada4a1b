/* The scaling curve: the time of a token on one rank and on several, by the width of the model. The
 * models have two layers, and their weights are drawn in memory (curve_run.h measures them).
 *
 * The prediction is a sum of two terms. Weights: the bytes that a rank reads for a token, divided
 * by the measured speed of reading so many. Exchange: the formulas of coll/tensor_parallel.h, with
 * the latency and bandwidth of this job's links. Other costs of a step are left out, so the
 * smallest models take longer than predicted.
 *
 * Pure, plain data. */
#ifndef RANK_GENERATE_CURVE_H
#define RANK_GENERATE_CURVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "coll/tensor_parallel.h"
#include "generate/rounds.h"
#include "proto/job.h"

enum {
    RANK_CURVE_LAYERS = 2,
    RANK_CURVE_VOCAB = 512,
    RANK_CURVE_STANDARD = 4, /* widths that every curve has: 64, 256, 1024 and 4096 */
    RANK_CURVE_POINTS_MAX = PROTO_CURVE_WIDTHS_MAX + RANK_CURVE_STANDARD,
};

typedef struct rank_curve_point {
    int width;
    bool asked; /* it must be measured */
    double parameters;
    double weight_bytes; /* that one rank holds */
    double single_rate;  /* bytes per second: one rank reading the weights, alone, */
    double tp_rate;      /* and each of all ranks reading its part at the same time */
    double predicted_single_ms;
    double predicted_tp_ms;
    double predicted_comm_fraction; /* of predicted_tp_ms */
    int rounds;                     /* in which it was measured */
    rank_spread single;             /* ms, of the rounds' medians; NaN: not measured */
    rank_spread tp;
    char reason[BASE_ERROR_MESSAGE_BYTES]; /* why it was not measured; empty: it was */
} rank_curve_point;

typedef struct rank_curve {
    int ranks;
    coll_tp_link link;
    int count;
    rank_curve_point points[RANK_CURVE_POINTS_MAX]; /* by width, ascending */
} rank_curve;

/* Makes the points of the standard widths and of the given ones. */
void rank_curve_plan(const int *widths, int width_count, int ranks, rank_curve *curve);

/* Heads of the curve's model of that width: of 64 columns, but at least 4 and one for each rank. */
int rank_curve_heads(int width, int ranks);

/* A link from the times of two all-reduces over ranks >= 2: of a few bytes, and of payload_bytes.
 * The inverse of coll_allreduce_time_s. If the long one was not slower, the bandwidth is as high as
 * a nanosecond can show. */
coll_tp_link rank_curve_link(double short_s, double long_s, double payload_bytes, int ranks);

/* Fills in a point's predictions from its rates. */
void rank_curve_predict(const rank_curve *curve, rank_curve_point *point);

/* The width from which on all ranks together are faster. It is between the last width at which they
 * are not and the next, at the point where the ratio of the times is 1 on logarithmic axes. NaN:
 * they are faster at every width, or not at the largest, or nothing is known. Widths without known
 * times (NaN) are skipped. */
double rank_curve_crossover(const rank_curve *curve, bool predicted);

#endif
