/* The figures of a run, computed from its steps. Manifest, plots and report share them.
 *
 * Speeds and times are taken over the last half of the complete steps, because the first half is
 * warm-up: steps measured_first … steps_done - 1. Of rounds of local steps it is whole ones. A spread is over all ranks' values of these
 * steps. step_ms is over the slowest rank of each step, because the job waits for that one.
 * `mean_step` says where the mean of step_ms went. Pure. */
#ifndef LAUNCH_SUMMARY_H
#define LAUNCH_SUMMARY_H

#include "base/buffer.h"
#include "record/record.h"
#include "record/scaling_point.h"
#include "record/stats.h"
#include "record/steps.h"

typedef struct launch_summary {
    size_t steps_done;     /* complete steps, also those before `first` */
    size_t measured_first; /* first step of the last half, or of the round in which that begins */
    launch_spread step_ms;
    launch_spread compute_ms;
    launch_spread allreduce_ms;
    launch_spread exposed_ms;
    launch_spread optimizer_ms;
    double tokens_per_second; /* NaN: nothing was measured */
    double loss_first;        /* over all ranks; NaN when unknown */
    double loss_last;
    uint64_t tokens;               /* of all complete steps */
    launch_breakdown mean_step;    /* the parts are of the last to arrive */
    launch_breakdown *ranks;       /* (world_size): the same for each rank */
    launch_scaling_point *scaling; /* by rising ranks, this run included */
    int scaling_count;
    char suspect[LAUNCH_SUSPECT_BYTES]; /* why the speed-ups say nothing; empty: they may stand */
    launch_answer byte_equivalent;      /* all ranks ended with the same parameters */
    double max_abs_difference;          /* NaN when unknown */
    uint64_t eval_total; /* held-out sentences that all ranks were to correct; 0: none */
    uint64_t eval_correct;
    double eval_loss;       /* held-out, at the end; NaN: not measured */
    uint64_t eval_measured; /* sentences or windows that it is of */
} launch_summary;

enum { LAUNCH_LOSS_MESSAGE_BYTES = 128 };

/* Whether a training is lost: its loss has grown tenfold. False if either loss is not known. */
bool launch_loss_grew(double first, double last);

/* "the loss grew from 6.25 to 100: a smaller --lr may help". */
void launch_loss_message(double first, double last, char message[LAUNCH_LOSS_MESSAGE_BYTES]);

/* Of the complete steps from index `first` on. */
BASE_MUST_CHECK base_status launch_summary_init(launch_summary *summary, const launch_steps *steps,
                                                size_t first, const launch_record_end *end,
                                                base_error *reterr);
void launch_summary_fini(launch_summary *summary);

/* Whether the mean step is much longer than the median. */
bool launch_steps_are_uneven(const launch_summary *summary);

/* Puts the sentence that says so: "A few steps took most of the time: …". */
void launch_uneven_steps_put(const launch_summary *summary, base_buffer *text);

/* The scaling point of that many ranks, or NULL when it was not measured. */
const launch_scaling_point *launch_summary_point(const launch_summary *summary, int ranks);

#endif
