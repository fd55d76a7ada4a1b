/* Reads shards from a checkpoint's weights: all headers, and of the tensors only this rank's slices.
 * Called by the engine when it is made. */
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "checkpoint/match.h"
#include "checkpoint/shards_beside.h"
#include "checkpoint/weights.h"
#include "rank/adapters.h"

typedef struct slices {
    const rank_model_config *config;
    rank_weights weights;
    const float *adapters; /* NULL: none */
    int tensor;            /* the last one that was looked up, -1: none; */
    const base_safetensor *found;
    rank_adapter adapter;
    bool adapted;
} slices;

/* Adds the adapter to elements of one row, or of several whole rows. */
static void adapt(const slices *from, const rank_row_part *part, size_t columns, float *to)
{
    size_t row = part->row;
    size_t column = part->column;
    for (size_t done = 0; done < part->count; row++, column = 0) {
        const size_t some = base_min_size(columns - column, part->count - done);
        rank_adapters_add(&from->adapter, row, column, some, to + done);
        done += some;
    }
}

/* A rank_tensor_source. */
static base_status read_slice(void *user, const rank_row_part *part, float *to, base_error *reterr)
{
    slices *from = user;
    if (part->tensor != from->tensor) { /* the rows of a tensor are asked for one after the other */
        rank_tensor wanted;
        rank_model_tensor(from->config, part->tensor, &wanted);
        from->tensor = part->tensor;
        from->found = rank_tensors_find(&from->weights.all, from->config->family, &wanted);
        BASE_ASSERT(from->found != NULL); /* rank_weights_open has checked */
        from->adapted = from->adapters != NULL && rank_adapters_find(from->config, from->adapters,
                                                                     part->tensor, &from->adapter);
    }
    const base_safetensor *found = from->found;
    const size_t columns = found->dims > 1 ? found->shape[1] : found->count;
    const base_status status = rank_weights_read(
        &from->weights, found, part->row * columns + part->column, part->count, to, reterr);
    if (status == BASE_OK && from->adapted) {
        adapt(from, part, columns, to);
    }
    return status;
}

base_status rank_shards_load(const rank_shards_options *options, const char *path,
                             rank_shards **shards, base_error *reterr)
{
    const bool adds = !rank_shards_are_beside(options);
    slices from = {
        .config = options->config, .adapters = adds ? options->adapters : NULL, .tensor = -1};
    *shards = NULL;
    base_status status =
        rank_weights_open(&from.weights, path, options->config, RANK_TIED_CONTENTS, reterr);
    if (status == BASE_OK) {
        status =
            rank_shards_create(options, &(rank_tensor_source){read_slice, &from}, shards, reterr);
        rank_weights_close(&from.weights);
        status = status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "%s", path);
    }
    return status;
}

static bool has_bfloat16_matrices(const rank_model_config *config, const base_safetensors *all)
{
    bool only = true;
    for (int i = 0; only && i < rank_model_tensor_count(config); i++) {
        rank_tensor wanted;
        rank_model_tensor(config, i, &wanted);
        const base_safetensor *found = rank_tensors_find(all, config->family, &wanted);
        only = wanted.pack == RANK_TENSOR_PLAIN || strcmp(found->dtype, "BF16") == 0;
    }
    return only;
}

base_status rank_shards_type(const rank_model_config *config, const char *path, rank_type *type,
                             base_error *reterr)
{
    rank_weights weights;
    const base_status status = rank_weights_open(&weights, path, config, RANK_TIED_LENGTHS, reterr);
    if (status == BASE_OK) {
        *type = has_bfloat16_matrices(config, &weights.all) ? RANK_BFLOAT16 : RANK_FLOAT32;
        rank_weights_close(&weights);
    }
    return status;
}

base_status rank_shards_check(const rank_model_config *config, const char *path, base_error *reterr)
{
    rank_type type;
    return rank_shards_type(config, path, &type, reterr);
}
