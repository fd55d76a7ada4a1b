/* Sends and receives: rings of them posted in any order, long and empty messages, many at once,
 * among collectives, to oneself, and mismatches that both sides are notified of. Ranks are
 * threads. */
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "ranks.h"
#include "reference.h"
#include "support.h"

enum { LONG_COUNT = 300000, LONGEST_COUNT = 500000, MESSAGES = 1000 };

static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_ZMQ,
                                            COLL_TRANSPORT_TCP};
enum { TRANSPORTS = sizeof transports / sizeof transports[0] };

static void on_all(int size, int64_t timeout_ns, test_rank_body body)
{
    for (int t = 0; t < TRANSPORTS; t++) {
        test_ranks_as_threads(&(test_ranks_options){.size = size,
                                                    .transport = transports[t],
                                                    .timeout_ns = timeout_ns},
                              body);
    }
}

static coll_op_desc message(coll_kind kind, void *data, size_t count, int peer)
{
    return (coll_op_desc){.size = sizeof(coll_op_desc),
                          .kind = kind,
                          .send = kind == COLL_SEND ? data : NULL,
                          .recv = kind == COLL_RECEIVE ? data : NULL,
                          .count = count,
                          .type = COLL_INT32,
                          .root = peer};
}

static void fill(int32_t *data, size_t count, int from, int to)
{
    for (size_t i = 0; i < count; i++) {
        data[i] = (int32_t)i * 64 * 64 + from * 64 + to;
    }
}

static bool holds(const int32_t *data, size_t count, int from, int to)
{
    for (size_t i = 0; i < count; i++) {
        if (data[i] != (int32_t)i * 64 * 64 + from * 64 + to) {
            return false;
        }
    }
    return true;
}

/* Everybody sends far more than a stream holds to everybody, and only then receives. */
static void all_pairs_body(test_rank *rank)
{
    const size_t n = (size_t)rank->size;
    coll_comm *comm = coll_context_world(rank->context);
    coll_request *requests[16] = {NULL};
    static int32_t memory[4][2][4 * LONG_COUNT];
    int32_t *out = memory[rank->rank][0];
    int32_t *in = memory[rank->rank][1];
    for (int peer = 0; peer < rank->size; peer++) {
        int32_t *data = out + (size_t)peer * LONG_COUNT;
        const coll_op_desc desc = message(COLL_SEND, data, LONG_COUNT, peer);
        fill(data, LONG_COUNT, rank->rank, peer);
        RANK_OK(rank, coll_start(comm, &desc, &requests[peer], &rank->error));
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    for (int peer = 0; peer < rank->size; peer++) {
        const coll_op_desc desc =
            message(COLL_RECEIVE, in + (size_t)peer * LONG_COUNT, LONG_COUNT, peer);
        RANK_OK(rank, coll_start(comm, &desc, &requests[rank->size + peer], &rank->error));
    }
    RANK_OK(rank, coll_request_wait_all(requests, 2 * n, &rank->error));
    for (int peer = 0; peer < rank->size; peer++) {
        RANK_CHECK(rank, holds(in + (size_t)peer * LONG_COUNT, LONG_COUNT, peer, rank->rank));
        RANK_CHECK(rank, requests[peer] == NULL && requests[rank->size + peer] == NULL);
    }
}

static void test_all_pairs(void **state)
{
    (void)state;
    on_all(4, 0, all_pairs_body);
}

/* Blocking ping-pong of every length around the frames' sizes, none included. */
static void lengths_body(test_rank *rank)
{
    static const size_t counts[] = {0, 1, 2, 47, 48, 49, 100, 8191, 8192, 8193, 8240, 70000};
    static int32_t memory[2][70000];
    coll_comm *comm = coll_context_world(rank->context);
    int32_t *data = memory[rank->rank];
    const int peer = 1 - rank->rank;
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        if (rank->rank == 0) {
            fill(data, counts[c], 0, (int)c);
            RANK_OK(rank, coll_send(comm, data, counts[c], COLL_INT32, peer, &rank->error));
            memset(data, 0, sizeof memory[0]);
        }
        if (rank->rank == 1) {
            memset(data, 0, sizeof memory[0]);
        }
        RANK_OK(rank, coll_receive(comm, data, counts[c], COLL_INT32, peer, &rank->error));
        RANK_CHECK(rank, holds(data, counts[c], 0, (int)c));
        RANK_CHECK(rank, counts[c] == 70000 || data[counts[c]] == 0);
        if (rank->rank == 1) {
            RANK_OK(rank, coll_send(comm, data, counts[c], COLL_INT32, peer, &rank->error));
        }
    }
}

