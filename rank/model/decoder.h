/* Decoding of models whose blocks are norm, attention, norm, MLP, each half added to a residual
 * stream. A family describes itself, and says where its weights are; the step over its layers is
 * here once. Families name these functions in their tables (model/family.h). */
#ifndef RANK_MODEL_DECODER_H
#define RANK_MODEL_DECODER_H

#include "model/family.h"

enum { RANK_DECODER_HIDDEN_UNIT = 16 /* columns of the MLP that a leaf does not cut */ };

/* One rank's share of a model. */
typedef struct rank_decoder {
    size_t heads;    /* of queries */
    size_t kv_heads; /* of keys and values; divides heads */
    size_t head_width;
    size_t hidden; /* columns of the MLP */
    int leaves; /* of this rank's part of a sum over heads, columns of the MLP, or the vocabulary */
    bool rms;   /* RMS norms, without biases; else layer norms */
    bool one_more;   /* with rms: norms multiply by 1 + weight */
    float epsilon;   /* of RMS norms */
    bool gated;      /* the MLP is down(silu(gate) · up); else down(gelu(up)) */
    bool gelu;       /* with gated: down(gelu(gate) · up) */
    bool early_bias; /* queries, keys and values have biases that are added before rope */
    bool head_norms; /* each head of queries and of keys has an RMS norm before rope */
    /* Rope turns the first elements of each head of queries and of keys, so many, by `frequency` (rotated / 2), and
     * multiplies them by turn_scale. 0: there is no rope. */
    size_t rotated;
    float turn_scale;
    size_t unrotated_every; /* N: but not in layers N-1, 2N-1 …; 0: in all */
    float frequency[RANK_ROPE_PAIRS_MAX];
    bool after_norms; /* with rms: what attention and MLP add to the stream has a norm, too */
    /* On backends with `scale` alone: zeros are those of most families. */
    float embed_scale; /* the stream begins with the embedding times it */
    float score_scale; /* of attention; 0: 1 / sqrt(head_width) */
    size_t window; /* a row of a local layer sees so many tokens, and has the other frequencies; */
    size_t full_every; /* N: layers N-1, 2N-1 … are not local; 0: with a window all are */
    float local_frequency[RANK_ROPE_PAIRS_MAX];
    size_t experts; /* of a gated MLP, each of `hidden` columns; 0: it is one */
    size_t chosen;  /* experts that each row goes to */
    bool normed;    /* the weights of their results add up to 1 */
} rank_decoder;

typedef struct rank_decoder_norm {
    const float *weight;
    const float *bias; /* NULL with rms */
} rank_decoder_norm;

/* This rank's part of a layer's weights. Biases may be NULL, but for up_bias where it is not
 * gated. */
typedef struct rank_decoder_layer {
    rank_decoder_norm norm1;
    const float *qkv[3];        /* queries, keys, values; or one matrix of all three, and NULL */
    const float *qkv_bias;      /* which attention adds */
    const float *early_bias[3]; /* those of queries, keys and values, added before rope */
    const float *head_norm[2];  /* weights (head width) of queries' heads, and of keys' */
    const float *projection;
    const float *projection_bias;
    rank_decoder_norm after1; /* of what attention adds to the stream, with after_norms */
    rank_decoder_norm norm2;
    /* (experts, C), in float32; NULL: there are none. Else gate, up and down are of one expert. */
    const float *router;
    const float *gate; /* NULL: not gated */
    const float *up;
    const float *up_bias;
    const float *down;
    const float *down_bias;
    rank_decoder_norm after2; /* the same of the MLP */
} rank_decoder_layer;

/* What stands before the first layer and behind the last. */
typedef struct rank_decoder_ends {
    const float *tokens;    /* this rank's rows of the embedding */
    const float *positions; /* (context, C); NULL: none are added */
    rank_decoder_norm norm;
    const float *output; /* this rank's rows of the output's matrix */
} rank_decoder_ends;

struct transformer_layout; /* transformer/transformer.h */

