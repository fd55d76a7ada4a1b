/* Ranks that share the tokens of a batch, beside one rank that has all of it: the same logits, bit for bit,
 * and gradients that add up to its own. Where each rank has whole segments, its gradient is that of a batch
 * of these. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "parallel/context/cp.h"
#include "rank/adapters.h"
#include "ranks.h"
#include "support.h"
#include "tiny.h"

enum { RANKS_MAX = 4, VOCAB_MAX = 64 };

typedef struct shared_batch {
    const tiny *whole;
    bool recompute;
    float *grads[RANKS_MAX];
    float *logits[RANKS_MAX]; /* of all rows of a rank */
    rank_result results[RANKS_MAX];
} shared_batch;

/* Forward for the logits of all rows, then forward and backward. */
static void pass(test_rank *rank, rank_model *model, rank_cp_group *group)
{
    shared_batch *batch = rank->user;
    const tiny *whole = batch->whole;
    int32_t rows[TINY_TOKENS_MAX];
    const rank_cp_tokens here =
        rank_cp_tokens_of((size_t)whole->batch.token_count, rank->size, rank->rank);
    for (size_t i = 0; i < here.count; i++) {
        rows[i] = (int32_t)i;
    }
    const rank_logits logits = {
        .rows = rows, .count = (int)here.count, .at = batch->logits[rank->rank]};
    RANK_OK(rank,
            rank_model_forward(model, &whole->hooks, &whole->batch, &logits, NULL, &rank->failure));
    RANK_OK(rank, rank_model_train(model, &whole->hooks, &whole->batch, batch->grads[rank->rank],
                                   &batch->results[rank->rank], &rank->failure));
    RANK_OK(rank, rank_cp_group_check(group, &rank->failure));
}

static void body(test_rank *rank)
{
    const shared_batch *batch = rank->user;
    rank_device device;
    rank_cp_group *group = NULL;
    rank_model *model = NULL;
    RANK_OK(rank, rank_device_open("cpu", &device, &rank->failure));
    RANK_OK(rank, rank_cp_group_create(coll_context_world(rank->context), rank->size, 1,
                                       TINY_TOKENS_MAX, &group, &rank->failure));
    const rank_model_options options = {.config = &batch->whole->config,
                                        .device = &device,
                                        .token_count_max = TINY_TOKENS_MAX,
                                        .training = true,
                                        .recompute = batch->recompute,
                                        .cp = rank_cp_group_cp(group)};
    RANK_OK(rank, rank_model_create(&options, &model, &rank->failure));
    pass(rank, model, group);
    rank_model_destroy(model);
    rank_cp_group_destroy(group);
    rank_device_close(&device);
}

static void run(shared_batch *batch, int ranks, coll_transport transport)
{
    const size_t params = batch->whole->param_count;
    for (int r = 0; r < ranks; r++) {
        batch->grads[r] = malloc(params * sizeof(float));
        batch->logits[r] = malloc((size_t)TINY_TOKENS_MAX * VOCAB_MAX * sizeof(float));
        assert_non_null(batch->grads[r]);
        assert_non_null(batch->logits[r]);
        for (size_t i = 0; i < params; i++) {
            batch->grads[r][i] = NAN; /* every gradient is written */
        }
    }
    test_ranks_as_threads(
        &(test_ranks_options){.size = ranks, .transport = transport, .user = batch}, body);
}

static void release(shared_batch *batch, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        free(batch->grads[r]);
        free(batch->logits[r]);
    }
}

/* All logits of a batch on one rank. */
static float *whole_logits(tiny *t)
{
    base_error error;
    int32_t rows[TINY_TOKENS_MAX];
    float *logits = malloc((size_t)TINY_TOKENS_MAX * VOCAB_MAX * sizeof(float));
    assert_non_null(logits);
    for (int i = 0; i < t->batch.token_count; i++) {
        rows[i] = i;
    }
    assert_ok(rank_model_forward(
                  t->model, &t->hooks, &t->batch,
                  &(rank_logits){.rows = rows, .count = t->batch.token_count, .at = logits}, NULL,
                  &error),
              &error);
    return logits;
}

