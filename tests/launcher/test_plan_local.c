/* Local steps in plan/estimate.h: one exchange in a round, the outer state, and which layouts have them. */
#include "plan_case.h"

enum { ROUND = 10 };

static const double PARAMS = 470528; /* of minigpt */

static launch_estimate replicas(launch_ask ask, int64_t local_steps, int64_t data)
{
    ask.local_steps = local_steps;
    return estimate_of(&ask, data, 1, 1);
}

static void a_round_has_one_exchange(void **state)
{
    (void)state;
    const launch_ask ask = ask_of(model_of("minigpt"));
    launch_estimate plain = replicas(ask, 1, 4);
    launch_estimate made = replicas(ask, ROUND, 4);
    const launch_bill_row *gradients = row_of(&plain, "gradients");
    const launch_bill_row *changes = row_of(&made, "changes");
    assert_non_null(gradients);
    assert_non_null(changes);
    assert_int_equal(plain.row_count, 1);
    assert_int_equal(made.row_count, 1);
    assert_string_equal(changes->operation, "all_reduce");
    assert_true(is_close(ROUND * changes->times, gradients->times));
    assert_true(changes->payload_bytes == gradients->payload_bytes);
    assert_true(is_close(changes->payload_bytes, 4 * PARAMS));
    assert_true(is_close(ROUND * changes->sent_bytes, gradients->sent_bytes));
    assert_true(is_close(ROUND * changes->took_s, gradients->took_s));
    launch_estimate_fini(&plain);
    launch_estimate_fini(&made);
}

/* Backward hides nothing of the changes, and the outer step reads and writes 36 bytes for a parameter. */
static void the_mean_step_has_a_part_of_it(void **state)
{
    (void)state;
    const launch_ask ask = ask_of(model_of("minigpt"));
    launch_estimate plain = replicas(ask, 1, 4);
    launch_estimate made = replicas(ask, ROUND, 4);
    assert_true(made.gradients_exposed_s == made.gradients_s);
    assert_true(is_close(made.gradients_s, row_of(&made, "changes")->took_s));
    assert_true(is_close(made.optimizer_s - plain.optimizer_s, 36 * PARAMS / ROUND / 1e12));
    assert_true(is_close(made.step_s - made.gradients_exposed_s - made.optimizer_s,
                         plain.step_s - plain.gradients_exposed_s - plain.optimizer_s));
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_OPTIMIZER], 16 * PARAMS));
    assert_true(is_close(made.total_bytes - plain.total_bytes, 8 * PARAMS));
    launch_estimate_fini(&plain);
    launch_estimate_fini(&made);
}

static void rounds_of_one_step_are_none(void **state)
{
    (void)state;
    const launch_ask ask = ask_of(model_of("gpt2"));
    launch_estimate none = replicas(ask, 0, 4);
    launch_estimate each = replicas(ask, 1, 4);
    assert_memory_equal(none.memory_bytes, each.memory_bytes, sizeof none.memory_bytes);
    assert_true(none.step_s == each.step_s && none.gradients_exposed_s == each.gradients_exposed_s);
    launch_estimate_fini(&none);
    launch_estimate_fini(&each);
}

/* Adapters alone are exchanged, and have the outer state. */
static void adapters_have_rounds_of_their_own(void **state)
{
    (void)state;
    launch_ask ask = ask_of(model_of("gpt2"));
    base_error error;
    assert_ok(launch_adapters_choose(&ask.model, 8, "", &ask.adapters, &error), &error);
    const double adapters = (double)launch_adapters_of_model(&ask.adapters, &ask.model);
    launch_estimate made = replicas(ask, ROUND, 2);
    assert_true(is_close(row_of(&made, "changes")->payload_bytes, 4 * adapters));
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_OPTIMIZER], 16 * adapters));
    launch_estimate_fini(&made);
}

/* One replica takes the steps, and has nobody to exchange with. Where it does not fit, ZeRO is no way. */
static void ranks_take_them_alone(void **state)
{
    (void)state;
    const launch_layout others[] = {{2, 2, 1, 1, 1}, {2, 1, 2, 1, 1}, {2, 1, 1, 2, 1}};
    const launch_layout any = {.context_ranks = 1};
    launch_ask ask = ask_of(model_of("gpt2"));
    launch_found found;
    base_error error;
    ask.local_steps = ROUND;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(launch_layout_check(&ask, &others[i], &error), BASE_ERR_INVALID);
        assert_has(error.message, "--local-steps goes without --tensor, --pipeline and "
                                  "--context-ranks");
    }
    assert_ok(launch_plan_search(&ask, 8, &any, &found, &error), &error);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.estimates[0].layout.data, 8);
    launch_found_fini(&found);
    launch_estimate alone = replicas(ask, ROUND, 1);
    assert_int_equal(alone.row_count, 0);
    launch_estimate_fini(&alone);
    ask.device.memory_bytes = 1;
    launch_estimate large = replicas(ask, ROUND, 8);
    assert_false(large.fits);
    assert_int_equal(large.way_count, 0);
    launch_estimate_fini(&large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_has_one_exchange),
        cmocka_unit_test(the_mean_step_has_a_part_of_it),
        cmocka_unit_test(rounds_of_one_step_are_none),
        cmocka_unit_test(adapters_have_rounds_of_their_own),
        cmocka_unit_test(ranks_take_them_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
