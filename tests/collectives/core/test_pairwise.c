/* An all-to-all in which every pair of ranks has a count of its own: random counts against a plain
 * reference, what is refused, ranks that disagree, and a process that is killed in the middle. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/op.h"
#include "forked.h"
#include "ranks.h"
#include "support.h"

enum { RANKS_MAX = 7, ROUNDS = 24, LONGEST = 70000, AT_ONCE = 3 };

static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                            COLL_TRANSPORT_ZMQ};

enum { TRANSPORTS = sizeof transports / sizeof transports[0] };

static uint64_t hash(uint64_t a, uint64_t b)
{
    const uint64_t mixed = (a ^ b) * UINT64_C(0x9e3779b97f4a7c15);
    return mixed ^ mixed >> 29;
}

/* Elements that one rank sends to another in a round: often none. */
static size_t count_of(unsigned round, int from, int to)
{
    static const size_t counts[] = {0, 0, 1, 7, 57, 300, 9000, LONGEST};
    const uint64_t place = hash(hash(hash(round, 11), (uint64_t)from), (uint64_t)to);
    const bool sparse =
        round % 4 == 0; /* in some rounds most have nothing to say, or nothing to hear */
    return sparse && (from == 1 || place % 5 != 0) ? 0 : counts[place / 8 % 8];
}

static uint8_t byte_of(unsigned round, int from, int to, size_t at)
{
    return (uint8_t)hash(hash(round, (uint64_t)(from * RANKS_MAX + to)), at);
}

/* One of the operations of a rank. */
typedef struct exchange {
    unsigned round;
    size_t size; /* of an element */
    size_t send_counts[RANKS_MAX];
    size_t recv_counts[RANKS_MAX];
    uint8_t *send;
    uint8_t *recv;
    coll_op_desc desc;
} exchange;

static size_t total(const exchange *e, const size_t *counts, int ranks)
{
    size_t sum = 0;
    for (int r = 0; r < ranks; r++) {
        sum += counts[r] * e->size;
    }
    return sum;
}

/* In memory of at least 2 × RANKS_MAX × LONGEST elements. */
static void prepare(exchange *e, const test_rank *rank, unsigned round, uint8_t *memory)
{
    const coll_type type = (coll_type)(COLL_FLOAT32 + round % COLL_TYPE_LAST);
    *e = (exchange){.round = round, .size = coll_type_size_bytes(type)};
    for (int r = 0; r < rank->size; r++) {
        e->send_counts[r] = count_of(round, rank->rank, r);
        e->recv_counts[r] = count_of(round, r, rank->rank);
    }
    const size_t send_bytes = total(e, e->send_counts, rank->size);
    const size_t recv_bytes = total(e, e->recv_counts, rank->size);
    e->send = memory;
    e->recv = memory + (send_bytes + 63) / 64 * 64;
    memset(e->recv, 0xee, recv_bytes + 1);
    uint8_t *at = e->send;
    for (int r = 0; r < rank->size; r++) {
        for (size_t i = 0; i < e->send_counts[r] * e->size; i++) {
            *at++ = byte_of(round, rank->rank, r, i);
        }
    }
    e->desc = (coll_op_desc){.size = sizeof(coll_op_desc),
                             .kind = COLL_ALL_TO_ALL,
                             .send = send_bytes > 0 ? e->send : NULL,
                             .counts = e->send_counts,
                             .recv = recv_bytes > 0 ? e->recv : NULL,
                             .recv_counts = e->recv_counts,
                             .type = type};
}

static bool is_right(const exchange *e, const test_rank *rank)
{
    const uint8_t *at = e->recv;
    for (int r = 0; r < rank->size; r++) {
        for (size_t i = 0; i < e->recv_counts[r] * e->size; i++) {
            if (*at++ != byte_of(e->round, r, rank->rank, i)) {
                return false;
            }
        }
    }
    return *at == 0xee;
}

