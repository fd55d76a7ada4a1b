/* Adds up matrices in int8 and int4, as rank/backend/product.h has them. Called by decoding.c. ctest -R
 * inference-record compares with a job's record. */
#include "plan/blocks.h"

#include <math.h>

enum {
    BLOCK = 32,        /* numbers of a column that share a scale */
    SCALE_BYTES = 2,   /* bfloat16 */
    LEAVES_MAX = 16,   /* RANK_TP_LEAVES */
    HIDDEN_UNIT = 16,  /* RANK_DECODER_HIDDEN_UNIT */
    SHARED_LEAVES = 4, /* RANK_DECODER_SHARED_LEAVES */
};

proto_weights launch_blocks_words(proto_weights weights)
{
    return weights == PROTO_WEIGHTS_INT4 ? PROTO_WEIGHTS_INT8 : weights;
}

/* Groups are of 2 numbers in 2 bytes, or of 8 in 4. */
double launch_blocks_column_bytes(proto_weights weights, int64_t depth, int64_t leaves)
{
    const double leaf = (double)depth / (double)leaves;
    const double groups = weights == PROTO_WEIGHTS_INT4 ? 4 * ceil(leaf / 8) : 2 * ceil(leaf / 2);
    return (double)leaves * (ceil(leaf / BLOCK) * SCALE_BYTES + groups);
}

/* Whether sums over heads can have so many leaves: rank_decoder_head_leaves. */
static bool cuts_heads(const launch_model *model, int64_t leaves)
{
    return model->kv_heads % leaves == 0 ||
           (leaves <= SHARED_LEAVES && model->heads % leaves == 0 &&
            launch_model_keys(model) % leaves == 0);
}

/* Of sums over heads and over columns of the MLP: blocks begin anew at each. */
static int64_t count_leaves(const launch_model *model)
{
    int64_t leaves = 1;
    while (leaves < LEAVES_MAX && cuts_heads(model, 2 * leaves) &&
           model->hidden % (2 * leaves * HIDDEN_UNIT) == 0) {
        leaves *= 2;
    }
    return leaves;
}

/* Of an MLP's first product, or of both that are its factors. */
static double first_columns(const launch_model *model)
{
    return (model->gated ? 2 : 1) * (double)model->hidden;
}

/* Of an MLP's matrices. */
static double mlp_bytes(const launch_model *model, proto_weights weights)
{
    return first_columns(model) * launch_blocks_column_bytes(weights, model->width, 1) +
           (double)model->width *
               launch_blocks_column_bytes(weights, model->hidden, count_leaves(model));
}

double launch_blocks_expert_bytes(const launch_model *model, proto_weights weights, int tensor)
{
    return (double)model->layers * (double)model->experts * mlp_bytes(model, weights) / tensor;
}

double launch_blocks_weight_bytes(const launch_model *model, proto_weights weights, int tensor,
                                  double number_bytes)
{
    const launch_stage whole = {.layers = model->layers, .embeds = true, .answers = true};
    const double layers = (double)model->layers;
    const double width = (double)model->width;
    const double queries = (double)launch_model_queries(model);
    const double keys = (double)(launch_model_keys(model) * launch_model_key_copies(model, tensor));
    const double mlps = model->experts > 0 ? (double)model->experts : 1;
    const double hidden = first_columns(model) + (double)model->hidden;
    /* columns of products with rows of the stream, but for the MLP's, and those of sums over heads */
    const double words = (model->tied ? 1 : 2) * (double)model->vocab_size;
    const double columns = layers * (queries + 2 * keys);
    const double numbers = (columns + words + layers * (queries + mlps * hidden)) * width;
    const double sums =
        launch_blocks_column_bytes(weights, launch_model_queries(model), count_leaves(model));
    const double others = launch_stage_params(model, &whole, tensor) - numbers / tensor;
    const double bytes =
        words * launch_blocks_column_bytes(launch_blocks_words(weights), model->width, 1) +
        columns * launch_blocks_column_bytes(weights, model->width, 1) +
        layers * (width * sums + mlps * mlp_bytes(model, weights));
    return bytes / tensor + others * number_bytes;
}
