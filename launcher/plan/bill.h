/* The rows of a communication bill. */
#ifndef LAUNCH_PLAN_BILL_H
#define LAUNCH_PLAN_BILL_H

#include "plan/estimate.h"

enum { LAUNCH_EXCHANGED_BYTES = 4 /* float32, so that sums do not depend on who rounds */ };

/* An exchange of a rank with others, all of them among `span` neighbours. */
typedef struct launch_exchange {
    const char *what;
    int64_t ranks;
    int64_t span;
    double times;
    double payload_bytes;
} launch_exchange;

/* Adds a row to the bill if there is somebody to exchange with; the caller fills in what it sends and
 * takes. The row is the caller's to write to in any case, until the next one is added. */
launch_bill_row *launch_bill_add(const launch_ask *ask, launch_estimate *made,
                                 const launch_exchange *of, const char *operation);

/* Adds a whole row. Returns the seconds that they take. */
double launch_bill_all_reduces(const launch_ask *ask, launch_estimate *made, launch_exchange of);

/* A reduce-scatter or an all-gather of the whole payload, or an all-to-all of what a rank has: half of an
 * all-reduce. */
double launch_bill_halves(const launch_ask *ask, launch_estimate *made, launch_exchange of,
                          const char *operation);

/* All-reduces of whole rows among the ranks that share a layer, in one direction: behind attention, and behind the MLP
 * unless there are experts, which have rows of their own (experts.h). */
double launch_bill_layer_sums(const launch_model *model);

/* The same of a part, going forward: one more where tokens are looked up. */
double launch_bill_forward_sums(const launch_model *model, const launch_stage *part);

#endif
