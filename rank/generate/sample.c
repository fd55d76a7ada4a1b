/* Makes a rank's sample record from its own logits: the best of them, and for top-p the sums over
 * the leaves of the vocabulary. Called by engine.c for each sequence and step. */
#include "generate/sample.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/fixed_math.h"
#include "generate/noise.h"
#include "generate/sample_record.h"

enum { SCAN_BLOCK = 16 };

_Static_assert((int)RANK_SAMPLE_TOP_K_MAX <= (int)RANK_KEPT_MAX, "a device finds as many");
_Static_assert((int)RANK_SAMPLE_TOP_P_BEST <= (int)RANK_KEPT_MAX, "a device finds as many");

base_status rank_sample_check(const rank_sample_params *params, base_error *reterr)
{
    const double t = params->temperature;
    const bool in_range = t >= RANK_SAMPLE_TEMPERATURE_MIN && t <= RANK_SAMPLE_TEMPERATURE_MAX;
    if (t != 0 && !in_range) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "a temperature is 0 (greedy) or from %g to %g, not %g",
                         RANK_SAMPLE_TEMPERATURE_MIN, RANK_SAMPLE_TEMPERATURE_MAX, t);
    }
    if (params->top_k < 0 || params->top_k > RANK_SAMPLE_TOP_K_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "top-k is 0 (all tokens) to %d, not %d",
                         RANK_SAMPLE_TOP_K_MAX, params->top_k);
    }
    if (!(params->top_p > 0 && params->top_p <= 1)) {
        return base_fail(reterr, BASE_ERR_INVALID, "top-p is above 0 and at most 1, not %g",
                         params->top_p);
    }
    if (!(params->min_p >= 0 && params->min_p <= 1)) {
        return base_fail(reterr, BASE_ERR_INVALID, "min-p is from 0 to 1, not %g", params->min_p);
    }
    return BASE_OK;
}

sample_layout rank_sample_layout(const rank_sample_params *params, int world_size)
{
    if (params->temperature == 0) {
        return (sample_layout){.kind = SAMPLE_GREEDY, .candidates_max = 1};
    }
    if (params->top_k > 0) {
        return (sample_layout){.kind = SAMPLE_TOP_K, .candidates_max = params->top_k};
    }
    if (params->top_p == 1 && params->min_p == 0) {
        return (sample_layout){.kind = SAMPLE_NOISE, .candidates_max = 1};
    }
    return (sample_layout){.kind = SAMPLE_TOP_P,
                           .masses_max = (RANK_SAMPLE_LEAVES + world_size - 1) / world_size,
                           .candidates_max = RANK_SAMPLE_TOP_P_BEST};
}

size_t rank_sample_record_bytes(const rank_sample_params *params, int world_size)
{
    const sample_layout layout = rank_sample_layout(params, world_size);
    return sample_candidates_offset(&layout) +
           (size_t)layout.candidates_max * sizeof(rank_sample_candidate);
}

size_t rank_sample_record_bytes_max(int world_size)
{
    const rank_sample_params top_k = {.temperature = 1, .top_p = 1, .top_k = RANK_SAMPLE_TOP_K_MAX};
    const rank_sample_params top_p = {.temperature = 1, .top_p = 0.5};
    const size_t k = rank_sample_record_bytes(&top_k, world_size);
    const size_t p = rank_sample_record_bytes(&top_p, world_size);
    return k > p ? k : p;
}

