/* plan/model.h and plan/estimate.h: counts that are known, and sums done by hand. */
#include "plan_case.h"

/* Steps are played in whole nanoseconds. */
static bool is_step(const launch_estimate *made, double seconds)
{
    return fabs(made->step_s - seconds) <= 1e-6 * seconds;
}

/* The counts that Hugging Face gives for these checkpoints, and our own model's. */
static void parameters_are_as_published(void **state)
{
    (void)state;
    assert_int_equal(launch_model_params(model_of("minigpt")), 470528);
    assert_int_equal(launch_model_params(model_of("gpt2")), 124439808);
    assert_int_equal(launch_model_params(model_of("gpt2-medium")), 354823168);
    assert_int_equal(launch_model_params(model_of("gpt2-large")), 774030080);
    assert_int_equal(launch_model_params(model_of("gpt2-xl")), 1557611200);
    assert_null(launch_model_name(28));
}

/* Ranks hold each parameter once, but for norms, biases and positions, and the tied matrix. */
static void parts_make_the_whole(void **state)
{
    (void)state;
    const launch_model *model = model_of("gpt2");
    const double tied = (double)model->vocab_size * (double)model->width;
    const double whole = (double)launch_model_params(model);
    for (int stages = 2; stages <= 12; stages++) {
        double sum = 0;
        int64_t layers = 0;
        for (int stage = 0; stage < stages; stage++) {
            const launch_stage part = launch_model_stage(model, stages, stage);
            assert_true(part.layers >= 1);
            layers += part.layers;
            sum += launch_stage_params(model, &part, 1);
        }
        assert_int_equal(layers, model->layers);
        assert_true(is_close(sum, whole + tied));
    }
    const launch_stage all = launch_model_stage(model, 1, 0);
    const double width = (double)model->width;
    const double on_each = 12 * 6 * width + (double)model->context * width + 2 * width;
    assert_true(is_close(4 * launch_stage_params(model, &all, 4), whole + 3 * on_each));
}

/* The output is worth about five of GPT-2's layers, so the last stage gets one. */
static void the_last_stage_has_fewer_layers(void **state)
{
    (void)state;
    const launch_model *model = model_of("gpt2");
    assert_true(fabs(launch_model_output_layers(model) - 4.91) < 0.01);
    assert_int_equal(launch_model_stage(model, 2, 0).layers, 8);
    assert_int_equal(launch_model_stage(model, 2, 1).layers, 4);
    assert_int_equal(launch_model_stage(model, 4, 3).layers, 1);
    assert_int_equal(launch_model_stage(model, 4, 0).layers, 4);
}

static void one_rank_exchanges_nothing(void **state)
{
    (void)state;
    launch_ask ask = ask_of(model_of("minigpt"));
    launch_estimate made = estimate_of(&ask, 1, 1, 1);
    assert_int_equal(made.row_count, 0);
    assert_int_equal(made.run.pipeline.micro_batches, 16);
    assert_true(made.run.result.bubble == 0 && made.tensor_s == 0 && made.gradients_exposed_s == 0);
    /* 16 micro-batches of 128 tokens, forward and twice that backward */
    const double flops = 128.0 * (2 * (24.0 * 128 * 128 + 4.0 * 32 * 128) + 2.0 * 512 * 128);
    assert_true(is_close(made.compute_s, 16 * 3 * flops / 0.5e12));
    assert_true(is_close(made.optimizer_s, 28 * 470528 / 1e12));
    /* 15 of 16 gradients are added to another: two are read, and one is written */
    assert_true(is_close(made.merge_s, 15 * 12 * 470528 / 1e12));
    assert_true(is_step(&made, made.compute_s + made.merge_s + made.optimizer_s));
    assert_true(is_close(made.tokens, 2048));
    launch_estimate_fini(&made);
}

