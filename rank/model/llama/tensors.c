/* Llama's tensors, and Gemma 3's: names, shapes, offsets, how they may be cut, their first values. Called
 * through llama.c's table, and gemma3.c's. */
#include <stdio.h>

#include "base/safetensors.h"
#include "model/config_read.h"
#include "model/llama/parts.h"
#include "model/normal.h"

enum { TENSORS_MAX = BASE_SAFETENSORS_TENSORS_MAX - 1 /* beside the file's metadata */ };
static const double FACTOR_MAX = 1e3;
static const double EPSILON_MIN = 1e-30; /* norms add it as a float32, of which it must not be 0 */

/* An angle must be what backend/turn.h takes: frequencies are at most 1, or as much above as the context is shorter. */
static base_status check_rope(const rank_model_config *config, base_error *reterr)
{
    const double *of = config->settings;
    const size_t rotated = llama_rotated(config);
    if (rotated < 2 || rotated % 2 != 0) {
        return base_fail(
            reterr, BASE_ERR_INVALID,
            "model: rope turns %zu of a head's %d elements (partial_rotary_factor %g); "
            "it must be an even number",
            rotated, (int)of[LLAMA_HEAD_WIDTH], of[LLAMA_PARTIAL]);
    }
    if (of[LLAMA_SCALING] != (double)LLAMA_SCALING_LONGROPE) {
        return BASE_OK;
    }
    if (!(of[LLAMA_ATTENTION_FACTOR] > 0.0 && of[LLAMA_ATTENTION_FACTOR] <= FACTOR_MAX)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "model: attention_factor is %g, it must be above 0, and at most %g",
                         of[LLAMA_ATTENTION_FACTOR], FACTOR_MAX);
    }
    const double least = (double)config->context / RANK_BLOCK_CONTEXT_MAX;
    for (size_t i = 0; i < rotated; i++) {
        const double factor = config->rope_factors[i % 2][i / 2];
        if (!(factor >= least)) {
            return base_fail(
                reterr, BASE_ERR_INVALID,
                "model: a factor of longrope is %g, for %d tokens it must be %g or more", factor,
                config->context, least);
        }
    }
    return BASE_OK;
}

/* The same of what has one factor. */
static base_status check_numbers(const rank_model_config *config, base_error *reterr)
{
    const double *of = config->settings;
    const llama_scaling scaling = (llama_scaling)of[LLAMA_SCALING];
    if (!(of[LLAMA_EPSILON] >= EPSILON_MIN && of[LLAMA_EPSILON] <= 1.0)) {
        return base_fail(reterr, BASE_ERR_INVALID, "model: rms_norm_eps is %g, it must be %g … 1",
                         of[LLAMA_EPSILON], EPSILON_MIN);
    }
    if (!(of[LLAMA_THETA] >= 1.0)) {
        return base_fail(reterr, BASE_ERR_INVALID, "model: rope_theta is %g, it must be 1 or more",
                         of[LLAMA_THETA]);
    }
    const bool has_factor = scaling == LLAMA_SCALING_LINEAR || scaling == LLAMA_SCALING_LLAMA3;
    if (has_factor && !(of[LLAMA_FACTOR] >= 1.0)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "model: rope's factor is %g, it must be 1 or more", of[LLAMA_FACTOR]);
    }
    return BASE_OK;
}

static base_status check_experts(const rank_model_config *config, base_error *reterr)
{
    const double *of = config->settings;
    const int experts = (int)of[LLAMA_EXPERTS];
    const int chosen = (int)of[LLAMA_CHOSEN];
    if (experts == 0) {
        return BASE_OK;
    }
    base_status status =
        rank_config_range("the number of experts", experts, RANK_EXPERTS_MAX, reterr);
    if (status == BASE_OK) {
        status = rank_config_range("the number of experts of a token", chosen, experts, reterr);
    }
    if (status == BASE_OK) {
        status = rank_config_range("the number of tensors of a model with experts",
                                   llama_tensor_count(config), TENSORS_MAX, reterr);
    }
    if (status == BASE_OK && !(config->router_loss >= 0.0 && config->router_loss <= 1e3)) {
        status =
            base_fail(reterr, BASE_ERR_INVALID,
                      "model: %g of the router's loss, it must be 0 … 1000", config->router_loss);
    }
    return status;
}

base_status llama_check(const rank_model_config *config, base_error *reterr)
{
    base_status status = rank_block_check(config, reterr);
    if (status == BASE_OK) {
        status = check_experts(config, reterr);
    }
    if (status == BASE_OK) {
        status = check_rope(config, reterr);
    }
    return status == BASE_OK ? check_numbers(config, reterr) : status;
}