void rank_sample_sift(rank_sample_candidate *heap, size_t count, size_t at, bool worst_first)
{
    const rank_sample_candidate moving = heap[at];
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        const size_t other = child + 1;
        if (other < count && sample_is_better(&heap[other], &heap[child]) != worst_first) {
            child = other;
        }
        if (sample_is_better(&heap[child], &moving) == worst_first) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

/* The first index from `from` on whose logit is above the threshold, or NaN; count if there is
 * none. Most blocks have none, and a block is looked at without a branch. */
static int32_t next_above(const float *logits, int32_t from, int32_t count, float threshold)
{
    for (; from + SCAN_BLOCK <= count; from += SCAN_BLOCK) {
        int any = 0;
        for (int i = 0; i < SCAN_BLOCK; i++) {
            any |= !(logits[from + i] <= threshold);
        }
        if (any != 0) {
            break;
        }
    }
    while (from < count && logits[from] <= threshold) {
        from++;
    }
    return from;
}

static bool is_refused(float logit)
{
    return !(logit <= FLT_MAX); /* NaN, +infinity */
}

typedef struct scan {
    const float *logits;
    int32_t count;
    int32_t first_token;
    sample_header *header;
    rank_sample_candidate *candidates;
    int32_t candidates_max;
} scan;

static void refuse(scan *s, int32_t index)
{
    s->header->refused = s->first_token + index;
    s->header->count = 0;
}

/* Keeps the candidates_max best, the best first: a heap with the worst on top, sorted at the
 * end. */
static void keep_best(scan *s)
{
    rank_sample_candidate *heap = s->candidates;
    const int32_t limit = s->candidates_max;
    int32_t held = 0;
    float threshold = -INFINITY;
    for (int32_t i = next_above(s->logits, 0, s->count, threshold); i < s->count;
         i = next_above(s->logits, i + 1, s->count, threshold)) {
        if (is_refused(s->logits[i])) {
            refuse(s, i);
            return;
        }
        const rank_sample_candidate found = {s->logits[i], s->first_token + i};
        if (held < limit) {
            heap[held++] = found;
            for (int32_t at = held / 2 - 1; held == limit && at >= 0; at--) {
                rank_sample_sift(heap, (size_t)held, (size_t)at, true);
            }
        } else {
            heap[0] = found;
            rank_sample_sift(heap, (size_t)held, 0, true);
        }
        threshold = held == limit ? heap[0].logit : threshold;
    }
    for (int32_t at = held / 2 - 1; at >= 0; at--) { /* if fewer than the limit were found */
        rank_sample_sift(heap, (size_t)held, (size_t)at, true);
    }
    for (int32_t last = held - 1; last > 0; last--) {
        const rank_sample_candidate worst = heap[0];
        heap[0] = heap[last];
        heap[last] = worst;
        rank_sample_sift(heap, (size_t)last, 0, true);
    }
    s->header->count = held;
}

int32_t rank_sample_best(const float *logits, int32_t count, int32_t most,
                         rank_sample_candidate *best)
{
    sample_header header = {.refused = SAMPLE_NOT_REFUSED};
    scan s = {.logits = logits,
              .count = count,
              .header = &header,
              .candidates = best,
              .candidates_max = most};
    keep_best(&s);
    BASE_ASSERT(header.refused == SAMPLE_NOT_REFUSED);
    return header.count;
}

/* Keeps the one with the largest logit / temperature + noise. */
static void keep_luckiest(scan *s, uint64_t stream, double temperature)
{
    const double inverse = 1 / temperature;
    double best = -INFINITY;
    for (int32_t i = 0; i < s->count; i++) {
        const float logit = s->logits[i];
        if (is_refused(logit)) {
            refuse(s, i);
            return;
        }
        const int32_t token = s->first_token + i;
        const double scaled = (double)logit * inverse;
        if (scaled + RANK_NOISE_MAX <= best) {
            continue;
        }
        const uint64_t bits = rank_noise_bits(stream, token);
        if (scaled + rank_noise_bound(bits) <= best) {
            continue;
        }
        const double value = scaled + rank_noise_gumbel(bits);
        if (value > best) {
            best = value;
            s->candidates[0] = (rank_sample_candidate){logit, token};
            s->header->count = 1;
        }
    }
}

/* The largest of the logits; -infinity if there are none. */
static float largest(const float *logits, int32_t count)
{
    float lanes[SCAN_BLOCK];
    int32_t i = 0;
    for (int lane = 0; lane < SCAN_BLOCK; lane++) {
        lanes[lane] = -INFINITY;
    }
    for (; i + SCAN_BLOCK <= count; i += SCAN_BLOCK) {
        for (int lane = 0; lane < SCAN_BLOCK; lane++) {
            const float logit = logits[i + lane];
            lanes[lane] = logit > lanes[lane] ? logit : lanes[lane];
        }
    }
    for (; i < count; i++) {
        lanes[0] = logits[i] > lanes[0] ? logits[i] : lanes[0];
    }
    for (int lane = 1; lane < SCAN_BLOCK; lane++) {
        lanes[0] = lanes[lane] > lanes[0] ? lanes[lane] : lanes[0];
    }
    return lanes[0];
}

rank_mass rank_sample_leaf_mass(const rank_sample_vocab *vocab, const rank_sample_params *params,
                                int leaf, const float *logits)
{
    const int32_t count = sample_first_token(vocab, leaf + 1) - sample_first_token(vocab, leaf);
    const double inverse = 1 / params->temperature;
    const double most = (double)largest(logits, count);
    double lanes[RANK_MASS_LANES] = {0};
    int32_t i = 0;
    if (most == -INFINITY) {
        return (rank_mass){-INFINITY, 0};
    }
    for (; i + RANK_MASS_LANES <= count; i += RANK_MASS_LANES) {
        for (int lane = 0; lane < RANK_MASS_LANES; lane++) {
            lanes[lane] += base_fixed_exp(((double)logits[i + lane] - most) * inverse);
        }
    }
    for (int lane = 0; i < count; i++, lane++) {
        lanes[lane] += base_fixed_exp(((double)logits[i] - most) * inverse);
    }
    for (int half = RANK_MASS_LANES / 2; half > 0; half /= 2) {
        for (int lane = 0; lane < half; lane++) {
            lanes[lane] += lanes[lane + half];
        }
    }
    return (rank_mass){most, lanes[0]};
}

void rank_sample_make(const rank_sample_vocab *vocab, const rank_sample_params *params,
                      uint64_t position, int rank, const float *logits, void *record)
{
    const sample_layout layout = rank_sample_layout(params, vocab->world_size);
    const int first_leaf = rank_tp_first_leaf(vocab->world_size, rank);
    const int end_leaf = rank_tp_first_leaf(vocab->world_size, rank + 1);
    const int32_t first_token = sample_first_token(vocab, first_leaf);
    uint8_t *at = record;
    BASE_ASSERT(rank >= 0);
    BASE_ASSERT(rank < vocab->world_size);
    BASE_ASSERT(vocab->world_size <= RANK_SAMPLE_RANKS_MAX);
    BASE_ASSERT((int64_t)vocab->leaf_width * RANK_SAMPLE_LEAVES >= vocab->vocab_size);
    memset(record, 0, rank_sample_record_bytes(params, vocab->world_size));
    scan s = {
        .logits = logits,
        .count = sample_first_token(vocab, end_leaf) - first_token,
        .first_token = first_token,
        .header = (sample_header *)(void *)at,
        .candidates = (rank_sample_candidate *)(void *)(at + sample_candidates_offset(&layout)),
        .candidates_max = layout.candidates_max,
    };
    s.header->refused = SAMPLE_NOT_REFUSED;
    if (layout.kind == SAMPLE_NOISE) {
        const uint64_t stream = rank_noise_stream(params->seed, params->prompt_index, position);
        keep_luckiest(&s, stream, params->temperature);
    } else {
        keep_best(&s);
    }
    if (layout.kind == SAMPLE_TOP_P && s.header->refused == SAMPLE_NOT_REFUSED) {
        rank_mass *masses = (rank_mass *)(void *)(at + sample_masses_offset());
        for (int leaf = first_leaf; leaf < end_leaf; leaf++) {
            masses[leaf - first_leaf] = rank_sample_leaf_mass(
                vocab, params, leaf,
                logits + (size_t)(leaf - first_leaf) * (size_t)vocab->leaf_width);
        }
    }
}

int32_t rank_sample_tokens(const rank_sample_vocab *vocab, int rank, int32_t *first)
{
    *first = sample_first_token(vocab, rank_tp_first_leaf(vocab->world_size, rank));
    return sample_first_token(vocab, rank_tp_first_leaf(vocab->world_size, rank + 1)) - *first;
}

rank_draw_row rank_sample_draw_row(const rank_sample_params *params, uint64_t position)
{
    const sample_layout layout = rank_sample_layout(params, 1);
    rank_draw_row row = {.inverse = 0};
    if (layout.kind != SAMPLE_GREEDY) {
        row.inverse = 1 / params->temperature;
    }
    if (layout.kind == SAMPLE_NOISE) {
        row.stream = rank_noise_stream(params->seed, params->prompt_index, position);
    }
    if (layout.kind == SAMPLE_TOP_K || layout.kind == SAMPLE_TOP_P) {
        row.kept = layout.candidates_max;
        row.weighed = layout.kind == SAMPLE_TOP_P;
    }
    return row;
}

void rank_sample_make_drawn(const rank_sample_vocab *vocab, const rank_sample_params *params,
                            int rank, const rank_sample_drawn *drawn, void *record)
{
    int32_t first_token = 0;
    const sample_layout layout = rank_sample_layout(params, vocab->world_size);
    sample_header *header = record;
    uint8_t *at = record;
    rank_sample_candidate *candidates =
        (rank_sample_candidate *)(void *)(at + sample_candidates_offset(&layout));
    const rank_drawn *one = drawn->one;
    (void)rank_sample_tokens(vocab, rank, &first_token);
    memset(record, 0, rank_sample_record_bytes(params, vocab->world_size));
    header->refused = one->refused < 0 ? SAMPLE_NOT_REFUSED : first_token + one->refused;
    if (one->refused >= 0) {
        return;
    }
    if (layout.kind == SAMPLE_GREEDY || layout.kind == SAMPLE_NOISE) {
        header->count = one->index >= 0;
        candidates[0] = header->count > 0
                            ? (rank_sample_candidate){one->logit, first_token + one->index}
                            : (rank_sample_candidate){0};
        return;
    }
    for (int32_t i = 0; i < layout.candidates_max && drawn->kept[i].index >= 0; i++) {
        candidates[i] =
            (rank_sample_candidate){drawn->kept[i].logit, first_token + drawn->kept[i].index};
        header->count++;
    }
    if (layout.kind == SAMPLE_TOP_P) {
        memcpy(at + sample_masses_offset(), drawn->masses,
               (size_t)rank_sample_leaves(vocab, rank) * sizeof *drawn->masses);
    }
}

int rank_sample_leaves(const rank_sample_vocab *vocab, int rank)
{
    return rank_tp_first_leaf(vocab->world_size, rank + 1) -
           rank_tp_first_leaf(vocab->world_size, rank);
}
