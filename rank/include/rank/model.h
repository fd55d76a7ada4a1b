/* A language model of some family (model/family.h): its description, and memory to train or run it.
 *
 * All parameters are in one float32 array, in the order of rank_model_tensor(0 … count-1), without
 * holes. Gradients have the same layout, in an array of the caller's that may be in a collective
 * arena. The model does not know these arrays: it reaches parameters through hooks.
 *
 * A batch is a flat list of tokens, cut into segments (one sentence each). Attention never crosses
 * a segment, and positions start at 0 in each. So a packed batch gives the same mathematics as one
 * row per sentence.
 *
 * C = width, V = vocab_size, T = tokens in the batch, L = layers, H = heads.
 *
 * The order of operations is fixed. So results depend only on the batch, the parameters and the
 * backend.
 *
 * One thread at a time uses a rank_model, and different ones may run at once. No allocation after
 * create. */
#ifndef RANK_MODEL_H
#define RANK_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/graphs.h"
#include "base/status.h"
#include "parallel/context/cp.h"
#include "parallel/expert/ep.h"
#include "parallel/tensor/cut.h"
#include "trace/trace.h"

enum {
    RANK_MODEL_TOKENS_MAX = 1 << 20, /* of a batch */
    RANK_TENSOR_NAME_BYTES = 64,
    RANK_TENSOR_DIMS_MAX = 2,
    RANK_FAMILY_SETTINGS = 21,      /* numbers in a configuration that only the family knows */
    RANK_MODEL_SIZES_MAX = 8,       /* to which batches are padded */
    RANK_MODEL_SLOTS_MAX = 1 << 21, /* of a training with dropout */
};

typedef struct rank_family rank_family;

/* The adapters of a model (rank/adapters.h). */
typedef struct rank_adapters {
    int rank;              /* 0: the model has none */
    float scale;           /* of what they add */
    uint32_t targets;      /* bit i: linear layer number i of each block has one */
    const rank_family *of; /* in the adapters' own configuration: the model's family; else NULL */
} rank_adapters;

typedef struct rank_model_config {
    const rank_family *family;
    int vocab_size;
    int width;
    int layers;
    int heads;
    int context;
    double settings[RANK_FAMILY_SETTINGS]; /* what else the family's configure has read */
    /* What longrope divides frequencies by (arXiv:2402.13753): in short texts, and in long ones. */
    double rope_factors[2][RANK_ROPE_PAIRS_MAX];
    int tokens_max;     /* no text of the job is longer; 0: the context bounds them */
    double router_loss; /* with experts: how much of the router's loss training adds */
    double dropout; /* with this probability, below 1, training drops elements of what is added to
                     * the residual stream. No family's configure reads it */
    /* In tensor-parallel training so many ranks share the model above. Tensors and parameters are
     * then this rank's parts of the model's (parallel/tensor/tp.h). 0 or 1: all of it is here. */
    int tensor_ranks;
    int tensor_rank;
    /* In expert-parallel training so many ranks share out the experts of each layer
     * (parallel/expert/ep.h). The tensors of the others' experts are empty then. 0 or 1: all experts are
     * here. Not together with tensor_ranks. */
    int expert_ranks;
    int expert_rank;
    rank_adapters adapters;
} rank_model_config;

/* How decoding reads a tensor: as it is, or packed (backend.h) for products. */
typedef enum rank_tensor_pack {
    RANK_TENSOR_PLAIN,
    RANK_TENSOR_PACKED,            /* y = x · W: the matrix (rows, columns) */
    RANK_TENSOR_PACKED_TRANSPOSED, /* y = x · Wᵀ */
} rank_tensor_pack;