/* One call that blocks. */
static coll_status call(coll_comm *comm, const exchange *e, coll_error *error)
{
    return coll_all_to_all_v(comm, e->desc.send, e->send_counts, e->desc.recv, e->recv_counts,
                             e->desc.type, error);
}

/* Several at once, some of which are started a second time. */
static void run_together(test_rank *rank, coll_comm *comm, const exchange *e)
{
    coll_op *ops[AT_ONCE] = {NULL};
    bool done = false;
    for (int i = 0; i < AT_ONCE; i++) {
        RANK_OK(rank, coll_op_create(comm, &e[i].desc, &ops[i], &rank->error));
        RANK_OK(rank, coll_op_start(ops[i], &rank->error));
    }
    for (int i = AT_ONCE - 1; i >= 0; i--) {
        RANK_OK(rank, coll_op_test(ops[i], &done, &rank->error));
        RANK_OK(rank, coll_op_wait(ops[i], &rank->error));
        RANK_CHECK(rank, is_right(&e[i], rank));
    }
    memset(e[0].recv, 0x11, total(&e[0], e[0].recv_counts, rank->size));
    RANK_OK(rank, coll_op_start(ops[0], &rank->error));
    RANK_OK(rank, coll_op_wait(ops[0], &rank->error));
    RANK_CHECK(rank, is_right(&e[0], rank));
    for (int i = 0; i < AT_ONCE; i++) {
        coll_op_destroy(ops[i]);
    }
}

/* Where a round's buffers lie: all ranks' in arenas, those of some, or of none. */
static bool lies_in_arena(unsigned round, int rank)
{
    return round % 3 == 0 || (round % 3 == 1 && rank % 2 == 0);
}

static void random_body(test_rank *rank)
{
    enum { EACH = 2 * RANKS_MAX * LONGEST * 8 + 4096 };
    coll_comm *comm = coll_context_world(rank->context);
    coll_arena *arena = NULL;
    exchange e[AT_ONCE];
    uint8_t *memory = malloc((size_t)AT_ONCE * EACH);
    RANK_CHECK(rank, memory != NULL);
    RANK_OK(rank, coll_arena_create(comm, (size_t)AT_ONCE * EACH, &arena, &rank->error));
    for (unsigned round = 0; round < ROUNDS; round += AT_ONCE) {
        for (unsigned i = 0; i < AT_ONCE; i++) {
            uint8_t *base = lies_in_arena(round + i, rank->rank) ? coll_arena_data(arena) : memory;
            prepare(&e[i], rank, round + i, base + i * (size_t)EACH);
        }
        run_together(rank, comm, e);
        for (int i = 0; i < AT_ONCE; i++) {
            memset(e[i].recv, 0x22, total(&e[i], e[i].recv_counts, rank->size));
            RANK_OK(rank, call(comm, &e[i], &rank->error));
            RANK_CHECK(rank, is_right(&e[i], rank));
        }
    }
    coll_arena_destroy(arena);
    free(memory);
}

static void test_random_counts(void **state)
{
    static const int sizes[] = {1, 2, 3, 5, RANKS_MAX};
    (void)state;
    for (int t = 0; t < TRANSPORTS; t++) {
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            test_ranks_as_threads(
                &(test_ranks_options){.size = sizes[s], .transport = transports[t]}, random_body);
        }
    }
}

/* In arenas, so that ranks read each other's buffers. Rank 2 starts one operation again and again, while
 * the others' counts change: what it gets lies elsewhere in their memory each time. Rank 3 has nothing
 * to say, and no buffer. */