static void test_lengths(void **state)
{
    (void)state;
    on_all(2, 0, lengths_body);
}

/* A thousand under way in each direction of a ring, with collectives among them; waited for from
 * the last on. */
static void many_body(test_rank *rank)
{
    const int next = (rank->rank + 1) % rank->size;
    const int before = (rank->rank + rank->size - 1) % rank->size;
    coll_comm *comm = coll_context_world(rank->context);
    static int32_t memory[3][2][MESSAGES];
    int32_t(*data)[MESSAGES] = memory[rank->rank];
    coll_request *requests[2 * MESSAGES] = {NULL};
    for (int i = 0; i < MESSAGES; i++) {
        data[0][i] = i * 10 + rank->rank;
        data[1][i] = -1;
        const coll_op_desc out = message(COLL_SEND, &data[0][i], 1, next);
        const coll_op_desc in = message(COLL_RECEIVE, &data[1][i], 1, before);
        RANK_OK(rank, coll_start(comm, &out, &requests[2 * i], &rank->error));
        RANK_OK(rank, coll_start(comm, &in, &requests[2 * i + 1], &rank->error));
        if (i % 100 == 99) {
            int32_t sum = 1;
            RANK_OK(rank, coll_all_reduce(comm, &sum, &sum, 1, COLL_INT32, COLL_SUM, &rank->error));
            RANK_CHECK(rank, sum == rank->size);
        }
    }
    for (int i = 2 * MESSAGES - 1; i >= 0; i--) {
        RANK_OK(rank, coll_request_wait(&requests[i], &rank->error));
    }
    for (int i = 0; i < MESSAGES; i++) {
        RANK_CHECK(rank, data[1][i] == i * 10 + before);
    }
}

static void test_many(void **state)
{
    (void)state;
    on_all(3, 0, many_body);
}

/* What is received where int32 × 4 was sent. */
static struct {
    coll_type type;
    size_t count;
    const char *message;
} wanted;

static void names_both(test_rank *rank, int receiver)
{
    char name[32];
    (void)snprintf(name, sizeof name, "rank %d (host", receiver);
    RANK_CHECK(rank, test_has(rank->error.message, "rank 0 (host"));
    RANK_CHECK(rank, test_has(rank->error.message, "send int32 × 4"));
    RANK_CHECK(rank, test_has(rank->error.message, name));
    RANK_CHECK(rank, test_has(rank->error.message, wanted.message));
}

/* The receiver finds it, and the sender, which may have returned, is notified on a later call. */
static void mismatch_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    int32_t data[8] = {0};
    coll_status status = COLL_OK;
    if (rank->rank == 0) {
        status = coll_send(comm, data, 4, COLL_INT32, 1, &rank->error);
    } else if (rank->rank == 1) {
        status = coll_receive(comm, data, wanted.count, wanted.type, 0, &rank->error);
        RANK_CHECK(rank, status == COLL_ERR_MISMATCH);
    }
    if (status == COLL_OK) {
        status = coll_barrier(comm, &rank->error);
    }
    RANK_CHECK(rank, status == COLL_ERR_MISMATCH);
    names_both(rank, 1);
}

