/* A checkpoint's model on a device, for its logits. */
#ifndef GPU_MEASURE_MODEL_H
#define GPU_MEASURE_MODEL_H

#include "rank/checkpoint.h"

typedef struct measured_model {
    rank_device device; /* borrowed */
    rank_model_config config;
    rank_model *model;
    float *params;
    float *logits; /* (rows_max, V), on the device */
} measured_model;

/* For at most token_count_max tokens, and logits of rows_max of them. Close it also after a
 * failure. */
BASE_MUST_CHECK base_status measured_model_open(measured_model *m, const rank_device *device,
                                                const char *checkpoint, int token_count_max,
                                                int rows_max, base_error *reterr);
void measured_model_close(measured_model *m);

/* The logits of the last `rows` of these tokens, one sequence: (rows, V), malloc'ed, the
 * caller's. */
BASE_MUST_CHECK base_status measured_model_run(measured_model *m, const int32_t *ids, int count,
                                               int rows, float **logits, base_error *reterr);

#endif