static void memory_is_what_ranks_hold(void **state)
{
    (void)state;
    launch_ask ask = ask_of(model_of("minigpt"));
    ask.global_batch = 2;
    launch_estimate made = estimate_of(&ask, 1, 1, 1);
    const double params = 470528;
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_WEIGHTS], 4 * params));
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_GRADIENTS], 4 * params));
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_OPTIMIZER], 8 * params));
    const double floats = 128 * (2 * (12.0 * 128 + 2 * 4 + 4) + 2 * 128 + 2);
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_ACTIVATIONS], 4 * floats));
    launch_estimate_fini(&made);
    ask.precision = PROTO_PRECISION_BFLOAT16;
    made = estimate_of(&ask, 1, 1, 1);
    const double narrow = 128 * (2 * (7.0 * 128 + 2 * 4 + 4) + 1.5 * 128 + 2);
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_WEIGHTS], 6 * params));
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_ACTIVATIONS], 4 * narrow));
    launch_estimate_fini(&made);
    /* a tree of 16 leaves has four sums under way */
    ask.global_batch = 32;
    made = estimate_of(&ask, 1, 1, 1);
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_GRADIENTS], 5 * 4 * params));
    assert_true(made.fits);
    launch_estimate_fini(&made);
    /* an all-reduce of two replicas has two halves, and their sum */
    ask.global_batch = 4;
    made = estimate_of(&ask, 2, 1, 1);
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_GRADIENTS], (1 + 1.5) * 4 * params));
    launch_estimate_fini(&made);
    ask.device.memory_bytes = 1e6;
    made = estimate_of(&ask, 1, 1, 1);
    assert_false(made.fits);
    launch_estimate_fini(&made);
}

/* Backward does forward's products again, but for the MLP's last one, and one all-reduce of a layer. */
static void recompute_takes_time_for_memory(void **state)
{
    (void)state;
    launch_ask ask = ask_of(model_of("minigpt"));
    launch_estimate kept = estimate_of(&ask, 1, 1, 1);
    ask.recompute = true;
    launch_estimate made = estimate_of(&ask, 1, 1, 1);
    const double again = 128.0 * 2 * (16.0 * 128 * 128 + 4.0 * 32 * 128);
    assert_true(kept.repeated_s == 0);
    assert_true(is_close(made.repeated_s, 16 * again / 0.5e12));
    assert_true(is_close(made.compute_s, kept.compute_s + made.repeated_s));
    assert_true(is_step(&made, kept.step_s + made.repeated_s));
    /* two blocks' inputs and the final norm; and the rest of one block, once */
    const double rest = 11.0 * 128 + 2 * 4 + 4;
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_ACTIVATIONS],
                         4 * 128 * (2 * 128.0 + 2 * 128 + 2)));
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_WORK],
                         kept.memory_bytes[LAUNCH_MEMORY_WORK] + 4 * 128 * rest));
    assert_true(is_close(kept.total_bytes - made.total_bytes, 4 * 128 * rest));
    launch_estimate_fini(&made);
    launch_estimate_fini(&kept);
    made = estimate_of(&ask, 2, 2, 2);
    assert_true(row_of(&made, "partial sums")->times == 8 * (2 * 2 * 1 + 1 + 1));
    assert_true(row_of(&made, "softmax")->times == 8);
    launch_estimate_fini(&made);
}

/* With recompute a plan may fit that does not without. */
static void what_fits_with_recompute_says_so(void **state)
{
    (void)state;
    launch_ask ask = ask_of(model_of("gpt2"));
    ask.recompute = true;
    launch_estimate made = estimate_of(&ask, 1, 2, 2);
    const double least = made.total_bytes;
    assert_true(made.fits && made.way_count == 0);
    launch_estimate_fini(&made);
    ask.recompute = false;
    made = estimate_of(&ask, 1, 2, 2);
    assert_true(made.fits && made.way_count == 0 && made.total_bytes > least);
    launch_estimate_fini(&made);
    ask.device.memory_bytes = least;
    made = estimate_of(&ask, 1, 2, 2);
    assert_true(!made.fits && made.way_count == 1 && made.ways[0].recompute &&
                made.ways[0].zero == 0 && made.ways[0].total_bytes == least);
    launch_estimate_fini(&made);
    ask.device.memory_bytes = least - 1;
    made = estimate_of(&ask, 1, 2, 2);
    assert_true(!made.fits && made.way_count == 0);
    launch_estimate_fini(&made);
}

/* A stage holds as many micro-batches' activations as its schedule has under way. */
static void gpipe_holds_all_activations(void **state)
{
    (void)state;
    launch_ask ask = ask_of(model_of("gpt2"));
    launch_estimate made = estimate_of(&ask, 1, 1, 4);
    assert_int_equal(proto_pipeline_held(&made.run.pipeline, 0), 4);
    const double few = made.memory_bytes[LAUNCH_MEMORY_ACTIVATIONS];
    assert_int_equal(made.stage, 0);
    launch_estimate_fini(&made);
    ask.schedule = PROTO_PIPELINE_GPIPE;
    made = estimate_of(&ask, 1, 1, 4);
    assert_int_equal(made.stage, 0);
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_ACTIVATIONS], 4 * few));
    launch_estimate_fini(&made);
}

