/* The scaling curve's arithmetic. Called by curve_run.c, which measures, and by results.c. */
#include "generate/curve.h"

#include <math.h>
#include <stdio.h>

enum { COLUMNS_OF_HEAD = 64, HEADS_MIN = 4, FEW_BYTES = 64 };

static void add_point(rank_curve *curve, int width, bool asked)
{
    int at = 0;
    while (at < curve->count && curve->points[at].width < width) {
        at++;
    }
    if (at < curve->count && curve->points[at].width == width) {
        curve->points[at].asked = curve->points[at].asked || asked;
        return;
    }
    for (int i = curve->count; i > at; i--) {
        curve->points[i] = curve->points[i - 1];
    }
    curve->count++;
    curve->points[at] = (rank_curve_point){.width = width,
                                           .asked = asked,
                                           .predicted_single_ms = (double)NAN,
                                           .predicted_tp_ms = (double)NAN,
                                           .predicted_comm_fraction = (double)NAN,
                                           .single = rank_spread_of(NULL, 0),
                                           .tp = rank_spread_of(NULL, 0)};
}

void rank_curve_plan(const int *widths, int width_count, int ranks, rank_curve *curve)
{
    static const int standard[RANK_CURVE_STANDARD] = {64, 256, 1024, 4096};
    *curve = (rank_curve){.ranks = ranks};
    for (int i = 0; i < RANK_CURVE_STANDARD; i++) {
        add_point(curve, standard[i], false);
    }
    for (int i = 0; i < width_count; i++) {
        add_point(curve, widths[i], true);
    }
    for (int i = 0; i < curve->count; i++) {
        rank_curve_point *point = &curve->points[i];
        if (!point->asked) {
            (void)snprintf(point->reason, sizeof point->reason, "not asked for");
        }
    }
}

int rank_curve_heads(int width, int ranks)
{
    int heads = width / COLUMNS_OF_HEAD;
    heads = heads < HEADS_MIN ? HEADS_MIN : heads;
    return heads < ranks ? ranks : heads;
}

coll_tp_link rank_curve_link(double short_s, double long_s, double payload_bytes, int ranks)
{
    const double traffic_bytes = coll_ring_allreduce_traffic_per_rank(payload_bytes, ranks);
    const double moving_s = long_s - short_s > 1e-9 ? long_s - short_s : 1e-9;
    return (coll_tp_link){.latency_s = short_s / (ranks - 1),
                          .bandwidth_bytes_per_s = traffic_bytes / moving_s};
}

void rank_curve_predict(const rank_curve *curve, rank_curve_point *point)
{
    const double weight_bytes = point->weight_bytes;
    const coll_tp_step step = {.layers = RANK_CURVE_LAYERS,
                               .tokens = 1,
                               .d_model = point->width,
                               .element_bytes = sizeof(float)};
    const double row_bytes = coll_allreduce_payload_bytes(1, point->width, sizeof(float));
    /* the blocks' all-reduces, that of the embedding, and the exchange of candidates */
    const double comm_s = coll_tp_comm_time_per_step(&step, curve->ranks, &curve->link) +
                          coll_allreduce_time_s(row_bytes, curve->ranks, &curve->link) +
                          coll_allreduce_time_s(FEW_BYTES, curve->ranks, &curve->link);
    const double compute_s = weight_bytes / curve->ranks / point->tp_rate;
    point->predicted_single_ms = weight_bytes / point->single_rate * 1e3;
    point->predicted_tp_ms = (compute_s + comm_s) * 1e3;
    point->predicted_comm_fraction = coll_comm_fraction(comm_s, compute_s);
}

/* The logarithm of the ratio of times, all ranks over one; NaN: not known. */
static double log_ratio(const rank_curve_point *point, bool predicted)
{
    return predicted ? log(point->predicted_tp_ms / point->predicted_single_ms)
                     : log(point->tp.median / point->single.median);
}

double rank_curve_crossover(const rank_curve *curve, bool predicted)
{
    /* the last width at which all ranks are slower, with its ratio */
    double slower_width = (double)NAN;
    double slower_ratio = (double)NAN;
    double crossover = (double)NAN;
    for (int i = 0; i < curve->count; i++) {
        const double width = curve->points[i].width;
        const double ratio = log_ratio(&curve->points[i], predicted);
        if (!isfinite(ratio)) {
            continue;
        }
        if (ratio >= 0) {
            slower_width = width;
            slower_ratio = ratio;
            crossover = (double)NAN;
        } else if (isfinite(slower_width) && !isfinite(crossover)) {
            const double share = slower_ratio / (slower_ratio - ratio);
            crossover = slower_width * pow(width / slower_width, share);
        }
    }
    return crossover;
}
