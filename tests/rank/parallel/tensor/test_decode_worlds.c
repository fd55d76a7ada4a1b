/* A model cut between 1, 2 and 4 ranks: the same logits to the bit, over every transport, whatever
 * the batch and the chunks of a prompt; and nearly the same between 3. Every rank decodes the same
 * script of steps; rank 0's neighbour in the grid of worlds is compared byte for byte. A training
 * step on the same tokens has the same log-probabilities, and the loss that follows from them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "decode_world.h"
#include "generate/logprob.h"
#include "model/llama/parts.h"
#include "proto/digest.h"
#include "support.h"

/* 12 heads would do for 3 ranks as well; the leaves are 4 then, as with 4 heads. */
static const rank_model_config config_of_12 = {
    .vocab_size = VOCAB, .width = 96, .layers = 2, .heads = 12, .context = 48};

static void check_worlds(const rank_model_config *config, rank_type type)
{
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                                COLL_TRANSPORT_ZMQ};
    world w = new_world(config, type);
    run_world(&w, 1, COLL_TRANSPORT_SHM, (script){SEQUENCES, TOKENS});
    float(*alone)[SEQUENCES][TOKENS][PADDED] = keep(&w);
    assert_true(fabsf((*alone)[1][5][3]) > 1e-3f);
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        for (int t = 0; t < 3; t++) {
            run_world(&w, ranks, transports[t], (script){SEQUENCES, t == 0 ? 7 : TOKENS});
            assert_memory_equal(w.logits, alone, sizeof *alone);
        }
    }
    free(alone);
    free_world(&w);
}

static void every_world_has_the_same_bits(void **state)
{
    (void)state;
    check_worlds(&config_of_4, RANK_FLOAT32);
    check_worlds(&qwen2, RANK_FLOAT32);
    check_worlds(&qwen3, RANK_FLOAT32);
    check_worlds(&mixtral, RANK_FLOAT32);
    check_worlds(&gemma3, RANK_FLOAT32);
}

/* Their blocks begin anew at each leaf, of 16 numbers and more, and some have a few numbers left. */
static void every_world_has_the_same_bits_in_blocks(void **state)
{
    (void)state;
    check_worlds(&config_of_4, RANK_INT8);
    check_worlds(&qwen2, RANK_INT8);
    check_worlds(&qwen3, RANK_INT8);
    check_worlds(&mixtral, RANK_INT8);
    check_worlds(&gemma3, RANK_INT8);
    check_worlds(&config_of_4, RANK_INT4);
    check_worlds(&mixtral, RANK_INT4);
    check_worlds(&gemma3, RANK_INT4);
}

/* Logits change, and little: at most by a share of their squared length. */
static void check_closeness(rank_type type, double most)
{
    double difference = 0;
    double size = 0;
    world w = new_world(&config_of_4, RANK_FLOAT32);
    run_world(&w, 1, COLL_TRANSPORT_SHM, (script){SEQUENCES, TOKENS});
    float(*exact)[SEQUENCES][TOKENS][PADDED] = keep(&w);
    w.type = type;
    run_world(&w, 2, COLL_TRANSPORT_SHM, (script){SEQUENCES, TOKENS});
    const float *before = (const void *)exact;
    const float *after = (const void *)w.logits;
    for (size_t i = 0; i < sizeof *exact / sizeof *before; i++) {
        const double expected = (double)before[i];
        difference += pow((double)after[i] - expected, 2);
        size += pow(expected, 2);
    }
    assert_true(difference > 1e-4 * most * size);
    assert_true(difference < most * size);
    free(exact);
    free_world(&w);
}

static void blocks_come_close(void **state)
{
    (void)state;
    check_closeness(RANK_INT8, 4e-4); /* 2 % of the logits' length */
    check_closeness(RANK_INT4, 8e-2); /* 231 times the error of a number, squared */
}

static void check_chunks(const rank_model_config *config, rank_type type)
{
    static const script scripts[] = {{1, TOKENS}, {1, 1}, {1, 7}, {SEQUENCES, 1}, {SEQUENCES, 13}};
    world w = new_world(config, type);
    run_world(&w, 2, COLL_TRANSPORT_SHM, (script){SEQUENCES, TOKENS});
    float(*whole)[SEQUENCES][TOKENS][PADDED] = keep(&w);
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        run_world(&w, 2, COLL_TRANSPORT_SHM, scripts[i]);
        assert_memory_equal(w.logits, whole, sizeof *whole);
    }
    free(whole);
    free_world(&w);
}