static void check_logits(tiny *t, const shared_batch *batch, int ranks)
{
    const size_t row = (size_t)t->config.vocab_size;
    float *logits = whole_logits(t);
    for (int r = 0; r < ranks; r++) {
        const rank_cp_tokens here = rank_cp_tokens_of((size_t)t->batch.token_count, ranks, r);
        assert_memory_equal(batch->logits[r], logits + here.first * row,
                            here.count * row * sizeof(float));
    }
    free(logits);
}

static void check_sums(tiny *t, const shared_batch *batch, int ranks)
{
    const double loss = tiny_train(t);
    double sum = 0;
    int64_t targets = 0;
    int64_t whole_targets = 0;
    for (int i = 0; i < t->batch.token_count; i++) {
        whole_targets += t->targets[i] >= 0;
    }
    for (int r = 0; r < ranks; r++) {
        sum += batch->results[r].loss_sum;
        targets += batch->results[r].target_count;
    }
    for (size_t i = 0; i < t->param_count; i++) {
        double added = 0;
        for (int r = 0; r < ranks; r++) {
            added += (double)batch->grads[r][i];
        }
        batch->grads[0][i] = (float)added;
    }
    assert_int_equal(targets, whole_targets);
    assert_true(fabs(sum - loss) <= 1e-12 * loss);
    if (whole_targets == 0) {
        for (size_t i = 0; i < t->param_count; i++) {
            assert_true(batch->grads[0][i] == 0.0F && t->grads[i] == 0.0F);
        }
    } else {
        assert_true(tiny_difference(batch->grads[0], t->grads, t->param_count) < 2e-6);
    }
}

static void check(tiny *t, int ranks, bool recompute)
{
    shared_batch batch = {.whole = t, .recompute = recompute};
    run(&batch, ranks, COLL_TRANSPORT_SHM);
    check_logits(t, &batch, ranks);
    check_sums(t, &batch, ranks);
    release(&batch, ranks);
}

/* No head's biases are those of another. */
static void open_as(tiny *t, const char *config)
{
    tiny_open_as(t, config);
    for (size_t i = 0; i < t->param_count; i++) {
        t->params[i] += (float)(i % 7) * 0.01F;
    }
}

/* Every row has a target; some have; those at the begin; those at the end; none. */
enum { TARGETS = 5 };
static void choose_targets(tiny *t, int which)
{
    const int count = t->batch.token_count;
    for (int i = 0; i < count; i++) {
        const bool keep[TARGETS] = {true, i % 3 > 0, i < count / 4, i + 1 == count, false};
        t->targets[i] = keep[which] ? t->targets[i] : -1;
    }
}

static void sums_are_those_of_one_rank(void **state)
{
    (void)state;
    static const int batches[][8] = {
        {24, 1, 17, 24, 9, 21, 0}, {24, 24, 24, 24, 0}, {23, 0}, {1, 1, 1, 0}, {1, 0}};
    for (int i = 0; i < TINY_DENSE_CONFIGS; i++) {
        tiny t;
        open_as(&t, tiny_configs[i]);
        for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
            for (int which = 0; which < TARGETS; which++) {
                for (int ranks = 2; ranks <= t.config.heads && ranks <= RANKS_MAX; ranks *= 2) {
                    tiny_fill(&t, batches[b], (uint64_t)b);
                    choose_targets(&t, which);
                    check(&t, ranks, (b + (size_t)which) % 2 == 1);
                }
            }
        }
        tiny_close(&t);
    }
}

