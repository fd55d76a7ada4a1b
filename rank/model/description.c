/* Computes what follows from a family's description of its tensors: sizes, names, ranks that divide
 * it. Called by checkpoints, the optimizer and generate/. */
#include <stdio.h>

#include "model/decoder.h"

base_status rank_model_config_check(const rank_model_config *config, base_error *reterr)
{
    return config->family->check(config, reterr);
}

int rank_model_tensor_count(const rank_model_config *config)
{
    return config->family->tensor_count(config);
}

size_t rank_model_param_count(const rank_model_config *config)
{
    rank_tensor last;
    rank_model_tensor(config, rank_model_tensor_count(config) - 1, &last);
    return last.offset + last.count;
}

int rank_model_part_count(const rank_model_config *config)
{
    return config->layers + 2;
}

void rank_model_part_reads(const rank_model_config *config, int part, rank_model_reads *reads)
{
    config->family->reads(config, part, reads);
}

void rank_model_init(const rank_model_config *config, uint64_t seed, float *params)
{
    config->family->init(config, seed, params);
}

void rank_tensor_set_shape(rank_tensor *tensor, size_t rows, size_t columns, size_t offset)
{
    tensor->dims = rows > 0 ? 2 : 1;
    tensor->shape[0] = rows > 0 ? rows : columns;
    tensor->shape[1] = rows > 0 ? columns : 1;
    tensor->count = tensor->shape[0] * tensor->shape[1];
    tensor->offset = offset;
    tensor->decay = rows > 0;
}

static size_t common_divisor(size_t a, size_t b)
{
    while (b > 0) {
        const size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* What numbers of ranks must fit. A vocabulary may be padded, so it does not count. */
typedef struct world_bounds {
    size_t units; /* ranks divide them: heads, and columns of the MLP; */
    /* and they divide these, or are a multiple of them. 0: there are as many as heads */
    size_t kv_heads;
} world_bounds;

static world_bounds bounds_of(const rank_model_config *config)
{
    world_bounds bounds = {.units = 0};
    for (int i = 0; i < rank_model_tensor_count(config); i++) {
        rank_tensor tensor;
        rank_model_tensor(config, i, &tensor);
        const rank_cut_kind kind = tensor.cut.kind;
        if (kind == RANK_CUT_NONE || kind == RANK_CUT_VOCAB) {
            continue;
        }
        const size_t units = rank_cut_units(&tensor.cut, tensor.shape[tensor.cut.axis]);
        if (kind == RANK_CUT_KV_HEADS) {
            bounds.kv_heads = units;
        } else {
            bounds.units = common_divisor(units, bounds.units);
        }
    }
    return bounds;
}

/* Whether so many ranks can have heads of keys and values: several each, or one that others have, too. */
static bool can_share(size_t kv_heads, size_t ranks)
{
    return kv_heads == 0 || kv_heads % ranks == 0 || ranks % kv_heads == 0;
}

static bool can_decode(const rank_model_config *config, int ranks)
{
    const world_bounds bounds = bounds_of(config);
    return bounds.units % (size_t)ranks == 0 && can_share(bounds.kv_heads, (size_t)ranks);
}

/* No ranks share heads of keys and values, whose gradients nobody would add up. */
static bool can_train(const rank_model_config *config, int ranks)
{
    const rank_decoder whole = rank_decoder_describe(config, 1);
    return ranks == 1 || (ranks <= RANK_TP_LEAVES && whole.leaves % ranks == 0 &&
                          whole.kv_heads % (size_t)ranks == 0 &&
                          rank_tp_ids_of(config->vocab_size, ranks, ranks - 1).count > 0);
}

enum { LIMIT_BYTES = 96 };

/* What it is that so many ranks do not divide: heads, else columns of the MLP, else the vocabulary. */
static void say_limit(const rank_model_config *config, int ranks, bool shares,
                      char limit[LIMIT_BYTES])
{
    if (config->family->decoder == NULL) {
        (void)snprintf(limit, LIMIT_BYTES, "model of %d heads", config->heads);
        return;
    }
    const rank_decoder whole = rank_decoder_describe(config, 1);
    const size_t count = ranks > 0 ? (size_t)ranks : 1;
    const bool apart = whole.kv_heads % count == 0;
    if (ranks < 1 || whole.heads % count != 0 ||
        !(shares ? can_share(whole.kv_heads, count) : apart)) {
        char kept[48] = "";
        if (whole.kv_heads != whole.heads) { /* fewer: they are what limits it */
            (void)snprintf(kept, sizeof kept, ", and %zu of keys and values,", whole.kv_heads);
        }
        (void)snprintf(limit, LIMIT_BYTES, "model of %d heads%s", config->heads, kept);
    } else if (whole.hidden % count != 0) {
        (void)snprintf(limit, LIMIT_BYTES, "model whose MLP has %zu columns", whole.hidden);
    } else if (whole.leaves % ranks != 0) {
        (void)snprintf(limit, LIMIT_BYTES, "model whose MLP has %zu columns, and is cut by %d,",
                       whole.hidden, RANK_DECODER_HIDDEN_UNIT);
    } else {
        (void)snprintf(limit, LIMIT_BYTES, "vocabulary of %d tokens", config->vocab_size);
    }
}

/* Refuses a number of ranks, and lists those up to `most` that are possible. */
static base_status check_ranks(const rank_model_config *config, int ranks, int most,
                               bool (*can)(const rank_model_config *config, int ranks),
                               base_error *reterr)
{
    char fitting[128] = "";
    size_t used = 0;
    if (ranks >= 1 && can(config, ranks)) {
        return BASE_OK;
    }
    for (int n = 1; n <= most && used < sizeof fitting - 8; n++) {
        if (can(config, n)) {
            used += (size_t)snprintf(fitting + used, sizeof fitting - used, "%s%d",
                                     n > 1 ? ", " : "", n);
        }
    }
    char limit[LIMIT_BYTES];
    say_limit(config, ranks, can == can_decode, limit);
    return base_fail(reterr, BASE_ERR_INVALID,
                     "a %s cannot be cut between %d ranks; it can between %s", limit, ranks,
                     fitting);
}

base_status rank_model_check_world(const rank_model_config *config, int ranks, base_error *reterr)
{
    return check_ranks(config, ranks, (int)bounds_of(config).units, can_decode, reterr);
}

base_status rank_model_check_tensor_ranks(const rank_model_config *config, int ranks,
                                          base_error *reterr)
{
    return check_ranks(config, ranks, RANK_TP_LEAVES, can_train, reterr);
}
