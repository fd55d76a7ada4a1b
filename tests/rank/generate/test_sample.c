/* Sampling from sharded logits: the token is the same for every world size, and that of a reference
 * that sorts the whole vocabulary. Also the distribution, and refused inputs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fixed_math.h"
#include "base/splitmix.h"
#include "generate/noise.h"
#include "generate/sample.h"
#include "generate/sample_record.h"
#include "support.h"

enum { VOCAB_MAX = 3000, WIDTH_MAX = 192, PADDED_MAX = RANK_SAMPLE_LEAVES * WIDTH_MAX };

static const int world_sizes[] = {1, 2, 4, 8, 16, 3, 5, 6, 7, 11, 13};
enum { WORLD_SIZES = sizeof world_sizes / sizeof *world_sizes };

/* top_k 0, top_p 1 and min_p 0: off. */
static const rank_sample_params param_sets[] = {
    {.temperature = 0, .top_p = 1},
    {.temperature = 1, .top_p = 1},
    {.temperature = 0.3, .top_p = 1},
    {.temperature = 1000, .top_p = 1},
    {.temperature = 1e-3, .top_p = 1},
    {.temperature = 1, .top_p = 1, .top_k = 1},
    {.temperature = 0.7, .top_p = 1, .top_k = 40},
    {.temperature = 2, .top_p = 1, .top_k = 1024},
    {.temperature = 1, .top_p = 0.5, .top_k = 50},
    {.temperature = 1, .top_p = 0.9},
    {.temperature = 0.8, .top_p = 0.95},
    {.temperature = 3, .top_p = 0.3},
    {.temperature = 1, .top_p = 1e-9},
    {.temperature = 1, .top_p = 0.9999999},
    {.temperature = 1, .top_p = 1, .min_p = 0.07},
    {.temperature = 4, .top_p = 1, .min_p = 1},
    {.temperature = 0.5, .top_p = 1, .min_p = 1e-4},
    {.temperature = 1, .top_p = 0.8, .min_p = 0.03},
    {.temperature = 1.3, .top_p = 1, .top_k = 30, .min_p = 0.2},
    {.temperature = 2, .top_p = 0.6, .top_k = 300, .min_p = 0.11},
    {.temperature = 0, .top_p = 1, .min_p = 0.5},
};
enum { PARAM_SETS = sizeof param_sets / sizeof *param_sets };

static uint64_t random_state = 1;

static double draw(void)
{
    return (double)(base_splitmix_next(&random_state) >> 11) * 0x1p-53;
}

/* Makes and combines all ranks' records, as a job does. drawn->needs_all_logits: these were needed. */
static base_status sample(rank_sample_vocab vocab, const rank_sample_params *params,
                          uint64_t position, const float *logits, rank_sample_result *drawn,
                          base_error *error)
{
    static rank_sample_candidate scratch[VOCAB_MAX];
    const size_t stride = rank_sample_record_bytes(params, vocab.world_size) + 24;
    uint8_t *records = malloc(stride * (size_t)vocab.world_size);
    assert_non_null(records);
    assert_int_equal(stride % 8, 0);
    memset(records, 0x77, stride * (size_t)vocab.world_size);
    for (int rank = 0; rank < vocab.world_size; rank++) {
        /* only the rank's own logits are there to be read */
        const int first = rank_tp_first_leaf(vocab.world_size, rank);
        const int end = rank_tp_first_leaf(vocab.world_size, rank + 1);
        const size_t count = (size_t)(end - first) * (size_t)vocab.leaf_width;
        float *own = malloc(count * sizeof *own);
        assert_non_null(own);
        memcpy(own, logits + (size_t)first * (size_t)vocab.leaf_width, count * sizeof *own);
        uint8_t *at = records + (size_t)rank * stride;
        rank_sample_make(&vocab, params, position, rank, own, at);
        assert_int_equal(at[stride - 24], 0x77);
        free(own);
    }
    const rank_sample_records all = {records, stride};
    base_status status = rank_sample_combine(&vocab, params, position, &all, drawn, error);
    free(records);
    if (status == BASE_OK && drawn->needs_all_logits) {
        assert_int_equal(drawn->token, -1);
        status = rank_sample_top_p_of_all(
            &vocab, params, position, &(rank_sample_all){logits, scratch}, &drawn->token, error);
    }
    return status;
}