/* Gradients of adapters, whose model is frozen. Ranks without a target have some, too. */
static void adapters_are_trained_together(void **state)
{
    (void)state;
    for (int i = 0; i < TINY_DENSE_CONFIGS; i++) {
        tiny t;
        base_error error;
        open_as(&t, tiny_configs[i]);
        t.config.adapters = (rank_adapters){.rank = 3, .scale = 1.5F};
        assert_ok(rank_adapters_choose(&t.config, "all-linear", &t.config.adapters.targets, &error),
                  &error);
        const rank_model_config config = rank_adapters_config(&t.config);
        const size_t count = rank_model_param_count(&config);
        float *adapters = malloc(count * sizeof *adapters);
        assert_non_null(adapters);
        assert_true(count <= t.param_count);
        for (size_t at = 0; at < count; at++) {
            adapters[at] = (float)(at * 7 % 11) * 0.02F - 0.1F;
        }
        t.hooks.adapters = adapters;
        t.param_count = count; /* of what is trained */
        tiny_make_model(&t, false);
        for (int which = 0; which < TARGETS; which++) {
            tiny_fill(&t, (const int[]){24, 3, 11, 1, 0}, 5);
            choose_targets(&t, which);
            check(&t, 2, which % 2 == 1);
        }
        tiny_close(&t);
        free(adapters);
    }
}

/* Of what attention adds up itself, a rank has the sum over all rows, for its heads. */
static bool is_of_heads(const tiny *t, size_t offset)
{
    for (int i = 0; i < rank_model_tensor_count(&t->config); i++) {
        rank_tensor tensor;
        rank_model_tensor(&t->config, i, &tensor);
        if (offset >= tensor.offset && offset - tensor.offset < tensor.count) {
            return strstr(tensor.name, "attn.c_attn.bias") != NULL;
        }
    }
    return false;
}

static void whole_segments_are_a_batch_of_their_own(void **state)
{
    (void)state;
    enum { RANKS = 2 };
    static const int both[] = {20, 4, 24, 11, 13, 24, 0};
    static const int half[RANKS][4] = {{20, 4, 24, 0}, {11, 13, 24, 0}};
    for (int i = 0; i < TINY_DENSE_CONFIGS; i++) {
        tiny t;
        shared_batch batch = {.whole = &t};
        open_as(&t, tiny_configs[i]);
        tiny_fill(&t, both, 7);
        run(&batch, RANKS, COLL_TRANSPORT_TCP);
        int32_t ids[TINY_TOKENS_MAX];
        int32_t targets[TINY_TOKENS_MAX];
        memcpy(ids, t.ids, sizeof ids);
        memcpy(targets, t.targets, sizeof targets);
        for (int r = 0; r < RANKS; r++) {
            const size_t first = (size_t)r * 48;
            tiny_fill(&t, half[r], 7);
            memcpy(t.ids, ids + first, 48 * sizeof *ids);
            memcpy(t.targets, targets + first, 48 * sizeof *targets);
            assert_true(tiny_train(&t) == batch.results[r].loss_sum);
            for (size_t at = 0; at < t.param_count; at++) {
                assert_true(t.grads[at] == batch.grads[r][at] || is_of_heads(&t, at));
            }
        }
        release(&batch, RANKS);
        tiny_close(&t);
    }
}

static void blocks_cover_all_tokens(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 9; ranks++) {
        for (size_t tokens = 0; tokens < 50; tokens++) {
            size_t next = 0;
            for (int r = 0; r < ranks; r++) {
                const rank_cp_tokens here = rank_cp_tokens_of(tokens, ranks, r);
                assert_int_equal(here.first, next);
                assert_true(here.count <= rank_cp_block(tokens, ranks));
                next += here.count;
            }
            assert_int_equal(next, tokens);
        }
    }
}

static void heads_that_cannot_be_shared_are_refused(void **state)
{
    (void)state;
    rank_model_config config;
    base_error error;
    tiny_config(&config, NULL);
    config.heads = 6;
    assert_ok(rank_model_check_context_ranks(&config, 3, &error), &error);
    assert_int_equal(rank_model_check_context_ranks(&config, 4, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "4 ranks share"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_one_rank),
        cmocka_unit_test(adapters_are_trained_together),
        cmocka_unit_test(whole_segments_are_a_batch_of_their_own),
        cmocka_unit_test(blocks_cover_all_tokens),
        cmocka_unit_test(heads_that_cannot_be_shared_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
