/* ZeRO in plan/estimate.h: what each stage leaves on a replica and sends, as sums done by hand, and what is
 * true of all models and layouts. */
#include "plan_case.h"

enum { STAGES = PROTO_ZERO_PARAMETERS + 1 };

/* Parameters of minigpt, and a shard of four: 115 of 460 blocks of 1024, of which the last one is
 * half full. Its tied matrix is more than its positions and its final norm. */
static const double PARAMS = 470528;
static const double SHARD = 115 * 1024;
static const double LAYER = 12 * 128 * 128 + 13 * 128;
static const double MATRIX = 512 * 128;
static const double EMBEDDING = 512 * 128 + 64 * 128;
static const double OUTPUT = 512 * 128 + 2 * 128;

static const double GPT2_PARAMS = 124439808;
static const double GPT2_SHARD = 30381 * 1024; /* of four */
static const double GPT2_LAYER = 12 * 768 * 768 + 13 * 768;
static const double GPT2_EMBEDDING = (50257 + 1024) * 768;
static const double GPT2_OUTPUT = (50257 + 2) * 768;

/* Of all shards, as ranks cut them. */
static double largest_shard(double params, int64_t copies)
{
    const double blocks = ceil(params / 1024);
    double largest = 0;
    for (int64_t rank = 0; rank < copies; rank++) {
        const double begin = floor(blocks * (double)rank / (double)copies) * 1024;
        const double end = floor(blocks * (double)(rank + 1) / (double)copies) * 1024;
        largest = fmax(largest, fmin(end, params) - begin);
    }
    return largest;
}

static launch_estimate with_zero(launch_ask ask, int64_t zero, launch_layout layout)
{
    ask.zero = zero;
    return estimate_of(&ask, layout.data, layout.tensor, layout.pipeline);
}

static launch_layout replicas(int64_t data)
{
    return (launch_layout){.data = data, .tensor = 1, .pipeline = 1};
}

static void one_replica_has_nothing_to_shard(void **state)
{
    (void)state;
    const launch_layout layouts[] = {
        {1, 1, 1, 1, 1}, {1, 4, 1, 1, 1}, {1, 1, 4, 1, 1}, {1, 2, 2, 1, 1}};
    const launch_ask ask = ask_of(model_of("gpt2"));
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        launch_estimate plain = with_zero(ask, 0, layouts[i]);
        for (int64_t zero = 1; zero < STAGES; zero++) {
            launch_estimate made = with_zero(ask, zero, layouts[i]);
            assert_memory_equal(made.memory_bytes, plain.memory_bytes, sizeof made.memory_bytes);
            assert_true(made.step_s == plain.step_s && made.row_count == plain.row_count);
            launch_estimate_fini(&made);
        }
        launch_estimate_fini(&plain);
    }
}

static void assert_memory(launch_estimate made, double weights, double gradients, double optimizer)
{
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_WEIGHTS], weights));
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_GRADIENTS], gradients));
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_OPTIMIZER], optimizer));
    launch_estimate_fini(&made);
}

/* 4 replicas with 4 micro-batches each, so that the tree has 3 levels. */
static void each_stage_shards_more(void **state)
{
    (void)state;
    launch_ask ask = ask_of(model_of("minigpt"));
    const launch_layout layout = replicas(4);
    /* in progress: the tied matrix with a layer, and the pieces of the largest, a layer */
    const double sharded = 4 * (3 * SHARD + MATRIX + LAYER + LAYER);
    assert_memory(with_zero(ask, 0, layout), 4 * PARAMS, 4 * PARAMS * 4.25, 8 * PARAMS);
    assert_memory(with_zero(ask, 1, layout), 4 * PARAMS, 4 * PARAMS * 4.25, 8 * SHARD);
    assert_memory(with_zero(ask, 2, layout), 4 * PARAMS, sharded, 8 * SHARD);
    /* two layers, of which a quarter is in the shard */
    assert_memory(with_zero(ask, 3, layout), 4 * SHARD + 2 * LAYER * 3, sharded, 8 * SHARD);
    /* rounded copies of what is gathered, and none of the shard */
    ask.precision = PROTO_PRECISION_BFLOAT16;
    assert_memory(with_zero(ask, 2, layout), 6 * PARAMS, sharded, 8 * SHARD);
    assert_memory(with_zero(ask, 3, layout), 4 * SHARD + 2 * LAYER * (3 + 2), sharded, 8 * SHARD);
}

