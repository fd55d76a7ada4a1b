/* Makes the model. Called by test_generate.c, test_serve.c and test_serve_many.c. */
#include "untrained.h"

#include <stdlib.h>

#include "support.h"

void untrained_open(untrained *model, int context)
{
    base_error error;
    rank_tokenizer *tokenizer = NULL;
    assert_ok(rank_tokenizer_load(ORACLE_DIRECTORY "/tokenizer.json", &tokenizer, &error), &error);
    model->config = (rank_model_config){.family = rank_family_default(),
                                        .vocab_size = rank_tokenizer_vocab_size(tokenizer),
                                        .width = 16,
                                        .layers = 1,
                                        .heads = 2,
                                        .context = context};
    model->params = calloc(rank_model_param_count(&model->config), sizeof *model->params);
    assert_non_null(model->params);
    rank_model_init(&model->config, 7, model->params);
    assert_ok(rank_device_open("cpu", &model->device, &error), &error);
    model->options = (rank_generate_options){.device = &model->device,
                                             .config = &model->config,
                                             .params = model->params,
                                             .tokenizer = tokenizer};
}

void untrained_close(untrained *model)
{
    rank_device_close(&model->device);
    rank_tokenizer_destroy(model->options.tokenizer);
    free(model->params);
}
