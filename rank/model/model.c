#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "model/state.h"
#include "rank/model.h"

enum {
    ALIGN_FLOATS = 16,
    TOKENS_MAX = 1 << 20,
    HUGE_PAGE_BYTES = 2 << 20,
};

/* Hands out pieces of one block of memory; with begin NULL it only counts. */
typedef struct cutter {
    float *begin;
    size_t used; /* floats */
} cutter;

static void *cut(cutter *from, size_t count)
{
    float *piece = from->begin != NULL ? from->begin + from->used : NULL;
    from->used += (count + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
    return piece;
}

static void cut_norm(cutter *from, norm_state *norm, size_t tokens, size_t width)
{
    norm->x = cut(from, tokens * width);
    norm->out = cut(from, tokens * width);
    norm->mean = cut(from, tokens);
    norm->rstd = cut(from, tokens);
}

static void cut_block(cutter *from, block_state *block, const rank_model_config *config,
                      size_t tokens)
{
    const size_t width = (size_t)config->width;
    cut_norm(from, &block->norm1, tokens, width);
    block->qkv = cut(from, tokens * 3 * width);
    block->row_max = cut(from, tokens * (size_t)config->heads);
    block->row_scale = cut(from, tokens * (size_t)config->heads);
    block->attention = cut(from, tokens * width);
    cut_norm(from, &block->norm2, tokens, width);
    block->up = cut(from, tokens * WIDENING * width);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t rank_segment_max(const rank_model *model)
{
    return smaller((size_t)model->config.context, model->token_count_max);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The buffer that several uses share, none at the same time. A row of logits always fits. */
static size_t wide_floats(const rank_model *model)
{
    const size_t width = (size_t)model->config.width;
    const size_t chunk = smaller(ROW_CHUNK, model->token_count_max);
    const size_t gelu = chunk * WIDENING * width;
    const size_t dqkv = larger(chunk, rank_segment_max(model)) * 3 * width;
    return larger(larger(gelu, dqkv), (size_t)model->config.vocab_size);
}

/* Sets every pointer into memory (NULL while counting); returns the floats needed. */
static size_t cut_all(rank_model *model, float *memory)
{
    cutter from = {.begin = memory};
    const size_t tokens = model->token_count_max;
    const size_t width = (size_t)model->config.width;
    for (int i = 0; i < model->config.layers; i++) {
        if (i == 0 || model->for_training) {
            cut_block(&from, &model->blocks[i], &model->config, tokens);
        } else {
            model->blocks[i] = model->blocks[0]; /* nothing is kept for backward */
        }
    }
    cut_norm(&from, &model->norm_final, tokens, width);
    const size_t wide_count = wide_floats(model);
    model->wide = cut(&from, wide_count);
    model->logit_rows_at_once = smaller(ROW_CHUNK, wide_count / (size_t)model->config.vocab_size);
    if (model->for_training) {
        model->dx = cut(&from, tokens * width);
        model->dbranch = cut(&from, tokens * width);
        model->weights_t = cut(&from, (2 * WIDENING + 1) * width * width);
    }
    model->attention_scratch =
        cut(&from, model->kernels->attention_scratch(width / (size_t)model->config.heads,
                                                     rank_segment_max(model)));
    model->positions = cut(&from, tokens);
    model->active = cut(&from, tokens);
    model->active_targets = cut(&from, tokens);
    return from.used;
}

static base_status allocate(rank_model *model, base_error *reterr)
{
    model->blocks = calloc((size_t)model->config.layers, sizeof *model->blocks);
    if (model->blocks == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "model: no memory for %d layers",
                         model->config.layers);
    }
    const size_t bytes = cut_all(model, NULL) * sizeof(float);
    if (posix_memalign(&model->memory, HUGE_PAGE_BYTES, bytes) != 0) {
        model->memory = NULL;
        return base_fail(reterr, BASE_ERR_MEMORY, "model: no memory for %zu bytes of activations",
                         bytes);
    }
    /* Fewer translations to look up; where the system refuses, nothing else changes. */
    (void)madvise(model->memory, bytes, MADV_HUGEPAGE);
    (void)cut_all(model, model->memory);
    return BASE_OK;
}

base_status rank_model_create(const rank_model_config *config, int token_count_max,
                              int for_training, rank_model **model, base_error *reterr)
{
    *model = NULL;
    base_status status = rank_model_config_check(config, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (token_count_max < 1 || token_count_max > TOKENS_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "model: %d tokens in a batch, it must be 1 … %d",
                         token_count_max, TOKENS_MAX);
    }
    status = rank_kernels_check(reterr);
    if (status != BASE_OK) {
        return status;
    }
    rank_model *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "model: no memory");
    }
    made->config = *config;
    made->token_count_max = (size_t)token_count_max;
    made->for_training = for_training != 0;
    made->kernels = rank_kernels_get();
    rank_layout_make(config, &made->layout);
    rank_matmul_init();
    status = allocate(made, reterr);
    if (status != BASE_OK) {
        rank_model_destroy(made);
        return status;
    }
    *model = made;
    return BASE_OK;
}

void rank_model_destroy(rank_model *model)
{
    if (model == NULL) {
        return;
    }
    free(model->memory);
    free(model->blocks);
    free(model);
}

const char *rank_model_instruction_set(void)
{
    return rank_kernels_get()->name;
}

const char *rank_model_matrix_library(void)
{
    return rank_matmul_library();
}
