/* Cuts and packs adapters as the matrices that they stand beside. Called by shards.c. */
#include "checkpoint/shards_beside.h"

#include <stdlib.h>

#include "rank/adapters.h"

bool rank_shards_are_beside(const rank_shards_options *options)
{
    return options->adapters != NULL && options->type != RANK_FLOAT32;
}

/* Adapters are a model of their own. */
static rank_shards_options own_options(const rank_shards_options *options,
                                       const rank_model_config *config)
{
    return (rank_shards_options){
        .config = config, .device = options->device, .tp = options->tp, .type = RANK_FLOAT32};
}

static void find_rows(const rank_shards_options *options, const rank_hooks *model,
                      rank_shards_beside *made)
{
    const rank_hooks own = rank_shards_hooks(made->adapters);
    rank_beside *next = made->rows;
    for (int i = 0; i < rank_model_tensor_count(options->config); i++) {
        rank_adapter adapter;
        rank_tensor tensor;
        if (!rank_adapters_find(options->config, options->adapters, i, &adapter)) {
            continue;
        }
        rank_model_tensor(options->config, i, &tensor);
        const size_t a = (size_t)(adapter.a - options->adapters);
        const size_t b = (size_t)(adapter.b - options->adapters);
        *next++ = (rank_beside){.matrix = model->need(model->weights, tensor.offset, tensor.count),
                                .a = own.need(own.weights, a, b - a),
                                .b = own.need(own.weights, b, 1)};
    }
}

base_status rank_shards_beside_make(const rank_shards_options *options, const rank_hooks *model,
                                    rank_shards_beside *made, base_error *reterr)
{
    rank_adapters_block block;
    rank_model_config config = rank_adapters_config(options->config);
    rank_flat_params flat = {&config, options->adapters};
    const rank_tensor_source source = rank_flat_source(&flat);
    const rank_shards_options own = own_options(options, &config);
    rank_adapters_describe(options->config, &block);
    made->count = block.count;
    made->rows = calloc((size_t)(options->config->layers * block.count), sizeof *made->rows);
    const base_status status = made->rows != NULL
                                   ? rank_shards_create(&own, &source, &made->adapters, reterr)
                                   : base_fail(reterr, BASE_ERR_MEMORY, "no memory for adapters");
    if (status == BASE_OK) {
        find_rows(options, model, made);
    }
    return status;
}

void rank_shards_beside_free(rank_shards_beside *made)
{
    rank_shards_destroy(made->adapters);
    free(made->rows);
}

size_t rank_shards_beside_plan(const rank_shards_options *options)
{
    const rank_model_config config = rank_adapters_config(options->config);
    const rank_shards_options own = own_options(options, &config);
    return rank_shards_are_beside(options) ? rank_shards_plan(&own) : 0;
}
