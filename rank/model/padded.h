/* Training batches that are padded to few sizes, so that a pass over a size can be captured once:
 * what varies from batch to batch lies in tables on the device. Called by model.c.
 *
 * A padded batch has T rows and T segments. Behind the batch's own tokens come rows without a
 * target, in segments of their own, and behind the last of these segments that are empty. All rows
 * are active. So the rows of padding have no loss, and gradients of zeros. */
#ifndef RANK_MODEL_PADDED_H
#define RANK_MODEL_PADDED_H

#include "model/family.h"

enum { RANK_PADDED_STAGES_MAX = 8 };

typedef struct rank_padded {
    rank_device device;
    size_t table_ints; /* of the largest batch: ids, positions, targets, segment_start */
    int32_t *staged; /* RANK_MEMORY_HOST: stage_count tables, which are written while the device may
                        * still copy those before */
    int stage_count;
    int next_stage;
    int32_t *table; /* on the device */
    double *loss;   /* on the device */
} rank_padded;

/* Adds the device's memory that create takes. */
void rank_padded_plan(const rank_shape *shape, rank_memory_use *use);

/* For a shape that is padded, which is a size itself, and for so many batches in a row. */
BASE_MUST_CHECK base_status rank_padded_create(rank_padded *padded, const rank_shape *shape,
                                               const rank_device *device, int batches_max,
                                               base_error *reterr);
void rank_padded_destroy(rank_padded *padded); /* zeros are fine */

/* Checks a batch, and puts it padded into saved->rows. Enqueues the copy of its tables. Waits for
 * the device if all stages are in use. */
BASE_MUST_CHECK base_status rank_padded_place(rank_padded *padded, rank_saved *saved,
                                              const rank_batch *batch, base_error *reterr);

/* The device has been waited for: all stages are free. */
void rank_padded_waited(rank_padded *padded);

#endif
