/* Makes a point of the scaling curve from its rounds, and judges the points. Called by cli/scaling.c,
 * summary.c and cli/summary_lines.c. */
#include "record/scaling_point.h"

#include <math.h>
#include <stdio.h>

#include "base/assert.h"

/* A speed-up may exceed the number of ranks by so much: caches, and noise. */
static const double SPEEDUP_MARGIN = 1.1;
/* fastest over slowest round of a point: above this, the machine was disturbed */
static const double ROUNDS_RATIO_MAX = 2;

/* How many rounds are slower than this one; of equal ones those before it count. */
static int slower_count(const launch_scaling_round *rounds, int count, int index)
{
    int slower = 0;
    for (int i = 0; i < count; i++) {
        const double difference = rounds[i].tokens_per_second - rounds[index].tokens_per_second;
        slower += difference < 0 || (!(difference > 0) && i < index);
    }
    return slower;
}

launch_scaling_point launch_scaling_point_of(int ranks, const launch_scaling_round *rounds,
                                             int round_count)
{
    launch_scaling_point point = {
        .ranks = ranks,
        .rounds = round_count,
        .tokens_per_second_low = INFINITY,
        .tokens_per_second_high = -INFINITY,
    };
    BASE_ASSERT(round_count > 0);
    for (int i = 0; i < round_count; i++) {
        const double speed = rounds[i].tokens_per_second;
        point.steps += rounds[i].steps;
        point.tokens_per_second_low = fmin(point.tokens_per_second_low, speed);
        point.tokens_per_second_high = fmax(point.tokens_per_second_high, speed);
        if (slower_count(rounds, round_count, i) == (round_count - 1) / 2) {
            point.tokens_per_second = speed;
            point.mean_step = rounds[i].mean_step;
        }
    }
    return point;
}

double launch_scaling_speedup(const launch_scaling_point *points, int point_count,
                              const launch_scaling_point *point)
{
    for (int i = 0; i < point_count; i++) {
        if (points[i].ranks == 1 && points[i].tokens_per_second > 0) {
            return point->tokens_per_second / points[i].tokens_per_second;
        }
    }
    return NAN;
}

/* Of a round without a token: infinite. */
static double rounds_ratio(const launch_scaling_point *point)
{
    return point->rounds > 1 ? point->tokens_per_second_high / point->tokens_per_second_low : 1;
}

static void say_rounds_differ(const launch_scaling_point *point,
                              char sentence[LAUNCH_SUSPECT_BYTES])
{
    char processes[32] = "one process";
    const double ratio = rounds_ratio(point);
    if (point->ranks > 1) {
        (void)snprintf(processes, sizeof processes, "%d processes", point->ranks);
    }
    (void)snprintf(sentence, LAUNCH_SUSPECT_BYTES,
                   "The rounds of %s differ %.*f times (%.0f to %.0f tokens/s): this machine was "
                   "disturbed, and the speed-up says nothing. Run it again on a quiet machine.",
                   processes, ratio < 10 ? 1 : 0, ratio, point->tokens_per_second_low,
                   point->tokens_per_second_high);
}

void launch_scaling_suspect(const launch_scaling_point *points, int point_count,
                            char sentence[LAUNCH_SUSPECT_BYTES])
{
    const launch_scaling_point *worst = NULL;
    sentence[0] = '\0';
    for (int i = 0; i < point_count; i++) {
        const launch_scaling_point *point = &points[i];
        const double speedup = launch_scaling_speedup(points, point_count, point);
        if (rounds_ratio(point) > (worst != NULL ? rounds_ratio(worst) : ROUNDS_RATIO_MAX)) {
            worst = point;
        }
        if (speedup > SPEEDUP_MARGIN * point->ranks) {
            (void)snprintf(
                sentence, LAUNCH_SUSPECT_BYTES,
                "%d processes were %.2f times as fast as one, and so many cannot be: this "
                "machine was disturbed, and the speed-up says nothing. Run it again on a "
                "quiet machine.",
                point->ranks, speedup);
        }
    }
    if (worst != NULL) {
        say_rounds_differ(worst, sentence);
    }
}
