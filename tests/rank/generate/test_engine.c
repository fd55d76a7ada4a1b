/* The engine: a sequence's tokens depend only on its prompt and parameters. The reference is one
 * rank that answers one request after the other, each prompt in one piece. Against it: 1, 2 and 4
 * ranks over every transport, requests that join and leave between steps, chunks of any length,
 * caches in which requests wait, beginnings that are cached already, and drafts. Ranks are threads. */
#include <stdlib.h>
#include <string.h>

#include "engine_world.h"
#include "ranks.h"

static void answer_body(test_rank *rank)
{
    RANK_OK(rank, world_answer(rank->user, coll_context_world(rank->context), &rank->failure));
}

static void run_plan(world *w, const plan *p)
{
    base_error error;
    w->plan = *p;
    memset(w->answers, 0, sizeof w->answers);
    memset(w->cached, 0, sizeof w->cached);
    if (p->ranks == 0) {
        assert_ok(world_answer(w, NULL, &error), &error);
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

/* Each token's own log-probability, and those of the best: the same bits on every rank and in every plan. */
static void check_logprobs(const world *w, const answer *expected)
{
    for (int rank = 0; rank < (w->plan.ranks > 0 ? w->plan.ranks : 1); rank++) {
        for (int i = 0; i < REQUESTS; i++) {
            const answer *got = &w->answers[rank][i];
            for (int k = 0; k < got->count * LOGPROBS_MAX; k++) {
                const rank_logprob *a = &got->logprobs[k / LOGPROBS_MAX][k % LOGPROBS_MAX];
                const rank_logprob *b = &expected[i].logprobs[k / LOGPROBS_MAX][k % LOGPROBS_MAX];
                if (a->token != b->token || a->value != b->value) {
                    fail_msg("%s: rank %d, request %d, %d: %.17g of %d, not %.17g of %d",
                             w->plan.name, rank, i, k, a->value, (int)a->token, b->value,
                             (int)b->token);
                }
            }
        }
    }
}

/* What a token's log-probability is once it is changed as the request asks for it, if nothing is said of
 * repetition. */
static double changed(const rank_request *request, const answer *one, int position,
                      const rank_logprob *of)
{
    double value = of->value;
    int times = 0;
    for (int k = 0; k < position; k++) {
        times += one->tokens[k] == of->token ? 1 : 0;
    }
    for (int k = 0; k < request->bias_count; k++) {
        value += request->biases[k].token == of->token ? (double)request->biases[k].bias : 0;
    }
    return value - times * request->penalties.frequency -
           (times > 0 ? request->penalties.presence : 0);
}

/* A greedy request with penalties draws the best of the changed ones. Returns for how many tokens that was another
 * than the model's best. */
static int check_changed(int i, const answer *one)
{
    rank_request request = {.id = 0};
    int others = 0;
    world_adjust(i, &request);
    if (i % 4 != 0 || !(request.penalties.presence > 0)) {
        return 0;
    }
    for (int k = 0; k < one->count; k++) {
        const rank_logprob *of = one->logprobs[k];
        const double drawn = changed(&request, one, k, &of[0]);
        for (int n = 1; n < world_logprobs(i); n++) {
            assert_true(changed(&request, one, k, &of[n]) <= drawn + 1e-5);
        }
        others += of[1].token != of[0].token ? 1 : 0;
    }
    return others;
}

/* The reference has them, and they are in order: what is drawn greedily is the best, without penalties. */
static void check_reference(const answer *answers)
{
    int values = 0;
    int others = 0;
    for (int i = 0; i < REQUESTS; i++) {
        const int count = world_logprobs(i);
        for (int k = 0; k < answers[i].count && count > 0; k++) {
            const rank_logprob *of = answers[i].logprobs[k];
            assert_int_equal(of[0].token, answers[i].tokens[k]);
            assert_true(of[0].value < 0 && of[0].value > -30);
            for (int n = 1; n < count; n++) {
                assert_true(of[n].value <= (n > 1 ? of[n - 1].value : 0));
                assert_true(of[n].value >= of[0].value || n > 1);
                values++;
            }
            assert_true(i % 4 != 0 || i % 3 == 1 || count == 1 || of[1].token == of[0].token);
        }
        others += check_changed(i, &answers[i]);
    }
    assert_true(values > 100);
    assert_true(others > 0);
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

enum { STOPPED = REQUESTS / 5 }; /* requests with stop tokens */

/* All ranks have had the same drafts, and of these many were right and many wrong. */
static void check_drafts(const plan *p, const rank_engine_costs *rank,
                         const rank_engine_costs *first)
{
    const uint64_t least = p->draft_max > 0 ? 50 : 0;
    assert_int_equal(rank->drafted, first->drafted);
    assert_int_equal(rank->accepted, first->accepted);
    if (p->drafter == DRAFTER_SAME) { /* all are right, but for what stands behind a stop token */
        assert_true(rank->accepted > 150);
        assert_true(rank->drafted - rank->accepted <= STOPPED * (uint64_t)p->draft_max);
        return;
    }
    if (p->drafter != DRAFTER_TEXT) { /* some are right, or few */
        assert_true(rank->accepted >= (p->drafter == DRAFTER_NEAR ? 60 : 0));
        assert_true(rank->drafted > rank->accepted + 20);
        return;
    }
    assert_true(rank->accepted >= 3 * least);
    assert_true(rank->drafted >= rank->accepted + least);
    assert_true(p->draft_max > 0 || rank->drafted == 0);
}

static void run_plans_of(int context, const plan *plans, size_t count)
{
    static answer expected[REQUESTS];
    static world w;
    plan reference = reference_plan;
    reference.type =
        rank_in_blocks(plans[0].type) ? plans[0].type : RANK_FLOAT32; /* other numbers */
    world_open(&w, context);
    run_plan(&w, &reference);
    memcpy(expected, w.answers[0], sizeof expected);
    assert_true(count_ends(expected, RANK_FINISH_LENGTH) > 5);
    assert_true(count_ends(expected, RANK_FINISH_CONTEXT) > 0);
    assert_int_equal(count_ends(expected, RANK_FINISH_NOT), 0);
    assert_true(count_different(expected) > 20);
    check_reference(expected);
    for (size_t i = 0; i < count; i++) {
        run_plan(&w, &plans[i]);
        check_answers(&w, expected);
        check_logprobs(&w, expected);
        assert_true(!plans[i].preempts || w.costs[0].preemptions > 0);
        if (plans[i].cancels) {
            assert_true(count_ends(w.answers[0], RANK_FINISH_CANCELLED) > 2);
        }
        for (int rank = 0; rank < plans[i].ranks || rank == 0; rank++) {
            assert_int_equal(w.cached[rank], w.cached[0]);
            assert_int_equal(w.costs[rank].preemptions, w.costs[0].preemptions);
            check_drafts(&plans[i], &w.costs[rank], &w.costs[0]);
            assert_true(plans[i].shares ? w.cached[rank] >= 2 * BLOCK_TOKENS : w.cached[rank] == 0);
        }
    }
    world_close(&w);
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

static void matrices_in_blocks_have_one_text_in_every_batch(void **state)
{
    (void)state;
    run_batches("int8", RANK_INT8);
    run_batches("int4", RANK_INT4);
}

/* Ranks, transport, sequences, tokens of a chunk, of the cache, steps between two submissions, cancels, type, shares,
 * drafts, what drafts, whether some must be preempted. */
static const plan busy[] = {
    {"joining", 0, COLL_TRANSPORT_AUTO, 8, 7, 0, 2, false, RANK_FLOAT32, false, 0, DRAFTER_TEXT,
     false},
    {"rare joins, idle steps", 0, COLL_TRANSPORT_AUTO, 3, 512, 0, 30, false, RANK_FLOAT32, false, 0,
     DRAFTER_TEXT, false},
    {"cancels", 0, COLL_TRANSPORT_AUTO, 8, 16, 0, 0, true, RANK_FLOAT32, false, 0, DRAFTER_TEXT,
     false},
    {"room for one", 0, COLL_TRANSPORT_AUTO, 8, 16, CONTEXT, 0, false, RANK_FLOAT32, false, 0,
     DRAFTER_TEXT, false},
    {"room for two", 0, COLL_TRANSPORT_AUTO, 8, 512, 2 * CONTEXT, 0, false, RANK_FLOAT32, false, 0,
     DRAFTER_TEXT, false},
    {"all on two ranks", 2, COLL_TRANSPORT_SHM, 5, 7, 2 * CONTEXT, 3, true, RANK_FLOAT32, false, 0,
     DRAFTER_TEXT, false},
    {"all on four", 4, COLL_TRANSPORT_TCP, 3, 5, 2 * CONTEXT, 5, true, RANK_FLOAT32, false, 0,
     DRAFTER_TEXT, false},
};

static void joining_leaving_and_waiting_change_no_token(void **state)
{
    (void)state;
    run_plans(busy, COUNT_OF(busy));
}

/* Blocks for one text and a bit: others join, are preempted, and are computed anew. */
static void preempted_texts_have_the_same_tokens(void **state)
{
    (void)state;
    static const rank_type types[] = {RANK_FLOAT32, RANK_INT8};
    for (size_t type = 0; type < COUNT_OF(types); type++) {
        plan plans[8];
        for (size_t i = 0; i < COUNT_OF(plans); i++) {
            plans[i] = (plan){.name = "few blocks",
                              .ranks = (int)(i / 2 % 3),
                              .transport = COLL_TRANSPORT_SHM,
                              .sequences = 8,
                              .chunk_tokens = i % 2 == 0 ? 5 : 512,
                              .cache_tokens = LONG_CONTEXT + (i % 2 == 0 ? 0 : BLOCK_TOKENS),
                              .cancels = i >= 6,
                              .type = types[type],
                              .shares = i % 3 == 0,
                              .preempts = true};
        }
        run_plans_of(LONG_CONTEXT, plans, COUNT_OF(plans));
    }
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

/* Another model's drafts, and its own: right, nearly right and wrong ones, in small chunks and caches, with
 * cancels and cached beginnings. Each busy plan has drafts that are right, or nearly, and wrong ones. */
static void a_model_that_drafts_changes_no_token(void **state)
{
    (void)state;
    static const drafter drafters[] = {DRAFTER_SAME, DRAFTER_NEAR, DRAFTER_SMALL, DRAFTER_PADDED};
    static const plan own[] = {
        {.name = "one after the other", .sequences = 1, .chunk_tokens = 512, .draft_max = 16},
        {.name = "a step's limit", .sequences = 20, .chunk_tokens = 3, .draft_max = 16},
        {.name = "bfloat16", .sequences = 8, .chunk_tokens = 16, .type = RANK_BFLOAT16},
        {.name = "two, shm", .ranks = 2, .sequences = 1, .chunk_tokens = 7},
        {.name = "four, shm", .ranks = 4, .sequences = 8, .chunk_tokens = 512},
    };
    plan plans[COUNT_OF(drafters) * (COUNT_OF(own) + COUNT_OF(busy))];
    size_t count = 0;
    for (size_t d = 0; d < COUNT_OF(drafters); d++) {
        const size_t first = count;
        memcpy(plans + count, own, sizeof own);
        count += COUNT_OF(own);
        for (size_t i = d % 2; i < COUNT_OF(busy); i += 2) {
            plans[count++] = busy[i];
        }
        for (size_t i = first; i < count; i++) {
            plans[i].drafter = drafters[d];
            plans[i].draft_max = plans[i].draft_max > 0 ? plans[i].draft_max : 4;
            plans[i].cache_tokens *= LONG_CONTEXT / CONTEXT + 1;
            plans[i].shares = i % 2 == 1;
        }
    }
    run_plans_of(LONG_CONTEXT, plans, count);
}

static void int4_drafts_for_int4(void **state)
{
    (void)state;
    static const plan plans[] = {
        {.name = "int4",
         .sequences = 8,
         .chunk_tokens = 16,
         .type = RANK_INT4,
         .draft_max = 4,
         .drafter = DRAFTER_SAME},
        {.name = "int4, two",
         .ranks = 2,
         .sequences = 8,
         .chunk_tokens = 16,
         .type = RANK_INT4,
         .draft_max = 4,
         .drafter = DRAFTER_SAME},
    };
    run_plans_of(LONG_CONTEXT, plans, COUNT_OF(plans));
}

/* With an argument, one group of drafts. Together they take minutes under a sanitizer, on a busy machine. */
int main(int argc, char **argv)
{
    const char *group = argc == 2 ? argv[1] : "";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_world_draws_the_same_tokens),
        cmocka_unit_test(batches_and_chunks_change_no_token),
        cmocka_unit_test(matrices_in_bfloat16_change_no_token),
        cmocka_unit_test(matrices_in_blocks_have_one_text_in_every_batch),
        cmocka_unit_test(joining_leaving_and_waiting_change_no_token),
        cmocka_unit_test(preempted_texts_have_the_same_tokens),
        cmocka_unit_test(cached_beginnings_change_no_token),
    };
    const struct CMUnitTest drafts[] = {
        cmocka_unit_test(drafts_change_no_token),
        cmocka_unit_test(int4_drafts_for_int4),
    };
    const struct CMUnitTest model_drafts[] = {
        cmocka_unit_test(a_model_that_drafts_changes_no_token),
    };
    if (strcmp(group, "drafts") == 0) {
        return cmocka_run_group_tests(drafts, NULL, NULL);
    }
    if (strcmp(group, "model-drafts") == 0) {
        return cmocka_run_group_tests(model_drafts, NULL, NULL);
    }
    return argc == 1 ? cmocka_run_group_tests(tests, NULL, NULL) : 2;
}