static void moving_body(test_rank *rank)
{
    enum { RANKS = 4, MOST = 5000 };
    const bool stays = rank->rank == 2;
    const bool silent = rank->rank == 3;
    coll_comm *comm = coll_context_world(rank->context);
    coll_arena *arena = NULL;
    coll_op *op = NULL;
    coll_error *error = &rank->error;
    RANK_OK(rank, coll_arena_create(comm, 4 * MOST * sizeof(int32_t), &arena, error));
    int32_t *send = coll_arena_data(arena);
    int32_t *recv = send + 2 * MOST;
    for (int round = 0; round < 4; round++) {
        size_t counts[RANKS] = {100, 100, 100, 0}; /* as many both ways */
        for (int r = 0; r < 2; r++) {              /* between ranks 0 and 1 */
            counts[r] = stays ? 100 : (size_t)round * 1000;
        }
        memset(counts, 0, silent ? sizeof counts : 0);
        int32_t *at = send;
        for (int r = 0; r < RANKS; r++) {
            for (size_t i = 0; i < counts[r]; i++) {
                *at++ = (round * RANKS + rank->rank) * RANKS + r;
            }
        }
        const coll_op_desc desc = {.size = sizeof desc,
                                   .kind = COLL_ALL_TO_ALL,
                                   .send = silent ? NULL : send,
                                   .counts = counts,
                                   .recv = silent ? NULL : recv,
                                   .recv_counts = counts,
                                   .type = COLL_INT32};
        if (op == NULL) {
            RANK_OK(rank, coll_op_create(comm, &desc, &op, error));
        }
        RANK_OK(rank, coll_op_start(op, error));
        RANK_OK(rank, coll_op_wait(op, error));
        RANK_CHECK(rank, op->protocol == COLL_PROTOCOL_ZERO_COPY);
        at = recv;
        for (int r = 0; r < RANKS; r++) {
            for (size_t i = 0; i < counts[r]; i++) {
                RANK_CHECK(rank, *at++ == (round * RANKS + r) * RANKS + rank->rank);
            }
        }
        if (!stays) {
            coll_op_destroy(op);
            op = NULL;
        }
        RANK_OK(rank, coll_barrier(comm, error)); /* before send is written again */
    }
    coll_op_destroy(op);
    coll_arena_destroy(arena);
}

static void test_blocks_in_arenas_may_move(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 4, .transport = COLL_TRANSPORT_SHM},
                          moving_body);
}

/* ---- what is refused ---- */

static void refuse(test_rank *rank, const coll_op_desc *desc, const char *words)
{
    coll_op *op = NULL;
    const coll_status status =
        coll_op_create(coll_context_world(rank->context), desc, &op, &rank->error);
    RANK_CHECK(rank, status == COLL_ERR_INVALID);
    RANK_CHECK(rank, test_has(rank->error.message, words));
    RANK_CHECK(rank, op == NULL);
}

static void refused_body(test_rank *rank)
{
    static int32_t memory[2][100];
    const bool first = rank->rank == 0;
    const size_t counts[2] = {first ? 3 : 5, first ? 4 : 3};
    const size_t others[2] = {first ? 3 : 4, first ? 5 : 3};
    const size_t uneven[2] = {first ? 2 : 4, first ? 5 : 2};
    const size_t huge[2] = {SIZE_MAX / 8, SIZE_MAX / 8};
    const size_t wide[2] = {SIZE_MAX / 2, 3};
    const coll_op_desc good = {.size = sizeof(coll_op_desc),
                               .kind = COLL_ALL_TO_ALL,
                               .send = memory[rank->rank],
                               .counts = counts,
                               .recv = memory[rank->rank] + 50,
                               .recv_counts = others,
                               .type = COLL_INT32};
    coll_op_desc desc = good;
    desc.recv_counts = NULL;
    refuse(rank, &desc, "alltoall with counts needs recv_counts too");
    desc = good;
    desc.counts = NULL;
    refuse(rank, &desc, "recv_counts are for alltoall with counts");
    desc = good;
    desc.kind = COLL_ALL_GATHER;
    refuse(rank, &desc, "recv_counts are for alltoall with counts, not all_gather");
    desc = good;
    desc.kind = COLL_BROADCAST;
    desc.recv_counts = NULL;
    refuse(rank, &desc, "gather, scatter and alltoall, not broadcast");
    desc = good;
    desc.recv_counts = uneven;
    refuse(rank, &desc, "sends 3 elements to itself and expects 2");
    desc = good;
    desc.recv = memory[rank->rank];
    refuse(rank, &desc,
           first ? "counts[1] is 4, recv_counts[1] 5" : "counts[0] is 5, recv_counts[0] 4");
    desc.recv = memory[rank->rank] + 1;
    refuse(rank, &desc, "overlap in part");
    desc = good;
    desc.counts = huge;
    desc.recv_counts = huge;
    refuse(rank, &desc, "counts or recv_counts: together they are too many elements");
    desc.counts = wide;
    desc.recv_counts = wide;
    refuse(rank, &desc, "too many");
    desc.send = NULL;
    desc.counts = counts;
    desc.recv_counts = others;
    refuse(rank, &desc, "alltoall has no send buffer");
    RANK_OK(rank, coll_run(coll_context_world(rank->context), &good, &rank->error));
}

