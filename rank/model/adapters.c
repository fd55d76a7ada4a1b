/* Low-rank adapters of a model: which layers have them, their tensors as a family of its own, and their sum
 * with the model's weights. Called by transformer/, train/, checkpoint/ and generate/. */
#include "rank/adapters.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "model/family.h"
#include "model/normal.h"

static const char ALL[] = "all-linear";
static const char WEIGHT[] = ".weight";

/* The model that a configuration of adapters is of; a model's own is itself. */
static rank_model_config model_of(const rank_model_config *config)
{
    rank_model_config model = *config;
    model.family = config->adapters.of != NULL ? config->adapters.of : config->family;
    model.adapters.of = NULL;
    return model;
}

/* A linear layer of a block. The output's matrix is in none. */
typedef struct linear {
    rank_tensor tensor;
    int index; /* of the tensor */
    size_t in;
    size_t out;
} linear;

/* The number `which` of them in the block of that layer. False: there are fewer. */
static bool find_linear(const rank_model_config *model, int layer, int which, linear *found)
{
    const int end = model->family->block_begin(model, layer + 1);
    for (int i = model->family->block_begin(model, layer); i < end; i++) {
        rank_model_tensor(model, i, &found->tensor);
        if (found->tensor.pack != RANK_TENSOR_PLAIN && which-- == 0) {
            const bool turned = found->tensor.pack == RANK_TENSOR_PACKED_TRANSPOSED;
            found->index = i;
            found->in = found->tensor.shape[turned ? 1 : 0];
            found->out = found->tensor.shape[turned ? 0 : 1];
            return true;
        }
    }
    return false;
}

static bool is_target(const rank_model_config *model, int which)
{
    return (model->adapters.targets >> which & 1) != 0;
}

static int count_targets(const rank_model_config *model)
{
    return __builtin_popcount(model->adapters.targets);
}

/* The number of the target that has so many before it. */
static int target_at(const rank_model_config *model, int place)
{
    int which = 0;
    for (int left = place; left > 0 || !is_target(model, which); which++) {
        left -= is_target(model, which);
    }
    return which;
}

/* The name of a layer in its block: "self_attn.q_proj" of "model.layers.0.self_attn.q_proj.weight". */
static void name_linear(const rank_model_config *model, int which,
                        char name[RANK_TENSOR_NAME_BYTES])
{
    linear of;
    const bool found = find_linear(model, 0, which, &of);
    BASE_ASSERT(found);
    const char *layer = strstr(of.tensor.name, ".0.");
    BASE_ASSERT(layer != NULL);
    (void)snprintf(name, RANK_TENSOR_NAME_BYTES, "%s", layer + strlen(".0."));
    name[strlen(name) - strlen(WEIGHT)] = '\0';
}

/* Whether `name` means the layer: it is the layer's, or its last parts. */
static bool names_layer(const char *layer, const char *name, size_t length)
{
    const size_t whole = strlen(layer);
    return length > 0 && whole >= length && memcmp(layer + whole - length, name, length) == 0 &&
           (whole == length || layer[whole - length - 1] == '.');
}

/* The layers that a name means. */
static uint32_t find_layers(const rank_model_config *model, const char *name, size_t length)
{
    const bool all = length == strlen(ALL) && memcmp(name, ALL, length) == 0;
    uint32_t found = 0;
    linear of;
    for (int i = 0; find_linear(model, 0, i, &of); i++) {
        char layer[RANK_TENSOR_NAME_BYTES];
        name_linear(model, i, layer);
        found |= all || names_layer(layer, name, length) ? UINT32_C(1) << i : 0;
    }
    return found;
}

static base_status refuse_name(const rank_model_config *model, const char *name, size_t length,
                               base_error *reterr)
{
    char known[RANK_ADAPTERS_NAMES_BYTES];
    rank_model_config all = *model;
    all.adapters.targets = find_layers(model, ALL, strlen(ALL));
    rank_adapters_names(&all, known);
    return base_fail(reterr, BASE_ERR_INVALID,
                     "the model has no linear layer \"%.*s\"; it has %s (all-linear: all)",
                     (int)length, name, known);
}

