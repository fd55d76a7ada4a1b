/* The engine: a sequence's tokens depend only on its prompt and parameters. The reference is one
 * rank that answers one request after the other, each prompt in one piece. Against it: 1, 2 and 4
 * ranks over every transport, requests that join and leave between steps, chunks of any length,
 * caches in which requests wait, beginnings that are cached already, and drafts. Then a rank that leaves. Ranks are
 * threads. */
#include "generate/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ranks.h"
#include "support.h"

enum {
    VOCAB = 100,
    CONTEXT = 48,
    LONG_CONTEXT = 80,
    REQUESTS = 20,
    RANKS_MAX = 4,
    BLOCK_TOKENS = 8,
    SAME_TOKENS = 20,
    WAITING_MAX = 6,
    CANCEL_AFTER = 3, /* tokens */
    STEPS_MAX = 2000,
};

/* The answer to a request, as one rank has it. */
typedef struct answer {
    int32_t tokens[LONG_CONTEXT];
    int count;
    rank_finish finish;
} answer;

/* How a scenario differs from the reference. */
typedef struct plan {
    const char *name;
    int ranks; /* 0: no communicator at all */
    coll_transport transport;
    int sequences;
    int chunk_tokens;
    int cache_tokens; /* 0: enough */
    int join_every;   /* steps between two submissions; 0: as soon as they may wait */
    bool cancels;     /* every third request, once it has CANCEL_AFTER tokens */
    rank_type type;   /* of matrices */
    bool shares;      /* beginnings are cached */
    int draft_max;    /* tokens of a draft */
} plan;

typedef struct world {
    rank_model_config config; /* with a LONG_CONTEXT texts are long, and repeat themselves */
    float *params;
    plan plan;
    answer answers[RANKS_MAX][REQUESTS];
    int cached[RANKS_MAX]; /* tokens of prompts that were not computed */
    rank_engine_costs costs[RANKS_MAX];
    /* a rank that leaves: */
    int leaver;
    int leaves_after; /* steps */
} world;

typedef struct listener {
    world *w;
    int rank;
} listener;

static const rank_model_config shape = {
    .vocab_size = VOCAB, .width = 64, .layers = 2, .heads = 4, .context = CONTEXT};

static int prompt_count(int i)
{
    static const int counts[] = {1, 46, 7, 8, 9, 23, 16, 3, 33, 2};
    return counts[i % 10];
}

static void make_request(const world *w, int i, rank_request *request, int32_t *prompt)
{
    static const rank_sample_params ways[] = {
        {.top_p = 1},
        {.temperature = 0.8, .top_p = 1, .seed = 5},
        {.temperature = 1.2, .top_p = 1, .top_k = 12, .seed = 6},
        {.temperature = 0.9, .top_p = 0.7, .seed = 7},
    };
    *request = (rank_request){
        .prompt_count = prompt_count(i), .max_new_tokens = 1 + i * 5 % 17, .sample = ways[i % 4]};
    request->sample.prompt_index = (uint64_t)i;
    if (w->config.context == LONG_CONTEXT) {
        request->max_new_tokens *= 7;
        request->sample.temperature *= 0.1 + 0.3 * (i % 3);
    }
    if (i % 5 == 0) {
        request->stop_count = 2;
        request->stops[0] = 17 + i;
        request->stops[1] = 71;
    }
    for (int k = 0; k < request->prompt_count; k++) {
        const int text = k < SAME_TOKENS ? i % 2 : i; /* two beginnings, and many ends */
        prompt[k] = (text * 31 + k * k * 7 + k) % VOCAB;
    }
}

static void on_event(void *user, const rank_schedule_event *event)
{
    const listener *l = user;
    answer *one = &l->w->answers[l->rank][event->request_id - 1];
    if (event->token >= 0 && one->count < LONG_CONTEXT) {
        one->tokens[one->count++] = event->token;
    }
    one->finish = event->finish;
}

