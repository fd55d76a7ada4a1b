/* plan/model.h and plan/estimate.h of Llamas: counts that are published, and sums done by hand. */
#include "plan_case.h"

/* 4 heads of 24 in a stream of 64, so queries are wider than it; 2 heads of keys and values. */
static launch_model small_llama(bool tied)
{
    return (launch_model){.layers = 4,
                          .width = 64,
                          .heads = 4,
                          .vocab_size = 512,
                          .context = 32,
                          .context_max = 128,
                          .kv_heads = 2,
                          .head_width = 24,
                          .hidden = 160,
                          .gated = true,
                          .rms = true,
                          .rotated = true,
                          .tied = tied};
}

enum {
    QUERIES = 4 * 24,
    KEYS = 2 * 24,
    MATRICES = 64 * (2 * QUERIES + 2 * KEYS + 3 * 160), /* of a layer */
    LAYER = MATRICES + 2 * 64,
    EMBEDDING = 512 * 64,
};

static launch_ask small_ask(const launch_model *model)
{
    launch_ask ask = ask_of(model);
    ask.device.host_ranks = 8;
    ask.global_batch = 8;
    return ask;
}

/* An estimate without its timeline. */
static launch_estimate figures_of(const launch_ask *ask, int64_t data, int64_t tensor,
                                  int64_t pipeline)
{
    launch_estimate made = estimate_of(ask, data, tensor, pipeline);
    launch_estimate_fini(&made);
    return made;
}

/* The counts that the checkpoints' pages give, or that add up over their tensors. */
static void parameters_are_as_published(void **state)
{
    static const struct {
        const char *name;
        int64_t params;
        int64_t context;
        int64_t context_max;
    } published[] = {
        {"smollm2-135m", 134515008, 8192, 8192},      {"smollm2-360m", 361821120, 8192, 8192},
        {"smollm2-1.7b", 1711376384, 8192, 8192},     {"tinyllama-1.1b", 1100048384, 2048, 2048},
        {"llama-3.2-1b", 1235814400, 8192, 131072},   {"llama-3.1-8b", 8030261248, 8192, 131072},
        {"llama-3.1-70b", 70553706496, 8192, 131072}, {"mistral-7b", 7241732096, 8192, 32768},
        {"qwen2.5-0.5b", 494032768, 8192, 32768},     {"qwen2.5-7b", 7615616512, 8192, 32768},
        {"qwen3-0.6b", 596049920, 8192, 40960},       {"qwen3-1.7b", 1720574976, 8192, 40960},
        {"qwen3-4b", 4022468096, 8192, 40960},        {"qwen3-8b", 8190735360, 8192, 40960},
        {"smollm3-3b", 3075098624, 8192, 65536},      {"gemma-3-270m", 268098176, 8192, 32768},
        {"gemma-3-1b", 999885952, 8192, 32768},
    };
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        const launch_model *model = model_of(published[i].name);
        assert_int_equal(launch_model_params(model), published[i].params);
        assert_int_equal(model->context, published[i].context);
        assert_int_equal(model->context_max, published[i].context_max);
    }
}

/* Norms are whole on each rank, and both stages have a tied matrix. There are no biases, and no
 * embedding of positions. */
static void ranks_hold_each_parameter_once(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        const launch_model model = small_llama(tied == 1);
        const double whole = 4 * LAYER + 64 + (tied == 1 ? 1 : 2) * (double)EMBEDDING;
        assert_int_equal(launch_model_params(&model), (int64_t)whole);
        double sum = 0;
        for (int stage = 0; stage < 2; stage++) {
            const launch_stage part = launch_model_stage(&model, 2, stage);
            sum += launch_stage_params(&model, &part, 1);
        }
        assert_true(sum == whole + (tied == 1 ? EMBEDDING : 0));
        const launch_stage all = launch_model_stage(&model, 1, 0);
        assert_true(2 * launch_stage_params(&model, &all, 2) == whole + (4 * 2 + 1) * 64);
    }
}

/* Of a token: queries, keys and values as wide as queries, both factors of the MLP, and rope's table. */
static void training_keeps_what_backward_needs(void **state)
{
    (void)state;
    const launch_model model = small_llama(true);
    launch_ask ask = small_ask(&model);
    ask.global_batch = 2;
    launch_estimate made = figures_of(&ask, 1, 1, 1);
    double norm = 64 + 64 + 1;
    double floats = 4 * (2 * norm + 4 * QUERIES + 2 * 160 + 2 * 4) + norm + 24;
    assert_true(made.memory_bytes[LAUNCH_MEMORY_ACTIVATIONS] == 2 * 32 * 4 * floats);
    assert_true(made.memory_bytes[LAUNCH_MEMORY_WEIGHTS] ==
                4 * (double)launch_model_params(&model));
    /* the gradient of attention is wider than the stream, which has a bias of zeros and its gradient */
    const double work = 64 * (2 * 64 + 4) + 64 * 512 + 64 * QUERIES + 2 * 3 * QUERIES;
    assert_true(made.memory_bytes[LAUNCH_MEMORY_WORK] == 4 * work + (64 << 20));

    ask.precision = PROTO_PRECISION_BFLOAT16;
    made = figures_of(&ask, 1, 1, 1);
    norm = 64 + 32 + 1;
    floats = 4 * (2 * norm + 2 * QUERIES + 160 + 2 * 4) + norm + 24;
    assert_true(made.memory_bytes[LAUNCH_MEMORY_ACTIVATIONS] == 2 * 32 * 4 * floats);
}