/* A family's answers. Weights come from the run's hooks. */
typedef struct rank_decoder_table {
    void (*describe)(const rank_model_config *config, int ranks, rank_decoder *decoder);
    void (*layer)(const rank_run *run, int layer, rank_decoder_layer *weights);
    /* Sets gate, up and down of that expert. NULL: the family has none. */
    void (*expert)(const rank_run *run, int layer, int expert, rank_decoder_layer *weights);
    void (*ends)(const rank_run *run, rank_decoder_ends *weights);
    void (*layout)(const rank_model_config *config, struct transformer_layout *layout);
} rank_decoder_table;

/* Elements of a head; those of one token in one layer's cache; and floats that the ranks of a group exchange. */
size_t rank_decoder_head_width(const rank_model_config *config);
size_t rank_decoder_cache_floats(const rank_shape *shape);
size_t rank_decoder_exchanged_floats(const rank_shape *shape);

/* The family's functions of these names; work_floats of shapes with a tp. */
size_t rank_decoder_work_floats(const rank_shape *shape);
void rank_decoder_decode(const rank_run *run, const rank_decode_args *args);

/* Whether rope turns the layer's queries and keys. */
static inline bool rank_decoder_rotates(const rank_decoder *of, int layer)
{
    const size_t every = of->unrotated_every;
    return of->rotated > 0 && (every == 0 || ((size_t)layer + 1) % every != 0);
}

/* Whether the layer sees a window. */
static inline bool rank_decoder_is_local(const rank_decoder *of, int layer)
{
    return of->window > 0 && (of->full_every == 0 || ((size_t)layer + 1) % of->full_every != 0);
}

static inline rank_decoder rank_decoder_describe(const rank_model_config *config, int ranks)
{
    rank_decoder decoder;
    config->family->decoder->describe(config, ranks, &decoder);
    return decoder;
}

/* This rank's part of the tensor at `offset` of the whole model's parameters. */
static inline const float *rank_decoder_shard(const rank_run *run, size_t offset, size_t count)
{
    return run->hooks->need(run->hooks->weights, offset, count);
}

/* A rank's heads of keys and values. More ranks than heads have one each, and neighbours the same one. */
static inline size_t rank_decoder_kv_heads(size_t whole, int ranks)
{
    return whole > (size_t)ranks ? whole / (size_t)ranks : 1;
}

/* Of the whole model, what ranks cut. */
typedef struct rank_decoder_cut {
    size_t heads;
    size_t kv_heads;
    size_t head_width;
    size_t hidden;
} rank_decoder_cut;

enum { RANK_DECODER_SHARED_LEAVES = 4 };

/* Leaves of sums over heads: as many as divide the heads of keys. Where these are few, up to
 * RANK_DECODER_SHARED_LEAVES that divide the heads of queries, and the columns of the keys, over which
 * gradients are summed: so ranks that share heads of keys have the bits of one. */
static inline int rank_decoder_head_leaves(const rank_decoder_cut *whole)
{
    int leaves = rank_tp_leaves(whole->kv_heads);
    while (leaves < RANK_DECODER_SHARED_LEAVES && whole->heads % (2 * (size_t)leaves) == 0 &&
           whole->kv_heads * whole->head_width % (2 * (size_t)leaves) == 0) {
        leaves *= 2;
    }
    return leaves;
}

/* How many leaves a rank's part of a model's sums has (parallel/tensor/tp.h): equally many for heads,
 * columns of the MLP and the vocabulary. More for one of them would help no number of ranks. */
static inline int rank_decoder_leaves(const rank_decoder_cut *whole, int ranks)
{
    const size_t unit = RANK_DECODER_HIDDEN_UNIT;
    const int of_heads = rank_decoder_head_leaves(whole);
    const int of_columns = rank_tp_leaves(whole->hidden % unit == 0 ? whole->hidden / unit : 1);
    const int leaves = of_heads < of_columns ? of_heads : of_columns;
    return leaves % ranks == 0 ? leaves / ranks : 1;
}

#endif
