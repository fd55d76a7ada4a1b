/* `launcher plan --optimizer muon`: its room, its products, what ranks share out and gather, as
 * sums done by hand. `ctest -R training-muon` compares with a job's record. */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "plan_case.h"
#include "plan_run.h"

/* Of minigpt: two layers, each with a norm before its matrices and a bias behind them. */
static const double PARAMS = 470528;
static const double SHARD = 115 * 1024; /* of four, the largest */
static const double WIDTH = 128;
static const double LAYER = 12 * 128 * 128 + 13 * 128;
static const double MATRICES = 2 * 12 * 128 * 128;
/* Multiplications of an iteration, in cubes of the width: 7 and 3 of attention's matrices, 9 of each of the MLP's */
static const double CUBES = 2 * (7 + 3 + 9 + 9);

static launch_ask ask_muon(const launch_model *model)
{
    launch_ask ask = ask_of(model);
    ask.optimizer = PROTO_OPTIMIZER_MUON;
    return ask;
}

static launch_estimate figures_of(const launch_ask *ask, int64_t data, int64_t pipeline)
{
    launch_estimate made = estimate_of(ask, data, 1, pipeline);
    launch_estimate_fini(&made);
    return made;
}

/* Moments of all parameters, twice a matrix of the MLP, twice a square of the width, and a packed matrix. */
static void memory_has_the_room_of_the_largest_matrix(void **state)
{
    (void)state;
    const launch_ask ask = ask_muon(model_of("minigpt"));
    const launch_estimate made = figures_of(&ask, 4, 1);
    const double room = 4 * (2 * 4 + 2 + 4) * WIDTH * WIDTH + 8;
    assert_true(made.memory_bytes[LAUNCH_MEMORY_OPTIMIZER] == 8 * PARAMS + room);
    launch_ask plain = ask;
    plain.optimizer = PROTO_OPTIMIZER_ADAMW;
    const launch_estimate adamw = figures_of(&plain, 4, 1);
    assert_true(adamw.memory_bytes[LAUNCH_MEMORY_OPTIMIZER] == 8 * PARAMS);
    assert_true(adamw.newton_schulz_s == 0 && adamw.row_count == 1 && adamw.parameters_s == 0);
    assert_true(made.total_bytes == adamw.total_bytes + room);
}

/* --zero divides the moments, and not that room. */
static void shards_have_the_whole_room(void **state)
{
    (void)state;
    launch_ask ask = ask_muon(model_of("minigpt"));
    const double room = 4 * (2 * 4 + 2 + 4) * WIDTH * WIDTH + 8;
    ask.zero = 1;
    const launch_estimate made = figures_of(&ask, 4, 1);
    assert_true(made.memory_bytes[LAUNCH_MEMORY_OPTIMIZER] == 8 * SHARD + room);
    ask.zero = 0;
    ask.device.memory_bytes = figures_of(&ask, 4, 1).total_bytes - 1;
    const launch_estimate whole = figures_of(&ask, 4, 1);
    assert_false(whole.fits);
    assert_int_equal(whole.way_count, 2);
    assert_true(whole.ways[0].zero == 1 && !whole.ways[0].recompute);
    assert_true(whole.ways[1].zero == 0 && whole.ways[1].recompute);
}

/* Four ranks compute one matrix each in a round, and have two: a rank has a quarter of all, there
 * and back. The share of the rank with most work is that without --zero; of all else each reads and
 * writes its quarter. */
static void shards_go_to_whom_computes(void **state)
{
    (void)state;
    launch_ask ask = ask_muon(model_of("minigpt"));
    ask.zero = 2;
    const launch_estimate made = figures_of(&ask, 4, 1);
    const launch_bill_row *row = row_of(&made, "matrices");
    const double products_s = 10 * 18 * WIDTH * WIDTH * WIDTH / 0.5e12;
    assert_non_null(row);
    assert_string_equal(row->operation, "all_to_all");
    assert_true(row->ranks == 4 && row->times == 2 * 2);
    assert_true(is_close(row->times * row->payload_bytes, 2 * 4 * MATRICES / 4));
    assert_true(is_close(row->sent_bytes, 2 * 4 * MATRICES / 4 * 3 / 4));
    assert_true(is_close(made.newton_schulz_s, products_s));
    assert_true(is_close(made.optimizer_s, products_s + 28 * SHARD / 1e12));
    launch_ask adamw = ask;
    adamw.optimizer = PROTO_OPTIMIZER_ADAMW;
    const launch_estimate plain = figures_of(&adamw, 4, 1);
    assert_true(is_close(made.parameters_s, plain.parameters_s + row->took_s));
    assert_true(is_close(made.parameters_exposed_s, plain.parameters_exposed_s + row->took_s));
}

