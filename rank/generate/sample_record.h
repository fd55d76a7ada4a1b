/* What sampling's two halves share: the layout of a record, and the order of candidates. Included
 * by sample.c, which makes records, and sample_combine.c, which reads them. */
#ifndef RANK_GENERATE_SAMPLE_RECORD_H
#define RANK_GENERATE_SAMPLE_RECORD_H

#include "generate/sample.h"

typedef enum sample_kind { SAMPLE_GREEDY, SAMPLE_NOISE, SAMPLE_TOP_K, SAMPLE_TOP_P } sample_kind;

enum { SAMPLE_NOT_REFUSED = -1 };

/* A record is a header, `masses_max` masses (of the rank's leaves, in order; top-p alone has any),
 * and `candidates_max` candidates, of which `count` are there, the best first. */
typedef struct sample_header {
    int32_t count;
    int32_t refused; /* the lowest token whose logit is NaN or +infinity */
} sample_header;

typedef struct sample_layout {
    sample_kind kind;
    int32_t masses_max;
    int32_t candidates_max;
} sample_layout;

sample_layout rank_sample_layout(const rank_sample_params *params, int world_size);

/* The mass of one leaf that begins with the token `first`. Bits depend on its logits alone. */
rank_mass rank_sample_leaf_mass(const rank_sample_vocab *vocab, const rank_sample_params *params,
                                int leaf, const float *logits);

/* The leaves' masses in the canonical tree: neighbours pair up, level by level. Overwrites them. */
rank_mass rank_sample_total_mass(rank_mass *leaves, double inverse);

/* Writes the `most` >= 1 best of `count` logits, whose ids begin with 0, the best first. Returns how many there
 * are: those of -infinity do not count. No logit is NaN or +infinity. */
int32_t rank_sample_best(const float *logits, int32_t count, int32_t most,
                         rank_sample_candidate *best);

/* Whether a comes before b: the larger logit, of equal ones the lower id. */
static inline bool sample_is_better(const rank_sample_candidate *a, const rank_sample_candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->token < b->token);
}

/* Moves heap[at] down until none below it belongs above it. Above is the better one, or where
 * `worst_first` the worse one. */
void rank_sample_sift(rank_sample_candidate *heap, size_t count, size_t at, bool worst_first);

static inline size_t sample_masses_offset(void)
{
    return sizeof(sample_header);
}

static inline size_t sample_candidates_offset(const sample_layout *layout)
{
    return sizeof(sample_header) + (size_t)layout->masses_max * sizeof(rank_mass);
}

/* Tokens of the leaves before `leaf`, none of them padding. */
static inline int32_t sample_first_token(const rank_sample_vocab *vocab, int leaf)
{
    const int64_t first = (int64_t)leaf * vocab->leaf_width;
    return first < vocab->vocab_size ? (int32_t)first : vocab->vocab_size;
}

#endif