/* A message to oneself goes from memory to memory: no more than there is room for. */
static void own_mismatch_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    int32_t data[4] = {1, 2, 3, 4};
    int32_t room[9] = {0};
    coll_request *send = NULL;
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = COLL_SEND,
                               .send = data,
                               .count = 4,
                               .type = COLL_INT32,
                               .root = rank->rank};
    if (rank->rank == 0) {
        RANK_OK(rank, coll_start(comm, &desc, &send, &rank->error));
        RANK_CHECK(rank, coll_receive(comm, room, wanted.count, wanted.type, 0, &rank->error) ==
                             COLL_ERR_MISMATCH);
        names_both(rank, 0);
        RANK_CHECK(rank, room[0] == 0 && room[3] == 0);
        RANK_CHECK(rank, coll_request_wait(&send, &rank->error) == COLL_ERR_MISMATCH);
    }
}

static void test_mismatch(void **state)
{
    (void)state;
    wanted.type = COLL_FLOAT32;
    wanted.count = 4;
    wanted.message = "receive float × 4";
    on_all(3, 10 * BASE_NS_PER_S, mismatch_body);
    on_all(1, 10 * BASE_NS_PER_S, own_mismatch_body);
    wanted.type = COLL_INT32;
    wanted.count = 8;
    wanted.message = "receive int32 × 8";
    on_all(3, 10 * BASE_NS_PER_S, mismatch_body);
    on_all(1, 10 * BASE_NS_PER_S, own_mismatch_body);
    wanted.count = 3;
    wanted.message = "receive int32 × 3";
    on_all(3, 10 * BASE_NS_PER_S, mismatch_body);
    on_all(1, 10 * BASE_NS_PER_S, own_mismatch_body);
}

/* Nobody sends: the receiver says for whom it waits. */
static void alone_body(test_rank *rank)
{
    static atomic_int over; /* how often the receiver has had enough */
    coll_comm *comm = coll_context_world(rank->context);
    int32_t data = 0;
    const int before = atomic_load(&over);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    if (rank->rank != 1) {
        while (atomic_load(&over) == before) {
            sched_yield(); /* not in the library, and not gone */
        }
        return;
    }
    const coll_status status = coll_receive(comm, &data, 1, COLL_INT32, 0, &rank->error);
    atomic_fetch_add(&over, 1);
    RANK_CHECK(rank, status == COLL_ERR_TIMEOUT);
    RANK_CHECK(rank, test_has(rank->error.message, "receive int32 × 1"));
    RANK_CHECK(rank, test_has(rank->error.message, "waiting for rank 0 (host"));
}

static void test_nobody_sends(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2,
                                                .transport = COLL_TRANSPORT_ZMQ,
                                                .timeout_ns = 300 * BASE_NS_PER_MS},
                          alone_body);
}

/* A message to or from a rank that has left is an error at once.
 * What it has sent comes all the same. */
static void left_body(test_rank *rank)
{
    enum { COUNT = 4 << 20 }; /* more than credit is for */
    static int32_t data[COUNT];
    const bool sends = *(const bool *)rank->user;
    coll_comm *comm = coll_context_world(rank->context);
    int32_t value = 7;
    if (rank->rank == 0) {
        RANK_OK(rank, coll_send(comm, &value, 1, COLL_INT32, 1, &rank->error));
        return;
    }
    RANK_OK(rank, coll_receive(comm, data, 1, COLL_INT32, 0, &rank->error));
    RANK_CHECK(rank, data[0] == value);
    const coll_status status = sends ? coll_send(comm, data, COUNT, COLL_INT32, 0, &rank->error)
                                     : coll_receive(comm, data, 1, COLL_INT32, 0, &rank->error);
    RANK_CHECK(rank, status == COLL_ERR_PEER);
    RANK_CHECK(rank, test_has(rank->error.message, "rank 0 (host"));
    RANK_CHECK(rank, test_has(rank->error.message, sends ? "send int32 ×" : "receive int32 ×"));
}

