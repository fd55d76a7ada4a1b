/* The tables of a step of decoding (ids, positions, lengths, blocks, what to draw) for a device that
 * has memory of its own. The host writes them side by side into memory that the device reads slowly,
 * and one copy, the step's first operation, takes them over. Where each table stands follows from the
 * step's shape alone, so that the copy can be in the shape's graph. One thread.
 *
 * Where the device's memory is the host's there is no copy, and steps use the host's tables. */
#ifndef RANK_GENERATE_STEP_TABLES_H
#define RANK_GENERATE_STEP_TABLES_H

#include "model/family.h"

typedef struct rank_step_tables {
    rank_device device;
    char *host; /* NULL: no copy */
    char *there;
    size_t size_bytes; /* of this step's */
} rank_step_tables;

/* The largest step. */
typedef struct rank_step_tables_size {
    size_t rows;
    size_t sequences;
    size_t table_width;
} rank_step_tables_size;

/* Adds the device's memory that they take. */
void rank_step_tables_plan(const rank_backend *backend, const rank_step_tables_size *most,
                           rank_memory_use *use);

BASE_MUST_CHECK base_status rank_step_tables_create(rank_step_tables *tables,
                                                    const rank_device *device,
                                                    const rank_step_tables_size *most,
                                                    base_error *reterr);
void rank_step_tables_destroy(rank_step_tables *tables); /* zeros are fine */

/* Writes the step's tables. From now on args and its rows name the device's. `draws` has a row for
 * each active one, or is NULL. Returns where the device has them. Earlier steps have ended. */
const rank_draw_row *rank_step_tables_place(rank_step_tables *tables, rank_decode_args *args,
                                            const rank_draw_row *draws);

/* Enqueues the copy. */
void rank_step_tables_copy(const rank_step_tables *tables);

#endif