static void a_step_takes_its_products(void **state)
{
    (void)state;
    const launch_model model = small_llama(false);
    const launch_ask ask = small_ask(&model);
    const launch_estimate made = figures_of(&ask, 1, 1, 1);
    /* each token attends to 16 in the mean */
    const double token = 4 * (2.0 * MATRICES + 4.0 * 16 * QUERIES) + 2.0 * EMBEDDING;
    assert_true(is_close(made.compute_s, 4 * 64 * 3 * token / 0.5e12));
    assert_true(is_close(launch_model_output_layers(&model),
                         2.0 * EMBEDDING / (2.0 * MATRICES + 4.0 * 16 * QUERIES)));
    const launch_estimate half = figures_of(&ask, 1, 2, 1);
    assert_true(is_close(half.compute_s, made.compute_s / 2));
}

/* As of a GPT-2, but that an output of its own is not exchanged between stages. */
static void the_bill_follows_the_stream(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        const launch_model model = small_llama(tied == 1);
        const launch_ask ask = small_ask(&model);
        const launch_estimate made = figures_of(&ask, 2, 2, 2);
        const launch_stage first = launch_model_stage(&model, 2, 0);
        const launch_bill_row *sums = row_of(&made, "partial sums");
        assert_true(sums->times == 2 * (4 * (double)first.layers + 1));
        assert_true(sums->payload_bytes == 64 * 64 * 4);
        assert_true(row_of(&made, "activations")->payload_bytes == 64 * 64 * 4);
        const launch_stage last = launch_model_stage(&model, 2, 1);
        const double params =
            fmax(launch_stage_params(&model, &first, 2), launch_stage_params(&model, &last, 2));
        const launch_bill_row *gradients = row_of(&made, "gradients");
        assert_true(is_close(gradients->payload_bytes * gradients->times, 4 * params));
        assert_int_equal(row_of(&made, "tied sum") != NULL, tied == 1);
    }
}

/* A rank has its own heads' part of the gradients of both norms, for each layer and micro-batch. */
static void gradients_of_norms_of_heads_are_added_up(void **state)
{
    (void)state;
    launch_model model = small_llama(true);
    launch_ask ask = small_ask(&model);
    const launch_estimate without = figures_of(&ask, 2, 2, 1);
    assert_null(row_of(&without, "norms of heads"));
    ask.model.head_norms = true;
    const launch_estimate alone = figures_of(&ask, 2, 1, 2);
    assert_null(row_of(&alone, "norms of heads"));
    const launch_estimate made = figures_of(&ask, 2, 2, 1);
    const launch_bill_row *norms = row_of(&made, "norms of heads");
    assert_int_equal(norms->ranks, 2);
    assert_true(norms->times == 2 * 4);
    assert_true(norms->payload_bytes == 2 * 24 * 4);
    assert_true(norms->took_s > 0);
    assert_true(is_close(made.tensor_s, without.tensor_s + norms->took_s));
    ask.decode = true; /* nothing is trained */
    const launch_estimate decoded = figures_of(&ask, 2, 2, 1);
    assert_null(row_of(&decoded, "norms of heads"));
}

/* Of 26 layers 4 see all tokens, and the others 512: 496 in the mean, for the first tokens see fewer. */
static void a_window_bounds_what_decoding_reads(void **state)
{
    (void)state;
    const launch_model *model = model_of("gemma-3-1b");
    launch_ask ask = small_ask(model);
    ask.decode = true;
    ask.batch = 1;
    ask.device.memory_bytes_per_s = 1e9;
    launch_estimate made = figures_of(&ask, 1, 1, 1);
    const double token = 26 * 2 * 256 * 4.0;
    const double seen = (4 * 4096.0 + 22 * 496.0) / 26;
    assert_true(is_close(launch_model_seen(model), seen));
    assert_true(made.memory_bytes[LAUNCH_MEMORY_CACHE] == token * 8192);
    assert_true(is_close(made.compute_s, (4 * 999885952.0 + token * seen) / 1e9));
    /* each of four ranks has the head of keys and values: its matrices, and its cache */
    made = figures_of(&ask, 1, 4, 1);
    const double matrices = 26 * 2 * 256 * 1152.0;
    const double whole = 26 * (4 * 1152 + 2 * 256.0) + 1152;
    assert_true(made.memory_bytes[LAUNCH_MEMORY_CACHE] == token * 8192);
    assert_true(is_close(made.memory_bytes[LAUNCH_MEMORY_WEIGHTS],
                         4 * ((999885952.0 - matrices - whole) / 4 + matrices + whole)));
    ask.model.context = 256; /* shorter than the window */
    assert_true(launch_model_seen(&ask.model) == 128);
}

