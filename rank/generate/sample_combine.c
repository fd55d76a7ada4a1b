/* Finds the token from all ranks' records. Every rank finds the same one, whatever the world size.
 * The records come from other processes, so they are checked and never asserted. Called by
 * engine.c. */
#include <float.h>
#include <math.h>

#include "base/fixed_math.h"
#include "generate/noise.h"
#include "generate/sample_record.h"

/* The ranks' candidates in falling order. */
typedef struct merge {
    int count;
    const rank_sample_candidate *next[RANK_SAMPLE_RANKS_MAX];
    const rank_sample_candidate *end[RANK_SAMPLE_RANKS_MAX];
} merge;

/* The best candidate that is left, or NULL. */
static const rank_sample_candidate *take(merge *m)
{
    int best = -1;
    for (int i = 0; i < m->count; i++) {
        if (m->next[i] < m->end[i] && (best < 0 || sample_is_better(m->next[i], m->next[best]))) {
            best = i;
        }
    }
    return best < 0 ? NULL : m->next[best]++;
}

/* Draws among the candidates that it gets. */
typedef struct drawing {
    double inverse; /* 1 / temperature */
    uint64_t stream;
    double value;
    int32_t token; /* -1: none yet */
} drawing;

static drawing start_drawing(const rank_sample_params *params, uint64_t position)
{
    return (drawing){
        .inverse = 1 / params->temperature,
        .stream = rank_noise_stream(params->seed, params->prompt_index, position),
        .token = -1,
    };
}

static void offer(drawing *d, const rank_sample_candidate *candidate)
{
    const double noise = rank_noise_gumbel(rank_noise_bits(d->stream, candidate->token));
    const double value = (double)candidate->logit * d->inverse + noise;
    const bool wins =
        d->token < 0 || value > d->value || (value == d->value && candidate->token < d->token);
    d->value = wins ? value : d->value;
    d->token = wins ? candidate->token : d->token;
}

static double weight(const rank_sample_candidate *candidate, double largest, double inverse)
{
    return base_fixed_exp(((double)candidate->logit - largest) * inverse);
}

static rank_mass join_masses(rank_mass a, rank_mass b, double inverse)
{
    if (b.largest == -INFINITY) {
        return a;
    }
    if (a.largest == -INFINITY) {
        return b;
    }
    const double largest = a.largest > b.largest ? a.largest : b.largest;
    return (rank_mass){largest, a.sum * base_fixed_exp((a.largest - largest) * inverse) +
                                    b.sum * base_fixed_exp((b.largest - largest) * inverse)};
}

rank_mass rank_sample_total_mass(rank_mass *leaves, double inverse)
{
    for (int step = 1; step < RANK_SAMPLE_LEAVES; step *= 2) {
        for (int i = 0; i < RANK_SAMPLE_LEAVES; i += 2 * step) {
            leaves[i] = join_masses(leaves[i], leaves[i + step], inverse);
        }
    }
    return leaves[0];
}

static const uint8_t *record_of(const rank_sample_records *records, int rank)
{
    return (const uint8_t *)records->at + (size_t)rank * records->stride_bytes;
}

static bool candidates_are_right(const rank_sample_candidate *candidates, int32_t count,
                                 int32_t first_token, int32_t end_token)
{
    for (int32_t i = 0; i < count; i++) {
        const float logit = candidates[i].logit;
        if (!(logit >= -FLT_MAX && logit <= FLT_MAX) || candidates[i].token < first_token ||
            candidates[i].token >= end_token ||
            (i > 0 && !sample_is_better(&candidates[i - 1], &candidates[i]))) {
            return false;
        }
    }
    return true;
}

static bool masses_are_right(const rank_mass *masses, int count)
{
    for (int i = 0; i < count; i++) {
        const bool empty = masses[i].largest == -INFINITY && masses[i].sum == 0;
        const bool full = masses[i].largest >= -(double)FLT_MAX &&
                          masses[i].largest <= (double)FLT_MAX && masses[i].sum >= 1 &&
                          masses[i].sum <= INT32_MAX;
        if (!empty && !full) {
            return false;
        }
    }
    return true;
}

/* Checks a rank's record, adds its candidates to the merge and its masses to the leaves'. */
static base_status add_record(const rank_sample_vocab *vocab, const sample_layout *layout,
                              const uint8_t *record, int rank, merge *m, rank_mass *leaves)
{
    const int first_leaf = rank_tp_first_leaf(vocab->world_size, rank);
    const int end_leaf = rank_tp_first_leaf(vocab->world_size, rank + 1);
    const int32_t first_token = sample_first_token(vocab, first_leaf);
    const int32_t end_token = sample_first_token(vocab, end_leaf);
    const sample_header *header = (const sample_header *)(const void *)record;
    const rank_mass *masses = (const rank_mass *)(const void *)(record + sample_masses_offset());
    const rank_sample_candidate *candidates =
        (const rank_sample_candidate *)(const void *)(record + sample_candidates_offset(layout));
    if (header->refused >= first_token && header->refused < end_token) {
        return BASE_ERR_INVALID;
    }
    const int mass_count = layout->masses_max > 0 ? end_leaf - first_leaf : 0;
    if (header->refused != SAMPLE_NOT_REFUSED || header->count < 0 ||
        header->count > layout->candidates_max ||
        !candidates_are_right(candidates, header->count, first_token, end_token) ||
        !masses_are_right(masses, mass_count)) {
        return BASE_ERR_PEER;
    }
    for (int i = 0; i < mass_count; i++) {
        leaves[first_leaf + i] = masses[i];
    }
    m->next[rank] = candidates;
    m->end[rank] = candidates + header->count;
    return BASE_OK;
}