static void on_begin(void *user, uint64_t request_id, int32_t cached)
{
    const listener *l = user;
    (void)request_id;
    l->w->cached[l->rank] += cached;
}

/* ---- one rank ---- */

/* Rank 0's part of a step: which requests it submits, and which it cancels. */
static base_status decide(rank_engine *engine, world *w, int step, int *submitted, bool *last,
                          base_error *reterr)
{
    base_status status = BASE_OK;
    const plan *p = &w->plan;
    bool due = p->join_every == 0 || step % p->join_every == 0;
    while (status == BASE_OK && due && *submitted < REQUESTS &&
           rank_engine_waiting(engine) < WAITING_MAX) {
        rank_request request;
        int32_t prompt[CONTEXT];
        make_request(w, *submitted, &request, prompt);
        status = rank_engine_submit(engine, &request, prompt, reterr);
        (*submitted)++;
        due = p->join_every == 0;
    }
    for (int i = 0; p->cancels && i < *submitted; i += 3) {
        const answer *one = &w->answers[0][i];
        if (one->count >= CANCEL_AFTER && one->finish == RANK_FINISH_NOT) {
            (void)rank_engine_cancel(engine, (uint64_t)i + 1);
        }
    }
    *last = *submitted == REQUESTS && rank_engine_is_idle(engine);
    return status;
}

static base_status drive(rank_engine *engine, world *w, int rank, base_error *reterr)
{
    base_status status = BASE_OK;
    int submitted = 0;
    bool ended = false;
    for (int step = 0; status == BASE_OK && !ended; step++) {
        bool last = false;
        if (step == STEPS_MAX) {
            return base_fail(reterr, BASE_ERR_STATE, "it does not come to an end");
        }
        if (rank == w->leaver && step == w->leaves_after) {
            return BASE_OK;
        }
        if (rank == 0) {
            status = decide(engine, w, step, &submitted, &last, reterr);
        }
        if (status == BASE_OK) {
            status = rank_engine_step(engine, last, &ended, reterr);
        }
    }
    return status;
}

static base_status answer_all(world *w, coll_comm *comm, base_error *reterr)
{
    listener l = {.w = w, .rank = comm != NULL ? coll_comm_rank(comm) : 0};
    rank_device device = {.backend = NULL};
    rank_engine *engine = NULL;
    rank_flat_params params = {&w->config, w->params};
    const rank_tensor_source source = rank_flat_source(&params);
    base_status status = rank_device_open("cpu", &device, reterr);
    if (status == BASE_OK) {
        status = rank_engine_create(&(rank_engine_options){.config = &w->config,
                                                           .device = &device,
                                                           .comm = comm,
                                                           .source = &source,
                                                           .type = w->plan.type,
                                                           .sequences = w->plan.sequences,
                                                           .chunk_tokens = w->plan.chunk_tokens,
                                                           .block_tokens = BLOCK_TOKENS,
                                                           .cache_tokens = w->plan.cache_tokens,
                                                           .waiting_max = WAITING_MAX,
                                                           .on_event = on_event,
                                                           .on_begin = on_begin,
                                                           .shares = w->plan.shares,
                                                           .draft_max = w->plan.draft_max,
                                                           .user = &l},
                                    &engine, reterr);
    }
    if (status == BASE_OK) {
        status = drive(engine, w, l.rank, reterr);
        w->costs[l.rank] = rank_engine_get_costs(engine);
    }
    rank_engine_destroy(engine);
    rank_device_close(&device);
    return status;
}

static void answer_body(test_rank *rank)
{
    RANK_OK(rank, answer_all(rank->user, coll_context_world(rank->context), &rank->failure));
}

/* ---- scenarios ---- */