/* Ranks that share layers have a half of each matrix; their copies compute the same. */
static void tensor_ranks_put_matrices_together(void **state)
{
    (void)state;
    const launch_ask ask = ask_muon(model_of("minigpt"));
    const launch_estimate made = estimate_of(&ask, 2, 2, 1);
    const launch_bill_row *row = row_of(&made, "matrices");
    assert_non_null(row);
    assert_string_equal(row->operation, "all_to_all");
    assert_true(row->ranks == 2 && row->times == 2 * 4); /* a layer each */
    assert_true(is_close(row->times * row->payload_bytes, 2 * 4 * MATRICES / 2));
    assert_true(is_close(made.newton_schulz_s, 5 * CUBES * WIDTH * WIDTH * WIDTH / 0.5e12));
    launch_estimate held = made;
    launch_estimate_fini(&held);
}

/* Two matrices of each adapted layer, one behind the other; and nothing between them. */
static void adapters_are_small_matrices(void **state)
{
    (void)state;
    enum { RANK = 4 };
    launch_ask ask = ask_muon(model_of("minigpt"));
    assert_int_equal(launch_adapters_choose(&ask.model, RANK, "c_attn", &ask.adapters, NULL),
                     BASE_OK);
    const launch_estimate made = figures_of(&ask, 4, 1);
    const double params = 2 * RANK * (128 + 384);
    const double a = RANK * (2 * RANK * WIDTH + RANK * RANK);
    const double b = RANK * (2 * RANK * 3 * WIDTH + RANK * RANK);
    const double room = 4 * (2 * RANK * 3 * WIDTH + 2 * RANK * RANK + 32 * 3 * WIDTH) + 8;
    assert_true(made.memory_bytes[LAUNCH_MEMORY_OPTIMIZER] == 8 * params + room);
    assert_true(row_of(&made, "matrices")->payload_bytes == 4 * params);
    assert_true(a < b && is_close(made.newton_schulz_s, 10 * b / 0.5e12));
}

/* Panels of packed matrices have 32 columns, so a matrix of 40 takes the room of 64. */
static void packed_matrices_have_whole_panels(void **state)
{
    (void)state;
    const launch_model narrow = launch_model_gpt2(1, 40, 2, 512, 64);
    const launch_ask ask = ask_muon(&narrow);
    const launch_estimate made = figures_of(&ask, 1, 1);
    const double room = 4 * (2 * 160 * 40 + 2 * 40 * 40 + 160 * 64) + 8;
    assert_true(made.memory_bytes[LAUNCH_MEMORY_OPTIMIZER] ==
                8 * (double)launch_model_params(&narrow) + room);
}

/* 15 products at the planned efficiency, and 28 bytes of each parameter as AdamW has them. */
static void one_rank_updates_all(void **state)
{
    (void)state;
    const launch_ask ask = ask_muon(model_of("minigpt"));
    const launch_estimate made = figures_of(&ask, 1, 1);
    assert_true(is_close(made.newton_schulz_s, 10 * CUBES * WIDTH * WIDTH * WIDTH / 0.5e12));
    assert_true(is_close(made.optimizer_s, made.newton_schulz_s + 28 * PARAMS / 1e12));
    assert_int_equal(made.row_count, 0);
    assert_true(made.parameters_s == 0);
}

/* Of four ranks, two have the MLP's matrices of a layer each: 18 of 56 cubes, and a third of the elements. Of forty,
 * none has more than a matrix. All ranks have the momentum of all matrices. */