typedef struct rank_tensor {
    char name[RANK_TENSOR_NAME_BYTES]; /* its name in checkpoints: "h.0.attn.c_attn.weight" */
    int dims;
    size_t shape[RANK_TENSOR_DIMS_MAX];
    size_t offset; /* in elements, in the parameter array */
    size_t count;  /* elements */
    bool decay;    /* weight decay applies: matrices and embeddings, not biases and norms */
    rank_cut cut;
    rank_tensor_pack pack;
    const char *tied; /* another name for it in checkpoints ("lm_head.weight"), or NULL */
    int expert;       /* 1 + the number of the expert whose tensor it is; 0: it is none's */
} rank_tensor;

enum { RANK_HELD_RANGES_MAX = 17 }; /* 16 of layers, and the tied matrix */

/* Some neighbouring parameters of the model, */
typedef struct rank_range {
    size_t offset;
    size_t count;
    size_t place; /* and where they begin in the array of the stage that holds them */
} rank_range;

/* The parameters that one stage of a pipeline holds, in an array of their own. They have the order
 * of the whole model's. */
typedef struct rank_held {
    size_t count;      /* elements of that array */
    size_t tied_count; /* the first elements, which the first stage and the last both hold; 0: none
                        * are held twice */
    int range_count;
    rank_range ranges[RANK_HELD_RANGES_MAX]; /* in the order of the model */
} rank_held;

/* Adds a range, which is apart from those that are there. */
void rank_held_add(rank_held *held, size_t offset, size_t count);

/* Where an element of the model that the stage holds stands in its array. NULL: of a whole model. */
size_t rank_held_place(const rank_held *held, size_t offset);

/* Whether the stage holds that element. NULL: of a whole model. */
bool rank_held_has(const rank_held *held, size_t offset);

/* What the random numbers of a training batch depend on. Not of decoding and evaluating. */
typedef struct rank_batch_draw {
    bool on; /* false: nothing is dropped */
    uint64_t seed;
    uint64_t step;
    uint32_t slot; /* below RANK_MODEL_SLOTS_MAX */
} rank_batch_draw;

typedef struct rank_batch {
    int token_count;        /* T, at most the model's token_count_max; 0 is allowed */
    const int32_t *ids;     /* (T) */
    const int32_t *targets; /* (T), the next token's id; -1: no loss here; NULL: nowhere */
    int segment_count;
    const int32_t
        *segment_start; /* (segment_count + 1), ascending, first 0, last T; each at most context */
    rank_batch_draw draw; /* for a configuration with dropout */
} rank_batch;

/* Called by backward: grads[offset … offset+count) are final for this batch once `mark` is passed.
 * Ranges come in the order in which backward makes them, from the array's end. They are disjoint
 * and cover all. */
typedef void (*rank_grad_ready)(void *user, size_t offset, size_t count, rank_mark mark);

/* Adapters beside a matrix that decoding reads (rank/adapters.h): the addresses of this rank's parts. */
typedef struct rank_beside {
    const float *matrix;
    const float *a;
    const float *b;
} rank_beside;

/* How a model reaches its parameters, and the function that it calls for final gradients. */
typedef struct rank_hooks {
    /* The current address of elements offset … offset+count of the parameters. It is valid until
     * done, or until the pass ends. It never fails: if gathering parameters fails, the gatherer
     * keeps the error. */
    const float *(*need)(void *weights, size_t offset, size_t count);
    void (*done)(void *weights, size_t offset, size_t count); /* NULL: addresses stay valid */
    void *weights;
    /* All parameters, rounded: what products of a model of type bfloat16 read. */
    const rank_bfloat16 *rounded;
    /* Of a model with adapters: their parameters, which alone have gradients. NULL: passes without them. */
    const float *adapters;
    /* In decoding, of adapters that are not in the matrices: (layers, beside_count) of them. */
    const rank_beside *beside;
    int beside_count;
    rank_grad_ready ready; /* NULL: not called */
    void *ready_user;
    /* Called before each backward pass, behind forward; NULL: not called. `replayed`: a graph runs the pass again,
     * and all that `ready` did when it was captured; `ready` is not called. Otherwise it is, and
     * what an earlier pass of the same batch had made ready does not count. */
    void (*begin)(void *ready_user, bool replayed);
    uint64_t ready_key; /* batches with the same one let `ready` enqueue the same operations */
    rank_trace *trace;  /* gets a span of each pass and layer; NULL: none */
} rank_hooks;

