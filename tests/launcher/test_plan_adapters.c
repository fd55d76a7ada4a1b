/* Plans of adapters beside a frozen model (plan/adapters.h): what a rank holds, exchanges and computes, as sums
 * done by hand. */
#include "plan_case.h"

/* Of minigpt: 2 layers of width C = 128; a micro-batch of 2 x 64 tokens, which see 32 in the mean. */
enum { WIDTH = 128, LAYERS = 2, RANK = 8 };
static const double TOKENS = 128;
static const double SEEN = 32;
/* c_attn C + 3 C, c_proj 2 C, c_fc and c_proj 5 C each */
static const int64_t COLUMNS = 16 * WIDTH;

static launch_ask ask_adapted(const char *model, const char *targets)
{
    base_error error;
    launch_ask ask = ask_of(model_of(model));
    assert_ok(launch_adapters_choose(&ask.model, RANK, targets, &ask.adapters, &error), &error);
    return ask;
}

static void the_layers_are_found_by_their_names(void **state)
{
    static const struct {
        const char *model, *targets;
        int64_t columns;
    } cases[] = {
        {"minigpt", "all-linear", COLUMNS},
        {"minigpt", "", 4 * WIDTH},
        {"minigpt", "c_proj", 7 * WIDTH},
        {"minigpt", "mlp.c_proj,c_attn,c_proj", 11 * WIDTH},
        /* width 4096, 1024 of keys and of values, MLP 14336 */
        {"llama-3.1-8b", "", 4096 + 4096 + 4096 + 1024},
        {"llama-3.1-8b", "o_proj,down_proj", 2 * 4096 + 14336 + 4096},
        {"llama-3.1-8b", "all-linear", 4 * 4096 + 2 * (4096 + 1024) + 3 * (4096 + 14336)},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const launch_ask ask = ask_adapted(cases[i].model, cases[i].targets);
        assert_int_equal(ask.adapters.columns, cases[i].columns);
    }
    const launch_model *model = model_of("minigpt");
    static const char *const unknown[] = {"q_proj", "c_attn,", "attn", "c_attn,proj"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        launch_adapters adapters;
        base_error error;
        assert_int_equal(launch_adapters_choose(model, RANK, unknown[i], &adapters, &error),
                         BASE_ERR_INVALID);
        assert_has(error.message, "; it has attn.c_attn,attn.c_proj,mlp.c_fc,mlp.c_proj ");
    }
}

/* Gradients, moments and what ranks exchange are the adapters'. Their small products are in work memory, and the
 * gradient of biases that are frozen. */
static void a_rank_holds_a_frozen_model(void **state)
{
    (void)state;
    launch_ask ask = ask_adapted("minigpt", "all-linear");
    const launch_ask plain = ask_of(model_of("minigpt"));
    const double adapters = LAYERS * RANK * (double)COLUMNS;
    launch_estimate whole = estimate_of(&plain, 4, 1, 1);
    for (ask.zero = 0; ask.zero <= 1; ask.zero++) {
        launch_estimate made = estimate_of(&ask, 4, 1, 1); /* 4 micro-batches each */
        assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_WEIGHTS],
                             whole.memory_bytes[LAUNCH_MEMORY_WEIGHTS] + 4 * adapters));
        assert_true(
            is_close(made.memory_bytes[LAUNCH_MEMORY_GRADIENTS], 4 * adapters * (3 + 1.25)));
        assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_OPTIMIZER],
                             8 * adapters / (ask.zero == 1 ? 4 : 1)));
        assert_true(made.memory_bytes[LAUNCH_MEMORY_ACTIVATIONS] ==
                    whole.memory_bytes[LAUNCH_MEMORY_ACTIVATIONS]);
        assert_true(
            is_close(made.memory_bytes[LAUNCH_MEMORY_WORK] - whole.memory_bytes[LAUNCH_MEMORY_WORK],
                     4 * (2 * TOKENS * RANK + 3 * WIDTH)));
        const launch_bill_row *gradients = row_of(&made, "gradients");
        assert_true(is_close(gradients->times * gradients->payload_bytes, 4 * adapters));
        assert_true(is_close(made.optimizer_s, 28 * adapters / (ask.zero == 1 ? 4 : 1) / 1e12));
        assert_true(is_close(made.merge_s, 3 * 12 * adapters / 1e12));
        launch_estimate_fini(&made);
    }
    launch_estimate_fini(&whole);
}

/* Backward has no product for a frozen weight's gradient, and none below the first layer's queries, keys and
 * values; attention's own is done as ever. */
static void backward_has_fewer_products(void **state)
{
    (void)state;
    launch_ask ask = ask_adapted("minigpt", "c_attn");
    const double flops = ask.device.flops[ask.precision] * ask.efficiency;
    const double width = WIDTH;
    const double matrices = 2 * 12 * width * width;
    const double attention = 4 * SEEN * width;
    const double output = 2 * 512 * width;
    const double added = 2 * RANK * 4 * width;
    const double forward = LAYERS * (matrices + attention + added) + output;
    const double backward =
        LAYERS * (matrices + 2 * attention + 3 * added) + output - 2 * 3 * width * width;
    ask.global_batch = ask.batch;
    launch_estimate made = estimate_of(&ask, 1, 1, 1);
    assert_true(is_close(made.forward_s, TOKENS * forward / flops));
    assert_true(is_close(made.compute_s, TOKENS * (forward + backward) / flops));
    launch_estimate_fini(&made);
    ask.recompute = true;
    const double again = LAYERS * (matrices + attention + added - 2 * 4 * width * width);
    made = estimate_of(&ask, 1, 1, 1);
    assert_true(is_close(made.repeated_s, TOKENS * again / flops));
    launch_estimate_fini(&made);
}

/* What does not fit fits with the stage that adapters have, and no higher one. */
static void only_moments_are_sharded(void **state)
{
    (void)state;
    launch_ask ask = ask_adapted("gpt2", "all-linear");
    base_error error;
    ask.device.memory_bytes = 1;
    launch_estimate made = estimate_of(&ask, 4, 1, 1);
    assert_false(made.fits);
    assert_int_equal(made.way_count, 0);
    ask.device.memory_bytes = made.total_bytes - 1;
    launch_estimate_fini(&made);
    made = estimate_of(&ask, 4, 1, 1);
    assert_true(made.way_count > 0);
    assert_int_equal(made.ways[0].zero, 1);
    launch_estimate_fini(&made);
    ask.device.memory_bytes = 1e12;
    for (int cut = 0; cut < 2; cut++) {
        const launch_layout layout = {
            .data = 1, .tensor = cut == 0 ? 2 : 1, .pipeline = 1 + cut, .context_ranks = 1};
        assert_int_equal(launch_estimate_make(&ask, &layout, &made, &error), BASE_ERR_INVALID);
        assert_has(error.message, "--lora goes without --tensor and --pipeline");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layers_are_found_by_their_names),
        cmocka_unit_test(a_rank_holds_a_frozen_model),
        cmocka_unit_test(backward_has_fewer_products),
        cmocka_unit_test(only_moments_are_sharded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