static void world_open(world *w, int context)
{
    *w = (world){.config = shape, .leaver = -1};
    w->config.context = context;
    w->config.family = rank_family_default();
    const size_t count = rank_model_param_count(&w->config);
    w->params = malloc(count * sizeof *w->params);
    assert_non_null(w->params);
    rank_model_init(&w->config, 7, w->params);
    for (size_t i = 0; i < count; i++) { /* livelier than fresh parameters; biases, too */
        const float lively = w->params[i] * 6.0f + (float)(i % 7) * 0.01f;
        uint32_t bits = 0;
        memcpy(&bits, &lively, sizeof bits);
        bits &= 0xffff0000; /* a bfloat16 */
        memcpy(&w->params[i], &bits, sizeof bits);
    }
    const size_t embedding = VOCAB * (size_t)shape.width; /* that of positions is behind it */
    for (size_t i = 0; context == LONG_CONTEXT && i < (size_t)(context * shape.width); i++) {
        w->params[embedding + i] = 0; /* the same tokens are followed by the same */
    }
}

static void run_plan(world *w, const plan *p)
{
    base_error error;
    w->plan = *p;
    memset(w->answers, 0, sizeof w->answers);
    memset(w->cached, 0, sizeof w->cached);
    if (p->ranks == 0) {
        assert_ok(answer_all(w, NULL, &error), &error);
        return;
    }
    test_ranks_as_threads(
        &(test_ranks_options){.size = p->ranks, .transport = p->transport, .user = w}, answer_body);
}

static const plan reference_plan = {.name = "the reference", .sequences = 1, .chunk_tokens = 512};

/* A cancelled sequence has the reference's first tokens; any other has them all. */
static void check_answers(const world *w, const answer *expected)
{
    const plan *p = &w->plan;
    for (int rank = 0; rank < (p->ranks > 0 ? p->ranks : 1); rank++) {
        for (int i = 0; i < REQUESTS; i++) {
            const answer *got = &w->answers[rank][i];
            const bool cancelled = got->finish == RANK_FINISH_CANCELLED;
            if (cancelled ? !(p->cancels && i % 3 == 0 && got->count >= CANCEL_AFTER)
                          : got->count != expected[i].count || got->finish != expected[i].finish) {
                fail_msg("%s: rank %d, request %d: %d tokens and end %d, not %d and %d", p->name,
                         rank, i, got->count, (int)got->finish, expected[i].count,
                         (int)expected[i].finish);
            }
            assert_true(got->count <= expected[i].count);
            for (int k = 0; k < got->count; k++) {
                if (got->tokens[k] != expected[i].tokens[k]) {
                    fail_msg("%s: rank %d, request %d, token %d: %d, not %d", p->name, rank, i, k,
                             (int)got->tokens[k], (int)expected[i].tokens[k]);
                }
            }
        }
    }
}

static int count_ends(const answer *answers, rank_finish finish)
{
    int count = 0;
    for (int i = 0; i < REQUESTS; i++) {
        count += answers[i].finish == finish;
    }
    return count;
}

/* A model that always gives the same token would prove nothing. */
static int count_different(const answer *answers)
{
    bool drawn[VOCAB] = {false};
    int count = 0;
    for (int i = 0; i < REQUESTS; i++) {
        for (int k = 0; k < answers[i].count; k++) {
            count += !drawn[answers[i].tokens[k]];
            drawn[answers[i].tokens[k]] = true;
        }
    }
    return count;
}

/* All ranks have had the same drafts, and of these many were right and many wrong. */
static void check_drafts(const plan *p, const rank_engine_costs *rank,
                         const rank_engine_costs *first)
{
    const uint64_t least = p->draft_max > 0 ? 50 : 0;
    assert_int_equal(rank->drafted, first->drafted);
    assert_int_equal(rank->accepted, first->accepted);
    assert_true(rank->accepted >= 4 * least);
    assert_true(rank->drafted >= rank->accepted + least);
    assert_true(p->draft_max > 0 || rank->drafted == 0);
}

