/* What a program gets wrong by itself: options and operations that cannot be, ranks that were given other options, and
 * an exchange that fails. And names of kinds, types and the like. Ranks are threads. */
#include <string.h>

#include "ranks.h"
#include "support.h"

static coll_status never(void *user, const void *mine, void *all, size_t size_bytes,
                         int64_t deadline_ns, coll_error *reterr)
{
    (void)user;
    (void)mine;
    (void)all;
    (void)size_bytes;
    (void)deadline_ns;
    return coll_fail(reterr, COLL_ERR_STATE, "the exchange was called");
}

static void options_that_cannot_be_are_refused(void **state)
{
    static const uint8_t key[32] = {1};
    const coll_context_options cases[] = {
        {.world_size = 0, .exchange = never},
        {.world_size = 65, .exchange = never},
        {.world_size = -1, .exchange = never},
        {.rank = -1, .world_size = 2, .exchange = never},
        {.rank = 2, .world_size = 2, .exchange = never},
        {.world_size = 2},
        {.world_size = 2, .exchange = never, .timeout_ns = -1},
        {.world_size = 2, .exchange = never, .host_timeout_ns = -1},
        {.world_size = 2, .exchange = never, .transport = (coll_transport)99},
        {.world_size = 2, .exchange = never, .algorithm = (coll_algorithm)99},
        {.world_size = 2, .exchange = never, .tcp_auth = (coll_tcp_auth)99},
        {.world_size = 2, .exchange = never, .curve_public_key = key},
        {.world_size = 2, .exchange = never, .curve_secret_key = key},
    };
    const coll_context_options good = {
        .size = sizeof(coll_context_options), .rank = 63, .world_size = 64, .exchange = never};
    coll_context *context = NULL;
    coll_error error;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        coll_context_options options = cases[i];
        options.size = sizeof options;
        error.message[0] = '\0';
        assert_status(coll_context_create(&options, &context, &error), COLL_ERR_INVALID);
        assert_true(error.message[0] != '\0');
        assert_null(context);
    }
    assert_status(coll_context_create(&good, &context, &error), COLL_ERR_STATE);
    assert_non_null(strstr(error.message, "connecting 64 ranks: the exchange was called"));
}

/* Two processes with one number: the caller's own mistake, which only the records show. */
static void one_rank_body(test_rank *rank)
{
    static const char message[] = "rank 0 of 2 is taken by a process";
    coll_context_options options = test_rank_options(rank);
    options.rank = 1;
    RANK_CHECK(rank,
               coll_context_create(&options, &rank->context, &rank->error) == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, test_has(rank->error.message, message) &&
                         test_has(rank->error.message, "takes itself for rank 1 of 2"));
}

static void one_number_is_one_rank(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .bare = true}, one_rank_body);
}

/* What one rank can see to be wrong by itself is refused before any peer is notified. */
static void misuse_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    float data[8] = {0};
    coll_op *op = NULL;
    const coll_op_desc good = {.size = sizeof(coll_op_desc),
                               .kind = COLL_ALL_REDUCE,
                               .send = data,
                               .recv = data,
                               .count = 4,
                               .type = COLL_FLOAT32,
                               .reduce = COLL_SUM};
    coll_op_desc bad = good;
    bool done = false;
    bad.recv = data + 1;
    RANK_CHECK(rank, coll_op_create(comm, &bad, &op, &rank->error) == COLL_ERR_INVALID);
    bad = good;
    bad.send = NULL;
    RANK_CHECK(rank, coll_op_create(comm, &bad, &op, &rank->error) == COLL_ERR_INVALID);
    bad = good;
    bad.type = (coll_type)99;
    RANK_CHECK(rank, coll_op_create(comm, &bad, &op, &rank->error) == COLL_ERR_INVALID);
    bad = good;
    bad.algorithm = COLL_ALGORITHM_NATIVE;
    RANK_CHECK(rank, coll_op_create(comm, &bad, &op, &rank->error) == COLL_ERR_INVALID);
    RANK_CHECK(rank, test_has(rank->error.message, "native is for operations on streams"));
    bad = good;
    bad.count = SIZE_MAX / 2;
    RANK_CHECK(rank, coll_op_create(comm, &bad, &op, &rank->error) == COLL_ERR_INVALID);
    bad = good;
    bad.stream = &done;
    RANK_CHECK(rank, coll_op_create(comm, &bad, &op, &rank->error) == COLL_ERR_UNSUPPORTED);
    bad = (coll_op_desc){.size = sizeof(coll_op_desc),
                         .kind = COLL_BROADCAST,
                         .send = data,
                         .recv = data,
                         .count = 1,
                         .type = COLL_UINT8,
                         .root = 2};
    RANK_CHECK(rank, coll_op_create(comm, &bad, &op, &rank->error) == COLL_ERR_INVALID);
    RANK_OK(rank, coll_op_create(comm, &good, &op, &rank->error));
    RANK_CHECK(rank, coll_op_test(op, &done, &rank->error) == COLL_ERR_STATE);
    RANK_CHECK(rank, coll_op_wait(op, &rank->error) == COLL_ERR_STATE);
    coll_op_destroy(op);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
}

static void operations_that_cannot_be_are_refused(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = COLL_TRANSPORT_SHM},
                          misuse_body);
}

