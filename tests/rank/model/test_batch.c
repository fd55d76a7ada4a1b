/* What a batch may be: packed or not, empty, without targets, wrong. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "tiny.h"

/* A packed batch is the sum of its segments, each trained alone. */
static void check_packing(const char *config)
{
    static const int lengths[] = {24, 1, 17, 5, 24, 9, 0};
    tiny packed;
    tiny_open_as(&packed, config);
    tiny_fill(&packed, lengths, 1);
    const double packed_loss = tiny_train(&packed);

    tiny alone;
    tiny_open_as(&alone, config);
    float *sum = calloc(alone.param_count, sizeof *sum);
    assert_non_null(sum);
    double loss = 0.0;
    for (int s = 0; lengths[s] > 0; s++) {
        tiny_fill(&alone, (const int[]){lengths[s], 0}, 1);
        memcpy(alone.ids, packed.ids + packed.segments[s], (size_t)lengths[s] * sizeof(int32_t));
        memcpy(alone.targets, packed.targets + packed.segments[s],
               (size_t)lengths[s] * sizeof(int32_t));
        loss += tiny_train(&alone);
        for (size_t i = 0; i < alone.param_count; i++) {
            sum[i] += alone.grads[i];
        }
    }
    assert_true(fabs(loss - packed_loss) <= 1e-6 * loss);
    assert_true(tiny_difference(packed.grads, sum, alone.param_count) < 1e-5);
    free(sum);
    tiny_close(&alone);
    tiny_close(&packed);
}

static void packing_changes_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < TINY_DENSE_CONFIGS; i++) {
        check_packing(tiny_configs[i]);
    }
    check_packing(
        TINY_MIXTRAL_WITH("0")); /* the router's loss is one of the batch, not of its rows */
}

/* Tokens behind a masked target do not count as targets, but what they say does. */
static void masked_targets_are_not_counted(void **state)
{
    (void)state;
    base_error error;
    rank_result result;
    tiny t;
    tiny_open(&t);
    tiny_fill(&t, (const int[]){20, 20, 0}, 2);
    for (int i = 0; i < 40; i++) {
        t.targets[i] = i % 8 == 0 ? t.targets[i] : -1;
    }
    assert_ok(rank_model_train(t.model, &t.hooks, &t.batch, t.grads, &result, &error), &error);
    assert_int_equal(result.target_count, 5);
    float *logits = malloc(5 * 37 * sizeof *logits);
    assert_non_null(logits);
    const int32_t rows[] = {0, 8, 16, 24, 32};
    rank_result forward;
    assert_ok(rank_model_forward(t.model, &t.hooks, &t.batch, &(rank_logits){rows, 5, logits},
                                 &forward, &error),
              &error);
    double expected = 0.0;
    for (int r = 0; r < 5; r++) {
        double sum = 0.0;
        for (int v = 0; v < 37; v++) {
            sum += exp((double)logits[r * 37 + v]);
        }
        expected += log(sum) - (double)logits[r * 37 + t.targets[rows[r]]];
    }
    assert_true(fabs(result.loss_sum - expected) <= 1e-5 * expected);
    assert_true(fabs(forward.loss_sum - expected) <= 1e-5 * expected);
    free(logits);
    tiny_close(&t);
}

/* Stale scratch never shows: the same batch gives the same bits after any other one. */
static void the_same_batch_gives_the_same_bits(void **state)
{
    (void)state;
    static const int lengths[] = {7, 24, 13, 0};
    tiny t;
    tiny_open(&t);
    tiny_fill(&t, lengths, 9);
    const double loss = tiny_train(&t);
    float *first = malloc(t.param_count * sizeof *first);
    assert_non_null(first);
    memcpy(first, t.grads, t.param_count * sizeof *first);
    tiny_fill(&t, (const int[]){24, 24, 24, 24, 0}, 10);
    (void)tiny_train(&t);
    tiny_fill(&t, lengths, 9);
    assert_true(tiny_train(&t) == loss);
    assert_memory_equal(t.grads, first, t.param_count * sizeof *first);
    free(first);
    tiny_close(&t);
}

typedef struct ranges {
    const tiny *t;
    int count;
    size_t offset[8];
    size_t length[8];
    float seen[8]; /* the range's first gradient when it was reported */
} ranges;

static void note_range(void *user, size_t offset, size_t count, rank_mark mark)
{
    (void)mark;
    ranges *r = user;
    assert_true(r->count < 8);
    r->offset[r->count] = offset;
    r->length[r->count] = count;
    r->seen[r->count] = r->t->grads[offset];
    r->count++;
}

/* The last block with the final norm, then falling, then the embeddings; all of it, once. */
static void check_ranges(const ranges *r)
{
    const rank_model_config *config = &r->t->config;
    size_t end = r->t->param_count;
    assert_int_equal(r->count, config->layers + 1);
    for (int i = 0; i < r->count; i++) {
        assert_int_equal(r->offset[i] + r->length[i], end);
        end = r->offset[i];
        assert_true(r->seen[i] == r->t->grads[r->offset[i]]); /* final, not NAN */
    }
    assert_int_equal(end, 0);
    rank_tensor tensor;
    rank_model_tensor(config, 2 + 12, &tensor);
    assert_string_equal(tensor.name, "h.1.ln_1.weight");
    assert_int_equal(r->offset[0], tensor.offset);
}

static void ready_ranges_cover_all(void **state)
{
    (void)state;
    base_error error;
    rank_result result;
    tiny t;
    tiny_open(&t);
    tiny_fill(&t, (const int[]){10, 0}, 4);
    ranges r = {.t = &t};
    rank_hooks hooks = t.hooks;
    hooks.ready = note_range;
    hooks.ready_user = &r;
    assert_ok(rank_model_train(t.model, &hooks, &t.batch, t.grads, &result, &error), &error);
    check_ranges(&r);
    tiny_close(&t);
}