static int by_logit(const void *a, const void *b)
{
    const rank_sample_candidate *x = a;
    const rank_sample_candidate *y = b;
    if (x->logit != y->logit) {
        return x->logit > y->logit ? -1 : 1;
    }
    return x->token - y->token;
}

/* Tokens that are kept of the sorted ones: top-k, then top-p of what is left. */
static int nucleus_count(const rank_sample_params *params, const rank_sample_candidate *sorted,
                         int count)
{
    double total = 0;
    double sum = 0;
    count = params->top_k > 0 && params->top_k < count ? params->top_k : count;
    for (int i = count - 1; i >= 0; i--) {
        total += exp(((double)sorted[i].logit - (double)sorted[0].logit) / params->temperature);
    }
    for (int i = 0; params->top_p < 1 && i < count; i++) {
        sum += exp(((double)sorted[i].logit - (double)sorted[0].logit) / params->temperature);
        if (sum >= params->top_p * total) {
            return i + 1;
        }
    }
    return count;
}

/* And of these, the ones of which min-p leaves something. */
static int kept_count(const rank_sample_params *params, const rank_sample_candidate *sorted,
                      int count)
{
    int kept = nucleus_count(params, sorted, count);
    while (kept > 1 && exp(((double)sorted[kept - 1].logit - (double)sorted[0].logit) /
                           params->temperature) < params->min_p) {
        kept--;
    }
    return kept;
}

static int sort_finite(const float *logits, int vocab_size, rank_sample_candidate *sorted)
{
    int count = 0;
    for (int i = 0; i < vocab_size; i++) {
        sorted[count] = (rank_sample_candidate){logits[i], i};
        count += logits[i] > -INFINITY;
    }
    qsort(sorted, (size_t)count, sizeof *sorted, by_logit);
    return count;
}

/* The whole vocabulary, sorted and cut, with every kept token's noise. */
static int32_t reference(const rank_sample_params *params, uint64_t position, const float *logits,
                         int vocab_size)
{
    static rank_sample_candidate sorted[VOCAB_MAX];
    const int count = sort_finite(logits, vocab_size, sorted);
    if (params->temperature == 0) {
        return sorted[0].token;
    }
    const int kept = kept_count(params, sorted, count);
    const uint64_t stream = rank_noise_stream(params->seed, params->prompt_index, position);
    double best = -INFINITY;
    int32_t token = -1;
    for (int i = 0; i < kept; i++) {
        const double noise = rank_noise_gumbel(rank_noise_bits(stream, sorted[i].token));
        const double value = (double)sorted[i].logit * (1 / params->temperature) + noise;
        if (value > best || (value == best && sorted[i].token < token)) {
            best = value;
            token = sorted[i].token;
        }
    }
    return token;
}

/* One of several kinds of logits (PADDED_MAX), NaN behind the vocabulary. */
static void fill(float *logits, int vocab_size, int kind)
{
    for (int i = 0; i < PADDED_MAX; i++) {
        const double u = draw();
        const double values[] = {
            8 * u,                                          /* spread out */
            0,                                              /* all equal */
            floor(4 * u),                                   /* ties */
            i > 0 && u < 0.9 ? -INFINITY : 3 * u,           /* most tokens forbidden */
            i,                                              /* rising: each a new best */
            -i,                                             /* falling */
            i == vocab_size - 1 ? -3 : -INFINITY,           /* one token only */
            (u < 0.5 ? -1 : 1) * 3e38 * draw(),             /* huge */
            i % (vocab_size / 2 + 1) == 3 ? 20 : 1e-40 * u, /* two that tie, in different leaves */
            u < 0.5 ? 0.0 : -0.0,                           /* zeros of both signs */
            20 * u * u * u * u,                             /* few likely ones */
        };
        logits[i] = i < vocab_size ? (float)values[kind] : NAN;
    }
}
enum { KINDS = 11 };

