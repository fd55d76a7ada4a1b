/* A model family: one table per family, in a directory of its own, and one row in families.c.
 *
 * Training, generation, checkpoints and memory reports use this description, and nothing else of a
 * family. A pass runs a range of layers [first_layer, end_layer): all of them, or a stage of a
 * pipeline. The first stage embeds tokens, and the last one makes logits and losses. Between stages
 * the residual stream (T, C) is passed on.
 *
 * Passes enqueue operations and return. The queue keeps errors. Nothing is allocated: the caller
 * gives memory of the size that the family asks for.
 *
 * T = tokens, A = active rows (below), C = width, V = vocabulary. */
#ifndef RANK_MODEL_FAMILY_H
#define RANK_MODEL_FAMILY_H

#include "parallel/tensor/tp.h"
#include "rank/model.h"

struct json_t;
struct rank_decoder_table;

/* What some layers are run for. */
typedef struct rank_shape {
    const rank_model_config *config;
    const rank_backend *backend;
    int first_layer;
    int end_layer;
    size_t token_count_max;
    bool training; /* activations are kept for backward */
    bool
        recompute; /* with training: of a block only its input is, and the rest is computed again */
    bool split;    /* with training: backward is in two passes, `backward` and weight_grads */
    bool padded;   /* training batches are padded: no operation depends on where segments are */
    rank_type type; /* of products' factors in forward and backward; decoding has its own */
    /* Of a run that decodes, or that trains with tensor_ranks of its configuration; NULL: others run
     * forward, and backward if training */
    const rank_tp *tp;
    const rank_cp
        *cp; /* ranks that share a micro-batch; NULL: it is here. Else token_count_max is of a
                          rank's block */
    const rank_ep *ep;     /* ranks that share out the experts; NULL: all experts are here */
    rank_type decode_type; /* of a run that decodes: of its matrices, */
    rank_type cache_type;  /* and of its cache; the rest is float32 */
} rank_shape;

typedef struct rank_run {
    rank_shape shape;
    rank_device device;
    const rank_hooks *hooks;
    float *work; /* work_floats: scratch between operations of one pass */
} rank_run;

/* A batch in the form that passes use: tables in RANK_MEMORY_HOST, which host and device read; or,
 * if it is padded, in the device's memory.
 *
 * An active row is one whose output is needed: it has a target, or its logits are wanted. After its
 * attention, the last layer computes only active rows. */
typedef struct rank_rows {
    size_t count;         /* T; of a micro-batch that ranks share, those of this rank */
    size_t first;         /* of these in the micro-batch */
    bool padded;          /* all rows are active, and the host cannot read the tables */
    size_t segment_count; /* none is empty, unless they are padded */
    size_t segment_max;   /* no segment of any batch is longer */
    size_t active_count;  /* A */
    size_t target_count;  /* rows with a target */
    /* Where ranks share the micro-batch: of all of them. Segments, too, are those of all rows then. */
    size_t whole_count;
    size_t whole_target_count;
    rank_batch_draw draw;    /* of the batch */
    int32_t *ids;            /* (T) */
    int32_t *positions;      /* (T) */
    int32_t *segment_start;  /* (segment_count + 1) */
    int32_t *active;         /* (A), ascending */
    int32_t *active_targets; /* (A); -1: none */
} rank_rows;

/* One micro-batch in progress: its rows, its result, and the activations that backward needs.
 * Several may exist at once. */
typedef struct rank_saved {
    rank_rows rows;
    double *loss; /* in RANK_MEMORY_HOST, unless rows are padded */
    /* Of a model with experts, in RANK_MEMORY_HOST: the router's loss of the batch's mean token, times its
     * targets; and what forward has routed (layers of the run, experts); NULL: there are no experts. */
    double *router_loss;
    rank_load *loads;
    size_t load_count;
    float *activations; /* saved_floats */
    void *tables;       /* the memory of rows and loss */
    rank_device device;
    const rank_shape *shape;
} rank_saved;

