/* Ranks that share tokens in plan/estimate.h: what they hold, exchange and compute, as sums done by hand. */
#include "plan_case.h"

/* Of minigpt: 2 layers of 12 C^2 + 13 C, 4 heads; a micro-batch of 2 x 64 tokens. */
static const double WIDTH = 128;
static const double VOCAB = 512;
static const double TOKENS = 128;

static launch_layout shared(int64_t data, int64_t context_ranks)
{
    return (launch_layout){
        .data = data, .tensor = 1, .pipeline = 1, .context_ranks = context_ranks};
}

/* Half of the tokens; both buffers of an exchange; and the biases of half of the heads, and their gradient. */
static void a_rank_holds_its_tokens(void **state)
{
    (void)state;
    const double queues = 64 << 20;
    const double tokens = TOKENS / 2;
    launch_ask ask = ask_of(model_of("minigpt"));
    launch_estimate whole = estimate_of(&ask, 1, 1, 1);
    launch_layout layout = shared(1, 2);
    launch_estimate made = estimate_layout(&ask, &layout);
    assert_int_equal(made.run.pipeline.micro_batches, whole.run.pipeline.micro_batches);
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_ACTIVATIONS],
                         whole.memory_bytes[LAUNCH_MEMORY_ACTIVATIONS] / 2));
    const double logits = tokens * VOCAB;
    const double exchanged = 2 * tokens * 3 * WIDTH + 2 * 3 * WIDTH / 2;
    const double floats = tokens * (2 * WIDTH + 4) + logits + exchanged;
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_WORK], 4 * floats + queues));
    launch_estimate_fini(&made);

    ask.recompute = true; /* what is computed again is of these tokens, too */
    const double rest = 11 * WIDTH + 2 * 4 + 4;
    made = estimate_layout(&ask, &layout);
    assert_true(
        is_close(made.memory_bytes[LAUNCH_MEMORY_WORK], 4 * (floats + tokens * rest) + queues));
    launch_estimate_fini(&made);

    ask.recompute = false; /* ranks that share layers as well exchange their own heads */
    layout.tensor = 2;
    made = estimate_layout(&ask, &layout);
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_WORK],
                         4 * (tokens * (2 * WIDTH + 4) + (logits + exchanged) / 2) + queues));
    launch_estimate_fini(&made);
    launch_estimate_fini(&whole);
}

/* A row of the bill is the same, or neither has it. */
static void assert_same_row(const launch_estimate *made, const launch_estimate *other,
                            const char *what)
{
    const launch_bill_row *a = row_of(made, what);
    const launch_bill_row *b = row_of(other, what);
    assert_int_equal(a == NULL, b == NULL);
    if (a != NULL) {
        assert_string_equal(a->operation, b->operation);
        assert_int_equal(a->ranks, b->ranks);
        assert_true(a->between_hosts == b->between_hosts && a->times == b->times);
        assert_true(is_close(a->sent_bytes, b->sent_bytes) && is_close(a->took_s, b->took_s));
    }
}

/* All copies of the model shard it and add up their gradients, whether they have texts of their own or not. */
static void the_state_is_that_of_replicas(void **state)
{
    static const launch_memory uses[] = {LAUNCH_MEMORY_WEIGHTS, LAUNCH_MEMORY_GRADIENTS,
                                         LAUNCH_MEMORY_OPTIMIZER};
    static const char *const rows[] = {"gradients", "parameters", "layers", "embedding", "output"};
    (void)state;
    launch_ask ask = ask_of(model_of("gpt2"));
    for (ask.zero = 0; ask.zero <= PROTO_ZERO_PARAMETERS; ask.zero++) {
        for (int64_t data = 1; data <= 2; data++) {
            const launch_layout layout = shared(data, 2);
            ask.global_batch = 16 * data; /* as many micro-batches for each */
            launch_estimate made = estimate_layout(&ask, &layout);
            ask.global_batch = 32 * data;
            launch_estimate replicas = estimate_of(&ask, 2 * data, 1, 1);
            for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
                assert_true(made.memory_bytes[uses[i]] == replicas.memory_bytes[uses[i]]);
            }
            for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                assert_same_row(&made, &replicas, rows[i]);
            }
            assert_true(made.optimizer_s == replicas.optimizer_s);
            assert_true(made.merge_s == replicas.merge_s);
            assert_int_equal(launch_layout_zero(&ask, &layout), ask.zero);
            launch_estimate_fini(&made);
            launch_estimate_fini(&replicas);
        }
    }
}

