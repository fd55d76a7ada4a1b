/* Gemma 3's tensors: names, shapes, offsets, how they may be cut, their first values. Called through
 * gemma3.c's table. */
#include <stdio.h>

#include "model/config_read.h"
#include "model/gemma3/parts.h"
#include "model/normal.h"

enum {
    HIDDEN_MAX = 1 << 17,
    CONTEXT_MAX = 1 << 20, /* positions · frequency stays in what backend/turn.h takes */
};

static base_status check_heads(const rank_model_config *config, base_error *reterr)
{
    const int kv_heads = (int)config->settings[GEMMA3_KV_HEADS];
    const int head_width = (int)config->settings[GEMMA3_HEAD_WIDTH];
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
    const struct {
        const char *what;
        int value;
        int max;
    } ranges[] = {
        {"the vocabulary", config->vocab_size, RANK_VOCAB_MAX},
        {"the width", config->width, RANK_WIDTH_MAX},
        {"the number of layers", config->layers, RANK_LAYERS_MAX},
        {"the number of heads", config->heads, RANK_WIDTH_MAX},
        {"the context", config->context, CONTEXT_MAX},
        {"the width of the MLP", (int)config->settings[GEMMA3_HIDDEN], HIDDEN_MAX},
        {"the sliding window", (int)config->settings[GEMMA3_WINDOW], CONTEXT_MAX},
    };
    base_status status = BASE_OK;
    for (size_t i = 0; status == BASE_OK && i < sizeof ranges / sizeof *ranges; i++) {
        status = rank_config_range(ranges[i].what, ranges[i].value, ranges[i].max, reterr);
    }
    if (status == BASE_OK) {
        status = check_heads(config, reterr);
    }
    return status == BASE_OK ? check_numbers(config, reterr) : status;
}

/* The sides of a matrix, in elements. */
typedef enum side { NOTHING, WIDTH, QUERIES, KEYS, HEAD, HIDDEN } side;

static size_t elements(const rank_model_config *config, side of)
{
    const size_t head_width = gemma3_setting(config, GEMMA3_HEAD_WIDTH);
    switch (of) {
    case WIDTH:
        return (size_t)config->width;
    case QUERIES:
        return (size_t)config->heads * head_width;
    case KEYS:
        return gemma3_setting(config, GEMMA3_KV_HEADS) * head_width;
    case HEAD:
        return head_width;
    case HIDDEN:
        return gemma3_setting(config, GEMMA3_HIDDEN);
    case NOTHING:
        break;
    }
    return 1;
}

static const struct {
    const char *name;
    side rows; /* NOTHING: a vector */
    side columns;
    rank_cut_kind cut;
    int axis;
} block_tensors[GEMMA3_BLOCK_TENSORS] = {
    [GEMMA3_NORM1] = {"input_layernorm", NOTHING, WIDTH, RANK_CUT_NONE, 0},
    [GEMMA3_Q] = {"self_attn.q_proj", QUERIES, WIDTH, RANK_CUT_HEADS, 0},
    [GEMMA3_K] = {"self_attn.k_proj", KEYS, WIDTH, RANK_CUT_KV_HEADS, 0},
    [GEMMA3_V] = {"self_attn.v_proj", KEYS, WIDTH, RANK_CUT_KV_HEADS, 0},
    [GEMMA3_Q_NORM] = {"self_attn.q_norm", NOTHING, HEAD, RANK_CUT_NONE, 0},
    [GEMMA3_K_NORM] = {"self_attn.k_norm", NOTHING, HEAD, RANK_CUT_NONE, 0},
    [GEMMA3_PROJECTION] = {"self_attn.o_proj", WIDTH, QUERIES, RANK_CUT_HEADS, 1},
    [GEMMA3_AFTER1] = {"post_attention_layernorm", NOTHING, WIDTH, RANK_CUT_NONE, 0},
    [GEMMA3_NORM2] = {"pre_feedforward_layernorm", NOTHING, WIDTH, RANK_CUT_NONE, 0},
    [GEMMA3_GATE] = {"mlp.gate_proj", HIDDEN, WIDTH, RANK_CUT_HIDDEN, 0},
    [GEMMA3_UP] = {"mlp.up_proj", HIDDEN, WIDTH, RANK_CUT_HIDDEN, 0},
    [GEMMA3_DOWN] = {"mlp.down_proj", WIDTH, HIDDEN, RANK_CUT_HIDDEN, 1},
    [GEMMA3_AFTER2] = {"post_feedforward_layernorm", NOTHING, WIDTH, RANK_CUT_NONE, 0},
};

void gemma3_layout_make(const rank_model_config *config, gemma3_layout *layout)
{
    *layout = (gemma3_layout){.block = (size_t)config->vocab_size * (size_t)config->width};
    for (int i = 0; i < GEMMA3_BLOCK_TENSORS; i++) {
        layout->in_block[i + 1] =
            layout->in_block[i] +
            elements(config, block_tensors[i].rows) * elements(config, block_tensors[i].columns);
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
    const side rows = block_tensors[which].rows;
    const rank_cut_kind kind = block_tensors[which].cut;
    (void)snprintf(tensor->name, sizeof tensor->name, "model.layers.%d.%s.weight", layer,
                   block_tensors[which].name);
    rank_tensor_set_shape(tensor, rows == NOTHING ? 0 : elements(config, rows),
                          elements(config, block_tensors[which].columns), offset);
    tensor->pack = rows == NOTHING ? RANK_TENSOR_PLAIN : RANK_TENSOR_PACKED_TRANSPOSED;
    const bool of_heads = kind == RANK_CUT_HEADS || kind == RANK_CUT_KV_HEADS;
    tensor->cut = (rank_cut){.kind = kind,
                             .axis = block_tensors[which].axis,
                             .parts = 1,
                             .unit = of_heads ? elements(config, HEAD) : 1};
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