static void batch_and_chunks_change_no_bit(void **state)
{
    (void)state;
    check_chunks(&config_of_4, RANK_FLOAT32);
    check_chunks(&config_of_4, RANK_INT8);
    check_chunks(&config_of_4, RANK_INT4);
    check_chunks(&mixtral, RANK_FLOAT32);
    check_chunks(&mixtral, RANK_INT4);
    check_chunks(&gemma3, RANK_FLOAT32);
    check_chunks(&gemma3, RANK_INT8);
}

/* The logits are nearly those of one rank, which are in `alone`. */
static void assert_close(const world *w, float (*alone)[SEQUENCES][TOKENS][PADDED])
{
    for (int s = 0; s < SEQUENCES; s++) {
        for (int t = 0; t < TOKENS; t++) {
            for (int v = 0; v < PADDED; v++) {
                const float expected = (*alone)[s][t][v];
                const float difference = fabsf((*w->logits)[s][t][v] - expected);
                if (!(difference <= 1e-4f * (1.0f + fabsf(expected)))) {
                    fail_msg("sequence %d, token %d, id %d: %g, not %g", s, t, v,
                             (double)(*w->logits)[s][t][v], (double)expected);
                }
            }
        }
    }
}

/* Two heads of keys and values, each of which two ranks have of four, and four of eight: more ranks than leaves. */
static void ranks_may_share_heads(void **state)
{
    (void)state;
    rank_model_config config = qwen3;
    config.settings[LLAMA_KV_HEADS] = 2;
    check_worlds(&config, RANK_FLOAT32);
    check_worlds(&config, RANK_INT8);
    world w = new_world(&config, RANK_FLOAT32);
    run_world(&w, 1, COLL_TRANSPORT_SHM, (script){SEQUENCES, TOKENS});
    float(*alone)[SEQUENCES][TOKENS][PADDED] = keep(&w);
    run_world(&w, 8, COLL_TRANSPORT_SHM, (script){SEQUENCES, 7});
    assert_close(&w, alone);
    free(alone);
    free_world(&w);
}

/* 3 does not divide the leaves: another order of the same sums. */
static void three_ranks_come_close(void **state)
{
    (void)state;
    world w = new_world(&config_of_12, RANK_FLOAT32);
    run_world(&w, 1, COLL_TRANSPORT_SHM, (script){SEQUENCES, TOKENS});
    float(*alone)[SEQUENCES][TOKENS][PADDED] = keep(&w);
    run_world(&w, 3, COLL_TRANSPORT_SHM, (script){SEQUENCES, TOKENS});
    assert_close(&w, alone);
    run_world(&w, 4, COLL_TRANSPORT_SHM, (script){SEQUENCES, 5});
    assert_memory_equal(w.logits, alone, sizeof *alone);
    free(alone);
    free_world(&w);
}

/* A training step over the tokens of all sequences, on one rank: its logits, and its loss. */
typedef struct lesson {
    int32_t ids[ROWS_MAX];
    int32_t targets[ROWS_MAX];
    int32_t start[SEQUENCES + 1];
    float logits[ROWS_MAX][VOCAB];
    double loss_sum;
} lesson;

static void take_lesson(const world *w, lesson *l)
{
    base_error error;
    rank_device device;
    rank_model *model;
    rank_result result;
    int32_t rows[ROWS_MAX];
    const rank_hooks hooks = rank_hooks_flat(w->params);
    for (int i = 0; i < ROWS_MAX; i++) {
        rows[i] = i;
        l->ids[i] = world_token(i / TOKENS, i % TOKENS);
        l->targets[i] = world_token(i / TOKENS, i % TOKENS + 1);
        l->start[i / TOKENS + 1] = i + 1;
    }
    const rank_batch batch = {.token_count = ROWS_MAX,
                              .ids = l->ids,
                              .targets = l->targets,
                              .segment_count = SEQUENCES,
                              .segment_start = l->start};
    float *grads = calloc(rank_model_param_count(&w->config), sizeof *grads);
    assert_non_null(grads);
    assert_ok(rank_device_open("cpu", &device, &error), &error);
    assert_ok(rank_model_create(&(rank_model_options){.config = &w->config,
                                                      .device = &device,
                                                      .token_count_max = ROWS_MAX,
                                                      .training = true},
                                &model, &error),
              &error);
    assert_ok(rank_model_forward(model, &hooks, &batch,
                                 &(rank_logits){rows, ROWS_MAX, l->logits[0]}, NULL, &error),
              &error);
    assert_ok(rank_model_train(model, &hooks, &batch, grads, &result, &error), &error);
    l->loss_sum = result.loss_sum;
    rank_model_destroy(model);
    rank_device_close(&device);
    free(grads);
}