/* An all-to-all over 2 ranks: a half of what each has is sent, after half of an all-reduce's latency. */
static void assert_exchanges(const launch_estimate *made, const char *what, double times,
                             double payload_bytes, const coll_tp_link *link)
{
    const launch_bill_row *row = row_of(made, what);
    assert_non_null(row);
    assert_string_equal(row->operation, "all_to_all");
    assert_int_equal(row->ranks, 2);
    assert_true(row->times == times && row->payload_bytes == payload_bytes);
    assert_true(is_close(row->sent_bytes, times * payload_bytes / 2));
    assert_true(is_close(row->took_s, times * (link->latency_s / 2 +
                                               payload_bytes / 2 / link->bandwidth_bytes_per_s)));
}

/* 2 replicas x 2 that share tokens x 2 that share layers x 2 stages: 8 micro-batches, a layer on each. */
static void the_bill_has_the_exchanges(void **state)
{
    (void)state;
    const launch_layout layout = {.data = 2, .tensor = 2, .pipeline = 2, .context_ranks = 2};
    const double row_bytes = TOKENS / 2 * WIDTH * 4;
    const double heads_bytes = row_bytes / 2; /* of the ranks that share a layer */
    launch_ask ask = ask_of(model_of("minigpt"));
    for (ask.device.host_ranks = 2; ask.device.host_ranks <= 4; ask.device.host_ranks *= 2) {
        const bool inside = ask.device.host_ranks == 4;
        const coll_tp_link *link = inside ? &ask.device.inside : &ask.device.between;
        for (int turn = 0; turn < 2; turn++) {
            ask.recompute = turn == 1;
            /* forward and backward; and forward's again */
            const double times = 8 * (ask.recompute ? 3 : 2);
            launch_estimate made = estimate_layout(&ask, &layout);
            assert_exchanges(&made, "q, k and v", times, 3 * heads_bytes, link);
            assert_exchanges(&made, "attention", times, heads_bytes, link);
            assert_true(row_of(&made, "attention")->between_hosts == !inside);
            assert_false(row_of(&made, "partial sums")->between_hosts);
            assert_true(row_of(&made, "partial sums")->payload_bytes == row_bytes);
            assert_true(row_of(&made, "softmax")->payload_bytes == TOKENS / 2 * 12);
            assert_true(row_of(&made, "activations")->payload_bytes == row_bytes);
            assert_true(row_of(&made, "gradients")->between_hosts);
            assert_int_equal(row_of(&made, "gradients")->ranks, 4);
            /* stages have as many layers, so the slowest one has these */
            assert_true(is_close(made.context_s, row_of(&made, "q, k and v")->took_s +
                                                     row_of(&made, "attention")->took_s));
            assert_int_equal(made.row_count, 8);
            launch_estimate_fini(&made);
        }
    }
}

/* The rows are of the stage with most layers, the step's time of the one that computes longest. */
static void blocks_are_rounded_up(void **state)
{
    (void)state;
    launch_ask ask = ask_of(model_of("gpt2")); /* 2 x 1024 tokens */
    const launch_layout layout = shared(1, 3);
    launch_estimate made = estimate_layout(&ask, &layout);
    assert_true(row_of(&made, "attention")->payload_bytes == 683 * 768 * 4);
    assert_true(row_of(&made, "attention")->times == 16 * 2 * 12);
    assert_true(
        is_close(row_of(&made, "attention")->sent_bytes, 16 * 2 * 12 * 683 * 768 * 8 / 3.0));
    launch_estimate_fini(&made);
    const launch_layout stages = {.data = 1, .tensor = 1, .pipeline = 8, .context_ranks = 2};
    ask.batch = 1;
    made = estimate_layout(&ask, &stages);
    assert_int_equal(launch_model_stage(&ask.model, 8, 0).layers, 2);
    assert_int_equal(launch_model_stage(&ask.model, 8, 7).layers, 1);
    assert_true(row_of(&made, "attention")->times == 32 * 2 * 2);
    assert_true(is_close(2 * made.context_s,
                         row_of(&made, "q, k and v")->took_s + row_of(&made, "attention")->took_s));
    launch_estimate_fini(&made);
}

