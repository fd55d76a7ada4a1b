/* The steps of a run as the ranks reported them, kept in memory until the record is finished.
 *
 * Each rank reports its steps in order, beginning with `first`. That is 0, or the step at which the
 * checkpoint was written that the run continues from. Ranks may be ahead of each other. A step is
 * complete when every rank has reported it. Indices count from `first`. One thread. */
#ifndef LAUNCH_STEPS_H
#define LAUNCH_STEPS_H

#include <stddef.h>

#include "record/record.h"

typedef struct launch_rank_steps {
    launch_step *steps;
    size_t count;
    size_t capacity;
} launch_rank_steps;

typedef struct launch_steps {
    int world_size;
    uint64_t first;           /* the number of the step with index 0 */
    launch_rank_steps *ranks; /* (world_size) */
} launch_steps;

BASE_MUST_CHECK base_status launch_steps_init(launch_steps *steps, int world_size,
                                              base_error *reterr);
void launch_steps_fini(launch_steps *steps);

/* Makes `next` the next step of every rank, and removes it and later ones. If nothing earlier is
 * left, `first` becomes `next`. */
void launch_steps_go_on_from(launch_steps *steps, uint64_t next);

/* BASE_ERR_INVALID if there is no such rank, or if the step is not that rank's next. */
BASE_MUST_CHECK base_status launch_steps_add(launch_steps *steps, const launch_step *step,
                                             base_error *reterr);

/* The number of complete steps. */
size_t launch_steps_count(const launch_steps *steps);

/* Of complete steps first … first + count - 1: tokens of all ranks per second of the rank that took
 * longest for all of these steps. The slowest rank of each step is not asked: a rank that is held up
 * behind the exchange makes its own step longer and the next one of the others, so their sum would
 * count that time twice. NaN when the time is 0. */
double launch_steps_tokens_per_second(const launch_steps *steps, size_t first, size_t count);

/* The slowest rank's time in a complete step. */
int64_t launch_steps_slowest_ns(const launch_steps *steps, size_t index);

#endif