base_status rank_adapters_choose(const rank_model_config *model, const char *names,
                                 uint32_t *targets, base_error *reterr)
{
    const char *at = names[0] != '\0' ? names : model->family->adapted;
    if (rank_model_experts(model).count > 0) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "models with experts have no adapters");
    }
    *targets = 0;
    for (;;) {
        const size_t length = strcspn(at, ",");
        const uint32_t found = find_layers(model, at, length);
        if (found == 0) {
            return refuse_name(model, at, length, reterr);
        }
        *targets |= found;
        if (at[length] == '\0') {
            return BASE_OK;
        }
        at += length + 1;
    }
}

void rank_adapters_names(const rank_model_config *model, char names[RANK_ADAPTERS_NAMES_BYTES])
{
    size_t used = 0;
    linear of;
    names[0] = '\0';
    for (int i = 0; find_linear(model, 0, i, &of); i++) {
        char layer[RANK_TENSOR_NAME_BYTES];
        name_linear(model, i, layer);
        const char *dot = strrchr(layer, '.');
        const char *last = dot != NULL ? dot + 1 : layer;
        const uint32_t means = find_layers(model, last, strlen(last));
        const bool said = (means & model->adapters.targets & ((UINT32_C(1) << i) - 1)) != 0;
        const bool alone = (means & ~model->adapters.targets) == 0;
        if (is_target(model, i) && !(alone && said)) {
            used += (size_t)snprintf(names + used, RANK_ADAPTERS_NAMES_BYTES - used, "%s%s",
                                     used > 0 ? "," : "", alone ? last : layer);
            BASE_ASSERT(used < RANK_ADAPTERS_NAMES_BYTES);
        }
    }
}

void rank_adapters_describe(const rank_model_config *config, rank_adapters_block *block)
{
    const rank_model_config model = model_of(config);
    rank_tensor first;
    linear of;
    *block = (rank_adapters_block){.count = 0};
    rank_model_tensor(&model, model.family->block_begin(&model, 0), &first);
    for (int i = 0; find_linear(&model, 0, i, &of); i++) {
        if (!is_target(&model, i)) {
            continue;
        }
        const size_t rank = (size_t)model.adapters.rank;
        BASE_ASSERT(block->count < RANK_ADAPTERS_LAYERS_MAX);
        rank_adapted *added = &block->layers[block->count++];
        *added = (rank_adapted){.offset = of.tensor.offset - first.offset,
                                .in = of.in,
                                .out = of.out,
                                .a = block->elements,
                                .b = block->elements + rank * of.in};
        block->elements = added->b + of.out * rank;
    }
}

/* ---- the family of adapters ---- */

enum { EACH = 2 /* tensors of a layer: A and B */ };

/* Ranks that share W share B where W's outputs are cut, and A where its inputs are. */
static rank_cut cut_beside(const rank_tensor *w, bool is_b)
{
    const bool of_inputs = w->cut.axis == (w->pack == RANK_TENSOR_PACKED ? 0 : 1);
    rank_cut cut = {.parts = 1, .unit = 1};
    if (w->cut.kind != RANK_CUT_NONE && of_inputs != is_b) {
        cut = w->cut;
        cut.axis = is_b ? 0 : 1;
    }
    return cut;
}

static int tensor_count(const rank_model_config *config)
{
    return config->layers * count_targets(config) * EACH;
}

static void tensor(const rank_model_config *config, int index, rank_tensor *made)
{
    const rank_model_config model = model_of(config);
    const int each = count_targets(config) * EACH;
    const int place = index % each / EACH;
    const bool is_b = index % EACH == 1;
    const size_t rank = (size_t)config->adapters.rank;
    rank_adapters_block block;
    linear of;
    rank_adapters_describe(&model, &block);
    const rank_adapted *layer = &block.layers[place];
    const bool found = find_linear(&model, index / each, target_at(config, place), &of);
    BASE_ASSERT(found);
    *made =
        (rank_tensor){.cut = cut_beside(&of.tensor, is_b), .pack = RANK_TENSOR_PACKED_TRANSPOSED};
    const int named = snprintf(
        made->name, sizeof made->name, "%s%.*s.lora_%c%s", model.family->file_prefix,
        (int)(strlen(of.tensor.name) - strlen(WEIGHT)), of.tensor.name, is_b ? 'B' : 'A', WEIGHT);
    BASE_ASSERT(named < (int)sizeof made->name);
    rank_tensor_set_shape(made, is_b ? layer->out : rank, is_b ? rank : layer->in,
                          (size_t)(index / each) * block.elements + (is_b ? layer->b : layer->a));
}

