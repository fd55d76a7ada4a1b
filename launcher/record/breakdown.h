/* Where the time of an average step went, in parts that add up. Everything that shows these parts
 * (cards, charts, text, manifest) uses this one statistic. Pure.
 *
 * All figures are means over some complete steps, of one rank, or of the job. After backward a rank
 * waits for the all-reduce. The rank that comes last waits for nobody, so its time there is the time
 * of the exchange. If another rank spends longer there, the rest is the time in which it waits for
 * the last one.
 *
 * The job's step is as long as the longest one of its ranks. Its parts are those of the rank that was
 * the last to arrive at the all-reduce in that step, because the others wait for that one. All ranks
 * leave the all-reduce together, so which rank's step is the longest is nearly chance. By what the
 * longest step exceeds that of the last to arrive, another rank began earlier or ended later: this is
 * in `other`. */
#ifndef LAUNCH_BREAKDOWN_H
#define LAUNCH_BREAKDOWN_H

#include <stdbool.h>
#include <stddef.h>

struct launch_steps;

typedef enum launch_part {
    LAUNCH_PART_COMPUTE = 0, /* forward and backward, without the calls below */
    LAUNCH_PART_OVERLAPPED,  /* collective calls while backward ran */
    LAUNCH_PART_EXCHANGE,    /* all-reduce after backward, with all ranks in it */
    LAUNCH_PART_WAITING,     /* all-reduce after backward, before the last rank came; in a pipeline
                              * also for messages of other stages */
    LAUNCH_PART_OPTIMIZER,
    LAUNCH_PART_OTHER, /* what is left of the step */
    LAUNCH_PARTS,
} launch_part;

typedef struct launch_breakdown {
    double step_ms;               /* NaN, as are the others, if nothing was measured */
    double part_ms[LAUNCH_PARTS]; /* none below 0; their sum is step_ms */
    double compute_cpu_ms;        /* CPU time of compute and overlapped; NaN: not known */
    double context_ms; /* exchanges with ranks that share the micro-batches: a part of compute */
    double expert_ms;  /* exchanges with ranks that share out the experts: a part of compute */
    double tensor_ms;  /* exchanges with ranks that share a stage's layers: a part of compute */
    double others_waiting_ms; /* of the last to arrive: how long each other rank waited for it, in
                                   * the mean; of one rank: NaN */
} launch_breakdown;

enum { LAUNCH_LAST_TO_ARRIVE = -1 };
#define LAUNCH_LAST_NAME "last to arrive" /* in charts and tables */

/* Of the complete steps first … first + count - 1: of that rank, or of the job, with the parts of the
 * last to arrive in each step. */
launch_breakdown launch_breakdown_of(const struct launch_steps *steps, int rank, size_t first,
                                     size_t count);

/* All of the all-reduce: overlapped, exchange and waiting. */
double launch_breakdown_allreduce_ms(const launch_breakdown *breakdown);

/* Exchange and waiting: the part of the all-reduce after backward. In a pipeline also what its
 * stages wait for each other's messages. */
double launch_breakdown_exposed_ms(const launch_breakdown *breakdown);

/* "forward and backward", … for people; "compute", … for machines and style sheets. */
const char *launch_part_name(launch_part part);
const char *launch_part_key(launch_part part);

/* The parts as charts show them: what is computed in forward and backward, what ranks exchange
 * there, and then the parts behind LAUNCH_PART_COMPUTE. */
enum { LAUNCH_SHOWN_COMPUTE = 0, LAUNCH_SHOWN_INNER, LAUNCH_SHOWN_PARTS = LAUNCH_PARTS + 1 };
void launch_breakdown_shown(const launch_breakdown *breakdown, double ms[LAUNCH_SHOWN_PARTS]);
const char *launch_shown_name(int shown, bool exchanges_inside);
const char *launch_shown_key(int shown);

/* Of context_ms, expert_ms and tensor_ms all that are there: never more than compute. */
double launch_breakdown_inner_ms(const launch_breakdown *breakdown);

#endif
