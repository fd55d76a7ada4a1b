/* plan/model.h, plan/experts.h and plan/estimate.h of models with experts: counts that are published, and sums done by
 * hand. */
#include "plan_case.h"

enum {
    LAYERS = 3,
    WIDTH = 64,
    QUERIES = 4 * 24,
    KEYS = 2 * 24,
    HIDDEN = 160,
    EXPERTS = 8,
    CHOSEN = 2,
    ATTENTION = WIDTH * (2 * QUERIES + 2 * KEYS), /* parameters of a layer */
    EXPERT = 3 * WIDTH * HIDDEN,
    ROUTER = WIDTH * EXPERTS,
    REST = ATTENTION + ROUTER + 2 * WIDTH, /* of a layer, without experts */
    WORDS = 512 * WIDTH,
    TOKENS = 2 * 32, /* of a micro-batch */
};

/* 4 heads of 24 in a stream of 64, so queries are wider than it; 2 heads of keys and values. */
static launch_model mixture(void)
{
    return (launch_model){.layers = LAYERS,
                          .width = WIDTH,
                          .heads = 4,
                          .vocab_size = 512,
                          .context = 32,
                          .context_max = 128,
                          .kv_heads = 2,
                          .head_width = 24,
                          .hidden = HIDDEN,
                          .experts = EXPERTS,
                          .chosen = CHOSEN,
                          .gated = true,
                          .rms = true,
                          .rotated = true,
                          .tied = true};
}

/* One micro-batch for each of four replicas. */
static launch_ask ask_mixture(void)
{
    const launch_model model = mixture();
    launch_ask ask = ask_of(&model);
    ask.device.host_ranks = 8;
    ask.global_batch = 8;
    return ask;
}

/* Without its timeline. */
static launch_estimate figures_of(const launch_ask *ask, int64_t data, int64_t tensor,
                                  int64_t expert_ranks)
{
    const launch_layout layout = {.data = data,
                                  .tensor = tensor,
                                  .pipeline = 1,
                                  .context_ranks = 1,
                                  .expert_ranks = expert_ranks};
    launch_estimate made = estimate_layout(ask, &layout);
    launch_estimate_fini(&made);
    return made;
}

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

/* A byte for a number and two for 32 of a column, or for those of a leaf, of which sums have two. */
static void decoding_in_int8(launch_ask ask)
{
    ask.precision = PROTO_PRECISION_FLOAT32;
    ask.weights = PROTO_WEIGHTS_INT8;
    const double column = WIDTH + 2 * 2;
    const double expert = 2 * HIDDEN * column + WIDTH * 2 * (HIDDEN / 2.0 + 3 * 2);
    const double attention = (QUERIES + 2 * KEYS) * column + WIDTH * 2 * (QUERIES / 2.0 + 2 * 2);
    const double rest = LAYERS * attention + 512 * column +
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
    decoding_in_int8(ask);
}

static int count_found(const launch_ask *ask, int64_t ranks, launch_layout wanted, int64_t *most)
{
    launch_found found;
    base_error error;
    wanted.context_ranks = 1;
    *most = 0;
    assert_ok(launch_plan_search(ask, ranks, &wanted, &found, &error), &error);
    for (int i = 0; i < found.count; i++) {
        const launch_layout *layout = &found.estimates[i].layout;
        *most = layout->expert_ranks > *most ? layout->expert_ranks : *most;
        assert_true(layout->pipeline == 1);
        assert_true(layout->expert_ranks == 1 || (layout->tensor == 1 && layout->data == ranks));
    }
    const int count = found.count;
    launch_found_fini(&found);
    return count;
}

/* Stages are left out. Ranks share out experts where nothing else does, in powers of two that divide both. */
static void the_search_tries_what_ranks_can_train(void **state)
{
    (void)state;
    int64_t most = 0;
    launch_ask ask = ask_mixture();
    ask.global_batch = 96;
    assert_int_equal(count_found(&ask, 8, (launch_layout){.data = 0}, &most), 2 + 3);
    assert_int_equal(most, 8);
    assert_int_equal(count_found(&ask, 16, (launch_layout){.tensor = 1}, &most), 1 + 3);
    assert_int_equal(most, EXPERTS);
    assert_int_equal(count_found(&ask, 8, (launch_layout){.expert_ranks = 4}, &most), 1);
    assert_int_equal(most, 4);
    assert_int_equal(count_found(&ask, 8, (launch_layout){.expert_ranks = 1}, &most), 2);
    assert_int_equal(most, 1);
    /* 12 replicas with 4 micro-batches each make no tree of pairs, and with one they do */
    assert_int_equal(count_found(&ask, 12, (launch_layout){.tensor = 1}, &most), 1);
    ask.global_batch = 24;
    assert_int_equal(count_found(&ask, 12, (launch_layout){.tensor = 1}, &most), 1 + 2);
    assert_int_equal(most, 4);
    ask.global_batch = 96;
    for (ask.zero = 1; ask.zero <= PROTO_ZERO_PARAMETERS; ask.zero++) {
        const int shared = ask.zero == PROTO_ZERO_MOMENTS ? 3 : 0;
        assert_int_equal(count_found(&ask, 8, (launch_layout){.data = 0}, &most), 2 + shared);
        assert_int_equal(most, shared > 0 ? 8 : 1);
    }
    ask.zero = 0;
    ask.decode = true;
    assert_int_equal(count_found(&ask, 8, (launch_layout){.data = 0}, &most), 2);
    assert_int_equal(most, 1);
    ask.decode = false;
    ask.model.experts = 0;
    assert_int_equal(count_found(&ask, 8, (launch_layout){.pipeline = 1}, &most), 2);
    assert_int_equal(most, 1);
}

