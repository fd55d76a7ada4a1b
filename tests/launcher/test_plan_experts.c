/* plan/model.h, plan/experts.h and plan/estimate.h of models with experts: counts that are published, and sums done by
 * hand. */
#include "plan_mixture.h"

/* The counts that add up over the checkpoints' tensors, and what the names say that a token uses. */
static void parameters_are_as_published(void **state)
{
    static const struct {
        const char *name;
        int64_t params;
        double used; /* in billions, rounded */
    } published[] = {
        {"mixtral-8x7b", 46702792704, 12.9},
        {"mixtral-8x22b", 140620634112, 39.15},
        {"qwen3-30b-a3b", 30532122624, 3.35},
        {"qwen3-235b-a22b", 235093634560, 22.2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        const launch_model *model = model_of(published[i].name);
        assert_int_equal(launch_model_params(model), published[i].params);
        assert_true(fabs((double)launch_model_params_used(model) / 1e9 - published[i].used) < 0.05);
    }
    const launch_model *dense = model_of("llama-3.1-8b");
    assert_int_equal(launch_model_params_used(dense), launch_model_params(dense));
}

/* Ranks that share layers have a part of every expert, and the router and the norms; those that share out experts have
 * whole ones, and all the rest. */
static void a_rank_holds_its_experts(void **state)
{
    (void)state;
    const launch_ask ask = ask_mixture();
    const double whole = LAYERS * (REST + EXPERTS * EXPERT) + WIDTH + WORDS;
    assert_int_equal(launch_model_params(&ask.model), (int64_t)whole);
    assert_true(launch_model_params_used(&ask.model) ==
                (int64_t)whole - LAYERS * (EXPERTS - CHOSEN) * EXPERT);
    const launch_estimate half = figures_of(&ask, 1, 2, 1);
    const double parts = whole + LAYERS * (ROUTER + 2 * WIDTH) + WIDTH;
    assert_true(half.memory_bytes[LAUNCH_MEMORY_WEIGHTS] == 4 * parts / 2);
    const double some = whole - LAYERS * (EXPERTS - EXPERTS / 2.0) * EXPERT;
    const launch_estimate shared = figures_of(&ask, 4, 1, 2);
    assert_true(shared.memory_bytes[LAUNCH_MEMORY_WEIGHTS] == 4 * some);
    assert_true(shared.memory_bytes[LAUNCH_MEMORY_OPTIMIZER] == 8 * some);
    /* pieces of four ranks' sum, and of two that have the same experts */
    const double apart = LAYERS * EXPERTS / 2.0 * EXPERT;
    assert_true(is_close(shared.memory_bytes[LAUNCH_MEMORY_GRADIENTS],
                         4 * (some + 1.25 * (some - apart) + 1.5 * apart)));
    /* one group has no other to add experts up with */
    const launch_estimate group = figures_of(&ask, 4, 1, 4);
    const double fewer = LAYERS * EXPERTS / 4.0 * EXPERT;
    const double rest = whole - LAYERS * EXPERTS * EXPERT;
    assert_true(
        is_close(group.memory_bytes[LAUNCH_MEMORY_GRADIENTS], 4 * (rest + fewer + 1.25 * rest)));
}

/* Of a token: both factors of CHOSEN experts, scores of all, and four numbers of each choice. */
static void backward_needs_the_chosen_experts_rows(void **state)
{
    (void)state;
    launch_ask ask = ask_mixture();
    ask.global_batch = 2;
    const launch_estimate made = figures_of(&ask, 1, 1, 1);
    const double norm = 2 * WIDTH + 1;
    const double routing = EXPERTS + 4 * CHOSEN;
    const double block = 2 * norm + 4 * QUERIES + CHOSEN * 2 * HIDDEN + 2 * 4;
    assert_true(made.memory_bytes[LAUNCH_MEMORY_ACTIVATIONS] ==
                4 * TOKENS * (LAYERS * (block + routing) + norm + 24.0));
    ask.recompute = true; /* where tokens go is kept */
    const launch_estimate again = figures_of(&ask, 1, 1, 1);
    assert_true(again.memory_bytes[LAUNCH_MEMORY_ACTIVATIONS] ==
                4 * TOKENS * (LAYERS * (WIDTH + routing) + norm + 24.0));
    assert_true(
        is_close(again.memory_bytes[LAUNCH_MEMORY_WORK] - made.memory_bytes[LAUNCH_MEMORY_WORK],
                 4 * TOKENS * (block - WIDTH)));
    ask.recompute = false; /* a shard of every expert */
    const launch_estimate half = figures_of(&ask, 1, 2, 1);
    const double cut = 4 * QUERIES + CHOSEN * 2 * HIDDEN + 2 * 4;
    assert_true(half.memory_bytes[LAUNCH_MEMORY_ACTIVATIONS] ==
                4 * TOKENS * (LAYERS * (block - cut / 2 + routing) + norm + 24.0));
    /* rows that come for the experts here */
    ask.global_batch = 8;
    const launch_estimate shared = figures_of(&ask, 4, 1, 4);
    assert_true(is_close(shared.memory_bytes[LAUNCH_MEMORY_ACTIVATIONS] -
                             made.memory_bytes[LAUNCH_MEMORY_ACTIVATIONS],
                         4 * LAYERS * TOKENS * CHOSEN * WIDTH));
}

static void work_has_rows_of_one_expert_and_results_of_all(void **state)
{
    (void)state;
    launch_ask ask = ask_mixture();
    launch_ask dense = ask;
    dense.model.experts = 0;
    dense.model.chosen = 0;
    const launch_estimate without = figures_of(&dense, 4, 1, 1);
    const launch_estimate made = figures_of(&ask, 4, 1, 1);
    const double places = TOKENS * CHOSEN;
    const double floats =
        TOKENS * (2 * WIDTH + HIDDEN) + places * (WIDTH + 1) + (TOKENS + 1) * EXPERTS;
    assert_true(
        is_close(made.memory_bytes[LAUNCH_MEMORY_WORK] - without.memory_bytes[LAUNCH_MEMORY_WORK],
                 4 * floats));
    /* rows that come, and gradients of an expert that wait for others: one of two ranks, two of four */
    for (int log = 1; log <= 2; log++) {
        const launch_estimate shared = figures_of(&ask, 4, 1, (int64_t)1 << log);
        assert_true(is_close(shared.memory_bytes[LAUNCH_MEMORY_WORK] -
                                 made.memory_bytes[LAUNCH_MEMORY_WORK],
                             4 * (places * (WIDTH + 3) + TOKENS + log * EXPERT)));
    }
    ask.recompute = true; /* rows come once more */
    const launch_estimate again = figures_of(&ask, 4, 1, 1);
    const launch_estimate both = figures_of(&ask, 4, 1, 2);
    assert_true(
        is_close(both.memory_bytes[LAUNCH_MEMORY_WORK] - again.memory_bytes[LAUNCH_MEMORY_WORK],
                 4 * (places * (2 * WIDTH + 3) + TOKENS + EXPERT)));
}

/* The router is whole on each rank. Where ranks share out experts, each has as many rows. */
static void a_token_takes_the_time_of_its_experts(void **state)
{
    (void)state;
    launch_ask ask = ask_mixture();
    const double flops = 0.5e12;
    const double cut =
        LAYERS * (2.0 * (ATTENTION + CHOSEN * EXPERT) + 4.0 * 16 * QUERIES) + 2.0 * WORDS;
    const double routers = LAYERS * 2.0 * ROUTER;
    const launch_estimate made = figures_of(&ask, 4, 1, 1);
    assert_true(is_close(made.compute_s, 3 * TOKENS * (cut + routers) / flops));
    const launch_estimate half = figures_of(&ask, 2, 2, 1);
    assert_true(is_close(half.compute_s, 2 * 3 * TOKENS * (cut / 2 + routers) / flops));
    const launch_estimate shared = figures_of(&ask, 4, 1, 4);
    assert_true(shared.compute_s == made.compute_s);
    ask.recompute = true; /* but for the last product of each expert, and the router */
    const launch_estimate again = figures_of(&ask, 4, 1, 1);
    const double repeated =
        LAYERS * (2.0 * (ATTENTION + CHOSEN * EXPERT * 2 / 3.0) + 4.0 * 16 * QUERIES);
    assert_true(is_close(again.repeated_s, TOKENS * repeated / flops));
}

static void assert_row(const launch_estimate *made, const char *what, const char *operation,
                       int64_t ranks, double times, double payload_bytes)
{
    const launch_bill_row *row = row_of(made, what);
    assert_non_null(row);
    assert_string_equal(row->operation, operation);
    assert_int_equal(row->ranks, ranks);
    assert_true(is_close(row->times, times) && is_close(row->payload_bytes, payload_bytes));
    const double whole = strcmp(operation, "all_reduce") == 0 ? 2 : 1;
    const double n = (double)ranks;
    assert_true(is_close(row->sent_bytes, times * whole * (n - 1) / n * payload_bytes));
    assert_true(is_close(
        row->took_s, times * whole / 2 * ((n - 1) * 1e-6 + 2 * (n - 1) / n * payload_bytes / 1e9)));
}

/* In each layer a sum of rows behind attention, and one of CHOSEN rows to a token behind the experts. */
static void ranks_that_share_layers_add_up_each_result(void **state)
{
    (void)state;
    launch_ask ask = ask_mixture();
    const double row = TOKENS * WIDTH * 4;
    launch_estimate made = figures_of(&ask, 2, 2, 1); /* 2 micro-batches */
    assert_row(&made, "partial sums", "all_reduce", 2, 2 * (2 * LAYERS + 2), row);
    assert_row(&made, "expert results", "all_reduce", 2, 2 * 2 * LAYERS, CHOSEN * row);
    assert_row(&made, "expert weights", "all_reduce", 2, 2 * LAYERS, TOKENS * CHOSEN * 4);
    assert_null(row_of(&made, "expert rows"));
    assert_true(is_close(made.tensor_s, row_of(&made, "partial sums")->took_s +
                                            row_of(&made, "expert results")->took_s +
                                            row_of(&made, "expert weights")->took_s +
                                            row_of(&made, "softmax")->took_s));
    assert_true(made.expert_s == 0);
    ask.recompute = true; /* behind attention once more */
    made = figures_of(&ask, 2, 2, 1);
    assert_row(&made, "partial sums", "all_reduce", 2, 2 * (3 * LAYERS + 2), row);
    assert_row(&made, "expert results", "all_reduce", 2, 2 * 2 * LAYERS, CHOSEN * row);
}

/* Rows travel to the experts and back, and so do their gradients, with weights. */
static void rows_travel_to_experts_elsewhere(void **state)
{
    (void)state;
    launch_ask ask = ask_mixture();
    const double row = TOKENS * CHOSEN * WIDTH * 4;
    const double experts = LAYERS * EXPERTS * EXPERT;
    const double rest = (double)launch_model_params(&ask.model) - experts;
    launch_estimate made = figures_of(&ask, 4, 1, 2);
    assert_row(&made, "expert rows", "all_to_all", 2, 4 * LAYERS, row);
    assert_row(&made, "row weights", "all_to_all", 2, 2 * LAYERS, TOKENS * CHOSEN * 4);
    assert_row(&made, "row counts", "all_to_all", 2, LAYERS, EXPERTS * 4);
    assert_row(&made, "gradients", "all_reduce", 4, 1, 4 * rest);
    assert_row(&made, "expert gradient", "all_reduce", 2, 1, 4 * experts / 2);
    assert_int_equal(made.row_count, 5);
    assert_true(is_close(made.expert_s, row_of(&made, "expert rows")->took_s +
                                            row_of(&made, "row weights")->took_s +
                                            row_of(&made, "row counts")->took_s));
    ask.recompute = true; /* rows go once more, and no results come back */
    made = figures_of(&ask, 4, 1, 2);
    assert_row(&made, "expert rows", "all_to_all", 2, 5 * LAYERS, row);
    assert_row(&made, "row counts", "all_to_all", 2, LAYERS, EXPERTS * 4);
    ask.recompute = false; /* gradients are added up for each micro-batch, and there is one group */
    ask.global_batch = 24;
    made = figures_of(&ask, 4, 1, 4);
    assert_int_equal(made.run.pipeline.micro_batches, 3);
    assert_row(&made, "gradients", "all_reduce", 4, 3, 4 * rest);
    assert_row(&made, "expert rows", "all_to_all", 4, 3 * 4 * LAYERS, row);
    assert_null(row_of(&made, "expert gradient"));
    made = figures_of(&ask, 4, 1, 1); /* once a step, of all */
    assert_row(&made, "gradients", "all_reduce", 4, 1, 4 * (rest + experts));
    assert_int_equal(made.row_count, 1);
}

/* Moments are cut between all ranks, those of experts between the ranks that have the same. Gradients go to them for
 * each micro-batch, and parameters come back once. */
static void moments_of_experts_are_sharded_apart(void **state)
{
    (void)state;
    launch_ask ask = ask_mixture();
    const double experts = LAYERS * EXPERTS * EXPERT;
    const double rest = (double)launch_model_params(&ask.model) - experts;
    ask.zero = PROTO_ZERO_MOMENTS;
    ask.global_batch = 24;
    const launch_estimate made = figures_of(&ask, 4, 1, 2);
    assert_true(
        is_close(made.memory_bytes[LAUNCH_MEMORY_OPTIMIZER], 8 * (rest / 4 + experts / 2 / 2)));
    assert_row(&made, "gradients", "reduce_scatter", 4, 3, 4 * rest);
    assert_row(&made, "expert gradient", "reduce_scatter", 2, 3, 4 * experts / 2);
    assert_row(&made, "parameters", "all_gather", 4, 1, 4 * rest);
    assert_row(&made, "experts", "all_gather", 2, 1, 4 * experts / 2);
    const launch_estimate one_group = figures_of(&ask, 4, 1, 4);
    assert_null(row_of(&one_group, "experts"));
    assert_true(
        is_close(one_group.memory_bytes[LAUNCH_MEMORY_OPTIMIZER], 8 * (rest / 4 + experts / 4)));
}

/* Groups lie inside hosts, and ranks with the same experts do not. */
static void a_group_is_near(void **state)
{
    (void)state;
    launch_ask ask = ask_mixture();
    ask.global_batch = 16;
    ask.device.host_ranks = 4;
    const launch_estimate made = figures_of(&ask, 8, 1, 4);
    assert_false(row_of(&made, "expert rows")->between_hosts);
    assert_true(row_of(&made, "expert gradient")->between_hosts);
    assert_true(row_of(&made, "gradients")->between_hosts);
}

/* What a step is made of is the step. */
static void times_add_up(void **state)
{
    (void)state;
    launch_ask ask = ask_mixture();
    ask.global_batch = 48;
    for (int recompute = 0; recompute < 2; recompute++) {
        for (int64_t tensor = 1; tensor <= 2; tensor++) {
            for (int64_t ranks = 1; ranks <= (tensor > 1 ? 1 : 8); ranks *= 2) {
                ask.recompute = recompute == 1;
                const launch_estimate made = figures_of(&ask, 8, tensor, ranks);
                const double sum = made.compute_s + made.merge_s + made.tensor_s + made.expert_s +
                                   made.gradients_exposed_s + made.optimizer_s;
                assert_true(fabs(made.step_s - sum) <= 1e-6 * sum);
                assert_true((made.expert_s > 0) == (ranks > 1));
                assert_true(made.gradients_exposed_s <= made.gradients_s * (1 + 1e-12));
            }
        }
    }
}

/* So many bytes for a number, and two for 32 of a column, or for those of a leaf, of which sums have two. Words have a byte
 * for each number. */
static void decoding_in_blocks(launch_ask ask, proto_weights weights, double number)
{
    ask.precision = PROTO_PRECISION_FLOAT32;
    ask.weights = weights;
    const double column = number * WIDTH + 2 * 2;
    const double expert = 2 * HIDDEN * column + WIDTH * 2 * (number * HIDDEN / 2 + 3 * 2);
    const double attention =
        (QUERIES + 2 * KEYS) * column + WIDTH * 2 * (number * QUERIES / 2 + 2 * 2);
    const double rest = LAYERS * attention + 512 * (WIDTH + 2 * 2) +
                        4 * (LAYERS * (ROUTER + 2 * WIDTH) + WIDTH); /* float32 */
    const double cache = 2 * 32 * LAYERS * 2 * KEYS * 4;
    const launch_estimate made = figures_of(&ask, 1, 1, 1);
    assert_true(
        is_close(made.memory_bytes[LAUNCH_MEMORY_WEIGHTS], rest + LAYERS * EXPERTS * expert));
    const double read = rest + LAYERS * EXPERTS * expert * (1 - 0.75 * 0.75);
    assert_true(is_close(made.compute_s, (read + cache / 2) / 1e9));
}

/* With a batch of B each expert is read with a chance of 1 - (1 - K/E)^B. */
static void decoding_reads_the_experts_of_its_tokens(void **state)
{
    (void)state;
    launch_ask ask = ask_mixture();
    ask.decode = true;
    ask.device.memory_bytes_per_s = 1e9;
    for (ask.batch = 1; ask.batch <= 4; ask.batch++) {
        const double batch = (double)ask.batch;
        const launch_estimate made = figures_of(&ask, 1, 1, 1);
        const double params = (double)launch_model_params(&ask.model);
        const double idle = LAYERS * EXPERTS * EXPERT * pow(0.75, batch);
        const double cache = batch * 32 * LAYERS * 2 * KEYS * 4;
        assert_true(made.memory_bytes[LAUNCH_MEMORY_WEIGHTS] == 4 * params);
        assert_true(is_close(made.compute_s, (4 * (params - idle) + cache / 2) / 1e9));
        launch_ask dense = ask;
        dense.model.experts = 0;
        dense.model.chosen = 0;
        const launch_estimate without = figures_of(&dense, 1, 1, 1);
        /* scores and choices, rows of an expert, and results */
        assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_WORK] -
                                 without.memory_bytes[LAUNCH_MEMORY_WORK],
                             4 * batch * (EXPERTS + 4 * CHOSEN + WIDTH + CHOSEN * WIDTH)));
    }
    ask.batch = 2;
    const launch_estimate made = figures_of(&ask, 1, 2, 1);
    assert_row(&made, "partial sums", "all_reduce", 2, LAYERS + 1, 2 * WIDTH * 4);
    assert_row(&made, "expert results", "all_reduce", 2, LAYERS, 2 * CHOSEN * WIDTH * 4);
    /* routers are float32, and whole on each rank */
    ask.precision = PROTO_PRECISION_BFLOAT16;
    const launch_estimate narrow = figures_of(&ask, 1, 2, 1);
    assert_true(is_close(narrow.memory_bytes[LAUNCH_MEMORY_WEIGHTS],
                         made.memory_bytes[LAUNCH_MEMORY_WEIGHTS] / 2 + LAYERS * 2.0 * ROUTER));
    decoding_in_blocks(ask, PROTO_WEIGHTS_INT8, 1);
    decoding_in_blocks(ask, PROTO_WEIGHTS_INT4, 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_as_published),
        cmocka_unit_test(a_rank_holds_its_experts),
        cmocka_unit_test(backward_needs_the_chosen_experts_rows),
        cmocka_unit_test(work_has_rows_of_one_expert_and_results_of_all),
        cmocka_unit_test(a_token_takes_the_time_of_its_experts),
        cmocka_unit_test(ranks_that_share_layers_add_up_each_result),
        cmocka_unit_test(rows_travel_to_experts_elsewhere),
        cmocka_unit_test(moments_of_experts_are_sharded_apart),
        cmocka_unit_test(a_group_is_near),
        cmocka_unit_test(times_add_up),
        cmocka_unit_test(decoding_reads_the_experts_of_its_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