static void test_a_rank_that_left_sends_nothing(void **state)
{
    (void)state;
    for (int transport = COLL_TRANSPORT_SHM; transport <= COLL_TRANSPORT_TCP; transport++) {
        for (int sends = 0; sends < 2; sends++) {
            bool direction = sends != 0;
            test_ranks_as_threads(&(test_ranks_options){.size = 2,
                                                        .transport = (coll_transport)transport,
                                                        .user = &direction},
                                  left_body);
        }
    }
}

/* Rank 0 polls two messages in turn, and never waits: it learns that rank 1, which was to send the first,
 * has left, although it is always the second that is looked after. Rank 2, which was to send that, lives. */
static void polled_body(test_rank *rank)
{
    sem_t *over = rank->user;
    coll_comm *comm = coll_context_world(rank->context);
    coll_request *requests[2] = {NULL};
    int32_t data[2] = {0};
    coll_status status = COLL_OK;
    while (rank->rank == 2 && sem_wait(over) != 0) {
    }
    if (rank->rank > 0) {
        return;
    }
    for (int i = 0; status == COLL_OK && i < 2; i++) {
        const coll_op_desc desc = message(COLL_RECEIVE, &data[i], 1, i + 1);
        status = coll_start(comm, &desc, &requests[i], &rank->error);
    }
    const int64_t deadline_ns = base_deadline_after_ns(10 * BASE_NS_PER_S);
    for (int i = 0; status == COLL_OK && base_now_ns() < deadline_ns; i = 1 - i) {
        bool done = false;
        status = coll_request_test(&requests[i], &done, &rank->error);
    }
    (void)sem_post(over);
    (void)!coll_request_wait_all(requests, 2, NULL);
    RANK_CHECK(rank, status == COLL_ERR_PEER);
    RANK_CHECK(rank, test_has(rank->error.message, "rank 1 (host"));
}

static void test_who_polls_several_learns_of_each(void **state)
{
    (void)state;
    for (int t = 0; t < TRANSPORTS; t++) {
        sem_t over;
        assert_int_equal(sem_init(&over, 0, 0), 0);
        test_ranks_as_threads(
            &(test_ranks_options){.size = 3, .transport = transports[t], .user = &over},
            polled_body);
        (void)sem_destroy(&over);
    }
}

/* Who has received what there was and is then busy elsewhere has given its credit back. */
static void credit_body(test_rank *rank)
{
    enum { FIRST = 4, ALL = 7 };
    static atomic_int sent;
    coll_comm *comm = coll_context_world(rank->context);
    int32_t value = 0;
    if (rank->rank == 0) {
        atomic_store(&sent, 0);
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    for (int i = 0; i < ALL; i++) {
        if (rank->rank == 1) {
            value = i;
            const coll_status status = coll_send(comm, &value, 1, COLL_INT32, 0, &rank->error);
            atomic_store(&sent, status == COLL_OK ? i + 1 : ALL); /* nobody waits for ever */
            RANK_OK(rank, status);
        } else {
            while (atomic_load(&sent) < (i < FIRST ? FIRST : ALL)) {
                sched_yield(); /* not in the library */
            }
            RANK_OK(rank, coll_receive(comm, &value, 1, COLL_INT32, 1, &rank->error));
            RANK_CHECK(rank, value == i);
        }
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error));
}

static void test_credit_is_told(void **state)
{
    (void)state;
    on_all(2, 5 * BASE_NS_PER_S, credit_body);
}

/* Messages in arenas, longer than a stream. Both send some before they receive; short ones and ones from
 * other memory come between; each ends when it was read, whatever is behind it. */