static base_status read_records(const rank_sample_vocab *vocab, const sample_layout *layout,
                                const rank_sample_records *records, merge *m, rank_mass *leaves,
                                base_error *reterr)
{
    bool any = false;
    m->count = vocab->world_size;
    for (int rank = 0; rank < vocab->world_size; rank++) {
        const uint8_t *record = record_of(records, rank);
        const base_status status = add_record(vocab, layout, record, rank, m, leaves);
        if (status == BASE_ERR_INVALID) {
            return base_fail(reterr, status, "the logit of token %d is no finite number",
                             ((const sample_header *)(const void *)record)->refused);
        }
        if (status != BASE_OK) {
            return base_fail(reterr, status, "rank %d sent a broken record of its logits", rank);
        }
        any = any || m->next[rank] < m->end[rank];
    }
    return any ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "no token has a logit above -infinity");
}

/* The candidates in falling order, to the last that top-p and min-p leave. */
typedef struct nucleus {
    const rank_sample_params *params;
    rank_mass total; /* of all that top-p is of */
    double sum;      /* of those that were offered */
} nucleus;

/* Offers the next candidate, if min-p leaves it. False: it was the last, or none. */
static bool offer_next(nucleus *n, drawing *d, const rank_sample_candidate *candidate)
{
    const double next = weight(candidate, n->total.largest, d->inverse);
    if (next < n->params->min_p) {
        return false;
    }
    offer(d, candidate);
    n->sum += next;
    /* without top-p, a rounding must not cut the sum short */
    return n->params->top_p == 1 || n->sum < n->params->top_p * n->total.sum;
}

/* Draws among the k best; with top-p, among those of them that reach p of the k's probability. */
static int32_t draw_top_k(const rank_sample_params *params, merge *m, drawing *d)
{
    merge again = *m;
    nucleus n = {.params = params};
    const rank_sample_candidate *candidate = NULL;
    for (int i = 0; i < params->top_k && (candidate = take(m)) != NULL; i++) {
        n.total.largest = i == 0 ? (double)candidate->logit : n.total.largest;
        n.total.sum += weight(candidate, n.total.largest, d->inverse);
    }
    for (int i = 0; i < params->top_k && (candidate = take(&again)) != NULL; i++) {
        if (!offer_next(&n, d, candidate)) {
            break;
        }
    }
    return d->token;
}

/* Draws among the best that reach p, or that min-p leaves; false where TOP_P_BEST may not be all of
 * them. */
static bool draw_top_p(const rank_sample_params *params, merge *m, rank_mass *leaves, drawing *d)
{
    nucleus n = {.params = params, .total = rank_sample_total_mass(leaves, d->inverse)};
    const rank_sample_candidate *candidate = NULL;
    for (int i = 0; i < RANK_SAMPLE_TOP_P_BEST && (candidate = take(m)) != NULL; i++) {
        if (!offer_next(&n, d, candidate)) {
            return true;
        }
    }
    return candidate == NULL; /* there are no more */
}

base_status rank_sample_combine(const rank_sample_vocab *vocab, const rank_sample_params *params,
                                uint64_t position, const rank_sample_records *records,
                                rank_sample_result *result, base_error *reterr)
{
    const sample_layout layout = rank_sample_layout(params, vocab->world_size);
    merge m;
    rank_mass leaves[RANK_SAMPLE_LEAVES];
    *result = (rank_sample_result){.token = -1};
    const base_status status = read_records(vocab, &layout, records, &m, leaves, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (layout.kind == SAMPLE_GREEDY) {
        result->token = take(&m)->token;
        return BASE_OK;
    }
    drawing d = start_drawing(params, position);
    if (layout.kind == SAMPLE_TOP_K) {
        result->token = draw_top_k(params, &m, &d);
    } else if (layout.kind == SAMPLE_TOP_P) {
        result->needs_all_logits = !draw_top_p(params, &m, leaves, &d);
        result->token = result->needs_all_logits ? -1 : d.token;
    } else {
        for (const rank_sample_candidate *c = take(&m); c != NULL; c = take(&m)) {
            offer(&d, c);
        }
        result->token = d.token;
    }
    return BASE_OK;
}

base_status rank_sample_top_p_of_all(const rank_sample_vocab *vocab,
                                     const rank_sample_params *params, uint64_t position,
                                     const rank_sample_all *all, int32_t *token, base_error *reterr)
{
    const float *logits = all->logits;
    rank_sample_candidate *scratch = all->scratch;
    size_t count = 0;
    rank_mass leaves[RANK_SAMPLE_LEAVES];
    *token = -1;
    for (int32_t i = 0; i < vocab->vocab_size; i++) {
        if (!(logits[i] <= FLT_MAX)) {
            return base_fail(reterr, BASE_ERR_INVALID, "the logit of token %d is no finite number",
                             i);
        }
        if (logits[i] > -INFINITY) {
            scratch[count++] = (rank_sample_candidate){logits[i], i};
        }
    }
    if (count == 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "no token has a logit above -infinity");
    }
    for (int leaf = 0; leaf < RANK_SAMPLE_LEAVES; leaf++) {
        leaves[leaf] = rank_sample_leaf_mass(vocab, params, leaf,
                                             logits + (size_t)leaf * (size_t)vocab->leaf_width);
    }
    for (size_t at = count / 2; at-- > 0;) {
        rank_sample_sift(scratch, count, at, false);
    }
    drawing d = start_drawing(params, position);
    nucleus n = {.params = params, .total = rank_sample_total_mass(leaves, d.inverse)};
    while (count > 0 && offer_next(&n, &d, &scratch[0])) {
        scratch[0] = scratch[--count];
        rank_sample_sift(scratch, count, 0, false);
    }
    *token = d.token;
    return BASE_OK;
}
