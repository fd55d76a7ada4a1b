/* MiniGPT: a pre-norm GPT-2 decoder (learned positions, causal attention, tanh-GELU, tied output
 * embedding).
 *
 * All parameters lie in one float32 array, in the order of rank_model_tensor(0 … count-1): wte,
 * wpe, the blocks 0 … layers-1, ln_f. Gradients have the same layout in an array of the caller's,
 * which may be in a collective arena. Linear weights are stored (in, out), as GPT-2's Conv1D: y =
 * x·W + b.
 *
 * A batch is a flat list of tokens cut into segments (one sentence each). Attention never crosses a
 * segment, and positions start at 0 in each, so packing sentences gives the same mathematics as one
 * row per sentence.
 *
 * C = width, V = vocab_size, T = tokens in the batch, L = layers, H = heads.
 *
 * Results depend on the batch, the parameters and the instruction set alone: one thread, fixed
 * order. Only with OMP_NUM_THREADS set to more does the matrix library take more threads, and other
 * bits follow. RINGFENCE_ISA=baseline|avx2|avx512 holds kernels and matrix library to an
 * instruction set; create refuses an unknown one, or one that this processor lacks.
 *
 * A rank_model is scratch memory: used by one thread at a time, different ones at once. No
 * allocation after create, but for the matrix library's own packing buffers.
 */
#ifndef RANK_MODEL_H
#define RANK_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    RANK_TENSOR_NAME_BYTES = 64,
    RANK_TENSOR_DIMS_MAX = 2,
    RANK_TENSORS_PER_BLOCK = 12,
};

typedef struct rank_model_config {
    int vocab_size;
    int width;
    int layers;
    int heads;
    int context;
} rank_model_config;

typedef struct rank_tensor {
    char name[RANK_TENSOR_NAME_BYTES]; /* GPT-2's: "h.0.attn.c_attn.weight" */
    int dims;
    size_t shape[RANK_TENSOR_DIMS_MAX];
    size_t offset; /* in elements, in the parameter array */
    size_t count;  /* elements */
    int decay;     /* weight decay applies: matrices and embeddings, not biases and norms */
} rank_tensor;

typedef struct rank_batch {
    int token_count;        /* T, at most the model's token_count_max; 0 is allowed */
    const int32_t *ids;     /* (T) */
    const int32_t *targets; /* (T), the next token's id; -1: no loss here */
    int segment_count;
    const int32_t
        *segment_start; /* (segment_count + 1), ascending, first 0, last T; each at most context */
} rank_batch;

typedef struct rank_model rank_model;

/* Called by backward when grads[offset … offset+count) are final for this batch: first the last
 * block with ln_f, then the earlier blocks in falling order, last the embeddings. Ranges are
 * disjoint and cover all. */
typedef void (*rank_grad_ready)(void *user, size_t offset, size_t count);

BASE_MUST_CHECK base_status rank_model_config_check(const rank_model_config *config,
                                                    base_error *reterr);
size_t rank_model_param_count(const rank_model_config *config);
int rank_model_tensor_count(const rank_model_config *config);
void rank_model_tensor(const rank_model_config *config, int index, rank_tensor *tensor);

/* GPT-2's initialisation from a seed: normal(0, 0.02), residual projections scaled by 1/sqrt(2L),
 * norms 1, biases 0. The same bits on every machine: no libm. */
void rank_model_init(const rank_model_config *config, uint64_t seed, float *params);

/* Scratch for batches of up to token_count_max tokens. for_training == 0: forward only, less
 * memory. */
BASE_MUST_CHECK base_status rank_model_create(const rank_model_config *config, int token_count_max,
                                              int for_training, rank_model **model,
                                              base_error *reterr);
void rank_model_destroy(rank_model *model);

/* Forward and backward. Writes (not adds) every gradient of the *sum* of the losses over target
 * tokens. *loss_sum: that sum (natural log); *target_count: number of targets. on_ready may be
 * NULL. The batch is checked (ids in range, segments valid): BASE_ERR_INVALID. */
BASE_MUST_CHECK base_status rank_model_train(rank_model *model, const float *params,
                                             const rank_batch *batch, float *grads,
                                             rank_grad_ready on_ready, void *on_ready_user,
                                             double *loss_sum, int64_t *target_count,
                                             base_error *reterr);

/* Forward only; loss as above where targets is not NULL. logits: (rows, V) for the token rows
 * listed in logit_rows (ascending), or NULL for none. loss_sum and target_count may be NULL. */
BASE_MUST_CHECK base_status rank_model_forward(rank_model *model, const float *params,
                                               const rank_batch *batch, const int32_t *logit_rows,
                                               int logit_row_count, float *logits, double *loss_sum,
                                               int64_t *target_count, base_error *reterr);

/* What the kernels run on, for the record: "avx512", "avx2", "baseline"; and the matrix library
 * with its own instruction set, "oneDNN 2.6.3 avx512_core". Static strings. */
const char *rank_model_instruction_set(void);
const char *rank_model_matrix_library(void);

#endif