/* A as PEFT has it, but of normal deviates: of a variance of 1 / (3 in). B is zero. */
static void init(const rank_model_config *config, uint64_t seed, float *params)
{
    for (int i = 0; i < tensor_count(config); i++) {
        rank_tensor of;
        tensor(config, i, &of);
        if (i % EACH == 0) {
            const double in = (double)of.shape[1];
            rank_fill_normal(seed, i, (float)(1.0 / __builtin_sqrt(3.0 * in)), params + of.offset,
                             of.count);
        } else {
            rank_fill(0.0f, params + of.offset, of.count);
        }
    }
}

static const char *const nothing[] = {NULL};

static const rank_family family = {
    .model_types = nothing,
    .ignored = nothing,
    .file_prefix = "base_model.model.",
    .tensor_count = tensor_count,
    .tensor = tensor,
    .init = init,
};

rank_model_config rank_adapters_config(const rank_model_config *model)
{
    rank_model_config config = *model;
    config.adapters.of = model->family;
    config.family = &family;
    return config;
}

/* ---- sums ---- */

bool rank_adapters_find(const rank_model_config *model, const float *adapters, int tensor_index,
                        rank_adapter *found)
{
    const int begin = model->family->block_begin(model, 0);
    const int layer = (tensor_index - begin) / (model->family->block_begin(model, 1) - begin);
    int place = 0;
    linear of;
    if (tensor_index < begin || layer >= model->layers) {
        return false;
    }
    for (int i = 0; find_linear(model, layer, i, &of) && of.index <= tensor_index; i++) {
        if (of.index == tensor_index && is_target(model, i)) {
            rank_adapters_block block;
            rank_adapters_describe(model, &block);
            const float *at = adapters + (size_t)layer * block.elements;
            *found = (rank_adapter){.a = at + block.layers[place].a,
                                    .b = at + block.layers[place].b,
                                    .in = of.in,
                                    .rank = (size_t)model->adapters.rank,
                                    .scale = model->adapters.scale,
                                    .turned = of.tensor.pack == RANK_TENSOR_PACKED};
            return true;
        }
        place += is_target(model, i);
    }
    return false;
}

enum { ADDED_AT_ONCE = 256 };

void rank_adapters_add(const rank_adapter *adapter, size_t row, size_t column, size_t count,
                       float *to)
{
    const size_t in = adapter->in;
    const size_t rank = adapter->rank;
    for (size_t first = 0; first < count; first += ADDED_AT_ONCE) {
        const size_t some = count - first < ADDED_AT_ONCE ? count - first : ADDED_AT_ONCE;
        const size_t at = column + first;
        float sums[ADDED_AT_ONCE] = {0.0f};
        for (size_t r = 0; r < rank; r++) {
            const float fixed =
                adapter->turned ? adapter->a[r * in + row] : adapter->b[row * rank + r];
            const float *moving =
                adapter->turned ? adapter->b + at * rank + r : adapter->a + r * in + at;
            const size_t step = adapter->turned ? rank : 1;
            for (size_t i = 0; i < some; i++) {
                sums[i] += fixed * moving[i * step];
            }
        }
        for (size_t i = 0; i < some; i++) {
            to[first + i] += adapter->scale * sums[i];
        }
    }
}

void rank_adapters_merge(const rank_model_config *model, const float *adapters, float *params)
{
    for (int i = 0; i < rank_model_tensor_count(model); i++) {
        rank_adapter adapter;
        rank_tensor of;
        if (!rank_adapters_find(model, adapters, i, &adapter)) {
            continue;
        }
        rank_model_tensor(model, i, &of);
        for (size_t row = 0; row < of.shape[0]; row++) {
            rank_adapters_add(&adapter, row, 0, of.shape[1],
                              params + of.offset + row * of.shape[1]);
        }
    }
}