/* Hooks for parameters in one array in the device's memory. */
rank_hooks rank_hooks_flat(const float *params);

/* Sums over the batch's target tokens. */
typedef struct rank_result {
    double loss_sum; /* natural logarithm */
    int64_t target_count;
    /* Of training a model with experts: the router's, as often as there are targets. It is not in loss_sum;
     * gradients have it, times the configuration's router_loss. */
    double router_loss_sum;
} rank_result;

/* The logits that a forward pass is to give. */
typedef struct rank_logits {
    const int32_t *rows; /* (count), ascending token rows */
    int count;
    float *at; /* (count, V), in the device's memory */
} rank_logits;

typedef struct rank_model_options {
    const rank_model_config *config;
    const rank_device *device; /* borrowed */
    int token_count_max;       /* of a batch */
    bool training;             /* false: forward only, less memory */
    bool recompute;            /* with training: less memory, more time, and the same bits: only the
                                * blocks' inputs are kept for backward */
    rank_graphs *graphs; /* training batches are padded, captured and replayed; borrowed. NULL:
                                * none is */
    int batches_max;     /* enqueued before their results are asked for; 0: one */
    rank_type type;      /* of what products read; sums, norms, the residual stream and
                                * gradients are float32 */
    /* (layers, experts): training adds to it the rows that each expert gets; borrowed. NULL: nothing is
     * added */
    double *loads;
    /* Ranks that share each batch, which they all give, and pass over it together: losses and gradients are
     * those of this rank's tokens, and so are rows of logits. On the CPU; borrowed. NULL: all is here. */
    const rank_cp *cp;
    /* Ranks that share out the experts, each of which passes over a batch of its own at the same time. The
     * gradients of experts are the sums over these batches, whose ranks are added up as slots are
     * (rank/ddp.h). Borrowed. NULL: all experts are here. */
    const rank_ep *ep;
} rank_model_options;

typedef struct rank_model rank_model;

/* The family of that name in config.json's model_type; NULL: there is none. And the family that is
 * trained by default. */
const rank_family *rank_family_find(const char *model_type);
const rank_family *rank_family_default(void);

/* Writes the model types of all families, as "gpt2, llama". */
void rank_family_list(char *list, size_t list_bytes);

BASE_MUST_CHECK base_status rank_model_config_check(const rank_model_config *config,
                                                    base_error *reterr);
/* Checks that such a model can be trained with products of that type. */
BASE_MUST_CHECK base_status rank_model_check_type(const rank_model_config *config, rank_type type,
                                                  base_error *reterr);
/* The experts that each block has in place of one MLP. */
typedef struct rank_experts {
    int count;  /* 0: none */
    int chosen; /* each token goes to so many */
} rank_experts;
rank_experts rank_model_experts(const rank_model_config *config);
/* Checks that the device has the operations of the model's family, and of its experts if there are some. */
BASE_MUST_CHECK base_status rank_model_check_device(const rank_model_config *config,
                                                    const rank_device *device, base_error *reterr);
size_t rank_model_param_count(const rank_model_config *config);
int rank_model_tensor_count(const rank_model_config *config);
void rank_model_tensor(const rank_model_config *config, int index, rank_tensor *tensor);

/* What forward and backward read of the parameters at one time: ranges of the array. Part 0 is the
 * embeddings, part 1 + i is layer i (with the bias of the layer below, which a GPT-2 adds there), and the
 * last part is the final norm and the output's matrix. If that matrix is the embedding, it is the second
 * range; else count[1] is 0. Forward reads the parts in order, backward from the last one down to part 1. */
typedef struct rank_model_reads {
    size_t offset[2];
    size_t count[2];
} rank_model_reads;

