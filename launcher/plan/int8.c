/* Adds up matrices in int8, as rank/backend/product.h has them. Called by decoding.c. ctest -R inference-record
 * compares with a job's record. */
#include "plan/int8.h"

#include <math.h>

enum {
    BLOCK = 32,       /* numbers of a column that share a scale */
    SCALE_BYTES = 2,  /* bfloat16 */
    LEAVES_MAX = 16,  /* RANK_TP_LEAVES */
    HIDDEN_UNIT = 16, /* RANK_DECODER_HIDDEN_UNIT */
};

double launch_int8_column_bytes(int64_t depth, int64_t leaves)
{
    const double leaf = (double)depth / (double)leaves;
    return (double)leaves * (ceil(leaf / BLOCK) * SCALE_BYTES + 2 * ceil(leaf / 2));
}

/* Of sums over heads and over columns of the MLP: blocks begin anew at each. */
static int64_t count_leaves(const launch_model *model)
{
    int64_t leaves = 1;
    while (leaves < LEAVES_MAX && model->kv_heads % (2 * leaves) == 0 &&
           model->hidden % (2 * leaves * HIDDEN_UNIT) == 0) {
        leaves *= 2;
    }
    return leaves;
}

double launch_int8_weight_bytes(const launch_model *model, int tensor, double number_bytes)
{
    const launch_stage whole = {.layers = model->layers, .embeds = true, .answers = true};
    const int64_t leaves = count_leaves(model);
    const double layers = (double)model->layers;
    const double width = (double)model->width;
    const double queries = (double)launch_model_queries(model);
    const double keys = (double)launch_model_keys(model);
    const double hidden = (model->gated ? 2 : 1) * (double)model->hidden; /* of its first product */
    /* columns of products with rows of the stream, and those of sums over what ranks share */
    const double words = (model->tied ? 1 : 2) * (double)model->vocab_size;
    const double columns = layers * (queries + 2 * keys + hidden) + words;
    const double numbers = columns * width + layers * (queries + (double)model->hidden) * width;
    const double sums = launch_int8_column_bytes(launch_model_queries(model), leaves) +
                        launch_int8_column_bytes(model->hidden, leaves);
    const double others = launch_stage_params(model, &whole, tensor) - numbers / tensor;
    return (columns * launch_int8_column_bytes(model->width, 1) + layers * width * sums) / tensor +
           others * number_bytes;
}