static void run_plans_of(int context, const plan *plans, size_t count)
{
    static answer expected[REQUESTS];
    static world w;
    plan reference = reference_plan;
    reference.type = plans[0].type == RANK_INT8 ? RANK_INT8 : RANK_FLOAT32; /* other numbers */
    world_open(&w, context);
    run_plan(&w, &reference);
    memcpy(expected, w.answers[0], sizeof expected);
    assert_true(count_ends(expected, RANK_FINISH_LENGTH) > 5);
    assert_true(count_ends(expected, RANK_FINISH_CONTEXT) > 0);
    assert_int_equal(count_ends(expected, RANK_FINISH_NOT), 0);
    assert_true(count_different(expected) > 20);
    for (size_t i = 0; i < count; i++) {
        run_plan(&w, &plans[i]);
        check_answers(&w, expected);
        if (plans[i].cancels) {
            assert_true(count_ends(w.answers[0], RANK_FINISH_CANCELLED) > 2);
        }
        for (int rank = 0; rank < plans[i].ranks || rank == 0; rank++) {
            assert_int_equal(w.cached[rank], w.cached[0]);
            check_drafts(&plans[i], &w.costs[rank], &w.costs[0]);
            assert_true(plans[i].shares ? w.cached[rank] >= 2 * BLOCK_TOKENS : w.cached[rank] == 0);
        }
    }
    free(w.params);
}

static void run_plans(const plan *plans, size_t count)
{
    run_plans_of(CONTEXT, plans, count);
}

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static void every_world_draws_the_same_tokens(void **state)
{
    (void)state;
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                                COLL_TRANSPORT_ZMQ};
    plan plans[9];
    for (size_t i = 0; i < COUNT_OF(plans); i++) {
        plans[i] = (plan){.name = coll_transport_name(transports[i % 3]),
                          .ranks = 1 << i / 3,
                          .transport = transports[i % 3],
                          .sequences = 8,
                          .chunk_tokens = 512};
    }
    run_plans(plans, COUNT_OF(plans));
}

static void run_batches(const char *name, rank_type type)
{
    static const int chunks[] = {1, 7, 512};
    plan plans[18];
    for (size_t i = 0; i < COUNT_OF(plans); i++) {
        plans[i] = (plan){.name = name,
                          .ranks = (int)(i / 6),
                          .transport = COLL_TRANSPORT_SHM,
                          .sequences = i % 2 == 0 ? 1 : 8,
                          .chunk_tokens = chunks[i / 2 % 3],
                          .type = type};
    }
    run_plans(plans, COUNT_OF(plans));
}

static void batches_and_chunks_change_no_token(void **state)
{
    (void)state;
    run_batches("a batch and a chunk", RANK_FLOAT32);
}

static void matrices_in_bfloat16_change_no_token(void **state)
{
    (void)state;
    run_batches("bfloat16", RANK_BFLOAT16);
}

static void matrices_in_int8_have_one_text_in_every_batch(void **state)
{
    (void)state;
    run_batches("int8", RANK_INT8);
}

/* Ranks, transport, sequences, tokens of a chunk, of the cache, steps between two submissions, cancels, type, shares,
 * drafts. */
static const plan busy[] = {
    {"joining", 0, COLL_TRANSPORT_AUTO, 8, 7, 0, 2, false, RANK_FLOAT32, false, 0},
    {"rare joins, idle steps", 0, COLL_TRANSPORT_AUTO, 3, 512, 0, 30, false, RANK_FLOAT32, false,
     0},
    {"cancels", 0, COLL_TRANSPORT_AUTO, 8, 16, 0, 0, true, RANK_FLOAT32, false, 0},
    {"room for one", 0, COLL_TRANSPORT_AUTO, 8, 16, CONTEXT, 0, false, RANK_FLOAT32, false, 0},
    {"room for two", 0, COLL_TRANSPORT_AUTO, 8, 512, 2 * CONTEXT, 0, false, RANK_FLOAT32, false, 0},
    {"all on two ranks", 2, COLL_TRANSPORT_SHM, 5, 7, 2 * CONTEXT, 3, true, RANK_FLOAT32, false, 0},
    {"all on four", 4, COLL_TRANSPORT_TCP, 3, 5, 2 * CONTEXT, 5, true, RANK_FLOAT32, false, 0},
};