/* What a step is made of is the step, and a rank computes its tokens. */
static void assert_times_add_up(const launch_ask *ask, const launch_layout *layout)
{
    const double micro_batches = (double)ask->global_batch / (double)(layout->data * ask->batch);
    launch_estimate whole = estimate_of(ask, layout->data, layout->tensor, layout->pipeline);
    launch_estimate made = estimate_layout(ask, layout);
    const double sum = made.compute_s + made.merge_s + made.tensor_s + made.context_s +
                       made.waiting_s + made.gradients_exposed_s + made.optimizer_s;
    assert_true(fabs(made.step_s - sum) <= 1e-6 * sum);
    assert_true(is_close(made.compute_s, whole.compute_s / (double)layout->context_ranks));
    assert_true(made.tokens == whole.tokens);
    assert_true(made.run.pipeline.micro_batches == micro_batches);
    assert_true(made.context_s > 0 && whole.context_s == 0);
    assert_null(row_of(&whole, "attention"));
    launch_estimate_fini(&made);
    launch_estimate_fini(&whole);
}

static void times_add_up(void **state)
{
    (void)state;
    launch_ask ask = ask_of(model_of("gpt2"));
    ask.device.host_ranks = 8;
    for (int turn = 0; turn < 2; turn++) {
        ask.recompute = turn == 1;
        for (int64_t tensor = 1; tensor <= 3; tensor++) {
            for (int64_t pipeline = 1; pipeline <= 4; pipeline++) {
                for (int64_t ranks = 2; ranks <= 4; ranks += 2) {
                    if (12 % (tensor * ranks) == 0) {
                        const launch_layout layout = {.data = 2,
                                                      .tensor = tensor,
                                                      .pipeline = pipeline,
                                                      .context_ranks = ranks};
                        assert_times_add_up(&ask, &layout);
                    }
                }
            }
        }
    }
}

/* It tries what is left of the ranks. */
static void the_search_keeps_the_context_ranks(void **state)
{
    (void)state;
    launch_found found;
    base_error error;
    const launch_layout wanted = {.context_ranks = 2};
    launch_ask ask = ask_of(model_of("gpt2"));
    ask.device.host_ranks = 8;
    assert_ok(launch_plan_search(&ask, 8, &wanted, &found, &error), &error);
    /* of 4: tensor 1 with 3 numbers of stages, tensor 2 with 2; 4 x 2 do not divide 12 heads */
    assert_int_equal(found.count, 5);
    for (int i = 0; i < found.count; i++) {
        assert_int_equal(found.estimates[i].layout.context_ranks, 2);
        assert_int_equal(launch_layout_ranks(&found.estimates[i].layout), 8);
    }
    launch_found_fini(&found);
}

static void impossible_layouts_are_refused_with_the_reason(void **state)
{
    static const struct {
        int64_t ranks;
        launch_layout wanted;
        const char *words;
    } cases[] = {
        {5,
         {.context_ranks = 5},
         "5 ranks: --context-ranks 5 does not divide the model's heads, 12"},
        {8,
         {.tensor = 4, .context_ranks = 2},
         "2 times --tensor does not divide the model's heads, 12"},
        {8, {.tensor = 3, .context_ranks = 2}, "data × context × tensor × pipeline must be that"},
        {6, {.context_ranks = 4}, "data × context × tensor × pipeline must be that"},
    };
    const launch_ask ask = ask_of(model_of("gpt2"));
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        launch_found found;
        base_error error;
        assert_int_equal(launch_plan_search(&ask, cases[i].ranks, &cases[i].wanted, &found, &error),
                         BASE_ERR_INVALID);
        assert_has(error.message, cases[i].words);
        launch_found_fini(&found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_holds_its_tokens),
        cmocka_unit_test(the_state_is_that_of_replicas),
        cmocka_unit_test(the_bill_has_the_exchanges),
        cmocka_unit_test(blocks_are_rounded_up),
        cmocka_unit_test(times_add_up),
        cmocka_unit_test(the_search_keeps_the_context_ranks),
        cmocka_unit_test(impossible_layouts_are_refused_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
