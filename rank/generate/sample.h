/* Drawing the next token from logits that are sharded by vocabulary: the same token for every world
 * size.
 *
 * The padded vocabulary has 16 equal leaves of `leaf_width` ids. A rank holds a contiguous range of
 * whole leaves. Each rank makes a record of its own logits (rank_sample_make), whose size follows
 * from the parameters alone; the ranks all-gather the records; and rank_sample_combine gives the
 * token. What a record has:
 *
 *   greedy               the best (logit, id); the lowest id wins a tie
 *   temperature          the (logit, id) with the largest logit / temperature + noise (noise.h)
 *   top-k                the k best; combine takes the k best of all, and adds the noise
 *   top-k and top-p      the same; p is of the probability that the k have together
 *   top-p or min-p       the 256 best, and for each leaf its largest logit and Σ exp
 *
 * Top-p keeps the most probable tokens, the lowest ids of equals, until they have a probability of
 * p together. Their sum is made in falling order; the leaves' sums are combined in the canonical
 * tree. Where the 256 best do not reach p, combine says so, the ranks gather all logits, and
 * rank_sample_top_p_of_all gives the token.
 *
 * Min-p keeps, of what top-k and top-p leave, the tokens whose probability is at least min-p times the
 * largest one, all of them after the temperature.
 *
 * A logit of -infinity is never drawn. NaN and +infinity are refused, and so is a vocabulary
 * without a finite logit. Pure: no allocation, no libm, any thread. */
#ifndef RANK_GENERATE_SAMPLE_H
#define RANK_GENERATE_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/draw.h"
#include "base/status.h"
#include "parallel/tensor/tp.h"

enum {
    RANK_SAMPLE_LEAVES = RANK_TP_LEAVES,
    RANK_SAMPLE_RANKS_MAX = 16, /* a leaf each */
    RANK_SAMPLE_TOP_K_MAX = 1024,
    RANK_SAMPLE_TOP_P_BEST = 256,
};

#define RANK_SAMPLE_TEMPERATURE_MIN 1e-3
#define RANK_SAMPLE_TEMPERATURE_MAX 1e3

/* How one sequence is sampled. */
typedef struct rank_sample_params {
    double temperature;    /* 0: greedy, and the rest is not looked at; else MIN … MAX */
    double top_p;          /* above 0, at most 1; 1: all tokens */
    double min_p;          /* 0 … 1, of the largest probability; 0: all tokens */
    uint64_t seed;         /* of the noise, with the next one */
    uint64_t prompt_index; /* so that equal prompts continue differently */
    int32_t top_k;         /* 0 … TOP_K_MAX; 0: all tokens */
    int32_t reserved;      /* 0: makes padding explicit, so that equal parameters are byte-equal */
} rank_sample_params;

/* How the vocabulary is distributed over the ranks; the same for all sequences. */
typedef struct rank_sample_vocab {
    int32_t vocab_size; /* 1 … RANK_SAMPLE_LEAVES × leaf_width; ids behind it are padding */
    int32_t leaf_width; /* >= 1 */
    int world_size;     /* 1 … RANK_SAMPLE_RANKS_MAX */
} rank_sample_vocab;

typedef struct rank_sample_candidate {
    float logit;
    int32_t token;
} rank_sample_candidate;

/* The records of one sequence: rank r's is at `at` + r × stride_bytes. */
typedef struct rank_sample_records {
    const void *at; /* aligned for double */
    size_t stride_bytes;
} rank_sample_records;

typedef struct rank_sample_result {
    int32_t token;         /* -1 with needs_all_logits */
    bool needs_all_logits; /* of top-p and min-p without top-k only */
} rank_sample_result;

/* BASE_ERR_INVALID names what is out of range, by the option's name. */
BASE_MUST_CHECK base_status rank_sample_check(const rank_sample_params *params, base_error *reterr);

/* Bytes of every rank's record: a multiple of 8. */
size_t rank_sample_record_bytes(const rank_sample_params *params, int world_size);

/* The longest record that any parameters need. */
size_t rank_sample_record_bytes_max(int world_size);

/* record (record_bytes, aligned for double) = this rank's record of its logits, leaves × leaf_width
 * of them, for the token at `position`. Padding is not read. */
void rank_sample_make(const rank_sample_vocab *vocab, const rank_sample_params *params,
                      uint64_t position, int rank, const float *logits, void *record);

/* What a device is told of a row of logits. */
rank_draw_row rank_sample_draw_row(const rank_sample_params *params, uint64_t position);

/* What it has found of that row. */
typedef struct rank_sample_drawn {
    const rank_drawn *one;
    const rank_kept *kept;   /* of top-k and top-p: as many as the row asked for */
    const rank_mass *masses; /* of top-p: of the rank's leaves */
} rank_sample_drawn;

/* The same record as rank_sample_make, of what a device has found. */
void rank_sample_make_drawn(const rank_sample_vocab *vocab, const rank_sample_params *params,
                            int rank, const rank_sample_drawn *drawn, void *record);

/* Leaves of a rank. */
int rank_sample_leaves(const rank_sample_vocab *vocab, int rank);

/* Tokens of a rank, without padding, and the first of them. */
int32_t rank_sample_tokens(const rank_sample_vocab *vocab, int rank, int32_t *first);

/* The token, from all ranks' records. BASE_ERR_INVALID: a logit that is refused, with its id.
 * BASE_ERR_PEER: a record that rank_sample_make cannot have made, with its rank. */
BASE_MUST_CHECK base_status rank_sample_combine(const rank_sample_vocab *vocab,
                                                const rank_sample_params *params, uint64_t position,
                                                const rank_sample_records *records,
                                                rank_sample_result *result, base_error *reterr);

typedef struct rank_sample_all {
    const float *logits;            /* of the whole padded vocabulary */
    rank_sample_candidate *scratch; /* vocab_size candidates */
} rank_sample_all;

/* The token of top-p or min-p (without top-k) after needs_all_logits. Larger records would have given
 * combine the same token. */
BASE_MUST_CHECK base_status rank_sample_top_p_of_all(const rank_sample_vocab *vocab,
                                                     const rank_sample_params *params,
                                                     uint64_t position, const rank_sample_all *all,
                                                     int32_t *token, base_error *reterr);

#endif
