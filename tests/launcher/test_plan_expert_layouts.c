/* plan/layout.h and the search of plan/plan.h for models with experts: which layouts there are, and which fit. */
#include "plan_mixture.h"

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
    ask.decode = true; /* then ranks may share heads of keys and values */
    assert_int_equal(count_found(&ask, 8, (launch_layout){.data = 0}, &most), 3);
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
         "--tensor 8 does not divide the model's heads of keys and values, 2: take one that does, "
         "as --tensor 2"},
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
        cmocka_unit_test(the_search_tries_what_ranks_can_train),
        cmocka_unit_test(impossible_layouts_are_refused_with_the_reason),
        cmocka_unit_test(what_does_not_fit_says_how_it_would),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
