/* The points of the scaling curve: one from its rounds, its speed-up, and whether a disturbed machine
 * has made that worthless. Pure. */
#ifndef LAUNCH_SCALING_POINT_H
#define LAUNCH_SCALING_POINT_H

#include "record/record.h"

enum { LAUNCH_SUSPECT_BYTES = 256 };

/* A round of a point: one short job. */
typedef struct launch_scaling_round {
    double tokens_per_second; /* finite */
    size_t steps;             /* that were measured */
    launch_breakdown mean_step;
} launch_scaling_round;

/* The point of these rounds, 1 … round_count. Its speed and its mean step are those of the middle
 * round by speed (of two the slower one), so that one disturbed round does not count. */
launch_scaling_point launch_scaling_point_of(int ranks, const launch_scaling_round *rounds,
                                             int round_count);

/* A point's speed-up over the point of one rank; NaN if there is no such point. */
double launch_scaling_speedup(const launch_scaling_point *points, int point_count,
                              const launch_scaling_point *point);

/* Why the speed-ups of these points say nothing, in sentences: the rounds of a point differ more than
 * twofold, or ranks are faster than so many can be. Empty: nothing speaks against them. */
void launch_scaling_suspect(const launch_scaling_point *points, int point_count,
                            char sentence[LAUNCH_SUSPECT_BYTES]);

#endif