int rank_model_part_count(const rank_model_config *config);
void rank_model_part_reads(const rank_model_config *config, int part, rank_model_reads *reads);

/* Checks that so many ranks can share the model in training: each gets equally many leaves of every
 * sum, and an id of the vocabulary at least. BASE_ERR_INVALID names the numbers that are possible. */
BASE_MUST_CHECK base_status rank_model_check_tensor_ranks(const rank_model_config *config,
                                                          int ranks, base_error *reterr);

/* Copies this rank's part of a tensor out of `whole`, which has all parameters of the model, or into
 * it. `part` is the memory of that part alone. */
void rank_model_take_part(const rank_model_config *config, int index, const float *whole,
                          float *part);
void rank_model_put_part(const rank_model_config *config, int index, const float *part,
                         float *whole);

/* The same, where `values` has all of the tensor alone. */
void rank_tensor_take_part(const rank_model_config *config, int index, const float *values,
                           float *part);
void rank_tensor_put_part(const rank_model_config *config, int index, const float *part,
                          float *values);

/* Initialises the parameters from a seed, with the same bits on every machine. params is in the
 * host's memory. */
void rank_model_init(const rank_model_config *config, uint64_t seed, float *params);

/* Adds the device's memory that such a model takes. The configuration has been checked. */
void rank_model_plan(const rank_model_options *options, rank_memory_use *use);

BASE_MUST_CHECK base_status rank_model_create(const rank_model_options *options, rank_model **model,
                                              base_error *reterr);
void rank_model_destroy(rank_model *model);

/* Forward and backward. Writes (not adds) every gradient of the *sum* of the losses over target
 * tokens. Checks the batch (ids in range, segments valid): BASE_ERR_INVALID. If the family has no
 * backward: BASE_ERR_UNSUPPORTED. */
BASE_MUST_CHECK base_status rank_model_train(rank_model *model, const rank_hooks *hooks,
                                             const rank_batch *batch, float *grads,
                                             rank_result *result, base_error *reterr);

/* The same in two parts. Enqueue returns when the batch may be used for something else; grads are
 * written later. Results waits for all batches that were enqueued since the last time, and gives
 * the result of each in their order. More than batches_max: BASE_ERR_STATE.
 *
 * With graphs a batch gets rows without a target up to one of RANK_MODEL_SIZES_MAX sizes, which
 * follow from token_count_max: eighths of it, rounded up to a multiple of RANK_MODEL_SIZE_STEP.
 * Padding adds zeros to sums: it can only change the sign of a zero in a gradient. */
BASE_MUST_CHECK base_status rank_model_enqueue(rank_model *model, const rank_hooks *hooks,
                                               const rank_batch *batch, float *grads,
                                               base_error *reterr);
/* Targets of the batches that were enqueued since the last results: known before these are. */
int64_t rank_model_target_count(const rank_model *model);
/* Checks that so many ranks can share a batch of the model. BASE_ERR_INVALID says what they cannot cut. */
BASE_MUST_CHECK base_status rank_model_check_context_ranks(const rank_model_config *config,
                                                           int ranks, base_error *reterr);
/* Checks that so many ranks can share out the experts of the model. BASE_ERR_INVALID says why not. */
BASE_MUST_CHECK base_status rank_model_check_expert_ranks(const rank_model_config *config,
                                                          int ranks, base_error *reterr);
BASE_MUST_CHECK base_status rank_model_results(rank_model *model, rank_result *results, int count,
                                               base_error *reterr);

/* To how many tokens a batch of `count` tokens is padded. Pure; exposed for tests. */
enum { RANK_MODEL_SIZE_STEP = 16 };
size_t rank_model_padded(size_t token_count_max, size_t count);

/* Forward only. The loss is as above if targets is not NULL. logits and result may be NULL. */
BASE_MUST_CHECK base_status rank_model_forward(rank_model *model, const rank_hooks *hooks,
                                               const rank_batch *batch, const rank_logits *logits,
                                               rank_result *result, base_error *reterr);

#endif
