/* Measures the scaling curve: phases of a tp-cpu job after its prompts, one loading after the other
 * has gone. */
#ifndef RANK_GENERATE_CURVE_RUN_H
#define RANK_GENERATE_CURVE_RUN_H

#include "generate/curve.h"
#include "generate/generate.h"

/* Collective over options->comm, which has at least two ranks; of the other options the device, the
 * matrices' type, the seed and should_stop are used. curve: as rank_curve_plan has made it, the same on every rank; on
 * rank 0 its rates, predictions and times are filled in, or the reason why a time is not there. */
BASE_MUST_CHECK base_status rank_curve_run(const rank_generate_options *options, rank_curve *curve,
                                           base_error *reterr);

#endif