static void test_every_world_size_draws_the_same_token(void **state)
{
    (void)state;
    static float logits[PADDED_MAX];
    const int widths[] = {1, 7, 32, WIDTH_MAX};
    base_error error;
    int needs_all = 0;
    int cases = 0;
    for (int round = 0; round < 3 * 4 * KINDS; round++) {
        const int width = widths[round % 4];
        const int most =
            width * RANK_SAMPLE_LEAVES < VOCAB_MAX ? width * RANK_SAMPLE_LEAVES : VOCAB_MAX;
        const int vocab_size = round % 3 == 0 ? most : 1 + (int)(draw() * most);
        fill(logits, vocab_size, round / 12);
        for (int set = 0; set < PARAM_SETS; set++) {
            rank_sample_params params = param_sets[set];
            params.seed = (uint64_t)round;
            params.prompt_index = (uint64_t)set;
            const int32_t expected = reference(&params, 100, logits, vocab_size);
            int needs_before = -1;
            for (int w = 0; w < WORLD_SIZES; w++) {
                rank_sample_result drawn;
                const rank_sample_vocab vocab = {vocab_size, width, world_sizes[w]};
                assert_ok(sample(vocab, &params, 100, logits, &drawn, &error), &error);
                if (drawn.token != expected) {
                    fail_msg("kind %d, vocabulary %d, parameters %d, %d ranks: token %d, not %d",
                             round / 12, vocab_size, set, world_sizes[w], drawn.token, expected);
                }
                assert_true(needs_before < 0 || drawn.needs_all_logits == needs_before);
                needs_before = drawn.needs_all_logits;
                needs_all += drawn.needs_all_logits;
                cases++;
            }
        }
    }
    assert_true(needs_all > cases / 100 &&
                needs_all < cases / 4); /* both forms of top-p occurred */
}

/* Counts of each token over many positions against softmax, cut as the parameters say. */
static void check_distribution(const rank_sample_params *set, int world_size)
{
    enum { VOCAB = 40, DRAWS = 20000 };
    float logits[3 * RANK_SAMPLE_LEAVES];
    rank_sample_candidate sorted[VOCAB];
    double expected[VOCAB] = {0};
    int counts[VOCAB] = {0};
    const rank_sample_vocab vocab = {VOCAB, 3, world_size};
    for (int i = 0; i < 3 * RANK_SAMPLE_LEAVES; i++) {
        logits[i] = i % 11 == 4 ? -INFINITY : (float)((i * 29 % 40) / 10.0);
    }
    const int kept = kept_count(set, sorted, sort_finite(logits, VOCAB, sorted));
    double total = 0;
    for (int i = 0; i < kept; i++) {
        total += exp((double)sorted[i].logit / set->temperature);
    }
    for (int i = 0; i < kept; i++) {
        expected[sorted[i].token] = DRAWS * exp((double)sorted[i].logit / set->temperature) / total;
    }
    base_error error;
    for (uint64_t position = 0; position < DRAWS; position++) {
        rank_sample_result drawn;
        assert_ok(sample(vocab, set, position, logits, &drawn, &error), &error);
        counts[drawn.token]++;
    }
    double chi_squared = 0;
    for (int i = 0; i < VOCAB; i++) {
        assert_true(expected[i] > 0 || counts[i] == 0);
        assert_true(expected[i] == 0 || expected[i] > 5);
        if (expected[i] > 0) {
            chi_squared += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
        }
    }
    /* mean kept - 1, variance twice that; the normal approximation's four deviations */
    const double freedom = kept - 1;
    assert_true(kept > 4);
    assert_true(chi_squared < freedom + 4 * sqrt(2 * freedom));
}