typedef struct rank_forward_args {
    rank_saved *saved;
    const float *in;           /* (T, C), or NULL in the first stage */
    float *out;                /* (T, C), or NULL in the last stage */
    const rank_logits *logits; /* in the last stage: logits of these active rows are wanted; NULL:
                                * of none */
    bool want_loss;            /* in the last stage: *saved->loss is written */
} rank_forward_args;

typedef struct rank_backward_args {
    rank_saved *saved;
    /* (T, C), or NULL in the last stage, which writes *saved->loss. With split it is changed */
    float *dout;
    float *din;            /* (T, C), or NULL in the first stage */
    float *grads;          /* all parameters'; those of other stages are not written */
    const rank_held *held; /* grads has only what this stage holds; NULL: all */
    /* In the first stage of several: grads have the part of the tied embedding's gradient that the
     * last stage has made, and this stage's part is added to it. So the sum has the bits of a model
     * that is not cut. False: grads get this stage's part alone. */
    bool tied_begun;
} rank_backward_args;

/* Keys and values of the tokens decoded so far, in blocks of block_tokens tokens: for each layer of
 * the run `block_count` blocks of keys, then as many of values. A block of one layer is (this
 * rank's heads for keys and values, head width, block_tokens) of keys, and of values the same with
 * the last two exchanged. */
typedef struct rank_cache {
    void *memory; /* elements of the shape's cache_type */
    size_t block_tokens;
    size_t block_count;
} rank_cache;

/* One step of several sequences. Each has some new tokens: one in decoding, more in a chunk of its
 * prompt. The rows of `saved` are these tokens. segment_start cuts them into sequences, and active
 * rows are those whose logits are wanted. Tables are where the device reads them.
 *
 * The run's shape has all layers and a tp, and its hooks give this rank's shards: for a tensor of the whole model,
 * need(offset, count) gives this rank's part of it, packed if the tensor's `pack` says so. A single
 * rank has all of each tensor. Every rank of the group calls decode with the same rows. */
typedef struct rank_decode_args {
    rank_saved *saved; /* filled in by rank_rows_place_step */
    const rank_cache *cache;
    const int32_t *lengths;     /* (sequences): tokens in the cache before this step; -1: padding,
                                   whose rows have the id -1 */
    const int32_t *block_table; /* (sequences, table_width): the sequence's blocks in order */
    size_t table_width;
    float *exchanged; /* exchanged_floats: the memory that the group's ranks reduce */
    float *logits;    /* (A, tp->vocab_count): of this rank's ids */
} rank_decode_args;

/* Matrices with as many columns that a model's files have as one, with their rows one behind the other. They are
 * neighbours in the order of the family. Names are the ends of those in a checkpoint. */
enum { RANK_FUSED_PARTS_MAX = 3 };

typedef struct rank_fused {
    const char *whole; /* NULL: the table's end */
    const char *parts[RANK_FUSED_PARTS_MAX];
} rank_fused;

/* Families of models have every member, unless it says otherwise. Adapters are a family, too, of which only the tensors are used. */
struct rank_family {
    const char *const *model_types; /* config.json's model_type; ends with NULL */
    const char *const *ignored;     /* tensors of checkpoints that are ignored: patterns of fnmatch;
                                     * ends with NULL */
    const char *file_prefix;        /* before tensor names in a Hugging Face directory */

    /* Reads and checks config.json; and writes the text that Hugging Face reads (a new
     * reference). */
    base_status (*configure)(const struct json_t *object, rank_model_config *config,
                             base_error *reterr);
    struct json_t *(*describe)(const rank_model_config *config);
    base_status (*check)(const rank_model_config *config, base_error *reterr);
    /* The matrices that the model's files have as one; NULL, also what it returns: none. */
    const rank_fused *(*fused)(const rank_model_config *config);

    int (*tensor_count)(const rank_model_config *config);
    /* Tensors are in the parameter array in this order, without holes. */
    void (*tensor)(const rank_model_config *config, int index, rank_tensor *tensor);
    void (*init)(const rank_model_config *config, uint64_t seed, float *params);

    /* For adapters, and experts that ranks share out: the index of a block's first tensor, of layer `layers` that behind the last block; and
     * which layers have them if nobody says. */
    int (*block_begin)(const rank_model_config *config, int layer);
    const char *adapted;

