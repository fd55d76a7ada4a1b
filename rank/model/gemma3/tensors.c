/* Gemma 3's tensors: names, shapes, offsets, how they may be cut, their first values. Called through
 * gemma3.c's table. */
#include <stdio.h>

#include "model/config_read.h"
#include "model/gemma3/parts.h"
#include "model/normal.h"

/* Frequencies must be in 0 … 1, so that an angle is what backend/turn.h takes. */
static base_status check_numbers(const rank_model_config *config, base_error *reterr)
{
    static const struct {
        const char *name;
        int setting;
        double least;
        double most;
    } bounds[] = {
        {"rms_norm_eps", GEMMA3_EPSILON, 1e-30, 1.0},
        {"rope_theta", GEMMA3_THETA, 1.0, 1e30},
        {"rope_local_base_freq", GEMMA3_LOCAL_THETA, 1.0, 1e30},
        {"rope's factor", GEMMA3_FACTOR, 1.0, 1e30},
        {"query_pre_attn_scalar", GEMMA3_QUERY_SCALAR, 1e-6, 1e6},
    };
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        const double number = config->settings[bounds[i].setting];
        if (!(number >= bounds[i].least && number <= bounds[i].most)) {
            return base_fail(reterr, BASE_ERR_INVALID, "model: %s is %g, it must be %g … %g",
                             bounds[i].name, number, bounds[i].least, bounds[i].most);
        }
    }
    return BASE_OK;
}

base_status gemma3_check(const rank_model_config *config, base_error *reterr)
{
    base_status status = rank_block_check(config, reterr);
    if (status == BASE_OK) {
        status = rank_config_range("the sliding window", (int)config->settings[GEMMA3_WINDOW],
                                   RANK_BLOCK_CONTEXT_MAX, reterr);
    }
    return status == BASE_OK ? check_numbers(config, reterr) : status;
}

static const rank_block_tensor block_tensors[GEMMA3_BLOCK_TENSORS] = {
    [GEMMA3_NORM1] = {"input_layernorm", SIDE_NONE, SIDE_WIDTH, RANK_CUT_NONE, 0},
    [GEMMA3_Q] = {"self_attn.q_proj", SIDE_QUERIES, SIDE_WIDTH, RANK_CUT_HEADS, 0},
    [GEMMA3_K] = {"self_attn.k_proj", SIDE_KEYS, SIDE_WIDTH, RANK_CUT_KV_HEADS, 0},
    [GEMMA3_V] = {"self_attn.v_proj", SIDE_KEYS, SIDE_WIDTH, RANK_CUT_KV_HEADS, 0},
    [GEMMA3_PROJECTION] = {"self_attn.o_proj", SIDE_WIDTH, SIDE_QUERIES, RANK_CUT_HEADS, 1},
    [GEMMA3_NORM2] = {"pre_feedforward_layernorm", SIDE_NONE, SIDE_WIDTH, RANK_CUT_NONE, 0},
    [GEMMA3_GATE] = {"mlp.gate_proj", SIDE_HIDDEN, SIDE_WIDTH, RANK_CUT_HIDDEN, 0},
    [GEMMA3_UP] = {"mlp.up_proj", SIDE_HIDDEN, SIDE_WIDTH, RANK_CUT_HIDDEN, 0},
    [GEMMA3_DOWN] = {"mlp.down_proj", SIDE_WIDTH, SIDE_HIDDEN, RANK_CUT_HIDDEN, 1},
    [GEMMA3_Q_NORM] = {"self_attn.q_norm", SIDE_NONE, SIDE_HEAD, RANK_CUT_NONE, 0},
    [GEMMA3_K_NORM] = {"self_attn.k_norm", SIDE_NONE, SIDE_HEAD, RANK_CUT_NONE, 0},
    [GEMMA3_AFTER1] = {"post_attention_layernorm", SIDE_NONE, SIDE_WIDTH, RANK_CUT_NONE, 0},
    [GEMMA3_AFTER2] = {"post_feedforward_layernorm", SIDE_NONE, SIDE_WIDTH, RANK_CUT_NONE, 0},
};

void gemma3_layout_make(const rank_model_config *config, gemma3_layout *layout)
{
    *layout = (gemma3_layout){.block = (size_t)config->vocab_size * (size_t)config->width};
    for (int i = 0; i < GEMMA3_BLOCK_TENSORS; i++) {
        layout->in_block[i + 1] =
            layout->in_block[i] + rank_block_elements(config, &block_tensors[i]);
    }
    layout->final_norm =
        layout->block + (size_t)config->layers * layout->in_block[GEMMA3_BLOCK_TENSORS];
}

/* Behind the embedding. */
int gemma3_block_begin(const rank_model_config *config, int layer)
{
    (void)config;
    return 1 + layer * GEMMA3_BLOCK_TENSORS;
}

int gemma3_tensor_count(const rank_model_config *config)
{
    return gemma3_block_begin(config, config->layers) + 1;
}

static void set_block_tensor(const rank_model_config *config, const gemma3_layout *layout,
                             int index, rank_tensor *tensor)
{
    const int layer = index / GEMMA3_BLOCK_TENSORS;
    const int which = index % GEMMA3_BLOCK_TENSORS;
    const size_t offset = layout->block + (size_t)layer * layout->in_block[GEMMA3_BLOCK_TENSORS] +
                          layout->in_block[which];
    (void)snprintf(tensor->name, sizeof tensor->name, "model.layers.%d.%s.weight", layer,
                   block_tensors[which].name);
    rank_block_set_tensor(config, &block_tensors[which], offset, tensor);
}

void gemma3_tensor(const rank_model_config *config, int index, rank_tensor *tensor)
{
    gemma3_layout layout;
    gemma3_layout_make(config, &layout);
    const size_t width = (size_t)config->width;
    const int norm = gemma3_block_begin(config, config->layers);
    *tensor = (rank_tensor){.cut = {.parts = 1, .unit = 1}};
    if (index > 0 && index < norm) {
        set_block_tensor(config, &layout, index - 1, tensor);
        return;
    }
    if (index == norm) {
        (void)snprintf(tensor->name, sizeof tensor->name, "model.norm.weight");
        rank_tensor_set_shape(tensor, 0, width, layout.final_norm);
        return;
    }
    rank_tensor_set_shape(tensor, (size_t)config->vocab_size, width, 0);
    tensor->pack = RANK_TENSOR_PACKED_TRANSPOSED;
    tensor->cut.kind = RANK_CUT_VOCAB;
    (void)snprintf(tensor->name, sizeof tensor->name, "model.embed_tokens.weight");
    tensor->tied = "lm_head.weight";
}

/* normal(0, 0.02), norms 0: they multiply by one more. */
void gemma3_init(const rank_model_config *config, uint64_t seed, float *params)
{
    for (int i = 0; i < gemma3_tensor_count(config); i++) {
        rank_tensor tensor;
        gemma3_tensor(config, i, &tensor);
        if (tensor.dims == 2) {
            rank_fill_normal(seed, i, 0.02f, params + tensor.offset, tensor.count);
        } else {
            rank_fill(0.0f, params + tensor.offset, tensor.count);
        }
    }
}
