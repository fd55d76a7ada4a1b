/* A small model that is not trained, with the oracle's tokenizer: for tests of rank_generate. */
#ifndef TEST_UNTRAINED_H
#define TEST_UNTRAINED_H

#include "generate/generate.h"

typedef struct untrained {
    rank_model_config config;
    rank_device device;
    float *params;
    rank_generate_options options; /* of the model; the test adds its own */
} untrained;

/* Must stay where it is: the options point into it. */
void untrained_open(untrained *model, int context);
void untrained_close(untrained *model);

#endif