/* zb-h1 keeps a third more of a micro-batch of GPT-2 (4 C of 12 C and a bit), as long as it may put weights off; and
 * its step is shorter. */
static void a_split_backward_is_shorter_and_holds_more(void **state)
{
    (void)state;
    launch_ask ask = ask_of(model_of("gpt2"));
    launch_estimate plain = estimate_of(&ask, 1, 1, 4);
    ask.schedule = PROTO_PIPELINE_ZB_H1;
    launch_estimate made = estimate_of(&ask, 1, 1, 4);
    const double more = made.memory_bytes[LAUNCH_MEMORY_ACTIVATIONS] /
                        plain.memory_bytes[LAUNCH_MEMORY_ACTIVATIONS];
    assert_int_equal(plain.stage, 0);
    assert_true(made.step_s < plain.step_s);
    assert_true(made.run.result.bubble < plain.run.result.bubble);
    assert_true(made.compute_s == plain.compute_s);
    assert_true(made.stage != 0 || (more > 1.2 && more < 1.0 + 1.0 / 3));
    launch_estimate_fini(&made);
    launch_estimate_fini(&plain);
}

/* 2 replicas x 2 that share tensors x 2 stages, on hosts of 4 ranks. */
static void the_bill_has_each_exchange(void **state)
{
    (void)state;
    launch_ask ask = ask_of(model_of("minigpt"));
    launch_estimate made = estimate_of(&ask, 2, 2, 2);
    const double row_bytes = 2 * 64 * 128 * 4;
    assert_int_equal(made.run.pipeline.micro_batches, 8);

    const launch_bill_row *sums = row_of(&made, "partial sums");
    assert_int_equal(sums->ranks, 2);
    assert_false(sums->between_hosts);
    assert_true(sums->times == 8 * (2 * 2 * 1 + 1)); /* of a layer, and at the end */
    assert_true(sums->payload_bytes == row_bytes);
    assert_true(is_close(sums->sent_bytes, sums->times * row_bytes));
    assert_true(is_close(sums->took_s, sums->times * (1e-6 + row_bytes / 1e9)));

    const launch_bill_row *gradients = row_of(&made, "gradients");
    const launch_stage first = launch_model_stage(&ask.model, 2, 0);
    assert_int_equal(gradients->ranks, 2);
    assert_false(gradients->between_hosts);
    assert_true(is_close(gradients->payload_bytes * gradients->times,
                         4 * launch_stage_params(&ask.model, &first, 2)));

    const launch_bill_row *sends = row_of(&made, "activations");
    assert_true(sends->between_hosts);
    assert_true(sends->times == 8); /* of two stages each sends one way */
    assert_true(is_close(sends->took_s, 8 * (0.5e-3 + row_bytes / 1e6)));
    assert_true(is_close(row_of(&made, "tied gradient")->sent_bytes, 8 * 512 * 128 * 4 / 2.0));
    assert_true(is_close(row_of(&made, "tied sum")->sent_bytes, 512 * 128 * 4 / 2.0));
    assert_int_equal(made.row_count, 6);
    launch_estimate_fini(&made);

    made = estimate_of(&ask, 1, 1, 2);
    assert_int_equal(made.row_count, 3);
    assert_false(row_of(&made, "activations")->between_hosts);
    launch_estimate_fini(&made);
}

/* Each row is of the stage with most of its kind, not of the slowest one. */
static void rows_are_of_the_rank_with_most(void **state)
{
    (void)state;
    launch_ask ask = ask_of(model_of("gpt2"));
    ask.batch = 1;
    launch_estimate made = estimate_of(&ask, 1, 2, 8);
    /* two layers in the first stages, one in the last, which computes longest */
    assert_int_equal(launch_model_stage(&ask.model, 8, 0).layers, 2);
    assert_int_equal(launch_model_stage(&ask.model, 8, 7).layers, 1);
    assert_true(row_of(&made, "partial sums")->times == 32 * (2 * 2 * 2 + 1));
    assert_true(row_of(&made, "softmax")->times == 32);
    assert_true(row_of(&made, "activations")->times == 2 * 32);
    launch_estimate_fini(&made);
}