static void test_what_cannot_be_is_refused(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = COLL_TRANSPORT_SHM},
                          refused_body);
}

/* ---- ranks that disagree ---- */

typedef struct dispute {
    size_t sent; /* by rank 0, to rank 2 */
    size_t expected;
} dispute;

/* Of four ranks two disagree. Both say how; the others say so too, or pass it on. */
static void dispute_body(test_rank *rank)
{
    enum { RANKS = 4, MOST = 200000 };
    static int32_t memory[RANKS][2][MOST + 2 * RANKS];
    const dispute *d = rank->user;
    coll_comm *comm = coll_context_world(rank->context);
    coll_error again;
    char words[64];
    size_t to[RANKS] = {2, 2, 2, 2};
    size_t from[RANKS] = {2, 2, 2, 2};
    to[2] = rank->rank == 0 ? d->sent : 2;
    from[0] = rank->rank == 2 ? d->expected : 2;
    int32_t *data = memory[rank->rank][0];
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    coll_status status =
        coll_all_to_all_v(comm, data, to, memory[rank->rank][1], from, COLL_INT32, &rank->error);
    if (status == COLL_OK && rank->rank % 2 == 1) {
        status = coll_barrier(comm, &rank->error); /* it had all that it wanted */
    }
    RANK_CHECK(rank, status == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, test_has(rank->error.message, "in alltoall of int32, rank 0 (host"));
    (void)snprintf(words, sizeof words, "sends %zu elements to rank 2 (host", d->sent);
    RANK_CHECK(rank, test_has(rank->error.message, words));
    (void)snprintf(words, sizeof words, "which expects %zu", d->expected);
    RANK_CHECK(rank, test_has(rank->error.message, words));
    RANK_CHECK(rank, coll_barrier(comm, &again) == COLL_ERR_MISMATCH);
}

static void test_ranks_that_disagree_are_named(void **state)
{
    static const dispute disputes[] = {{7, 5}, {5, 7}, {0, 3}, {3, 0}, {200000, 2}, {1, 200000}};
    (void)state;
    for (int t = 0; t < TRANSPORTS; t++) {
        for (size_t i = 0; i < sizeof disputes / sizeof disputes[0]; i++) {
            dispute d = disputes[i];
            test_ranks_as_threads(
                &(test_ranks_options){.size = 4, .transport = transports[t], .user = &d},
                dispute_body);
        }
    }
}

/* Rank 1 has no counts. */
static void plain_body(test_rank *rank)
{
    static int32_t memory[3][2][6];
    static const size_t counts[3] = {2, 2, 2};
    coll_comm *comm = coll_context_world(rank->context);
    int32_t *send = memory[rank->rank][0];
    int32_t *recv = memory[rank->rank][1];
    coll_error *error = &rank->error;
    const coll_status status =
        rank->rank == 1 ? coll_all_to_all(comm, send, recv, 2, COLL_INT32, error)
                        : coll_all_to_all_v(comm, send, counts, recv, counts, COLL_INT32, error);
    RANK_CHECK(rank, status == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, test_has(error->message, "calls alltoall int32 × 6 with counts"));
    RANK_CHECK(rank, test_has(error->message, "calls alltoall int32 × 2 auto"));
}

