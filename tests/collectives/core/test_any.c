/* Waiting for the first of several requests. Ranks are threads. */
#include <string.h>

#include "base/clock.h"
#include "ranks.h"
#include "support.h"

enum { COUNT = 70000 }; /* more than a stream holds */

static void over_all(int size, int64_t timeout_ns, test_rank_body body)
{
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                                COLL_TRANSPORT_ZMQ};
    for (size_t i = 0; i < sizeof transports / sizeof transports[0]; i++) {
        test_ranks_as_threads(&(test_ranks_options){.size = size,
                                                    .transport = transports[i],
                                                    .timeout_ns = timeout_ns},
                              body);
    }
}

static coll_status receive(coll_comm *comm, int32_t *data, int peer, coll_request **request,
                           coll_error *reterr)
{
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = COLL_RECEIVE,
                               .recv = data,
                               .count = COUNT,
                               .type = COLL_INT32,
                               .root = peer};
    return coll_start(comm, &desc, request, reterr);
}

/* Rank 1 sends only when rank 0 has what rank 2 sends. */
static void turns_body(test_rank *rank)
{
    static int32_t data[3][2][COUNT];
    coll_comm *comm = coll_context_world(rank->context);
    int32_t(*mine)[COUNT] = data[rank->rank];
    coll_request *requests[3] = {NULL};
    uint8_t go = 0;
    size_t index = 0;
    if (rank->rank > 0) {
        mine[0][COUNT - 1] = rank->rank;
        if (rank->rank == 1) {
            RANK_OK(rank, coll_receive(comm, &go, 1, COLL_UINT8, 0, &rank->error));
        }
        RANK_OK(rank, coll_send(comm, mine[0], COUNT, COLL_INT32, 0, &rank->error));
        return;
    }
    for (int peer = 1; peer < 3; peer++) {
        RANK_OK(rank, receive(comm, mine[peer - 1], peer, &requests[peer], &rank->error));
    }
    for (int peer = 2; peer > 0; peer--) {
        RANK_OK(rank, coll_request_wait_any(requests, 3, &index, &rank->error));
        RANK_CHECK(rank, index == (size_t)peer && requests[index] == NULL);
        RANK_CHECK(rank, mine[peer - 1][COUNT - 1] == peer);
        if (peer == 2) {
            RANK_CHECK(rank, requests[1] != NULL);
            RANK_OK(rank, coll_send(comm, &go, 1, COLL_UINT8, 1, &rank->error));
        }
    }
    RANK_OK(rank, coll_request_wait_any(requests, 3, &index, &rank->error));
    RANK_CHECK(rank, index == 3);
    RANK_CHECK(rank, coll_request_wait_any(NULL, 1, &index, &rank->error) == COLL_ERR_INVALID);
}

static void the_first_is_found(void **state)
{
    (void)state;
    over_all(3, 0, turns_body);
}

/* A failure of one communicator is the answer, and the other's request stays. */
static void failure_body(test_rank *rank)
{
    static int32_t data[4][COUNT]; /* rank 0 receives into the first ones */
    coll_comm *world = coll_context_world(rank->context);
    coll_comm *pairs[2] = {NULL}; /* rank 0 with each other one */
    coll_request *requests[2] = {NULL};
    size_t index = 0;
    for (int peer = 1; peer < 3; peer++) {
        if (rank->rank == 0 || rank->rank == peer) {
            RANK_OK(rank, coll_comm_create(rank->context, (const int[]){0, peer}, 2,
                                           &pairs[peer - 1], &rank->error));
        }
    }
    if (rank->rank == 0) {
        RANK_OK(rank, receive(pairs[0], data[0], 1, &requests[0], &rank->error));
        RANK_OK(rank, receive(pairs[1], data[1], 1, &requests[1], &rank->error));
    }
    RANK_OK(rank, coll_barrier(world, &rank->error));
    if (rank->rank == 0) {
        RANK_CHECK(rank,
                   coll_request_wait_any(requests, 2, &index, &rank->error) == COLL_ERR_MISMATCH);
        RANK_CHECK(rank, index == 1 && requests[0] != NULL && requests[1] == NULL);
    } else if (rank->rank == 2) {
        (void)!coll_send(pairs[1], data[3], 1, COLL_INT32, 0, &rank->error);
    }
    RANK_OK(rank, coll_barrier(world, &rank->error));
    if (rank->rank == 0) {
        RANK_OK(rank, coll_request_wait_any(requests, 2, &index, &rank->error));
        RANK_CHECK(rank, index == 0);
    } else if (rank->rank == 1) {
        RANK_OK(rank, coll_send(pairs[0], data[2], COUNT, COLL_INT32, 0, &rank->error));
    }
    RANK_OK(rank, coll_barrier(world, &rank->error));
    coll_comm_destroy(pairs[0]);
    coll_comm_destroy(pairs[1]);
}

static void a_failure_is_found(void **state)
{
    (void)state;
    over_all(3, 0, failure_body);
}

/* Nothing comes. */
static void late_body(test_rank *rank)
{
    static int32_t data[COUNT];
    coll_comm *comm = coll_context_world(rank->context);
    coll_request *requests[2] = {NULL};
    size_t index = 0;
    if (rank->rank == 0) {
        RANK_OK(rank, receive(comm, data, 1, &requests[1], &rank->error));
        RANK_CHECK(rank,
                   coll_request_wait_any(requests, 2, &index, &rank->error) == COLL_ERR_TIMEOUT);
        RANK_CHECK(rank, index == 1 && requests[1] == NULL);
        RANK_CHECK(rank, strstr(rank->error.message, "rank 1 (") != NULL);
    } else {
        RANK_CHECK(rank, coll_barrier(comm, &rank->error) != COLL_OK);
    }
}

static void it_has_a_deadline(void **state)
{
    (void)state;
    over_all(2, 300 * BASE_NS_PER_MS, late_body);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_is_found),
        cmocka_unit_test(a_failure_is_found),
        cmocka_unit_test(it_has_a_deadline),
    };
    return cmocka_run_group_tests_name("coll-any", tests, NULL, NULL);
}