static void joining_leaving_and_waiting_change_no_token(void **state)
{
    (void)state;
    run_plans(busy, COUNT_OF(busy));
}

/* The same, with draws at high temperatures, which other bits of the keys and values would change. */
static void cached_beginnings_change_no_token(void **state)
{
    (void)state;
    plan plans[COUNT_OF(busy) + 2] = {
        {.name = "one after the other", .sequences = 1, .chunk_tokens = 512},
        {.name = "bfloat16", .sequences = 4, .chunk_tokens = 16, .type = RANK_BFLOAT16},
    };
    memcpy(plans + 2, busy, sizeof busy);
    for (size_t i = 0; i < COUNT_OF(plans); i++) {
        plans[i].shares = true;
    }
    run_plans(plans, COUNT_OF(plans));
}

/* Of the drafts some are right, some wrong, and some right in part. */
static void drafts_change_no_token(void **state)
{
    (void)state;
    plan plans[COUNT_OF(busy) + 8] = {
        {.name = "drafts of one", .sequences = 1, .chunk_tokens = 512, .draft_max = 1},
        {.name = "one after the other", .sequences = 1, .chunk_tokens = 512, .draft_max = 16},
        {.name = "a step's limit", .sequences = 20, .chunk_tokens = 3, .draft_max = 16},
        {.name = "bfloat16", .sequences = 8, .chunk_tokens = 16, .type = RANK_BFLOAT16},
        {.name = "two, tcp", .ranks = 2, .sequences = 8, .chunk_tokens = 512},
        {.name = "two, shm", .ranks = 2, .sequences = 1, .chunk_tokens = 7},
        {.name = "four, shm", .ranks = 4, .sequences = 8, .chunk_tokens = 512},
        {.name = "four, zmq", .ranks = 4, .sequences = 8, .chunk_tokens = 16},
    };
    plans[4].transport = COLL_TRANSPORT_TCP;
    plans[7].transport = COLL_TRANSPORT_ZMQ;
    memcpy(plans + 8, busy, sizeof busy);
    for (size_t i = 0; i < COUNT_OF(plans); i++) {
        plans[i].draft_max = plans[i].draft_max > 0 ? plans[i].draft_max : 6;
        plans[i].cache_tokens *= LONG_CONTEXT / CONTEXT + 1;
        plans[i].shares = i % 2 == 1;
    }
    run_plans_of(LONG_CONTEXT, plans, COUNT_OF(plans));
}

/* ---- a rank leaves ---- */

/* The ranks that stay must end with an error that names the one that left. That one has no
 * error. */
static void left_body(test_rank *rank)
{
    world *w = rank->user;
    char name[16];
    const base_status status = answer_all(w, coll_context_world(rank->context), &rank->failure);
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
    const base_status status = answer_all(&own, coll_context_world(rank->context), &error);
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
        cmocka_unit_test(every_world_draws_the_same_tokens),
        cmocka_unit_test(batches_and_chunks_change_no_token),
        cmocka_unit_test(matrices_in_bfloat16_change_no_token),
        cmocka_unit_test(matrices_in_int8_have_one_text_in_every_batch),
        cmocka_unit_test(joining_leaving_and_waiting_change_no_token),
        cmocka_unit_test(cached_beginnings_change_no_token),
        cmocka_unit_test(drafts_change_no_token),
        cmocka_unit_test(the_remaining_ranks_end_with_an_error),
        cmocka_unit_test(logits_that_are_no_numbers_end_all_ranks),
        cmocka_unit_test(bfloat16_is_refused_on_a_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
