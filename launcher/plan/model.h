/* A model's shape, and what of it a rank of a layout holds: parameters, and activations of a
 * micro-batch. Blocks are norm, attention, norm, MLP, as GPT-2 and Llama have them, or experts in place
 * of the MLP, as Mixtral has them. Pure. */
#ifndef LAUNCH_PLAN_MODEL_H
#define LAUNCH_PLAN_MODEL_H

#include <stdbool.h>

#include "proto/job.h"

typedef struct launch_model {
    int64_t layers;
    int64_t width;
    int64_t heads; /* of queries */
    int64_t vocab_size;
    int64_t context;     /* tokens of a sequence in the plan */
    int64_t context_max; /* of a sequence that the model can take */
    int64_t kv_heads;    /* of keys and values; divides heads */
    int64_t head_width;
    int64_t hidden;  /* columns of the MLP, or of an expert */
    int64_t experts; /* of each block, behind a router; 0: it has one MLP */
    int64_t chosen;  /* experts that a token goes to; 0 without experts */
    bool gated;      /* the MLP has three matrices; else two */
    bool rms;        /* RMS norms, and no biases but `biased`; else layer norms, and biases */
    bool biased;     /* with rms: queries, keys and values have biases */
    bool head_norms; /* each head of queries and of keys has a norm */
    bool
        after_norms; /* what attention and MLP add to the stream have norms, too, as Gemma has them */
    int64_t window;     /* a token of a local layer sees so many; 0: there are no such layers */
    int64_t full_every; /* with a window: each so manieth layer is not local; 0: all are */
    bool rotated;       /* rope; else an embedding of positions */
    bool tied;          /* the output's matrix is the tokens' embedding */
} launch_model;

enum { LAUNCH_MODEL_CONTEXT = 8192 /* of a Llama's plan, if the model can take more */ };

/* "minigpt", "gpt2" …; NULL behind the last one. */
const char *launch_model_name(int index);
const launch_model *launch_model_get(int index);

/* A GPT-2: as many heads of keys as of queries, and an MLP of 4 × width. `heads` divides `width`. */
launch_model launch_model_gpt2(int64_t layers, int64_t width, int64_t heads, int64_t vocab_size,
                               int64_t context);

/* A Mixtral with the sizes, the experts and the choices of `sizes`, as a training begins one with --experts. */
launch_model launch_model_mixtral(const launch_model *sizes);

/* MLPs that a token goes through in a block: 1, or as many experts. */
int64_t launch_model_mlps_used(const launch_model *model);

/* Numbers that say which experts a token goes to in a block, and how much of each it takes: 0 without experts. */
int64_t launch_model_routing(const launch_model *model);

/* Columns of queries, and of keys; there are as many of values. */
int64_t launch_model_queries(const launch_model *model);
int64_t launch_model_keys(const launch_model *model);

/* How many of `tensor` ranks have each head of keys and values: 1, but where there are more ranks than such heads,
 * which they can be in decoding. */
int64_t launch_model_key_copies(const launch_model *model, int tensor);

/* A linear layer of a block, by its name, and how many of its kind a block has: as many as experts, or 1. */
typedef struct launch_matrix {
    const char *name;
    int64_t in;
    int64_t out;
    int64_t count;
} launch_matrix;

enum { LAUNCH_MATRICES_MAX = 8 };

/* Those of a block, in the order of its parameters. Returns how many kinds there are. */
int launch_model_matrices(const launch_model *model, launch_matrix matrices[LAUNCH_MATRICES_MAX]);

/* How many tokens each token of a sequence attends to, in the mean of all its tokens and of all layers. */
double launch_model_seen(const launch_model *model);

int64_t launch_model_params(const launch_model *model);

/* Of these, what a token goes through: all but the experts that it does not go to. */
int64_t launch_model_params_used(const launch_model *model);

/* Of the routers of all layers. Each rank has them whole. */
double launch_model_router_params(const launch_model *model);

/* The layers of one stage, and what stands before and behind them. */
typedef struct launch_stage {
    int64_t layers;
    bool embeds;  /* the first stage: tokens and positions */
    bool answers; /* the last one: final norm and output, which has the tokens' matrix if tied */
} launch_stage;

/* The part of one of at most `layers` stages. The last one also has the output, so it gets fewer
 * layers: as many as make the slowest stage fastest. The first ones have a layer more if it does not
 * come out even. */
launch_stage launch_model_stage(const launch_model *model, int stages, int stage);

/* Parameters that a rank holds of a part which `tensor` ranks share: products are cut, norms, routers and
 * the biases behind a sum are whole on each. */
double launch_stage_params(const launch_model *model, const launch_stage *part, int tensor);

/* Of these, the experts'. */
double launch_stage_expert_params(const launch_model *model, const launch_stage *part, int tensor);

/* Bytes that a rank keeps of `tokens` between forward and backward. `recompute`: of a block only its
 * input, and which experts tokens go to. */
double launch_stage_activation_bytes(const launch_model *model, const launch_stage *part,
                                     int tensor, double tokens, proto_precision precision,
                                     bool recompute);

/* Bytes of what follows from a block's input: with recompute all blocks have them in the same place. */
double launch_block_rest_bytes(const launch_model *model, int tensor, double tokens,
                               proto_precision precision);

/* Operations (a multiplication and an addition are two) of a part going forward with `tokens`, each
 * of which attends to `seen` tokens in the mean: what each of `tensor` ranks does. */
double launch_stage_forward_flops(const launch_model *model, const launch_stage *part, int tensor,
                                  double tokens, double seen);

/* Operations of backward: twice as many. `frozen`: of a model that is not trained, whose weights need no
 * gradients, and whose first layer's norm, queries, keys and values pass none on. */
double launch_stage_backward_flops(const launch_model *model, const launch_stage *part, int tensor,
                                   double tokens, double seen, bool frozen);

/* Of these, those for the gradients of the layers' matrices, if none is frozen: what a schedule may put off. And the
 * bytes that a rank then keeps besides its activations. */
double launch_stage_weights_flops(const launch_model *model, const launch_stage *part, int tensor,
                                  double tokens);
double launch_stage_put_off_bytes(const launch_model *model, const launch_stage *part, int tensor,
                                  double tokens, proto_precision precision);

/* Operations that backward does again with recompute: forward's of the layers, but for the MLP's last
 * product, unless that has a norm, and the router's. */
double launch_stage_repeated_flops(const launch_model *model, const launch_stage *part, int tensor,
                                   double tokens, double seen);

/* How many layers the output over the vocabulary is worth, in operations. */
double launch_model_output_layers(const launch_model *model);

#endif
