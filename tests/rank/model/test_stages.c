/* Ranges of layers, micro-batches that are alive together, and what hooks see. */
#include <stdlib.h>
#include <string.h>

#include "model/family.h"
#include "support.h"
#include "tiny.h"

enum { BATCHES = 2 };

/* Layers [first, end) with memory of their own. */
typedef struct stage {
    rank_shape shape;
    rank_run run;
    rank_held held;
    rank_saved saved[BATCHES];
    float *stream; /* from this stage to the next, and its gradient back: (BATCHES, T, C) */
} stage;

static size_t stream_floats(const tiny *t)
{
    return (size_t)TINY_TOKENS_MAX * (size_t)t->config.width;
}

static void stage_open(stage *s, const tiny *t, int first, int end, bool split)
{
    base_error error;
    s->shape = (rank_shape){.config = &t->config,
                            .backend = t->device.backend,
                            .first_layer = first,
                            .end_layer = end,
                            .token_count_max = TINY_TOKENS_MAX,
                            .training = true,
                            .split = split};
    s->run = (rank_run){.shape = s->shape, .device = t->device, .hooks = &t->hooks};
    t->config.family->held(&s->shape, &s->held);
    s->run.work = malloc(t->config.family->work_floats(&s->shape) * sizeof(float));
    s->stream = malloc(2 * BATCHES * stream_floats(t) * sizeof(float));
    assert_non_null(s->run.work);
    assert_non_null(s->stream);
    for (int i = 0; i < BATCHES; i++) {
        assert_ok(rank_saved_create(&s->shape, &t->device, &s->saved[i], &error), &error);
    }
}

static void stage_close(stage *s)
{
    for (int i = 0; i < BATCHES; i++) {
        rank_saved_destroy(&s->saved[i]);
    }
    free(s->run.work);
    free(s->stream);
}

static const int lengths[BATCHES][5] = {{24, 7, 13, 0}, {3, 24, 24, 1, 0}};

static void fill_batch(tiny *t, int which)
{
    tiny_fill(t, lengths[which], 31 + (uint64_t)which);
    for (int i = 0; i < t->batch.token_count; i += 3) {
        t->targets[i] = -1; /* so that the last layer leaves rows out */
    }
}

/* What a stage holds of the model's array, in an array of its own. */
static void pack(const tiny *t, const rank_held *held, const float *whole, float *packed)
{
    for (size_t i = 0; i < t->param_count; i++) {
        if (rank_held_has(held, i)) {
            packed[rank_held_place(held, i)] = whole[i];
        }
    }
}

/* The second pass of a split backward, of both micro-batches: nothing has touched the gradients of blocks before. */
static void run_weight_grads(tiny *t, stage *s, float *grads[BATCHES])
{
    const rank_family *family = t->config.family;
    rank_tensor first;
    rank_tensor behind;
    rank_model_tensor(&t->config, family->block_begin(&t->config, s->shape.first_layer), &first);
    rank_model_tensor(&t->config, family->block_begin(&t->config, s->shape.end_layer), &behind);
    for (int i = 0; i < BATCHES; i++) {
        const unsigned char *blocks =
            (unsigned char *)(grads[i] + rank_held_place(&s->held, first.offset));
        for (size_t at = 0; at < (behind.offset - first.offset) * sizeof(float); at++) {
            assert_int_equal(blocks[at], 0xff);
        }
        float *dstream = s->stream + (size_t)(BATCHES + i) * stream_floats(t);
        family->weight_grads(&s->run, &(rank_backward_args){.saved = &s->saved[i],
                                                            .dout = dstream,
                                                            .grads = grads[i],
                                                            .held = &s->held});
    }
}

/* Forward of both micro-batches through both stages, then backward of both: four sets of
 * activations are alive in between. The gradients of stage s go to grads[s][micro-batch]. */
static void run_stages(tiny *t, stage stages[2], float *grads[2][BATCHES], double loss[BATCHES])
{
    base_error error;
    const rank_family *family = t->config.family;
    const size_t floats = stream_floats(t);
    for (int i = 0; i < BATCHES; i++) {
        float *stream = stages[0].stream + (size_t)i * floats;
        fill_batch(t, i);
        assert_ok(rank_rows_place(&stages[0].saved[i], &t->batch, NULL, &error), &error);
        assert_ok(rank_rows_place(&stages[1].saved[i], &t->batch, NULL, &error), &error);
        family->forward(&stages[0].run,
                        &(rank_forward_args){.saved = &stages[0].saved[i], .out = stream});
        family->forward(&stages[1].run,
                        &(rank_forward_args){.saved = &stages[1].saved[i], .in = stream});
    }
    for (int i = 0; i < BATCHES; i++) {
        float *dstream = stages[0].stream + (size_t)(BATCHES + i) * floats;
        family->backward(&stages[1].run, &(rank_backward_args){.saved = &stages[1].saved[i],
                                                               .din = dstream,
                                                               .grads = grads[1][i],
                                                               .held = &stages[1].held});
        /* the output's part of the tied gradient, to which the embedding's is added */
        memcpy(grads[0][i], grads[1][i], stages[1].held.tied_count * sizeof(float));
        family->backward(&stages[0].run,
                         &(rank_backward_args){.saved = &stages[0].saved[i],
                                               .dout = dstream,
                                               .grads = grads[0][i],
                                               .held = &stages[0].held,
                                               .tied_begun = stages[0].held.tied_count > 0});
        loss[i] = *stages[1].saved[i].loss;
    }
    for (int s = 0; stages[0].shape.split && s < 2; s++) {
        run_weight_grads(t, &stages[s], grads[s]);
    }
    assert_ok(t->device.backend->sync(t->device.queue, &error), &error);
}