/* An embedding that is larger than a layer stands beside one; so does an output of its own. */
static void large_matrices_are_held_where_they_are_used(void **state)
{
    (void)state;
    const double matrix = 50257 * 768;
    const launch_ask ask = ask_of(model_of("gpt2"));
    assert_memory(with_zero(ask, 3, replicas(4)),
                  4 * GPT2_SHARD + (GPT2_LAYER + GPT2_EMBEDDING) * 3,
                  4 * (3 * GPT2_SHARD + matrix + GPT2_LAYER + GPT2_EMBEDDING), 8 * GPT2_SHARD);
    const launch_ask untied = ask_of(model_of("tinyllama-1.1b"));
    const double shard = 268567 * 1024;
    const double block = 2048 * (2 * 2048.0 + 2 * 256 + 3 * 5632) + 2 * 2048;
    const double output = 32000 * 2048 + 2048;
    assert_memory(with_zero(untied, 3, replicas(4)), 4 * shard + (block + output) * 3,
                  4 * (3 * shard + output + output), 8 * shard);
}

/* Bytes that a rank sends, and receives, of all bytes of an all-gather or a reduce-scatter over 4. */
static double sent(double params)
{
    return 4 * params * 3 / 4;
}

static void assert_row(const launch_estimate *made, const char *what, const char *operation,
                       double times, double params)
{
    const launch_bill_row *row = row_of(made, what);
    assert_non_null(row);
    assert_string_equal(row->operation, operation);
    assert_int_equal(row->ranks, 4);
    assert_true(row->times == times && is_close(row->payload_bytes, 4 * params));
    assert_true(is_close(row->sent_bytes, times * sent(params)));
    /* half of the latency of an all-reduce: 3 of its 6 rounds */
    assert_true(is_close(row->took_s, times * (3 * 0.5e-6 + sent(params) / 1e9)));
}

static void the_bill_is_of_the_stage(void **state)
{
    (void)state;
    const launch_ask ask = ask_of(model_of("minigpt"));
    launch_estimate made = with_zero(ask, 0, replicas(4));
    assert_string_equal(row_of(&made, "gradients")->operation, "all_reduce");
    assert_true(is_close(row_of(&made, "gradients")->sent_bytes, 2 * sent(PARAMS)));
    assert_int_equal(made.row_count, 1);
    launch_estimate_fini(&made);

    made = with_zero(ask, 1, replicas(4));
    assert_row(&made, "gradients", "reduce_scatter", 1, PARAMS);
    assert_row(&made, "parameters", "all_gather", 1, PARAMS);
    assert_int_equal(made.row_count, 2);
    launch_estimate_fini(&made);

    made = with_zero(ask, 2, replicas(4)); /* 4 micro-batches */
    assert_row(&made, "gradients", "reduce_scatter", 4, PARAMS);
    assert_row(&made, "parameters", "all_gather", 1, PARAMS);
    assert_int_equal(made.row_count, 2);
    launch_estimate_fini(&made);

    /* two layers forward; backward finds the last one in place */
    made = with_zero(ask, 3, replicas(4));
    assert_row(&made, "gradients", "reduce_scatter", 4, PARAMS);
    assert_row(&made, "layers", "all_gather", 4 * 3, LAYER);
    assert_row(&made, "embedding", "all_gather", 4, EMBEDDING);
    assert_row(&made, "output", "all_gather", 4, OUTPUT);
    assert_int_equal(made.row_count, 4);
    launch_estimate_fini(&made);
}

/* gpt2's gradients are 19 buckets of 25 MiB. */
static void buckets_are_exchanged_with_each_micro_batch(void **state)
{
    (void)state;
    const launch_ask ask = ask_of(model_of("gpt2"));
    launch_estimate made = with_zero(ask, 2, replicas(4));
    assert_row(&made, "gradients", "reduce_scatter", 19 * 4, GPT2_PARAMS / 19);
    assert_row(&made, "parameters", "all_gather", 19, GPT2_PARAMS / 19);
    launch_estimate_fini(&made);
}

/* gpt2 over a link without latency. */
static launch_estimate over(double bandwidth_bytes_per_s, int64_t zero)
{
    launch_ask ask = ask_of(model_of("gpt2"));
    ask.device.inside =
        (coll_tp_link){.latency_s = 0, .bandwidth_bytes_per_s = bandwidth_bytes_per_s};
    return with_zero(ask, zero, replicas(4));
}