static void ranks_share_whole_matrices(void **state)
{
    (void)state;
    static const struct {
        int64_t ranks;
        double cubes, squares; /* of the rank with most */
    } cases[] = {{4, 18, 8}, {40, 9, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        launch_ask ask = ask_muon(model_of("minigpt"));
        ask.global_batch = ask.batch * cases[i].ranks;
        ask.device.host_ranks = 40;
        const launch_estimate made = figures_of(&ask, cases[i].ranks, 1);
        const double products_s = 10 * cases[i].cubes * WIDTH * WIDTH * WIDTH / 0.5e12;
        const double moved =
            28 * (PARAMS - MATRICES) + 12 * MATRICES + 16 * cases[i].squares * WIDTH * WIDTH;
        assert_true(is_close(made.newton_schulz_s, products_s));
        assert_true(is_close(made.optimizer_s, products_s + moved / 1e12));
    }
}

/* From the first matrix to the end of the last one, and nothing hides it. */
static void what_ranks_update_is_gathered(void **state)
{
    (void)state;
    const launch_ask ask = ask_muon(model_of("minigpt"));
    const launch_estimate made = figures_of(&ask, 4, 1);
    const launch_bill_row *row = row_of(&made, "matrices");
    const double bytes = 4 * (2 * LAYER - 3 * WIDTH);
    assert_non_null(row);
    assert_string_equal(row->operation, "all_gather");
    assert_int_equal(row->ranks, 4);
    assert_true(row->times == 1 && row->payload_bytes == bytes);
    assert_true(is_close(row->sent_bytes, bytes * 3 / 4));
    assert_true(is_close(row->took_s, 3 * 0.5e-6 + bytes * 3 / 4 / 1e9));
    assert_true(made.parameters_s == row->took_s && made.parameters_exposed_s == row->took_s);
    assert_int_equal(made.row_count, 2);
    const double sum = made.compute_s + made.merge_s + made.gradients_exposed_s + made.optimizer_s +
                       made.parameters_exposed_s;
    assert_true(fabs(made.step_s - sum) < 1e-8);
    /* ranks that share the tokens of a batch have the same matrices */
    launch_estimate shared =
        estimate_layout(&ask, &(launch_layout){2, .tensor = 1, .pipeline = 1, .context_ranks = 2});
    assert_true(row_of(&shared, "matrices")->ranks == 4);
    assert_true(shared.newton_schulz_s == made.newton_schulz_s);
    launch_estimate_fini(&shared);
}

/* Each rank updates all that it has, also where others have the same. */
static void stages_and_local_steps_share_nothing_out(void **state)
{
    (void)state;
    launch_ask ask = ask_muon(model_of("minigpt"));
    const launch_estimate stages = figures_of(&ask, 2, 2); /* a layer each */
    assert_true(is_close(stages.newton_schulz_s, 5 * CUBES * WIDTH * WIDTH * WIDTH / 0.5e12));
    assert_null(row_of(&stages, "matrices"));
    ask.local_steps = 5;
    const launch_estimate local = figures_of(&ask, 4, 1);
    assert_true(is_close(local.newton_schulz_s, 10 * CUBES * WIDTH * WIDTH * WIDTH / 0.5e12));
    assert_null(row_of(&local, "matrices"));
}

/* An expert's matrices are its own, and the router is one. */
static void experts_are_many_matrices(void **state)
{
    (void)state;
    const launch_model sizes = {.layers = 3,
                                .width = 64,
                                .heads = 4,
                                .vocab_size = 512,
                                .context = 32,
                                .experts = 4,
                                .chosen = 2};
    const launch_model model = launch_model_mixtral(&sizes); /* experts of 128 */
    const double cube = 64 * 64 * 64;
    const double experts = 4 * 3 * (2 * 2 + 1) * cube;
    const double router = 4 * (2 * 4 * 64 + 4 * 4);
    const double attention = 4 * 3 * cube;
    const launch_ask ask = ask_muon(&model);
    const launch_estimate made = figures_of(&ask, 1, 1);
    assert_int_equal(model.hidden, 128);
    assert_true(is_close(made.newton_schulz_s, 10 * 3 * (attention + experts + router) / 0.5e12));
    const launch_estimate shared = figures_of(&ask, 16, 1);
    assert_true(row_of(&shared, "matrices")->payload_bytes ==
                4 * 3 * (4.0 * 64 * 64 + 12 * 64 * 128 + 4 * 64 + 2 * 64) - 4 * 64);
    /* ranks that have some experts share with those that have the same */
    launch_layout some = {4, .tensor = 1, .pipeline = 1, .context_ranks = 1, .expert_ranks = 2};
    launch_estimate halves = estimate_layout(&ask, &some);
    assert_int_equal(row_of(&halves, "matrices")->ranks, 2);
    assert_true(row_of(&halves, "matrices")->payload_bytes ==
                4 * 3 * (4.0 * 64 * 64 + 6 * 64 * 128 + 4 * 64 + 2 * 64) - 4 * 64);
    launch_estimate_fini(&halves);
    some.expert_ranks = 4;
    launch_estimate quarters = estimate_layout(&ask, &some);
    assert_null(row_of(&quarters, "matrices"));
    assert_true(
        is_close(quarters.newton_schulz_s, 10 * 3 * (attention + experts / 4 + router) / 0.5e12));
    launch_estimate_fini(&quarters);
    /* tensor ranks cut all matrices but the router, which each of them computes */
    const launch_layout cut = {2, .tensor = 2, .pipeline = 1, .context_ranks = 1,
                               .expert_ranks = 1};
    launch_estimate parts = estimate_layout(&ask, &cut);
    const launch_bill_row *exchange = row_of(&parts, "matrices");
    assert_int_equal(exchange->times, 2 * (16 + 4 + 5)); /* half the work are so many */
    assert_true(is_close(exchange->times * exchange->payload_bytes,
                         2 * 4 * 3 * (4.0 * 64 * 64 + 12 * 64 * 128) / 2));
    assert_true(
        is_close(parts.newton_schulz_s,
                 10 * ((attention + experts) + attention + 5 * 5 * cube + 3 * router) / 0.5e12));
    launch_estimate_fini(&parts);
}

static char text[PLAN_TEXT_BYTES];

#define MUON "--model", "minigpt", "--optimizer", "muon"

static void decoding_has_no_optimizer(void **state)
{
    (void)state;
    assert_int_equal(plan_run(PLAN_WORDS(MUON, "--decode"), text), BASE_EXIT_USAGE);
    assert_has(plan_warnings, "--optimizer is of training: not with --decode");
}

static void the_text_and_the_command_name_it(void **state)
{
    (void)state;
    assert_int_equal(
        plan_run(PLAN_WORDS(MUON, "--ranks", "4", "--recompute", "--pipeline", "1"), text),
        BASE_EXIT_DONE);
    assert_has(text, " x 64, with --recompute --optimizer muon\n");
    assert_has(text, "  matrices        all_gather         4 ");
    assert_has(text, "\n    of it Newton-Schulz ");
    assert_has(text, " --micro-batches 16 --optimizer muon --recompute\n");
    assert_int_equal(plan_run(PLAN_WORDS(MUON, "--memory", "0.001", "--json"), text),
                     BASE_EXIT_ERROR);
    assert_has(text, "\"optimizer\": \"muon\"");
    assert_has(text, "\"newton_schulz_s\": ");
    assert_int_equal(plan_run(PLAN_WORDS("--model", "minigpt", "--json"), text), BASE_EXIT_DONE);
    assert_has(text, "\"optimizer\": \"adamw\"");
    assert_null(strstr(text, "--optimizer"));
#undef MUON
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_has_the_room_of_the_largest_matrix),
        cmocka_unit_test(shards_have_the_whole_room),
        cmocka_unit_test(shards_go_to_whom_computes),
        cmocka_unit_test(tensor_ranks_put_matrices_together),
        cmocka_unit_test(adapters_are_small_matrices),
        cmocka_unit_test(packed_matrices_have_whole_panels),
        cmocka_unit_test(one_rank_updates_all),
        cmocka_unit_test(ranks_share_whole_matrices),
        cmocka_unit_test(what_ranks_update_is_gathered),
        cmocka_unit_test(stages_and_local_steps_share_nothing_out),
        cmocka_unit_test(experts_are_many_matrices),
        cmocka_unit_test(decoding_has_no_optimizer),
        cmocka_unit_test(the_text_and_the_command_name_it),
    };
    return cmocka_run_group_tests(tests, plan_setup, plan_teardown);
}
