/* Measures decoding on one rank and on all of a launcher's: inference-bench. */
#ifndef RANK_BENCH_INFERENCE_H
#define RANK_BENCH_INFERENCE_H

#include "backend/backend.h"
#include "base/status.h"
#include "coll/coll.h"

enum { BENCH_INFERENCE_ROUNDS_MAX = 100 };

/* Collective over the world of the context; rank 0 prints the medians of the rounds. type: matrices
 * are rounded to int8 or int4; else they have the checkpoint's. */
BASE_MUST_CHECK base_status bench_inference(coll_context *context, const char *checkpoint,
                                            int rounds, rank_type type, base_error *reterr);

#endif