static void test_distribution(void **state)
{
    (void)state;
    const rank_sample_params sets[] = {
        {.temperature = 1, .top_p = 1, .seed = 7},
        {.temperature = 2.5, .top_p = 1, .seed = 8, .prompt_index = 3},
        {.temperature = 1, .top_p = 1, .top_k = 12, .seed = 9},
        {.temperature = 0.8, .top_p = 0.8, .seed = 10},
        {.temperature = 1.5, .top_p = 0.6, .top_k = 20, .seed = 11},
        {.temperature = 1, .top_p = 1, .min_p = 0.1, .seed = 12},
    };
    for (int i = 0; i < 6; i++) {
        check_distribution(&sets[i], 1);
        check_distribution(&sets[i], 4);
    }
}

/* A token follows only from seed, prompt and position. */
static void a_draw_depends_on_seed_prompt_and_position(void **state)
{
    (void)state;
    float logits[RANK_SAMPLE_LEAVES * 32] = {0};
    const rank_sample_vocab vocab = {512, 32, 2};
    const rank_sample_params base = {.temperature = 1, .top_p = 1, .seed = 5, .prompt_index = 6};
    base_error error;
    int unlike[3] = {0};
    for (uint64_t position = 0; position < 200; position++) {
        rank_sample_params sets[4] = {base, base, base, base};
        sets[1].seed++;
        sets[2].prompt_index++;
        rank_sample_result drawn[4];
        for (int i = 0; i < 4; i++) {
            assert_ok(sample(vocab, &sets[i], position + (i == 3), logits, &drawn[i], &error),
                      &error);
        }
        for (int i = 0; i < 3; i++) {
            unlike[i] += drawn[i + 1].token != drawn[0].token;
        }
    }
    for (int i = 0; i < 3; i++) {
        assert_true(unlike[i] > 190); /* 512 equal tokens: one in 512 is the same by chance */
    }
}

static void refused_logits_are_named(void **state)
{
    (void)state;
    static float logits[PADDED_MAX];
    base_error error;
    rank_sample_result drawn;
    for (int set = 0; set < PARAM_SETS; set++) {
        for (int w = 0; w < WORLD_SIZES; w++) {
            const rank_sample_vocab vocab = {500, 32, world_sizes[w]};
            fill(logits, 500, 0);
            logits[431] = set % 2 == 0 ? NAN : INFINITY;
            logits[499] = NAN;
            assert_status(sample(vocab, &param_sets[set], 0, logits, &drawn, &error),
                          BASE_ERR_INVALID);
            assert_string_equal(error.message, "the logit of token 431 is no finite number");
            for (int i = 0; i < 500; i++) {
                logits[i] = -INFINITY;
            }
            assert_status(sample(vocab, &param_sets[set], 0, logits, &drawn, &error),
                          BASE_ERR_INVALID);
            assert_string_equal(error.message, "no token has a logit above -infinity");
        }
    }
    rank_sample_candidate scratch[500];
    const rank_sample_all whole = {.logits = logits, .scratch = scratch};
    const rank_sample_vocab vocab = {500, 32, 1};
    assert_status(rank_sample_top_p_of_all(&vocab, &param_sets[9], 0, &whole, &drawn.token, NULL),
                  BASE_ERR_INVALID);
    logits[77] = NAN;
    assert_status(rank_sample_top_p_of_all(&vocab, &param_sets[9], 0, &whole, &drawn.token, &error),
                  BASE_ERR_INVALID);
    assert_string_equal(error.message, "the logit of token 77 is no finite number");
}