/* Groups that straddle hosts exchange over the network, also if they are small. */
static void groups_straddle_hosts(void **state)
{
    (void)state;
    launch_ask ask = ask_of(model_of("gpt2"));
    launch_estimate made = estimate_of(&ask, 2, 3, 1); /* hosts of 4: ranks 3 to 5 are one group */
    assert_true(row_of(&made, "partial sums")->between_hosts);
    launch_estimate_fini(&made);
    made = estimate_of(&ask, 4, 2, 1);
    assert_false(row_of(&made, "partial sums")->between_hosts);
    assert_true(row_of(&made, "gradients")->between_hosts);
    launch_estimate_fini(&made);
}

/* With one stage there is nothing to interleave. */
static void one_stage_has_one_chunk(void **state)
{
    (void)state;
    launch_ask ask = ask_of(model_of("gpt2"));
    launch_estimate plain = estimate_of(&ask, 1, 1, 1);
    ask.schedule = PROTO_PIPELINE_INTERLEAVED;
    ask.chunks = 2;
    launch_estimate made = estimate_of(&ask, 1, 1, 1);
    assert_true(made.total_bytes == plain.total_bytes && made.step_s == plain.step_s);
    launch_estimate_fini(&made);
    launch_estimate_fini(&plain);
    made = estimate_of(&ask, 1, 1, 4);
    assert_int_equal(made.run.pipeline.chunks, 2);
    assert_true(row_of(&made, "activations")->times == 4 * 16);
    launch_estimate_fini(&made);
}

/* 2 T C + max(4 m C, 3 T C, l V) + 4 T, m = min(T, 16384), l = min(T, 4096): docs/GPU.md. */
static void work_memory_has_its_caps(void **state)
{
    (void)state;
    launch_ask ask = ask_of(model_of("gpt2"));
    ask.batch = 32;
    launch_estimate made = estimate_of(&ask, 1, 1, 1);
    const double tokens = 32768;
    const double queues = 64 << 20;
    double floats = 2 * tokens * 768 + 4096 * 50257.0 + 4 * tokens;
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_WORK], 4 * floats + queues));
    launch_estimate_fini(&made);
    ask.model.vocab_size = 100;
    made = estimate_of(&ask, 1, 1, 1);
    floats = 2 * tokens * 768 + 3 * tokens * 768 + 4 * tokens;
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_WORK], 4 * floats + queues));
    launch_estimate_fini(&made);
    ask.batch = 16;
    made = estimate_of(&ask, 1, 1, 1);
    floats = 16384 * (2 + 4) * 768.0 + 4 * 16384;
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_WORK], 4 * floats + queues));
    launch_estimate_fini(&made);
}

/* What a step is made of is the step. */
static void assert_times_add_up(bool recompute)
{
    launch_ask ask = ask_of(model_of("gpt2"));
    ask.device.host_ranks = 8;
    ask.recompute = recompute;
    for (int64_t data = 1; data <= 2; data++) {
        for (int64_t tensor = 1; tensor <= 4; tensor *= 2) {
            for (int64_t pipeline = 1; pipeline <= 4; pipeline++) {
                launch_estimate made = estimate_of(&ask, data, tensor, pipeline);
                const double sum = made.compute_s + made.merge_s + made.tensor_s + made.waiting_s +
                                   made.gradients_exposed_s + made.optimizer_s;
                assert_true(is_step(&made, sum));
                assert_true(made.gradients_exposed_s <= made.gradients_s * (1 + 1e-12));
                assert_true((made.run.result.bubble > 0) == (pipeline > 1));
                launch_estimate_fini(&made);
            }
        }
    }
}

static void times_add_up(void **state)
{
    (void)state;
    assert_times_add_up(false);
    assert_times_add_up(true);
}

static void decoding_reads_weights_and_cache(void **state)
{
    (void)state;
    launch_ask ask = ask_of(model_of("gpt2"));
    ask.decode = true;
    ask.batch = 1;
    launch_estimate made = estimate_of(&ask, 1, 1, 1);
    const double cache = 12 * 2 * 768 * 1024 * 4.0;
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_CACHE], cache));
    assert_true(is_close(made.compute_s, (4 * 124439808.0 + cache / 2) / 1e12));
    assert_int_equal(made.row_count, 0);
    launch_estimate_fini(&made);
    made = estimate_of(&ask, 1, 2, 1);
    assert_true(row_of(&made, "partial sums")->times == 25); /* two a layer, and the embedding */
    assert_true(row_of(&made, "partial sums")->payload_bytes == 768 * 4);
    assert_string_equal(row_of(&made, "best tokens")->operation, "all_gather");
    assert_true(is_step(&made, made.compute_s + made.tensor_s));
    launch_estimate_fini(&made);
}

