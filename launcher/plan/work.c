/* Adds up the work memory of a step, by the formulas of rank/, but for attention's scratch. Called by
 * estimate.c. ctest -R gpu-planner compares with what ranks ask for. */
#include "plan/work.h"

#include <math.h>

enum {
    QUEUE_BYTES = 32 << 20, /* a queue's, of the backend for GPUs */
    CHUNK_ROWS = 16384,     /* of the MLP's work memory */
    LOGIT_ROWS = 4096,
    VOCAB_LEAVES = 16,    /* rank_tp_leaf_width's: equal leaves of whole steps, */
    VOCAB_LEAF_STEP = 32, /* and whole leaves on each rank */
    COME_FLOATS = 2,      /* with a row that comes: its weight, and that one's gradient; and */
    GO_FLOATS = 1,        /* with one that goes: its weight */
    MATRICES = 3,         /* of an expert */
};

/* Rows of one expert and their gradient, the results of all, and what the router's gradient is made of. Of rows that
 * come from other ranks each rank's give an expert's gradient a leaf, and a tree of leaves is under way. */
static double expert_floats(const launch_model *model, const launch_work *work, double rows)
{
    const double width = (double)model->width;
    const double hidden = (double)model->hidden;
    const double experts = (double)model->experts;
    const double places = rows * (double)model->chosen;
    const double chunk = fmin(rows, CHUNK_ROWS);
    const double floats =
        chunk * (2 * width + hidden / work->tensor) + places * (width + 1) + (rows + 1) * experts;
    const double shared = places * (width + COME_FLOATS + GO_FLOATS) + chunk +
                          floor(log2(work->expert_ranks)) * MATRICES * hidden * width;
    return experts == 0 ? 0 : floats + (work->expert_ranks > 1 ? shared : 0);
}

/* As rank/model/transformer/memory.c cuts it. */
double launch_work_training_bytes(const launch_model *model, const launch_work *work)
{
    const double rows = ceil(work->tokens / 16) * 16;
    const double width = (double)model->width;
    const double queries = (double)launch_model_queries(model);
    const double qkv = 3 * queries;
    const double chunk = fmin(rows, CHUNK_ROWS);
    const bool shared = work->context_ranks > 1;
    const double rounded = work->precision == PROTO_PRECISION_BFLOAT16 ? 1.5 : 1;
    const double logits =
        work->answers ? fmin(rows, LOGIT_ROWS) * (double)model->vocab_size * rounded : 0;
    const double wide =
        fmax(fmax(chunk * (double)model->hidden, (shared ? chunk : rows) * qkv), logits);
    /* attention's gradient has a place of its own if it is not as wide as the stream's */
    const double attention = queries != width ? rows * queries : 0;
    /* adapters have small products; and biases that are frozen, whose gradient is made in vain */
    const double adapters = 2 * (shared ? chunk : rows) * (double)work->adapter_rank;
    const double of_frozen = work->adapter_rank > 0 && !model->rms ? qkv : 0;
    const double of_biases = of_frozen + (model->rms ? 2 * qkv
                                          : shared   ? 2 * qkv / work->context_ranks
                                                     : 0);
    const double exchanged = shared ? 2 * rows * qkv : 0; /* sent, and received */
    const double head_sums = model->head_norms ? queries + (double)launch_model_keys(model) : 0;
    const double added =
        model->after_norms ? chunk * width : 0; /* the gradient before their norms */
    const double floats = rows * (2 * width + (rounded > 1 ? width / 2 : 0) + 4) + adapters +
                          added + expert_floats(model, work, rows) +
                          (wide + attention + of_biases + exchanged + head_sums) / work->tensor;
    const double block =
        work->recompute ? launch_block_rest_bytes(model, work->tensor, rows, work->precision) : 0;
    return floats * sizeof(float) + block + 2 * QUEUE_BYTES;
}

/* The logits of a row on the rank that has most leaves of the vocabulary. */
static double logits_held(const launch_model *model, int tensor)
{
    const int64_t leaf = (model->vocab_size + VOCAB_LEAVES - 1) / VOCAB_LEAVES;
    const int64_t width = (leaf + VOCAB_LEAF_STEP - 1) / VOCAB_LEAF_STEP * VOCAB_LEAF_STEP;
    const int64_t leaves = (VOCAB_LEAVES + tensor - 1) / tensor;
    return (double)(leaves * width);
}

/* As rank/model/decoder.c cuts it. */
double launch_work_decoding_bytes(const launch_model *model, double batch, int tensor,
                                  proto_precision precision)
{
    const double width = (double)model->width;
    const double queries = (double)launch_model_queries(model);
    const double hidden = (double)model->hidden;
    const double deepest = fmax(fmax(hidden, queries) / tensor, width); /* a product's input */
    const double narrow = precision == PROTO_PRECISION_BFLOAT16 ? deepest / 2 : 0;
    const double columns =
        2 * queries +
        2 * (double)(launch_model_keys(model) * launch_model_key_copies(model, tensor)) +
        (model->gated ? 2 : 1) * hidden;
    const double chosen = (double)model->chosen;
    /* where tokens go, and rows of one expert */
    const double routed = model->experts > 0 ? (double)launch_model_routing(model) + width : 0;
    const double row_floats =
        logits_held(model, tensor) + columns / tensor + width + 2 + narrow +
        (model->rotated ? (double)model->head_width : 0) * (model->window > 0 ? 2 : 1) + routed;
    const double exchanged = (2 + chosen) * batch * width; /* from one buffer to another */
    return batch * row_floats * sizeof(float) + exchanged * sizeof(float) + QUEUE_BYTES;
}
