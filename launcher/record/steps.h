/* What the figures of a run need of the steps that the ranks reported: kept in memory until the record is
 * finished, so only that.
 *
 * Each rank reports its steps in order, beginning with `first`. That is 0, or the step at which the
 * checkpoint was written that the run continues from. Ranks may be ahead of each other. A step is
 * complete when every rank has reported it. Indices count from `first`. One thread. */
#ifndef LAUNCH_STEPS_H
#define LAUNCH_STEPS_H

#include <stddef.h>

#include "record/record.h"

typedef struct launch_rank_steps {
    size_t count;
    launch_step_times *times;
    size_t capacity;
    launch_stage_step *stages; /* of a pipeline; else NULL */
    size_t stage_capacity;
} launch_rank_steps;

/* What --eval-every found after a step. */
typedef struct launch_evaluation {
    size_t index; /* of the step */
    double heldout_loss;
    uint64_t sentences; /* that were to be corrected; 0: there are no pairs */
    uint64_t correct;
    uint64_t measured; /* sentences or windows that the loss is of */
} launch_evaluation;

typedef struct launch_steps {
    int world_size;
    int stages; /* of a pipeline: rank r is number r / tensor % stages; 0: there is none */
    int tensor; /* ranks of a stage: rank r is number r % tensor; else 1 */
    int64_t
        round; /* steps between two exchanges of local steps, which are measured together; else 0 */
    uint64_t first;           /* the number of the step with index 0 */
    launch_rank_steps *ranks; /* (world_size) */
    /* What is the same on all ranks, as rank 0 has reported it. */
    double *losses; /* loss_global: (ranks[0].count) */
    size_t loss_capacity;
    double *router_losses; /* as many; zeros: the model has no experts */
    size_t router_loss_capacity;
    double *busiest; /* the same of busiest_expert */
    size_t busiest_capacity;
    launch_evaluation *evaluations;
    size_t evaluation_count;
    size_t evaluation_capacity;
} launch_steps;

BASE_MUST_CHECK base_status launch_steps_init(launch_steps *steps, int world_size, int stages,
                                              int tensor, base_error *reterr);
void launch_steps_fini(launch_steps *steps);

/* The same of a job's ranks. */
BASE_MUST_CHECK base_status launch_steps_of_job(launch_steps *steps, const proto_job *job,
                                                base_error *reterr);

/* What init needs of a job, beside proto_job_tensor. */
int launch_steps_stages(const proto_job *job);

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

/* Of these steps: the mean of the rows that came to the experts of the rank which had most of them in each step, as
 * a multiple of the mean of all ranks. NaN: no rows are known of. */
double launch_steps_busiest_rank(const launch_steps *steps, size_t first, size_t count);

/* The slowest rank's time in a complete step. */
int64_t launch_steps_slowest_ns(const launch_steps *steps, size_t index);

#endif