/* Records of rank 1 that no rank makes. The error names each fault. */
static void broken_records_are_named(void **state)
{
    (void)state;
    static float logits[PADDED_MAX];
    const rank_sample_vocab vocab = {512, 32, 2};
    const rank_sample_params *params = &param_sets[9];
    const sample_layout layout = rank_sample_layout(params, 2);
    const size_t size_bytes = rank_sample_record_bytes(params, 2);
    fill(logits, 512, 0);
    uint8_t *records = malloc(2 * size_bytes);
    assert_non_null(records);
    for (int broken = 0; broken < 10; broken++) {
        rank_sample_make(&vocab, params, 0, 0, logits, records);
        rank_sample_make(&vocab, params, 0, 1, logits + 256, records + size_bytes);
        uint8_t *at = records + size_bytes;
        sample_header *header = (sample_header *)(void *)at;
        rank_mass *masses = (rank_mass *)(void *)(at + sample_masses_offset());
        rank_sample_candidate *candidates =
            (rank_sample_candidate *)(void *)(at + sample_candidates_offset(&layout));
        switch (broken) {
        case 0:
            break; /* as it should be */
        case 1:
            header->count = RANK_SAMPLE_TOP_P_BEST + 1;
            break;
        case 2:
            header->count = -1;
            break;
        case 3:
            header->refused = 3; /* not its token */
            break;
        case 4:
            candidates[5].token = 255;
            break;
        case 5:
            candidates[5].token = 512;
            break;
        case 6:
            candidates[5].logit = NAN;
            break;
        case 7:
            candidates[5] = candidates[4]; /* twice */
            break;
        case 8:
            masses[7].sum = 0.5;
            break;
        default:
            masses[0].largest = NAN;
            break;
        }
        base_error error;
        rank_sample_result result;
        const base_status status = rank_sample_combine(
            &vocab, params, 0, &(rank_sample_records){records, size_bytes}, &result, &error);
        assert_int_equal(status, broken == 0 ? BASE_OK : BASE_ERR_PEER);
        assert_true(broken == 0 ||
                    strcmp(error.message, "rank 1 sent a broken record of its logits") == 0);
    }
    free(records);
}

static void test_shares_and_record_sizes(void **state)
{
    (void)state;
    for (int world = 1; world <= RANK_SAMPLE_RANKS_MAX; world++) {
        assert_int_equal(rank_tp_first_leaf(world, 0), 0);
        assert_int_equal(rank_tp_first_leaf(world, world), RANK_SAMPLE_LEAVES);
        for (int rank = 0; rank < world; rank++) {
            const int leaves =
                rank_tp_first_leaf(world, rank + 1) - rank_tp_first_leaf(world, rank);
            assert_in_range(leaves, RANK_SAMPLE_LEAVES / world,
                            (RANK_SAMPLE_LEAVES - 1) / world + 1);
        }
    }
    assert_int_equal(rank_sample_record_bytes(&param_sets[0], 4), 16); /* greedy: one pair */
    assert_int_equal(rank_sample_record_bytes(&param_sets[1], 4), 16);
    assert_int_equal(rank_sample_record_bytes(&param_sets[6], 4), 8 + 40 * 8);
    assert_int_equal(rank_sample_record_bytes(&param_sets[9], 4), 8 + 4 * 16 + 256 * 8);
}

static void test_parameters_that_are_refused(void **state)
{
    (void)state;
    for (int i = 0; i < PARAM_SETS; i++) {
        assert_status(rank_sample_check(&param_sets[i], NULL), BASE_OK);
    }
    const rank_sample_params wrong[] = {
        {.temperature = -1, .top_p = 1},
        {.temperature = NAN, .top_p = 1},
        {.temperature = INFINITY, .top_p = 1},
        {.temperature = 1e-4, .top_p = 1},
        {.temperature = 1001, .top_p = 1},
        {.temperature = 1, .top_p = 0},
        {.temperature = 1, .top_p = 1.01},
        {.temperature = 1, .top_p = NAN},
        {.temperature = 1, .top_p = -0.5},
        {.temperature = 1, .top_p = 1, .top_k = -1},
        {.temperature = 1, .top_p = 1, .top_k = RANK_SAMPLE_TOP_K_MAX + 1},
        {.temperature = 1, .top_p = 1, .min_p = -0.1},
        {.temperature = 1, .top_p = 1, .min_p = 1.1},
        {.temperature = 1, .top_p = 1, .min_p = NAN},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_status(rank_sample_check(&wrong[i], NULL), BASE_ERR_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_world_size_draws_the_same_token),
        cmocka_unit_test(test_distribution),
        cmocka_unit_test(a_draw_depends_on_seed_prompt_and_position),
        cmocka_unit_test(refused_logits_are_named),
        cmocka_unit_test(broken_records_are_named),
        cmocka_unit_test(test_shares_and_record_sizes),
        cmocka_unit_test(test_parameters_that_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