/* Of a step of 4 micro-batches; ends the estimate. */
static void assert_exposed(launch_estimate made, double gradients_s, double parameters_s)
{
    assert_int_equal(made.run.pipeline.micro_batches, 4);
    assert_true(is_close(made.gradients_exposed_s, gradients_s));
    assert_true(is_close(made.parameters_exposed_s, parameters_s));
    launch_estimate_fini(&made);
}

/* Not hidden: the last of 19 buckets, a gather behind the update, and the gathers that a step begins with. */
static void a_fast_link_hides_all_but_the_ends(void **state)
{
    (void)state;
    const double fast = 1e12;
    const double round_s = sent(GPT2_PARAMS) / fast;
    assert_exposed(over(fast, 0), 2 * round_s / 19, 0);
    assert_exposed(over(fast, 1), round_s / 19, round_s);
    assert_exposed(over(fast, 2), round_s / 19, round_s);
    assert_exposed(over(fast, 3), round_s / 19, sent(GPT2_EMBEDDING + GPT2_LAYER) / fast);
}

static void a_slow_link_is_waited_for(void **state)
{
    (void)state;
    const double slow = 1e8;
    launch_estimate made = over(slow, 0);
    const double forward_s = made.forward_s;
    const double backward_s = 2 * forward_s;
    launch_estimate_fini(&made);
    const double round_s = sent(GPT2_PARAMS) / slow;
    assert_exposed(over(slow, 0), 2 * round_s - backward_s, 0);
    assert_exposed(over(slow, 1), round_s - backward_s, round_s);
    assert_exposed(over(slow, 2), 4 * (round_s - backward_s), round_s);
    /* backward hides gathers of 11 layers, and has no time left to hide gradients */
    const double gathers_s = sent(GPT2_EMBEDDING + 12 * GPT2_LAYER + GPT2_OUTPUT) / slow;
    const double again_s = sent(11 * GPT2_LAYER) / slow;
    assert_true(again_s > backward_s);
    assert_exposed(over(slow, 3), 4 * round_s,
                   4 * (gathers_s - forward_s) + 4 * (again_s - backward_s));
    /* on a link twice as fast it has some */
    assert_true(again_s / 2 < backward_s);
    assert_exposed(over(2 * slow, 3), 4 * (round_s / 2 + again_s / 2 - backward_s),
                   4 * (gathers_s / 2 - forward_s));
}

/* A replica updates its shard, and from stage 2 on it adds up that alone. */
static void a_shard_is_less_work(void **state)
{
    (void)state;
    const launch_ask ask = ask_of(model_of("minigpt"));
    for (int64_t zero = 0; zero < STAGES; zero++) {
        launch_estimate made = with_zero(ask, zero, replicas(4));
        const double updated = zero > 0 ? SHARD : PARAMS;
        const double summed = zero > 1 ? SHARD : PARAMS;
        assert_true(is_close(made.optimizer_s, 28 * updated / 1e12));
        assert_true(is_close(made.merge_s, 3 * 12 * summed / 1e12)); /* 3 of 4 micro-batches */
        launch_estimate_fini(&made);
    }
}

/* Calls `check` for many models on many ranks, without stages of layers. */
static void for_many(void (*check)(const launch_ask *ask, launch_layout layout))
{
    for (int i = 0; launch_model_name(i) != NULL; i++) {
        launch_ask ask = ask_of(launch_model_get(i));
        ask.device.memory_bytes = 1e15;
        ask.batch = 1;
        ask.device.flops[PROTO_PRECISION_FLOAT32] = 1e14;
        ask.device.flops[PROTO_PRECISION_BFLOAT16] = 2e14;
        for (int turn = 0; turn < 16; turn++) {
            ask.precision = (turn & 1) != 0 ? PROTO_PRECISION_BFLOAT16 : PROTO_PRECISION_FLOAT32;
            ask.recompute = (turn & 2) != 0;
            ask.model.layers = (turn & 4) != 0 ? 1 : launch_model_get(i)->layers;
            for (int64_t data = 2; data <= 48; data = data * 3 - 3) { /* 2, 3, 6, 15, 42 */
                ask.global_batch = data * ((turn & 8) != 0 ? 1 : 6);
                check(&ask, (launch_layout){.data = data, .tensor = 1, .pipeline = 1});
            }
        }
    }
}

/* Each stage needs at most as much memory as the one before, but for what rounds a shard up; a
 * whole model needs less. */