/* The digest of all rows' log-probabilities; `from` has rows of `stride` logits. */
static void digest_log_probabilities(const float *from, size_t stride,
                                     char hex[PROTO_DIGEST_HEX_BYTES])
{
    uint8_t digest[PROTO_DIGEST_BYTES];
    double *all = malloc((size_t)ROWS_MAX * VOCAB * sizeof *all);
    assert_non_null(all);
    for (size_t row = 0; row < ROWS_MAX; row++) {
        const float *logits = from + row * stride;
        double sum = 0.0;
        for (size_t v = 0; v < VOCAB; v++) {
            sum += exp((double)logits[v]);
        }
        for (size_t v = 0; v < VOCAB; v++) {
            all[row * VOCAB + v] = (double)logits[v] - log(sum);
        }
    }
    proto_sha256(all, (size_t)ROWS_MAX * VOCAB * sizeof *all, digest);
    proto_digest_hex(digest, hex);
    free(all);
}

/* The loss of the engine's logits, by the operation that training uses. */
static double loss_of(const world *w, const lesson *l)
{
    base_error error;
    rank_device device;
    double loss = 0.0;
    float *logits = malloc(sizeof l->logits);
    assert_non_null(logits);
    for (size_t row = 0; row < ROWS_MAX; row++) {
        memcpy(logits + row * VOCAB, (*w->logits)[row / TOKENS][row % TOKENS],
               VOCAB * sizeof *logits);
    }
    assert_ok(rank_device_open("cpu", &device, &error), &error);
    device.backend->cross_entropy(
        device.queue, &(rank_cross_entropy){.rows = ROWS_MAX,
                                            .vocab_size = VOCAB,
                                            .targets = l->targets,
                                            .logits = logits,
                                            .loss = &loss,
                                            .leaves = SUM_LEAVES,
                                            .leaf_columns = (size_t)rank_tp_leaf_width(VOCAB) *
                                                            (RANK_TP_LEAVES / SUM_LEAVES)});
    rank_device_close(&device);
    free(logits);
    return loss;
}

/* The same loss from the log-probabilities that a user gets. Training adds up in float32. */
static double logprob_loss_of(const world *w, const lesson *l)
{
    const rank_sample_vocab vocab = {
        .vocab_size = VOCAB, .leaf_width = rank_tp_leaf_width(VOCAB), .world_size = 1};
    double loss = 0.0;
    for (size_t row = 0; row < ROWS_MAX; row++) {
        rank_logprob one;
        if (l->targets[row] >= 0) {
            rank_logprobs_make(&vocab, (*w->logits)[row / TOKENS][row % TOKENS], l->targets[row], 1,
                               &one);
            loss -= one.value;
        }
    }
    return loss;
}

static void check_lesson(const rank_model_config *config)
{
    static const script scripts[] = {{SEQUENCES, TOKENS}, {1, 1}, {SEQUENCES, 7}};
    lesson *l = calloc(1, sizeof *l);
    char expected[PROTO_DIGEST_HEX_BYTES];
    world w = new_world(config, RANK_FLOAT32);
    assert_non_null(l);
    take_lesson(&w, l);
    digest_log_probabilities(l->logits[0], VOCAB, expected);
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
            char found[PROTO_DIGEST_HEX_BYTES];
            run_world(&w, ranks, COLL_TRANSPORT_SHM, scripts[i]);
            digest_log_probabilities((*w.logits)[0][0], PADDED, found);
            assert_string_equal(found, expected);
            assert_true(loss_of(&w, l) == l->loss_sum);
            assert_true(fabs(logprob_loss_of(&w, l) - l->loss_sum) < 1e-6 * l->loss_sum);
        }
    }
    free(l);
    free_world(&w);
}

static void training_has_the_log_probabilities_of_every_world(void **state)
{
    (void)state;
    check_lesson(&config_of_4);
    check_lesson(&qwen2);
    check_lesson(&qwen3);
    check_lesson(&gemma3);
    check_lesson(&mixtral);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_world_has_the_same_bits),
        cmocka_unit_test(every_world_has_the_same_bits_in_blocks),
        cmocka_unit_test(blocks_come_close),
        cmocka_unit_test(batch_and_chunks_change_no_bit),
        cmocka_unit_test(three_ranks_come_close),
        cmocka_unit_test(ranks_may_share_heads),
        cmocka_unit_test(training_has_the_log_probabilities_of_every_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