/* Ranks that ask for different things do not connect, and say why. */
static void disagree_body(test_rank *rank)
{
    coll_context_options options = test_rank_options(rank);
    options.transport = rank->rank == 0 ? COLL_TRANSPORT_SHM : COLL_TRANSPORT_ZMQ;
    RANK_CHECK(rank,
               coll_context_create(&options, &rank->context, &rank->error) == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, test_has(rank->error.message, "zmq") && test_has(rank->error.message, "shm"));
}

static void transports_that_disagree_are_named(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .bare = true}, disagree_body);
}

static coll_status fail_silently(void *user, const void *mine, void *all, size_t size_bytes,
                                 int64_t deadline_ns, coll_error *reterr)
{
    (void)user;
    (void)mine;
    (void)all;
    (void)size_bytes;
    (void)deadline_ns;
    (void)reterr;
    return COLL_ERR_PEER;
}

/* What stood in the caller's error before is not made part of the message. */
static void a_silent_exchange_gets_a_message(void **state)
{
    (void)state;
    coll_context *context = NULL;
    coll_error error;
    const coll_context_options options = {
        .size = sizeof(coll_context_options), .world_size = 2, .exchange = fail_silently};
    memset(&error, 'x', sizeof error);
    assert_status(coll_context_create(&options, &context, &error), COLL_ERR_PEER);
    assert_string_equal(error.message, "connecting 2 ranks: the exchange failed");
    assert_status(coll_context_create(&options, &context, NULL), COLL_ERR_PEER);
}

static coll_status exchange_alone(void *user, const void *mine, void *all, size_t size_bytes,
                                  int64_t deadline_ns, coll_error *reterr)
{
    (void)user;
    (void)deadline_ns;
    (void)reterr;
    memcpy(all, mine, size_bytes);
    return COLL_OK;
}

static void success_has_no_texts(void **state)
{
    (void)state;
    coll_context *context = NULL;
    coll_error error = {.status = COLL_OK, .message = ""};
    const coll_context_options options = {
        .size = sizeof(coll_context_options), .world_size = 1, .exchange = exchange_alone};
    assert_status(coll_context_create(&options, &context, &error), COLL_OK);
    coll_context_destroy(context);
    assert_int_equal(error.status, COLL_OK);
    assert_string_equal(error.message, "");
}

static void names_lead_back(void **state)
{
    coll_error error;
    (void)state;
    for (coll_kind kind = COLL_ALL_REDUCE; kind <= COLL_RECEIVE; kind++) {
        coll_kind back = (coll_kind)-1;
        assert_ok(coll_kind_parse(coll_kind_name(kind), &back, &error), &error);
        assert_int_equal(back, kind);
    }
    for (coll_type type = COLL_FLOAT32; type <= COLL_TYPE_LAST; type++) {
        coll_type back = (coll_type)-1;
        assert_ok(coll_type_parse(coll_type_name(type), &back, &error), &error);
        assert_int_equal(back, type);
    }
    for (coll_reduce_op reduce = COLL_SUM; reduce <= COLL_REDUCE_OP_LAST; reduce++) {
        coll_reduce_op back = (coll_reduce_op)-1;
        assert_ok(coll_reduce_op_parse(coll_reduce_op_name(reduce), &back, &error), &error);
        assert_int_equal(back, reduce);
    }
    coll_kind kept = COLL_GATHER;
    assert_status(coll_kind_parse("all", &kept, &error), COLL_ERR_INVALID);
    assert_int_equal(kept, COLL_GATHER);
    assert_string_equal(coll_status_name(COLL_ERR_TIMEOUT), "timeout");
    coll_algorithm algorithm = COLL_ALGORITHM_AUTO;
    coll_transport transport = COLL_TRANSPORT_AUTO;
    assert_ok(coll_algorithm_parse("tree", &algorithm, &error), &error);
    assert_int_equal(algorithm, COLL_ALGORITHM_TREE);
    assert_ok(coll_transport_parse("zmq", &transport, &error), &error);
    assert_int_equal(transport, COLL_TRANSPORT_ZMQ);
    assert_status(coll_algorithm_parse("fast", &algorithm, &error), COLL_ERR_INVALID);
    assert_true(test_has(error.message, "ring, tree, direct"));
    assert_status(coll_transport_parse("", &transport, &error), COLL_ERR_INVALID);
    for (coll_tcp_auth auth = COLL_TCP_AUTH_MAC; auth <= COLL_TCP_AUTH_OFF; auth++) {
        coll_tcp_auth back = (coll_tcp_auth)-1;
        assert_ok(coll_tcp_auth_parse(coll_tcp_auth_name(auth), &back, &error), &error);
        assert_int_equal(back, auth);
    }
    assert_string_equal(coll_algorithm_name(COLL_ALGORITHM_RING), "ring");
    assert_ok(coll_algorithm_parse("native", &algorithm, &error), &error);
    assert_string_equal(coll_algorithm_name(algorithm), "native");
    assert_string_equal(coll_algorithm_name(COLL_ALGORITHM_LAST + 1), "?"); /* room for more */
    assert_int_equal(coll_type_size_bytes(COLL_INT64), 8);
    assert_int_equal(coll_type_size_bytes((coll_type)77), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_that_cannot_be_are_refused),
        cmocka_unit_test(one_number_is_one_rank),
        cmocka_unit_test(operations_that_cannot_be_are_refused),
        cmocka_unit_test(transports_that_disagree_are_named),
        cmocka_unit_test(a_silent_exchange_gets_a_message),
        cmocka_unit_test(success_has_no_texts),
        cmocka_unit_test(names_lead_back),
    };
    return cmocka_run_group_tests_name("coll-misuse", tests, NULL, NULL);
}