static void assert_less_memory(const launch_ask *ask, launch_layout layout)
{
    const double shard = largest_shard((double)launch_model_params(&ask->model), layout.data);
    double before = INFINITY;
    double first = 0;
    for (int64_t zero = 0; zero < STAGES; zero++) {
        launch_estimate made = with_zero(*ask, zero, layout);
        assert_true(made.total_bytes <= before + 4 * 1024);
        assert_true(zero == 0 || made.memory_bytes[LAUNCH_MEMORY_OPTIMIZER] == 8 * shard);
        before = made.total_bytes;
        first = zero == 0 ? before : first;
        launch_estimate_fini(&made);
    }
    assert_true(before < first);
}

static void higher_stages_need_no_more_memory(void **state)
{
    (void)state;
    for_many(assert_less_memory);
}

static void assert_sums(const launch_ask *ask, launch_layout layout)
{
    for (int64_t zero = 0; zero < STAGES; zero++) {
        launch_estimate made = with_zero(*ask, zero, layout);
        const double sum = made.compute_s + made.merge_s + made.tensor_s + made.waiting_s +
                           made.gradients_exposed_s + made.optimizer_s + made.parameters_exposed_s;
        /* tasks are played in whole nanoseconds, and there are two of each micro-batch */
        assert_true(fabs(made.step_s - sum) <= 1e-9 * made.run.pipeline.micro_batches + 1e-9 * sum);
        assert_true(made.gradients_exposed_s <= made.gradients_s * (1 + 1e-12));
        assert_true(made.parameters_exposed_s <= made.parameters_s * (1 + 1e-12));
        assert_true((made.parameters_s > 0) == (zero > 0));
        assert_true(made.row_count <= LAUNCH_BILL_ROWS_MAX);
        launch_estimate_fini(&made);
    }
}

static void times_add_up(void **state)
{
    (void)state;
    for_many(assert_sums);
}

/* Ranks that share layers have parts of them to shard. */
static void replicas_of_parts_shard_those(void **state)
{
    (void)state;
    const launch_ask ask = ask_of(model_of("gpt2"));
    const launch_layout layout = {.data = 2, .tensor = 2, .pipeline = 1};
    const launch_stage all = {.layers = 12, .embeds = true, .answers = true};
    const double params = launch_stage_params(&ask.model, &all, 2);
    launch_estimate made = with_zero(ask, 3, layout);
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_OPTIMIZER], 8 * largest_shard(params, 2)));
    assert_true(is_close(row_of(&made, "layers")->payload_bytes,
                         4 * launch_stage_params(&ask.model, &(launch_stage){.layers = 1}, 2)));
    assert_int_equal(row_of(&made, "layers")->ranks, 2);
    assert_non_null(row_of(&made, "partial sums"));
    launch_estimate_fini(&made);
}

/* Stage 1 is the same for stages of layers. The others are refused there, and left out of a search. */
static void pipelines_shard_moments_alone(void **state)
{
    (void)state;
    launch_ask ask = ask_of(model_of("gpt2"));
    ask.device.host_ranks = 8;
    const launch_layout layout = {.data = 2, .tensor = 1, .pipeline = 2, .context_ranks = 1};
    launch_estimate plain = with_zero(ask, 0, layout);
    launch_estimate made = with_zero(ask, 1, layout);
    assert_int_equal(made.stage, plain.stage);
    const double moments = plain.memory_bytes[LAUNCH_MEMORY_OPTIMIZER];
    assert_true(is_close(plain.total_bytes - made.total_bytes,
                         moments - 8 * largest_shard(moments / 8, 2)));
    assert_true(is_close(row_of(&made, "gradients")->sent_bytes * 2,
                         row_of(&plain, "gradients")->sent_bytes));
    assert_non_null(row_of(&made, "tied sum"));
    launch_estimate_fini(&made);
    launch_estimate_fini(&plain);

    const launch_layout any = {.context_ranks = 1};
    for (ask.zero = 2; ask.zero <= PROTO_ZERO_PARAMETERS; ask.zero++) {
        launch_found found;
        base_error error;
        assert_int_equal(launch_layout_check(&ask, &layout, &error), BASE_ERR_INVALID);
        assert_has(error.message, "goes without stages of layers: --pipeline 1");
        assert_ok(launch_plan_search(&ask, 8, &any, &found, &error), &error);
        /* 8, 4 x 2 and 2 x 4 on one stage; 8 stages, 2 x 4 and 4 x 2 without replicas */
        assert_int_equal(found.count, 6);
        for (int i = 0; i < found.count; i++) {
            assert_true(found.estimates[i].layout.data == 1 ||
                        found.estimates[i].layout.pipeline == 1);
        }
        launch_found_fini(&found);
    }
}

