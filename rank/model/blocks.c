/* The sizes of blocks that share heads of keys and values: checked, cut, described. Called by families. */
#include "model/blocks.h"

#include "model/config_read.h"

enum { HIDDEN_MAX = 1 << 17 };

static size_t side(const rank_model_config *config, rank_side of)
{
    const size_t head_width = rank_block_setting(config, RANK_BLOCK_HEAD_WIDTH);
    switch (of) {
    case SIDE_WIDTH:
        return (size_t)config->width;
    case SIDE_QUERIES:
        return (size_t)config->heads * head_width;
    case SIDE_KEYS:
        return rank_block_setting(config, RANK_BLOCK_KV_HEADS) * head_width;
    case SIDE_HEAD:
        return head_width;
    case SIDE_HIDDEN:
        return rank_block_setting(config, RANK_BLOCK_HIDDEN);
    case SIDE_EXPERTS:
        return rank_block_setting(config, RANK_BLOCK_EXPERTS);
    case SIDE_NONE:
        break;
    }
    return 1;
}

size_t rank_block_elements(const rank_model_config *config, const rank_block_tensor *of)
{
    return side(config, of->rows) * side(config, of->columns);
}

void rank_block_set_tensor(const rank_model_config *config, const rank_block_tensor *of,
                           size_t offset, rank_tensor *tensor)
{
    const bool of_heads = of->cut == RANK_CUT_HEADS || of->cut == RANK_CUT_KV_HEADS;
    rank_tensor_set_shape(tensor, of->rows == SIDE_NONE ? 0 : side(config, of->rows),
                          side(config, of->columns), offset);
    tensor->pack = of->rows == SIDE_NONE || of->rows == SIDE_EXPERTS
                       ? RANK_TENSOR_PLAIN
                       : RANK_TENSOR_PACKED_TRANSPOSED;
    tensor->cut = (rank_cut){.kind = of->cut,
                             .axis = of->axis,
                             .parts = 1,
                             .unit = of_heads ? side(config, SIDE_HEAD) : 1};
}

static base_status check_heads(const rank_model_config *config, base_error *reterr)
{
    const int kv_heads = (int)config->settings[RANK_BLOCK_KV_HEADS];
    const int head_width = (int)config->settings[RANK_BLOCK_HEAD_WIDTH];
    if (kv_heads < 1 || config->heads % kv_heads != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "model: %d heads are not a multiple of %d heads of keys and values",
                         config->heads, kv_heads);
    }
    if (head_width < 2 || head_width % 2 != 0 || head_width > 2 * RANK_ROPE_PAIRS_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "model: heads of %d elements; they must be even, and 2 … %d", head_width,
                         2 * RANK_ROPE_PAIRS_MAX);
    }
    return BASE_OK;
}

base_status rank_block_check(const rank_model_config *config, base_error *reterr)
{
    const struct {
        const char *what;
        int value;
        int max;
    } ranges[] = {
        {"the vocabulary", config->vocab_size, RANK_VOCAB_MAX},
        {"the width", config->width, RANK_WIDTH_MAX},
        {"the number of layers", config->layers, RANK_LAYERS_MAX},
        {"the number of heads", config->heads, RANK_WIDTH_MAX},
        {"the context", config->context, RANK_BLOCK_CONTEXT_MAX},
        {"the width of the MLP", (int)config->settings[RANK_BLOCK_HIDDEN], HIDDEN_MAX},
    };
    base_status status = BASE_OK;
    for (size_t i = 0; status == BASE_OK && i < sizeof ranges / sizeof *ranges; i++) {
        status = rank_config_range(ranges[i].what, ranges[i].value, ranges[i].max, reterr);
    }
    return status == BASE_OK ? check_heads(config, reterr) : status;
}

rank_decoder rank_block_describe(const rank_model_config *config, int ranks)
{
    const rank_decoder_cut whole = {.heads = (size_t)config->heads,
                                    .kv_heads = rank_block_setting(config, RANK_BLOCK_KV_HEADS),
                                    .head_width = side(config, SIDE_HEAD),
                                    .hidden = side(config, SIDE_HIDDEN)};
    return (rank_decoder){.heads = whole.heads / (size_t)ranks,
                          .kv_heads = rank_decoder_kv_heads(whole.kv_heads, ranks),
                          .head_width = whole.head_width,
                          .hidden = whole.hidden / (size_t)ranks,
                          .leaves = rank_decoder_leaves(&whole, ranks),
                          .rms = true,
                          .epsilon = (float)config->settings[RANK_BLOCK_EPSILON],
                          .gated = true,
                          .rotated = whole.head_width,
                          .turn_scale = 1.0f};
}