static void the_search_finds_the_fastest_that_fits(void **state)
{
    (void)state;
    launch_ask ask = ask_of(model_of("gpt2"));
    ask.device.host_ranks = 8;
    launch_found found;
    base_error error;
    const launch_layout any = {.context_ranks = 1};
    assert_ok(launch_plan_search(&ask, 8, &any, &found, &error), &error);
    assert_int_equal(found.count, 9); /* 12 heads are not cut in 8 */
    assert_int_equal(found.left_out, 1);
    assert_int_equal(found.left_out_one.tensor, 8);
    assert_has(found.why, "the model's heads, 12");
    assert_non_null(found.estimates[0].run.spans);
    for (int i = 1; i < found.count; i++) {
        assert_true(found.estimates[i - 1].step_s <= found.estimates[i].step_s);
        assert_null(found.estimates[i].run.spans);
    }
    const double least_s = found.estimates[0].step_s;
    const double most_bytes = found.estimates[0].total_bytes;
    launch_found_fini(&found);

    ask.device.memory_bytes = most_bytes - 1;
    assert_ok(launch_plan_search(&ask, 8, &any, &found, &error), &error);
    assert_true(found.estimates[0].fits && found.estimates[0].step_s >= least_s);
    launch_found_fini(&found);

    ask.device.memory_bytes = 1;
    assert_ok(launch_plan_search(&ask, 8, &any, &found, &error), &error);
    for (int i = 1; i < found.count; i++) {
        assert_true(found.estimates[i - 1].total_bytes <= found.estimates[i].total_bytes);
    }
    launch_found_fini(&found);

    /* a layout with more tasks than are played is left out */
    ask.device.memory_bytes = 1e12;
    ask.batch = 1;
    ask.global_batch = 65536;
    assert_ok(launch_plan_search(&ask, 12, &any, &found, &error), &error);
    assert_true(found.count > 0 && found.estimates[0].fits);
    launch_found_fini(&found);
    ask.global_batch = 32;

    const launch_layout stages = {.pipeline = 2, .context_ranks = 1};
    assert_ok(launch_plan_search(&ask, 8, &stages, &found, &error), &error);
    for (int i = 0; i < found.count; i++) {
        assert_int_equal(found.estimates[i].layout.pipeline, 2);
    }
    launch_found_fini(&found);
}

static void assert_refused(const launch_ask *ask, int64_t ranks, launch_layout wanted,
                           const char *words)
{
    launch_found found;
    base_error error;
    wanted.context_ranks = 1;
    assert_int_equal(launch_plan_search(ask, ranks, &wanted, &found, &error), BASE_ERR_INVALID);
    assert_has(error.message, words);
    launch_found_fini(&found);
}

static void impossible_layouts_are_refused_with_the_reason(void **state)
{
    (void)state;
    launch_ask ask = ask_of(model_of("gpt2"));
    assert_refused(&ask, 8, (launch_layout){.tensor = 8}, "the model's heads, 12");
    assert_refused(&ask, 8, (launch_layout){.tensor = 3},
                   "no layout of 8 ranks: data × tensor × pipeline must be that many");
    assert_refused(&ask, 16, (launch_layout){.pipeline = 16}, "12 layers are too few");
    ask.global_batch = 30;
    assert_refused(&ask, 2, (launch_layout){.data = 2}, "30 sequences");
    ask.decode = true;
    assert_refused(&ask, 2, (launch_layout){.pipeline = 2}, "--pipeline");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_as_published),
        cmocka_unit_test(parts_make_the_whole),
        cmocka_unit_test(the_last_stage_has_fewer_layers),
        cmocka_unit_test(one_rank_exchanges_nothing),
        cmocka_unit_test(memory_is_what_ranks_hold),
        cmocka_unit_test(recompute_takes_time_for_memory),
        cmocka_unit_test(what_fits_with_recompute_says_so),
        cmocka_unit_test(gpipe_holds_all_activations),
        cmocka_unit_test(a_split_backward_is_shorter_and_holds_more),
        cmocka_unit_test(the_bill_has_each_exchange),
        cmocka_unit_test(rows_are_of_the_rank_with_most),
        cmocka_unit_test(groups_straddle_hosts),
        cmocka_unit_test(one_stage_has_one_chunk),
        cmocka_unit_test(work_memory_has_its_caps),
        cmocka_unit_test(times_add_up),
        cmocka_unit_test(decoding_reads_weights_and_cache),
        cmocka_unit_test(the_search_finds_the_fastest_that_fits),
        cmocka_unit_test(impossible_layouts_are_refused_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