static const rank_block_tensor block_tensors[LLAMA_BLOCK_TENSORS] = {
    [LLAMA_NORM1] = {"input_layernorm", SIDE_NONE, SIDE_WIDTH, RANK_CUT_NONE, 0},
    [LLAMA_Q] = {"self_attn.q_proj", SIDE_QUERIES, SIDE_WIDTH, RANK_CUT_HEADS, 0},
    [LLAMA_K] = {"self_attn.k_proj", SIDE_KEYS, SIDE_WIDTH, RANK_CUT_KV_HEADS, 0},
    [LLAMA_V] = {"self_attn.v_proj", SIDE_KEYS, SIDE_WIDTH, RANK_CUT_KV_HEADS, 0},
    [LLAMA_Q_BIAS] = {"self_attn.q_proj", SIDE_NONE, SIDE_QUERIES, RANK_CUT_HEADS, 0},
    [LLAMA_K_BIAS] = {"self_attn.k_proj", SIDE_NONE, SIDE_KEYS, RANK_CUT_KV_HEADS, 0},
    [LLAMA_V_BIAS] = {"self_attn.v_proj", SIDE_NONE, SIDE_KEYS, RANK_CUT_KV_HEADS, 0},
    [LLAMA_PROJECTION] = {"self_attn.o_proj", SIDE_WIDTH, SIDE_QUERIES, RANK_CUT_HEADS, 1},
    [LLAMA_NORM2] = {"post_attention_layernorm", SIDE_NONE, SIDE_WIDTH, RANK_CUT_NONE, 0},
    [LLAMA_GATE] = {"mlp.gate_proj", SIDE_HIDDEN, SIDE_WIDTH, RANK_CUT_HIDDEN, 0},
    [LLAMA_UP] = {"mlp.up_proj", SIDE_HIDDEN, SIDE_WIDTH, RANK_CUT_HIDDEN, 0},
    [LLAMA_DOWN] = {"mlp.down_proj", SIDE_WIDTH, SIDE_HIDDEN, RANK_CUT_HIDDEN, 1},
    [LLAMA_Q_NORM] = {"self_attn.q_norm", SIDE_NONE, SIDE_HEAD, RANK_CUT_NONE, 0},
    [LLAMA_K_NORM] = {"self_attn.k_norm", SIDE_NONE, SIDE_HEAD, RANK_CUT_NONE, 0},
    [LLAMA_AFTER1] = {"post_attention_layernorm", SIDE_NONE, SIDE_WIDTH, RANK_CUT_NONE, 0},
    [LLAMA_AFTER2] = {"post_feedforward_layernorm", SIDE_NONE, SIDE_WIDTH, RANK_CUT_NONE, 0},
    [LLAMA_ROUTER] = {"mlp.gate", SIDE_EXPERTS, SIDE_WIDTH, RANK_CUT_NONE, 0},
};

/* The setting without which blocks lack the tensor; 0: all have it. */
static const int needed[LLAMA_BLOCK_TENSORS] = {
    [LLAMA_Q_BIAS] = LLAMA_BIASED,     [LLAMA_K_BIAS] = LLAMA_BIASED,
    [LLAMA_V_BIAS] = LLAMA_BIASED,     [LLAMA_Q_NORM] = LLAMA_HEAD_NORMS,
    [LLAMA_K_NORM] = LLAMA_HEAD_NORMS, [LLAMA_AFTER1] = LLAMA_GEMMA3,
    [LLAMA_AFTER2] = LLAMA_GEMMA3,     [LLAMA_ROUTER] = LLAMA_EXPERTS,
};

static bool is_bias(int which)
{
    return which >= LLAMA_Q_BIAS && which <= LLAMA_V_BIAS;
}

static bool is_of_expert(int which)
{
    return which >= LLAMA_GATE && which <= LLAMA_DOWN;
}

/* How many of the tensor this model's blocks have. */
static int count_of(const rank_model_config *config, int which)
{
    const double *of = config->settings;
    const int experts = (int)of[LLAMA_EXPERTS];
    if (is_of_expert(which)) {
        return experts > 0 ? experts : 1;
    }
    return needed[which] == 0 || of[needed[which]] != 0.0;
}

/* How many tensors a block of this model has. */
static int block_count(const rank_model_config *config)
{
    int count = 0;
    for (int i = 0; i < LLAMA_BLOCK_TENSORS; i++) {
        count += count_of(config, i);
    }
    return count;
}

typedef struct block_tensor {
    int which;
    int expert; /* 0 unless it is an expert's */
} block_tensor;

/* The block's tensor number `place` of those that this model has. Experts' gates and ups take turns. */
static block_tensor block_tensor_at(const rank_model_config *config, int place)
{
    int which = 0;
    while (place >= count_of(config, which) && which != LLAMA_GATE) {
        place -= count_of(config, which++);
    }
    const int pairs = 2 * count_of(config, LLAMA_GATE);
    if (which < LLAMA_GATE) {
        return (block_tensor){which, 0};
    }
    if (place < pairs) {
        return (block_tensor){LLAMA_GATE + place % 2, place / 2};
    }
    place -= pairs;
    which = LLAMA_DOWN;
    while (place >= count_of(config, which)) {
        place -= count_of(config, which++);
    }
    return (block_tensor){which, place};
}

static bool is_tied(const rank_model_config *config)
{
    return config->settings[LLAMA_TIED] != 0.0;
}

