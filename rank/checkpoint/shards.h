/* A checkpoint's weights as one rank of a group holds them: of each tensor its own part, packed
 * where products read it. Only that part is read from the file.
 *
 * A family's decode reaches them through hooks: need(offset, count) takes the place of a tensor in
 * the whole model's parameters. */
#ifndef RANK_CHECKPOINT_SHARDS_H
#define RANK_CHECKPOINT_SHARDS_H

#include "parallel/tensor/tp.h"
#include "rank/model.h"

typedef struct rank_shards rank_shards;

/* Where a tensor's elements come from, as checkpoints store them: row-major; a vector is one row;
 * `transposed` tensors are stored with their axes exchanged. A part is some elements behind each
 * other: of one row, or of several, which are then whole. */
typedef struct rank_row_part {
    int tensor;
    size_t row;
    size_t column; /* the first */
    size_t count;
} rank_row_part;

typedef struct rank_tensor_source {
    base_status (*read)(void *user, const rank_row_part *part, float *to, base_error *reterr);
    void *user;
} rank_tensor_source;

typedef struct rank_shards_options {
    const rank_model_config *config;
    const rank_device *device;
    const rank_tp *tp;
} rank_shards_options;

/* The parameters of a whole model in the host's memory, as such a source. */
typedef struct rank_flat_params {
    const rank_model_config *config;
    const float *params;
} rank_flat_params;
rank_tensor_source rank_flat_source(rank_flat_params *params);

/* From any source. */
BASE_MUST_CHECK base_status rank_shards_create(const rank_shards_options *options,
                                               const rank_tensor_source *source,
                                               rank_shards **shards, base_error *reterr);

/* From the safetensors file at path: its header is checked against the configuration as
 * rank_safetensors_read does, and this rank's slices are read. */
BASE_MUST_CHECK base_status rank_shards_load(const rank_shards_options *options, const char *path,
                                             rank_shards **shards, base_error *reterr);

void rank_shards_destroy(rank_shards *shards); /* NULL is fine */

rank_hooks rank_shards_hooks(rank_shards *shards);

/* Elements of the model that this rank holds, padding apart: over the ranks of a group they sum up
 * to the model's, with what every rank has counted once for each. And the memory they take. */
size_t rank_shards_elements(const rank_shards *shards);
size_t rank_shards_bytes(const rank_shards *shards);

#endif
