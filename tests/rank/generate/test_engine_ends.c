/* How an engine's work ends otherwise: a rank leaves, weights are no numbers, or it is refused. Ranks are
 * threads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine_world.h"
#include "ranks.h"

/* The ranks that stay must end with an error that names the one that left. That one has no
 * error. */
static void left_body(test_rank *rank)
{
    world *w = rank->user;
    char name[16];
    const base_status status = world_answer(w, coll_context_world(rank->context), &rank->failure);
    (void)snprintf(name, sizeof name, "rank %d", w->leaver);
    if (rank->rank == w->leaver) {
        coll_context_abort(rank->context, "it has failed");
        return;
    }
    RANK_CHECK(rank, status == BASE_ERR_PEER || status == BASE_ERR_TIMEOUT);
    RANK_CHECK(rank, strstr(rank->failure.message, name) != NULL);
}

static void the_remaining_ranks_end_with_an_error(void **state)
{
    (void)state;
    static world w;
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                                COLL_TRANSPORT_ZMQ};
    world_open(&w, CONTEXT);
    for (int leaver = 0; leaver < 2; leaver++) {
        for (int t = 0; t < 3; t++) {
            memset(w.answers, 0, sizeof w.answers);
            w.leaver = leaver;
            w.leaves_after = 4 + t;
            w.plan = (plan){.sequences = 4, .chunk_tokens = 16};
            test_ranks_as_threads(&(test_ranks_options){.size = 2,
                                                        .transport = transports[t],
                                                        .timeout_ns = 4 * BASE_NS_PER_S,
                                                        .user = &w},
                                  left_body);
        }
    }
    free(w.params);
}

/* Rank 0's weights become NaN. It finds no token, and all ranks end. */
static void not_a_number_body(test_rank *rank)
{
    world *w = rank->user;
    world own = *w;
    base_error error;
    const size_t count = rank_model_param_count(&w->config);
    own.params = malloc(count * sizeof *own.params);
    RANK_CHECK(rank, own.params != NULL);
    memcpy(own.params, w->params, count * sizeof *own.params);
    if (rank->rank == 0) {
        for (size_t i = 0; i < VOCAB * 64; i++) { /* its ids of the embedding */
            own.params[i] = 1e30f * 1e30f;
        }
    }
    const base_status status = world_answer(&own, coll_context_world(rank->context), &error);
    free(own.params);
    RANK_CHECK(rank, status == BASE_ERR_INVALID);
}

static void logits_that_are_no_numbers_end_all_ranks(void **state)
{
    (void)state;
    static world w;
    world_open(&w, CONTEXT);
    w.plan = (plan){.sequences = 4, .chunk_tokens = 16};
    test_ranks_as_threads(
        &(test_ranks_options){.size = 2, .transport = COLL_TRANSPORT_SHM, .user = &w},
        not_a_number_body);
    free(w.params);
}

/* The launcher refuses that before; an engine of another caller does, too. */
static void bfloat16_is_refused_on_a_cpu(void **state)
{
    (void)state;
    static world w;
    base_error error;
    rank_device device = {.backend = NULL};
    rank_engine *engine = NULL;
    world_open(&w, CONTEXT);
    rank_flat_params params = {&w.config, w.params};
    const rank_tensor_source source = rank_flat_source(&params);
    assert_ok(rank_device_open("cpu", &device, &error), &error);
    assert_int_equal(rank_engine_create(&(rank_engine_options){.config = &w.config,
                                                               .device = &device,
                                                               .source = &source,
                                                               .cache_type = RANK_BFLOAT16,
                                                               .sequences = 1,
                                                               .chunk_tokens = 4,
                                                               .block_tokens = BLOCK_TOKENS,
                                                               .waiting_max = 1},
                                        &engine, &error),
                     BASE_ERR_UNSUPPORTED);
    assert_string_equal(error.message, "the backend cpu decodes in float32 only");
    assert_null(engine);
    rank_device_close(&device);
    free(w.params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_remaining_ranks_end_with_an_error),
        cmocka_unit_test(logits_that_are_no_numbers_end_all_ranks),
        cmocka_unit_test(bfloat16_is_refused_on_a_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
