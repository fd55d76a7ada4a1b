/* A small GPT-2's parameters and a directory, for a test program about its files. */
#ifndef TEST_SMALL_MODEL_H
#define TEST_SMALL_MODEL_H

#include <stdlib.h>

#include "model/gpt2/gpt2.h"
#include "support.h"

static const rank_model_config SMALL = {
    .family = &rank_gpt2, .vocab_size = 11, .width = 8, .layers = 2, .heads = 2, .context = 5};

static test_directory scratch;
static float *params;
static size_t count;

/* Setup and teardown of each test. */
static int make_scratch(void **state)
{
    (void)state;
    test_directory_make(&scratch);
    count = rank_model_param_count(&SMALL);
    params = malloc(count * sizeof *params);
    assert_non_null(params);
    rank_model_init(&SMALL, 7, params);
    return 0;
}

static int remove_scratch(void **state)
{
    (void)state;
    free(params);
    test_directory_remove(&scratch);
    return 0;
}

#endif