/* A Gemma 3's layers, computed again, also add up what their MLPs add; and its windows bound attention. */
static void training_counts_norms_of_sums_and_windows(void **state)
{
    (void)state;
    const launch_model model = small_llama(true);
    launch_ask ask = small_ask(&model);
    ask.recompute = true;
    const launch_estimate plain = figures_of(&ask, 2, 2, 1);
    ask.model.after_norms = true;
    const launch_estimate normed = figures_of(&ask, 2, 2, 1);
    assert_true(row_of(&normed, "partial sums")->times ==
                row_of(&plain, "partial sums")->times + 2 * 4);
    assert_true(normed.compute_s > plain.compute_s);
    ask.model.window = 4;
    const launch_estimate bounded = figures_of(&ask, 2, 2, 1);
    assert_true(bounded.compute_s < normed.compute_s);
}

static void decoding_caches_the_heads_of_keys(void **state)
{
    (void)state;
    const launch_model model = small_llama(false);
    launch_ask ask = small_ask(&model);
    ask.decode = true;
    ask.device.memory_bytes_per_s = 1e9;
    launch_estimate made = figures_of(&ask, 1, 1, 1);
    const double cache = 2 * 32 * 4 * 2 * KEYS * 4.0;
    const double params = (double)launch_model_params(&model);
    assert_true(made.memory_bytes[LAUNCH_MEMORY_CACHE] == cache);
    assert_true(made.memory_bytes[LAUNCH_MEMORY_WEIGHTS] == 4 * params);
    /* of the embedding only the tokens' rows are read */
    assert_true(is_close(made.compute_s, (4 * (params - EMBEDDING) + cache / 2) / 1e9));
    made = figures_of(&ask, 1, 2, 1);
    assert_true(made.memory_bytes[LAUNCH_MEMORY_CACHE] == cache / 2);
    assert_true(row_of(&made, "partial sums")->times == 2 * 4 + 1);
    assert_true(row_of(&made, "partial sums")->payload_bytes == 2 * 64 * 4);

    /* 128 KiB a token in bfloat16: a quarter of what 32 heads would take */
    ask.model = *model_of("llama-3.1-8b");
    ask.precision = PROTO_PRECISION_BFLOAT16;
    ask.batch = 1;
    made = figures_of(&ask, 1, 1, 1);
    assert_true(made.memory_bytes[LAUNCH_MEMORY_CACHE] == 8192.0 * (128 << 10));
}

static void ranks_share_whole_heads_of_keys(void **state)
{
    (void)state;
    launch_model model = *model_of("llama-3.1-8b");
    launch_ask ask = small_ask(&model);
    launch_estimate made;
    base_error error;
    const launch_layout sixteen = {.data = 1, .tensor = 16, .pipeline = 1, .context_ranks = 1};
    assert_int_equal(launch_estimate_make(&ask, &sixteen, &made, &error), BASE_ERR_INVALID);
    assert_string_equal(error.message, "--tensor 16 does not divide the model's heads of keys and "
                                       "values, 8: take one that does, as --tensor 8");
    ask.model.hidden = 14338;
    const launch_layout eight = {.data = 1, .tensor = 8, .pipeline = 1, .context_ranks = 1};
    assert_int_equal(launch_estimate_make(&ask, &eight, &made, &error), BASE_ERR_INVALID);
    assert_string_equal(error.message, "--tensor 8 does not divide the model's columns of the MLP, "
                                       "14338: take one that does, as --tensor 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_as_published),
        cmocka_unit_test(ranks_hold_each_parameter_once),
        cmocka_unit_test(training_keeps_what_backward_needs),
        cmocka_unit_test(a_step_takes_its_products),
        cmocka_unit_test(the_bill_follows_the_stream),
        cmocka_unit_test(gradients_of_norms_of_heads_are_added_up),
        cmocka_unit_test(a_window_bounds_what_decoding_reads),
        cmocka_unit_test(training_counts_norms_of_sums_and_windows),
        cmocka_unit_test(decoding_caches_the_heads_of_keys),
        cmocka_unit_test(ranks_share_whole_heads_of_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