/* Plans a memory of so many bytes, and compares the ways that there are. */
static void assert_ways(launch_ask ask, launch_layout layout, double memory_bytes, int count,
                        const launch_way *ways)
{
    ask.device.memory_bytes = memory_bytes;
    launch_estimate made = estimate_of(&ask, layout.data, layout.tensor, layout.pipeline);
    assert_false(made.fits);
    assert_int_equal(made.way_count, count);
    for (int i = 0; i < count; i++) {
        launch_ask other = ask;
        other.recompute = ways[i].recompute;
        launch_estimate then = with_zero(other, ways[i].zero, layout);
        assert_true(then.fits && then.total_bytes == made.ways[i].total_bytes);
        assert_int_equal(made.ways[i].zero, ways[i].zero);
        assert_true(made.ways[i].recompute == ways[i].recompute);
        launch_estimate_fini(&then);
    }
    launch_estimate_fini(&made);
}

static double total_of(launch_ask ask, int64_t zero, bool recompute, launch_layout layout)
{
    ask.recompute = recompute;
    launch_estimate made = with_zero(ask, zero, layout);
    launch_estimate_fini(&made);
    return made.total_bytes;
}

/* The lowest stage that is enough, and recompute; both together if neither is. */
static void what_does_not_fit_says_how_it_would(void **state)
{
    (void)state;
    const launch_layout layout = replicas(4);
    launch_ask ask = ask_of(model_of("gpt2"));
    ask.batch = 8; /* one micro-batch each */
    const launch_way recompute = {.recompute = true};
    const double again = total_of(ask, 0, true, layout);
    const double last = total_of(ask, 3, false, layout);
    assert_true(again < last);
    for (int64_t zero = 1; zero < STAGES; zero++) {
        const launch_way both[] = {{.zero = zero}, recompute};
        assert_ways(ask, layout, total_of(ask, zero, false, layout), 2, both);
    }
    assert_ways(ask, layout, last - 1, 1, &recompute);
    for (int64_t zero = 1; zero < STAGES; zero++) {
        const launch_way together = {.zero = zero, .recompute = true};
        assert_ways(ask, layout, total_of(ask, zero, true, layout), 1, &together);
    }
    assert_ways(ask, layout, total_of(ask, 3, true, layout) - 1, 0, NULL);
    /* what is there already is kept */
    ask.zero = 2;
    const launch_way higher[] = {{.zero = 3}, {.zero = 2, .recompute = true}};
    assert_ways(ask, layout, last, 2, higher);
    ask.recompute = true;
    const launch_way highest = {.zero = 3, .recompute = true};
    assert_ways(ask, layout, total_of(ask, 3, true, layout), 1, &highest);
    /* with stages of layers it is stage 1, and with one replica none */
    ask.zero = 0;
    const launch_way first = {.zero = 1, .recompute = true};
    const launch_layout stages = {.data = 2, .tensor = 1, .pipeline = 2};
    assert_ways(ask, stages, total_of(ask, 1, true, stages), 1, &first);
    assert_ways(ask, stages, total_of(ask, 1, true, stages) - 1, 0, NULL);
    assert_ways(ask, replicas(1), total_of(ask, 0, true, replicas(1)) - 1, 0, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_replica_has_nothing_to_shard),
        cmocka_unit_test(each_stage_shards_more),
        cmocka_unit_test(large_matrices_are_held_where_they_are_used),
        cmocka_unit_test(the_bill_is_of_the_stage),
        cmocka_unit_test(buckets_are_exchanged_with_each_micro_batch),
        cmocka_unit_test(a_fast_link_hides_all_but_the_ends),
        cmocka_unit_test(a_slow_link_is_waited_for),
        cmocka_unit_test(a_shard_is_less_work),
        cmocka_unit_test(higher_stages_need_no_more_memory),
        cmocka_unit_test(times_add_up),
        cmocka_unit_test(replicas_of_parts_shard_those),
        cmocka_unit_test(pipelines_shard_moments_alone),
        cmocka_unit_test(what_does_not_fit_says_how_it_would),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