    /* What a stage with these layers holds: one range; and in front of it the tied matrix, if it has
     * the model's end and not its begin. */
    void (*held)(const rank_shape *shape, rank_held *held);

    /* What a part of the model reads: rank_model_part_reads. */
    void (*reads)(const rank_model_config *config, int part, rank_model_reads *reads);

    size_t (*saved_floats)(const rank_shape *shape); /* activations of one micro-batch */
    size_t (*work_floats)(const rank_shape *shape);

    /* What the functions of decoder.h and transformer/transformer.h read. Of a family with functions of
     * its own only `describe` is read. */
    const struct rank_decoder_table *decoder;

    bool cpus_only; /* it needs operations that GPUs have not */
    bool bfloat16;  /* forward and backward can have products in bfloat16 (rank_shape.type) */
    void (*forward)(const rank_run *run, const rank_forward_args *args);
    void (*backward)(const rank_run *run, const rank_backward_args *args);
    /* The second pass of a split backward: the gradients of the blocks of these layers, from what `backward` has left
     * in args->saved and args->dout. It has the bits of a backward that is not split. Not of blocks with experts, nor of
     * adapters. */
    void (*weight_grads)(const rank_run *run, const rank_backward_args *args);
    void (*decode)(const rank_run *run, const rank_decode_args *args);
};

/* Makes memory of a micro-batch for runs of this shape, which is borrowed. */
BASE_MUST_CHECK base_status rank_saved_create(const rank_shape *shape, const rank_device *device,
                                              rank_saved *saved, base_error *reterr);
/* loads += the rows that each expert had in the training batch that has just run; NULL, or no experts: nothing.
 * Only backends whose operations have run when they return have experts. */
void rank_saved_add_loads(const rank_saved *saved, double *loads);
void rank_saved_destroy(rank_saved *saved); /* zeros are fine */

/* Checks that the batch is one for the shape. */
BASE_MUST_CHECK base_status rank_batch_check(const rank_shape *shape, const rank_batch *batch,
                                             base_error *reterr);

/* Checks a batch and puts it into saved->rows. Earlier operations on the rows must have ended. Rows
 * with a target, and the `also` ones (ascending), become active. */
BASE_MUST_CHECK base_status rank_rows_place(rank_saved *saved, const rank_batch *batch,
                                            const rank_logits *also, base_error *reterr);

/* The same for a step of decoding: batch->segment_start cuts the new tokens into sequences, targets
 * are ignored, and positions continue at lengths (segment_count). */
BASE_MUST_CHECK base_status rank_rows_place_step(rank_saved *saved, const rank_batch *batch,
                                                 const int32_t *lengths, const rank_logits *also,
                                                 base_error *reterr);

/* Segments first … first + count, and their rows. */
typedef struct rank_segments {
    size_t first;
    size_t count;
    size_t first_row;
    size_t row_count;
} rank_segments;

/* The next whole segments that fit into rows_at_once rows, but at least one; all of a padded batch.
 * False after the last. Begins with zeros. */
bool rank_next_segments(const rank_rows *rows, size_t rows_at_once, rank_segments *segments);

/* How many ranks share the model. */
static inline int rank_tensor_ranks(const rank_model_config *config)
{
    return config->tensor_ranks > 1 ? config->tensor_ranks : 1;
}

/* How many ranks share out its experts. */
static inline int rank_expert_ranks(const rank_model_config *config)
{
    return config->expert_ranks > 1 ? config->expert_ranks : 1;
}

/* For a family's `tensor`: what follows from the shape. rows 0: a vector. */
void rank_tensor_set_shape(rank_tensor *tensor, size_t rows, size_t columns, size_t offset);

/* Checks that the model can be cut between that many ranks, every cut tensor into whole units.
 * BASE_ERR_INVALID names what cannot be cut, and the numbers of ranks that are possible. */
BASE_MUST_CHECK base_status rank_model_check_world(const rank_model_config *config, int ranks,
                                                   base_error *reterr);

#endif
