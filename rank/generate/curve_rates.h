/* The rates at which memory is read, for the prediction of --curve. */
#ifndef RANK_GENERATE_CURVE_RATES_H
#define RANK_GENERATE_CURVE_RATES_H

#include "generate/curve.h"
#include "generate/generate.h"

/* Of one rank; in use, so that the system has it. */
typedef struct rank_curve_memory {
    void *at; /* malloc'ed; the caller frees it, also after a failure */
    size_t size_bytes;
} rank_curve_memory;

/* Collective: memory for the longest reading of this rank. BASE_ERR_MEMORY. */
BASE_MUST_CHECK base_status rank_curve_memory_make(const rank_generate_options *options,
                                                   const rank_curve *curve,
                                                   rank_curve_memory *memory, base_error *reterr);

/* Collective: rank 0 alone reads all weights of a width, while the others sleep; then each rank its part, at the
 * same time. The slowest counts. */
BASE_MUST_CHECK base_status rank_curve_rates(const rank_generate_options *options,
                                             const rank_curve_memory *memory,
                                             rank_curve_point *point, base_error *reterr);

#endif