static void check_all_zero(tiny *t)
{
    base_error error;
    rank_result result = {1.0, 1, 1.0};
    ranges r = {.t = t};
    for (size_t i = 0; i < t->param_count; i++) {
        t->grads[i] = NAN;
    }
    rank_hooks hooks = t->hooks;
    hooks.ready = note_range;
    hooks.ready_user = &r;
    assert_ok(rank_model_train(t->model, &hooks, &t->batch, t->grads, &result, &error), &error);
    assert_true(result.loss_sum == 0.0);
    assert_int_equal(result.target_count, 0);
    for (size_t i = 0; i < t->param_count; i++) {
        assert_true(t->grads[i] == 0.0f);
    }
    check_ranges(&r);
}

static void nothing_to_learn_is_zero(void **state)
{
    (void)state;
    tiny t;
    tiny_open(&t);
    tiny_fill(&t, (const int[]){10, 3, 0}, 4);
    for (int i = 0; i < t.batch.token_count; i++) {
        t.targets[i] = -1;
    }
    check_all_zero(&t);
    t.batch = (rank_batch){.token_count = 0};
    check_all_zero(&t);
    t.batch = (rank_batch){.token_count = 0,
                           .ids = t.ids,
                           .targets = t.targets,
                           .segment_count = 0,
                           .segment_start = t.segments};
    check_all_zero(&t);
    tiny_close(&t);
}

static void check_refused(tiny *t, const char *word)
{
    base_error error;
    rank_result result;
    assert_status(rank_model_train(t->model, &t->hooks, &t->batch, t->grads, &result, &error),
                  BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, word));
    assert_status(rank_model_forward(t->model, &t->hooks, &t->batch, NULL, &result, &error),
                  BASE_ERR_INVALID);
}

static void wrong_batches_are_refused(void **state)
{
    (void)state;
    tiny t;
    tiny_open(&t);
    const int lengths[] = {10, 5, 0};
    const struct {
        int32_t *place;
        int32_t value;
        const char *word;
    } wrong[] = {
        {&t.ids[3], -1, "token 3"},        {&t.ids[14], 37, "token 14"},
        {&t.targets[0], -2, "target 0"},   {&t.targets[7], 37, "target 7"},
        {&t.segments[0], 1, "segments"},   {&t.segments[2], 14, "segments"},
        {&t.segments[1], -1, "segment 0"}, {&t.segments[1], 16, "segment 0"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tiny_fill(&t, lengths, 6);
        *wrong[i].place = wrong[i].value;
        check_refused(&t, wrong[i].word);
    }
    tiny_fill(&t, (const int[]){25, 0}, 6);
    check_refused(&t, "the context is 24");
    tiny_fill(&t, lengths, 6);
    t.batch.token_count = TINY_TOKENS_MAX + 1;
    check_refused(&t, "97 tokens");
    t.batch.token_count = -1;
    check_refused(&t, "-1 tokens");
    tiny_fill(&t, lengths, 6);
    t.batch.segment_count = 0;
    check_refused(&t, "0 segments");
    tiny_close(&t);
}

static void wrong_logit_rows_are_refused(void **state)
{
    (void)state;
    static const int32_t wrong[][2] = {{-1, 3}, {3, 3}, {4, 2}, {3, 10}};
    base_error error;
    rank_result result;
    float logits[2 * 37];
    tiny t;
    tiny_open(&t);
    tiny_fill(&t, (const int[]){10, 0}, 6);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_status(rank_model_forward(t.model, &t.hooks, &t.batch,
                                         &(rank_logits){wrong[i], 2, logits}, &result, &error),
                      BASE_ERR_INVALID);
    }
    tiny_close(&t);
}

/* Logits of a row without targets, as generation asks for them, from a model made for that. */
static void a_forward_model_only_goes_forward(void **state)
{
    (void)state;
    base_error error;
    rank_result result = {1.0, 1, 1.0};
    float logits[37];
    float other[37];
    rank_model *forward;
    const int32_t row = 9;
    tiny t;
    tiny_open(&t);
    tiny_fill(&t, (const int[]){10, 0}, 6);
    t.batch.targets = NULL;
    assert_ok(
        rank_model_create(
            &(rank_model_options){.config = &t.config, .device = &t.device, .token_count_max = 10},
            &forward, &error),
        &error);
    assert_ok(rank_model_forward(forward, &t.hooks, &t.batch, &(rank_logits){&row, 1, logits},
                                 &result, &error),
              &error);
    assert_true(result.loss_sum == 0.0);
    assert_int_equal(result.target_count, 0);
    assert_ok(rank_model_forward(t.model, &t.hooks, &t.batch, &(rank_logits){&row, 1, other},
                                 &result, &error),
              &error);
    assert_memory_equal(logits, other, sizeof logits);
    assert_status(rank_model_train(forward, &t.hooks, &t.batch, t.grads, &result, &error),
                  BASE_ERR_STATE);
    rank_model_destroy(forward);
    tiny_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packing_changes_nothing),
        cmocka_unit_test(masked_targets_are_not_counted),
        cmocka_unit_test(the_same_batch_gives_the_same_bits),
        cmocka_unit_test(ready_ranges_cover_all),
        cmocka_unit_test(nothing_to_learn_is_zero),
        cmocka_unit_test(wrong_batches_are_refused),
        cmocka_unit_test(wrong_logit_rows_are_refused),
        cmocka_unit_test(a_forward_model_only_goes_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
