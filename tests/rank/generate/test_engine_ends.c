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
    world_close(&w);
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

/* The last rank drafts with another model. Nobody takes a token of such a step. */
static void other_drafts_body(test_rank *rank)
{
    world *w = rank->user;
    const base_status status = world_answer(w, coll_context_world(rank->context), &rank->failure);
    RANK_CHECK(rank, status == BASE_ERR_PEER);
    RANK_CHECK(rank, strstr(rank->failure.message, "has drafted other tokens") != NULL);
}

static void ranks_that_draft_other_tokens_end(void **state)
{
    (void)state;
    static world w;
    world_open(&w, LONG_CONTEXT);
    w.other_drafter = DRAFTER_NEAR;
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        memset(w.answers, 0, sizeof w.answers);
        w.plan = (plan){.ranks = ranks,
                        .sequences = 4,
                        .chunk_tokens = 16,
                        .draft_max = 8,
                        .drafter = DRAFTER_SAME};
        test_ranks_as_threads(
            &(test_ranks_options){.size = ranks, .transport = COLL_TRANSPORT_SHM, .user = &w},
            other_drafts_body);
    }
    world_close(&w);
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
    world_close(&w);
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
    world_close(&w);
}

/* A model whose weights come slowly: all of them take longer than the others wait for one collective. */
typedef struct slow_weights {
    rank_tensor_source source;
    int64_t read_ns; /* of each part */
} slow_weights;

static base_status read_slowly(void *user, const rank_row_part *part, float *to, base_error *reterr)
{
    const slow_weights *slow = user;
    const int64_t until_ns = base_now_ns() + slow->read_ns;
    while (base_now_ns() < until_ns) {
    }
    return slow->source.read(slow->source.user, part, to, reterr);
}

static const int64_t ALONE_TIMEOUT_NS = 2 * BASE_NS_PER_S;
enum { ALONE_PARTS = 300 }; /* at least so many parts are read */

/* Loads rank 0's engine, and steps it until it has worked for twice the timeout. */
static base_status work_alone(const world *w, rank_alone *alone, base_error *reterr)
{
    rank_device device = {.backend = NULL};
    rank_engine *engine = NULL;
    rank_flat_params params = {&w->config, w->params};
    slow_weights slow = {rank_flat_source(&params), 3 * ALONE_TIMEOUT_NS / 2 / ALONE_PARTS};
    const rank_tensor_source source = {read_slowly, &slow};
    const int64_t began_ns = base_now_ns();
    base_status status = rank_device_open("cpu", &device, reterr);
    if (status == BASE_OK) {
        status = rank_engine_create(&(rank_engine_options){.config = &w->config,
                                                           .device = &device,
                                                           .source = &source,
                                                           .sequences = 1,
                                                           .chunk_tokens = 4,
                                                           .block_tokens = BLOCK_TOKENS,
                                                           .waiting_max = 1,
                                                           .alone = alone},
                                    &engine, reterr);
    }
    if (status == BASE_OK && base_now_ns() - began_ns < ALONE_TIMEOUT_NS) {
        status = base_fail(reterr, BASE_ERR_STATE, "the weights came too soon");
    }
    const int64_t loaded_ns = base_now_ns();
    while (status == BASE_OK && base_now_ns() - loaded_ns < 3 * ALONE_TIMEOUT_NS / 2) {
        bool ended = false;
        status = rank_engine_step(engine, false, &ended, reterr);
    }
    rank_engine_destroy(engine);
    rank_device_close(&device);
    return status;
}

static void sleeping_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    rank_alone alone = {.comm = comm, .timeout_ns = ALONE_TIMEOUT_NS};
    rank_alone_state state = RANK_ALONE_WAIT;
    if (rank->rank == 0) {
        RANK_OK(rank, work_alone(rank->user, &alone, &rank->failure));
        RANK_OK(rank, rank_alone_end(&alone, RANK_ALONE_DONE, &rank->failure));
        return;
    }
    RANK_OK(rank, rank_alone_sleep(comm, &state, &rank->failure));
    RANK_CHECK(rank, state == RANK_ALONE_DONE);
}

/* Neither loading nor steps of the one that works let the others' collective time out. */
static void ranks_sleep_longer_than_the_timeout(void **state)
{
    (void)state;
    static world w;
    world_open(&w, CONTEXT);
    test_ranks_as_threads(
        &(test_ranks_options){
            .size = 2, .transport = COLL_TRANSPORT_SHM, .timeout_ns = ALONE_TIMEOUT_NS, .user = &w},
        sleeping_body);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_remaining_ranks_end_with_an_error),
        cmocka_unit_test(logits_that_are_no_numbers_end_all_ranks),
        cmocka_unit_test(ranks_that_draft_other_tokens_end),
        cmocka_unit_test(bfloat16_is_refused_on_a_cpu),
        cmocka_unit_test(ranks_sleep_longer_than_the_timeout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