static void impossible_layouts_are_refused_with_the_reason(void **state)
{
    static const struct {
        launch_layout layout;
        const char *words;
    } cases[] = {
        {{.data = 4, .tensor = 1, .pipeline = 2, .context_ranks = 1},
         "a model with experts goes without --pipeline and --context-ranks"},
        {{.data = 4, .tensor = 1, .pipeline = 1, .context_ranks = 2},
         "a model with experts goes without --pipeline and --context-ranks"},
        {{.data = 4, .tensor = 2, .pipeline = 1, .context_ranks = 1, .expert_ranks = 2},
         "--expert-ranks goes without --tensor, --pipeline, --context-ranks, --zero 2"},
        {{.data = 16, .tensor = 1, .pipeline = 1, .context_ranks = 1, .expert_ranks = 16},
         "--expert-ranks 16 does not divide the model's experts, 8"},
        {{.data = 2, .tensor = 1, .pipeline = 1, .context_ranks = 1, .expert_ranks = 4},
         "--expert-ranks 4 does not divide 2 replicas"},
        {{.data = 12, .tensor = 1, .pipeline = 1, .context_ranks = 1, .expert_ranks = 4},
         "goes with a power of two of replicas, not with 12"},
        {{.data = 1, .tensor = 8, .pipeline = 1, .context_ranks = 1},
         "2 heads of keys and values cannot be cut in 8"},
    };
    launch_ask ask = ask_mixture();
    launch_estimate made;
    base_error error;
    const launch_layout shared = {
        .data = 4, .tensor = 1, .pipeline = 1, .context_ranks = 1, .expert_ranks = 2};
    (void)state;
    ask.global_batch = 96;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(launch_estimate_make(&ask, &cases[i].layout, &made, &error),
                         BASE_ERR_INVALID);
        assert_has(error.message, cases[i].words);
    }
    ask.model.experts = 9;
    const launch_layout threes = {
        .data = 3, .tensor = 1, .pipeline = 1, .context_ranks = 1, .expert_ranks = 3};
    assert_int_equal(launch_estimate_make(&ask, &threes, &made, &error), BASE_ERR_INVALID);
    assert_has(error.message, "--expert-ranks 3 is no power of two");
    ask.model.experts = EXPERTS;
    ask.zero = PROTO_ZERO_GRADIENTS;
    assert_int_equal(launch_estimate_make(&ask, &shared, &made, &error), BASE_ERR_INVALID);
    assert_has(error.message, "--expert-ranks goes without --tensor");
    ask.zero = 0;
    ask.local_steps = 4;
    assert_int_equal(launch_estimate_make(&ask, &shared, &made, &error), BASE_ERR_INVALID);
    assert_has(error.message, "--zero 2 and 3, and --local-steps");
    ask.local_steps = 0;
    ask.model.experts = 0;
    assert_int_equal(launch_estimate_make(&ask, &shared, &made, &error), BASE_ERR_INVALID);
    assert_has(error.message, "--expert-ranks 2: the model has no experts");
}

/* With stage 1 of ZeRO, the most that ranks have who share out experts, or with --recompute, or with both. */
static void what_does_not_fit_says_how_it_would(void **state)
{
    (void)state;
    launch_ask ask = ask_mixture();
    ask.recompute = true;
    ask.zero = PROTO_ZERO_MOMENTS;
    const double least = figures_of(&ask, 4, 1, 2).total_bytes;
    ask.zero = 0;
    ask.device.memory_bytes = figures_of(&ask, 4, 1, 2).total_bytes;
    ask.recompute = false;
    launch_estimate made = figures_of(&ask, 4, 1, 2);
    assert_true(!made.fits && made.ways[made.way_count - 1].recompute);
    ask.device.memory_bytes = least;
    made = figures_of(&ask, 4, 1, 2);
    assert_true(!made.fits && made.way_count == 1);
    assert_true(made.ways[0].recompute && made.ways[0].zero == PROTO_ZERO_MOMENTS);
    ask.device.memory_bytes = 1;
    assert_int_equal(figures_of(&ask, 4, 1, 2).way_count, 0);
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
        cmocka_unit_test(the_search_tries_what_ranks_can_train),
        cmocka_unit_test(impossible_layouts_are_refused_with_the_reason),
        cmocka_unit_test(what_does_not_fit_says_how_it_would),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