static float *new_floats(size_t count)
{
    float *made = malloc(count * sizeof *made);
    assert_non_null(made);
    memset(made, 0xff, count * sizeof *made);
    return made;
}

/* Bit for bit, the tied gradient included. */
static void check_stages(const char *config, bool is_tied, bool split)
{
    tiny t;
    stage stages[2];
    float *grads[2][BATCHES];
    double loss[BATCHES];
    tiny_open_as(&t, config);
    stage_open(&stages[0], &t, 0, 1, split);
    stage_open(&stages[1], &t, 1, t.config.layers, split);
    const size_t tied = is_tied ? (size_t)t.config.vocab_size * (size_t)t.config.width : 0;
    assert_int_equal(stages[0].held.tied_count, tied);
    assert_int_equal(stages[1].held.tied_count, tied);
    assert_int_equal(stages[0].held.count + stages[1].held.count, t.param_count + tied);
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < BATCHES; i++) {
            grads[s][i] = new_floats(stages[s].held.count);
        }
    }
    run_stages(&t, stages, grads, loss);
    for (int i = 0; i < BATCHES; i++) {
        fill_batch(&t, i);
        assert_true(tiny_train(&t) == loss[i]);
        for (int s = 0; s < 2; s++) {
            /* the last stage has only its part of the tied gradient */
            const size_t own = s == 0 ? 0 : tied;
            const size_t count = stages[s].held.count;
            float *expected = new_floats(count);
            pack(&t, &stages[s].held, t.grads, expected);
            assert_memory_equal(grads[s][i] + own, expected + own, (count - own) * sizeof(float));
            free(expected);
            free(grads[s][i]);
        }
    }
    stage_close(&stages[0]);
    stage_close(&stages[1]);
    tiny_close(&t);
}

static const struct {
    const char *config;
    bool is_tied;
} models[] = {
    {NULL, true},
    {TINY_LLAMA_TIED, true},
    {TINY_LLAMA_LINEAR, false},
    {TINY_QWEN2_TIED, true},
    {TINY_QWEN2, false},
    {TINY_QWEN3, true},
    {TINY_QWEN3_UNTIED, false},
    {TINY_GEMMA3, true},
};

static void stages_are_the_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        check_stages(models[i].config, models[i].is_tied, false);
    }
}

static void a_split_backward_has_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        check_stages(models[i].config, models[i].is_tied, true);
    }
}

/* Ranges that are added in any order stand in that of the model. What is empty stands where the range before
 * it ends. */
static void several_ranges_are_one_array(void **state)
{
    (void)state;
    rank_held held = {.count = 0};
    rank_held_add(&held, 10, 5);
    rank_held_add(&held, 40, 2);
    rank_held_add(&held, 0, 3);
    rank_held_add(&held, 20, 10);
    assert_int_equal(held.count, 20);
    size_t next = 0;
    for (size_t i = 0; i < 50; i++) {
        const bool in = i < 3 || (i >= 10 && i < 15) || (i >= 20 && i < 30) || i == 40 || i == 41;
        assert_int_equal(rank_held_has(&held, i), in);
        if (in) {
            assert_int_equal(rank_held_place(&held, i), next);
            next++;
        }
    }
    assert_int_equal(next, held.count);
    assert_int_equal(rank_held_place(&held, 15), 8);
    assert_int_equal(rank_held_place(&held, 42), 20);
    assert_true(rank_held_has(NULL, 7));
    assert_int_equal(rank_held_place(NULL, 7), 7);
}

/* Weights that lie elsewhere, one range at a time, as gathered or packed ones do. */
typedef struct moving {
    const tiny *t;
    float *away; /* a copy of the parameters; what has been given back is spoilt */
} moving;

static const float *need_away(void *user, size_t offset, size_t count)
{
    moving *m = user;
    memcpy(m->away + offset, m->t->params + offset, count * sizeof *m->away);
    return m->away + offset;
}

static void spoil(void *user, size_t offset, size_t count)
{
    moving *m = user;
    memset(m->away + offset, 0xff, count * sizeof *m->away); /* not a number */
}

static void check_hooks(const char *config)
{
    base_error error;
    rank_result result;
    tiny t;
    tiny_open_as(&t, config);
    fill_batch(&t, 0);
    const double loss = tiny_train(&t);
    float *expected = malloc(t.param_count * sizeof *expected);
    moving m = {.t = &t, .away = malloc(t.param_count * sizeof *m.away)};
    assert_non_null(expected);
    assert_non_null(m.away);
    memcpy(expected, t.grads, t.param_count * sizeof *expected);
    memset(m.away, 0xff, t.param_count * sizeof *m.away);
    const rank_hooks hooks = {.need = need_away, .done = spoil, .weights = &m};
    assert_ok(rank_model_train(t.model, &hooks, &t.batch, t.grads, &result, &error), &error);
    assert_true(result.loss_sum == loss);
    assert_memory_equal(t.grads, expected, t.param_count * sizeof *expected);
    free(m.away);
    free(expected);
    tiny_close(&t);
}

static void weights_are_reached_through_hooks_alone(void **state)
{
    (void)state;
    for (int i = 0; i < TINY_CONFIGS; i++) {
        check_hooks(tiny_configs[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_are_the_whole),
        cmocka_unit_test(a_split_backward_has_the_same_bits),
        cmocka_unit_test(several_ranges_are_one_array),
        cmocka_unit_test(weights_are_reached_through_hooks_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