static void test_a_rank_without_counts_is_named(void **state)
{
    (void)state;
    for (int t = 0; t < TRANSPORTS; t++) {
        test_ranks_as_threads(&(test_ranks_options){.size = 3, .transport = transports[t]},
                              plain_body);
    }
}

/* ---- processes ---- */

/* LONG_COUNT: more than a stream holds, so that nobody can end without the victim. */
enum { PROCESSES = 4, VICTIM = 2, LONG_COUNT = 1 << 20, SHORT_COUNT = 1000 };

static bool is_from_all(const int32_t *recv, const size_t *counts)
{
    size_t at = 0;
    for (int r = 0; r < PROCESSES; r++) {
        if (counts[r] > 0 && (recv[at] != r || recv[at + counts[r] - 1] != r)) {
            return false;
        }
        at += counts[r];
    }
    return true;
}

/* Some rounds go well. In the last, the victim is killed when it has begun; others may not have ended the
 * one before. */
static int process_body(forked_rank *rank, void *user)
{
    static int32_t send[PROCESSES * LONG_COUNT];
    static int32_t recv[PROCESSES * LONG_COUNT];
    const coll_context_options options = {FORKED_OPTIONS(rank),
                                          .transport = *(const coll_transport *)user,
                                          .timeout_ns = 30 * BASE_NS_PER_S};
    coll_context *context = NULL;
    coll_request *request = NULL;
    coll_error error = {.message = ""};
    size_t counts[PROCESSES]; /* as many both ways */
    coll_status status = coll_context_create(&options, &context, &error);
    for (int r = 0; r < PROCESSES; r++) {
        const bool is_long = rank->rank == VICTIM || r == VICTIM;
        counts[r] = r == rank->rank ? 0 : is_long ? LONG_COUNT - r - rank->rank : SHORT_COUNT;
    }
    for (size_t i = 0; i < (size_t)PROCESSES * LONG_COUNT; i++) {
        send[i] = rank->rank;
    }
    const coll_op_desc desc = {.size = sizeof desc,
                               .kind = COLL_ALL_TO_ALL,
                               .send = send,
                               .counts = counts,
                               .recv = recv,
                               .recv_counts = counts,
                               .type = COLL_INT32};
    bool right = true;
    for (int i = 0; i < 3 && status == COLL_OK; i++) {
        status = coll_run(coll_context_world(context), &desc, &error);
        right = right && (i == 2 || (status == COLL_OK && is_from_all(recv, counts)));
    }
    if (status == COLL_OK) {
        status = coll_start(coll_context_world(context), &desc, &request, &error);
    }
    if (rank->rank == VICTIM) {
        (void)raise(SIGKILL);
    }
    if (status == COLL_OK) {
        status = coll_request_wait(&request, &error);
    }
    right = right && status == COLL_ERR_PEER && test_has(error.message, "rank 2 (host");
    if (!right) {
        (void)fprintf(stderr, "rank %d: %d %s\n", rank->rank, (int)status, error.message);
    }
    coll_context_destroy(context);
    return right ? 0 : 1;
}

static void test_a_killed_process_is_named(void **state)
{
    (void)state;
    for (int t = 0; t < TRANSPORTS; t++) {
        coll_transport transport = transports[t];
        pid_t pids[PROCESSES];
        coll_error error;
        int status = 0;
        assert_ok(forked_start(PROCESSES, process_body, &transport, pids, &error), &error);
        for (int r = 0; r < PROCESSES; r++) {
            assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
            assert_true(r == VICTIM ? WIFSIGNALED(status) : WIFEXITED(status));
            assert_int_equal(r == VICTIM ? 0 : WEXITSTATUS(status), 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_counts),
        cmocka_unit_test(test_blocks_in_arenas_may_move),
        cmocka_unit_test(test_what_cannot_be_is_refused),
        cmocka_unit_test(test_ranks_that_disagree_are_named),
        cmocka_unit_test(test_a_rank_without_counts_is_named),
        cmocka_unit_test(test_a_killed_process_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