void llama_layout_make(const rank_model_config *config, llama_layout *layout)
{
    const size_t width = (size_t)config->width;
    *layout = (llama_layout){.block = (size_t)config->vocab_size * width};
    for (int i = 0; i < LLAMA_BLOCK_TENSORS; i++) {
        const size_t count = rank_block_elements(config, &block_tensors[i]);
        layout->in_block[i + 1] = layout->in_block[i] + count * (size_t)count_of(config, i);
    }
    layout->matrix = rank_block_setting(config, LLAMA_HIDDEN) * width;
    layout->in_block[LLAMA_UP] = layout->in_block[LLAMA_GATE] + layout->matrix;
    layout->final_norm =
        layout->block + (size_t)config->layers * layout->in_block[LLAMA_BLOCK_TENSORS];
    layout->output = is_tied(config) ? 0 : layout->final_norm + width;
}

size_t llama_in_block(const llama_layout *layout, int which, int expert)
{
    const size_t others = (size_t)expert * layout->matrix;
    return layout->in_block[which] + (which == LLAMA_DOWN ? others : 2 * others);
}

/* Behind the embedding. */
int llama_block_begin(const rank_model_config *config, int layer)
{
    return 1 + layer * block_count(config);
}

int llama_tensor_count(const rank_model_config *config)
{
    return llama_block_begin(config, config->layers) + (is_tied(config) ? 1 : 2);
}

/* Mixtral has names of its own for the experts and their router, and Gemma 3 for a norm, whose name another
 * one has there. */
static void name_block_tensor(const rank_model_config *config, int layer, block_tensor of,
                              char *name)
{
    static const char *const mixtral[] = {
        [LLAMA_GATE] = "w1", [LLAMA_UP] = "w3", [LLAMA_DOWN] = "w2"};
    const bool has_experts = config->settings[LLAMA_EXPERTS] != 0.0;
    const bool is_mixtral = has_experts && config->settings[LLAMA_HEAD_NORMS] == 0.0;
    const char *own = block_tensors[of.which].name;
    char expert[RANK_TENSOR_NAME_BYTES / 2];
    if (has_experts && is_of_expert(of.which)) {
        (void)snprintf(expert, sizeof expert, "%s.experts.%d.%s",
                       is_mixtral ? "block_sparse_moe" : "mlp", of.expert,
                       is_mixtral ? mixtral[of.which] : own + sizeof "mlp." - 1);
        own = expert;
    } else if (is_mixtral && of.which == LLAMA_ROUTER) {
        own = "block_sparse_moe.gate";
    } else if (config->settings[LLAMA_GEMMA3] != 0.0 && of.which == LLAMA_NORM2) {
        own = "pre_feedforward_layernorm";
    }
    (void)snprintf(name, RANK_TENSOR_NAME_BYTES, "model.layers.%d.%s.%s", layer, own,
                   is_bias(of.which) ? "bias" : "weight");
}

static void set_block_tensor(const rank_model_config *config, const llama_layout *layout, int index,
                             rank_tensor *tensor)
{
    const int layer = index / block_count(config);
    const block_tensor of = block_tensor_at(config, index % block_count(config));
    const int which = of.which;
    const size_t offset = layout->block + (size_t)layer * layout->in_block[LLAMA_BLOCK_TENSORS] +
                          llama_in_block(layout, which, of.expert);
    name_block_tensor(config, layer, of, tensor->name);
    tensor->expert =
        config->settings[LLAMA_EXPERTS] != 0.0 && is_of_expert(which) ? of.expert + 1 : 0;
    rank_block_set_tensor(config, &block_tensors[which], offset, tensor);
}

void llama_tensor(const rank_model_config *config, int index, rank_tensor *tensor)
{
    llama_layout layout;
    llama_layout_make(config, &layout);
    const size_t width = (size_t)config->width;
    const int norm = llama_block_begin(config, config->layers);
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
    rank_tensor_set_shape(tensor, (size_t)config->vocab_size, width,
                          index == 0 ? 0 : layout.output);
    tensor->pack = RANK_TENSOR_PACKED_TRANSPOSED;
    tensor->cut.kind = RANK_CUT_VOCAB;
    (void)snprintf(tensor->name, sizeof tensor->name, "%s",
                   index == 0 ? "model.embed_tokens.weight" : "lm_head.weight");
    tensor->tied = index == 0 && is_tied(config) ? "lm_head.weight" : NULL;
}

/* normal(0, 0.02), norms 1, biases 0; norms of Gemma 3, which multiply by one more, 0. */
void llama_init(const rank_model_config *config, uint64_t seed, float *params)
{
    const float norm = config->settings[LLAMA_GEMMA3] != 0.0 ? 0.0f : 1.0f;
    for (int i = 0; i < llama_tensor_count(config); i++) {
        rank_tensor tensor;
        llama_tensor(config, i, &tensor);
        if (tensor.dims == 2) {
            rank_fill_normal(seed, i, 0.02f, params + tensor.offset, tensor.count);
        } else {
            rank_fill(tensor.cut.kind == RANK_CUT_NONE ? norm : 0.0f, params + tensor.offset,
                      tensor.count);
        }
    }
}
