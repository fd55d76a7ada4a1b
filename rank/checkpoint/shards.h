/* A checkpoint's weights in one rank of a group: its own part of each tensor, in the packed form
 * that products read. Only that part is read from the file.
 *
 * A family's decode reaches them through hooks: need(offset, count) takes a tensor's offset in the
 * whole model's parameters. */
#ifndef RANK_CHECKPOINT_SHARDS_H
#define RANK_CHECKPOINT_SHARDS_H

#include "parallel/tensor/tp.h"
#include "rank/model.h"

typedef struct rank_shards rank_shards;

/* The origin of a tensor's elements, in the form of checkpoints: row-major. A vector is one row.
 * A part is some elements that follow each other: of one row, or of several whole rows. */
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
    rank_type type; /* of matrices; bfloat16 for a backend with plain_weights or packs_narrow,
                       int8 and int4 for one with packs_narrow; they are rounded as they are read */
    /* Of the configuration; NULL: none. With matrices in float32 rank_shards_load adds them to what it reads. Else they
     * stand beside the matrices, in float32, for a backend that packs. */
    const float *adapters;
    /* Called again and again while the model's tensors are read; NULL: nobody wants to know. */
    base_status (*on_rows)(void *user, base_error *reterr);
    void *user;
} rank_shards_options;

/* A source that reads the parameters of a whole model from the host's memory. */
typedef struct rank_flat_params {
    const rank_model_config *config;
    const float *params;
} rank_flat_params;
rank_tensor_source rank_flat_source(rank_flat_params *params);

/* From any source. */
BASE_MUST_CHECK base_status rank_shards_create(const rank_shards_options *options,
                                               const rank_tensor_source *source,
                                               rank_shards **shards, base_error *reterr);

/* Makes shards from the safetensors file at path, or from the files that PATH.index.json names.
 * Checks headers against the configuration as rank_safetensors_read does, and reads this rank's
 * slices. */
BASE_MUST_CHECK base_status rank_shards_load(const rank_shards_options *options, const char *path,
                                             rank_shards **shards, base_error *reterr);

/* The type that holds every matrix of such files without a change: bfloat16 if all of them have it, else
 * float32. Checks headers, and reads no weight. */
BASE_MUST_CHECK base_status rank_shards_type(const rank_model_config *config, const char *path,
                                             rank_type *type, base_error *reterr);

/* The checks of rank_shards_load alone, without reading a weight. */
BASE_MUST_CHECK base_status rank_shards_check(const rank_model_config *config, const char *path,
                                              base_error *reterr);

/* The bytes that such shards take: rank_shards_bytes, before they are made. */
size_t rank_shards_plan(const rank_shards_options *options);

void rank_shards_destroy(rank_shards *shards); /* NULL is fine */

rank_hooks rank_shards_hooks(rank_shards *shards);

/* How many elements of the model this rank has, without padding. Over the ranks of a group they add
 * up to the model's, except that a tensor that every rank has counts once for each. And the memory
 * they take, with adapters beside them. */
size_t rank_shards_elements(const rank_shards *shards);
size_t rank_shards_uncut_elements(const rank_shards *shards); /* of tensors that are not cut */
size_t rank_shards_bytes(const rank_shards *shards);

#endif