static void in_arenas_body(test_rank *rank)
{
    static const size_t counts[] = {70000, 1, LONG_COUNT, 66000, 65536, 47, LONGEST_COUNT};
    enum { ROUNDS = 3, KINDS = sizeof counts / sizeof counts[0] };
    static int32_t memory[2][LONGEST_COUNT]; /* of every third message */
    static int32_t received[2][LONGEST_COUNT];
    coll_comm *comm = coll_context_world(rank->context);
    const int peer = 1 - rank->rank;
    coll_arena *arena = NULL;
    size_t total = 0;
    for (size_t i = 0; i < KINDS; i++) {
        total += counts[i];
    }
    RANK_OK(rank, coll_arena_create(comm, total * sizeof(int32_t), &arena, &rank->error));
    for (int round = 0; round < ROUNDS; round++) {
        coll_request *requests[KINDS] = {NULL};
        int32_t *out = coll_arena_data(arena);
        for (int i = 0; i < KINDS; out += counts[i++]) {
            int32_t *data = i % 3 == 2 ? memory[rank->rank] : out;
            const coll_op_desc desc = message(COLL_SEND, data, counts[i], peer);
            fill(data, counts[i], rank->rank, i + round);
            RANK_OK(rank, coll_start(comm, &desc, &requests[i], &rank->error));
            if (i % 3 == 2) { /* its memory is used again */
                for (int got = i - 2; got <= i; got++) {
                    int32_t *in = received[rank->rank];
                    RANK_OK(rank,
                            coll_receive(comm, in, counts[got], COLL_INT32, peer, &rank->error));
                    RANK_CHECK(rank, holds(in, counts[got], peer, got + round));
                }
                RANK_OK(rank, coll_request_wait_all(requests, (size_t)i + 1, &rank->error));
            }
        }
        int32_t *in = received[rank->rank];
        RANK_OK(rank, coll_receive(comm, in, counts[KINDS - 1], COLL_INT32, peer, &rank->error));
        RANK_CHECK(rank, holds(in, counts[KINDS - 1], peer, KINDS - 1 + round));
        RANK_OK(rank, coll_request_wait_all(requests, KINDS, &rank->error));
    }
    coll_arena_destroy(arena);
}

static void test_in_arenas(void **state)
{
    (void)state;
    on_all(2, 0, in_arenas_body);
}

/* In shared memory the receiver needs no help: rank 0 sends two, and calls nothing until both are there. */
static void without_help_body(test_rank *rank)
{
    enum { MESSAGES_THERE = 2 };
    static _Atomic int there;
    static int32_t in[LONG_COUNT];
    coll_comm *comm = coll_context_world(rank->context);
    coll_arena *arena = NULL;
    coll_request *requests[MESSAGES_THERE] = {NULL};
    RANK_OK(rank, coll_arena_create(comm, MESSAGES_THERE * sizeof in, &arena, &rank->error));
    int32_t *out = coll_arena_data(arena);
    if (rank->rank == 0) {
        atomic_store(&there, 0);
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    for (int i = 0; rank->rank == 0 && i < MESSAGES_THERE; i++) {
        int32_t *data = out + (size_t)i * LONG_COUNT;
        const coll_op_desc desc = message(COLL_SEND, data, LONG_COUNT, 1);
        fill(data, LONG_COUNT, 0, i);
        RANK_OK(rank, coll_start(comm, &desc, &requests[i], &rank->error));
    }
    for (int i = 0; rank->rank == 1 && i < MESSAGES_THERE; i++) {
        RANK_OK(rank, coll_receive(comm, in, LONG_COUNT, COLL_INT32, 0, &rank->error));
        RANK_CHECK(rank, holds(in, LONG_COUNT, 0, i));
        atomic_fetch_add(&there, 1);
    }
    while (rank->rank == 0 && atomic_load(&there) < MESSAGES_THERE) {
        (void)sched_yield();
    }
    if (rank->rank == 0) {
        RANK_OK(rank, coll_request_wait_all(requests, MESSAGES_THERE, &rank->error));
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    coll_arena_destroy(arena);
}

static void test_without_help(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = COLL_TRANSPORT_SHM},
                          without_help_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_pairs),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_in_arenas),
        cmocka_unit_test(test_without_help),
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_nobody_sends),
        cmocka_unit_test(test_credit_is_told),
        cmocka_unit_test(test_a_rank_that_left_sends_nothing),
        cmocka_unit_test(test_who_polls_several_learns_of_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
