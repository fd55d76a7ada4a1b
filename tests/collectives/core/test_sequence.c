/* The low half of sequence numbers, which is all that flags show, comes to its end: operations
 * of all kinds before, across and after that, and a mismatch afterwards. Ranks are threads. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/op.h"
#include "processors.h"
#include "ranks.h"
#include "support.h"
#include "transport/shm/layout.h"
#include "transport/socket/comm.h"

enum { RANKS = 3, OPS = 300, BEFORE = 100, UNDER_WAY = 40, COUNT = 40, LONG_COUNT = 20000 };

/* The operation that ranks take themselves to have done. */
#define LAST (UINT64_C(0xffffffff) - BEFORE)

/* What a flag shows whose rank has done all up to LAST. */
static void age_flags(coll_flag *flags)
{
    for (uint64_t sequence = LAST - COLL_FLAG_COUNT + 1; sequence <= LAST; sequence++) {
        coll_flag *flag = &flags[sequence % COLL_FLAG_COUNT];
        flag->descriptor.sequence = sequence;
        atomic_store(&flag->word, coll_flag_word(sequence, 0) | COLL_FLAG_QUIET);
    }
}

static void age_shm(const coll_comm *comm)
{
    shm_comm *shm = comm->shm;
    shm_segment *own = shm->segments[comm->rank];
    age_flags(own->flags);
    atomic_store(&own->finished.value, LAST);
    for (int slot = 0; slot < COLL_FLAG_COUNT; slot++) {
        shm->words[slot] = atomic_load(&own->flags[slot].word) & ~(uint64_t)COLL_FLAG_QUIET;
        shm->shown_digests[slot] = 0;
    }
    for (int rank = 0; rank < comm->size; rank++) {
        shm->peers[rank].seen = LAST;
        shm->peers[rank].done = LAST;
    }
    shm->peers_done = LAST;
}

static void age_net(const coll_comm *comm)
{
    coll_net_comm *link = comm->net;
    for (int rank = 0; rank < comm->size; rank++) {
        age_flags(link->flags[rank]);
        link->newest[rank] = LAST;
        link->gave[rank] = LAST;
        link->let_go[rank] = LAST;
    }
    link->least = LAST;
}

/* Nothing is under way on any rank, and all have seen all flags: a barrier has ended. */
static void age(coll_comm *comm)
{
    comm->sequence = LAST;
    comm->posted = LAST;
    comm->done = LAST;
    if (comm->shm != NULL) {
        age_shm(comm);
    }
    if (comm->net != NULL) {
        age_net(comm);
    }
}

static coll_op_desc nth(int i, int32_t *send, int32_t *recv)
{
    static const coll_kind kinds[] = {COLL_ALL_REDUCE, COLL_BROADCAST, COLL_GATHER, COLL_ALL_GATHER,
                                      COLL_SCATTER};
    return (coll_op_desc){.size = sizeof(coll_op_desc),
                          .kind = kinds[i % 5],
                          .send = send,
                          .recv = recv,
                          .count = i % 7 == 0 ? LONG_COUNT : COUNT,
                          .type = COLL_INT32,
                          .reduce = COLL_SUM,
                          .root = i % RANKS};
}

/* Whether the first element is right; inputs are i + rank. */
static bool is_right(int i, int rank, int32_t got)
{
    switch (i % 5) {
    case 0:
        return got == RANKS * i + 3;
    case 2:
        return rank != i % RANKS || got == i;
    case 3:
        return got == i;
    default:
        return got == i + i % RANKS;
    }
}

/* Some blocking, some started ahead and waited for later. */
static bool run_ops(test_rank *rank, coll_comm *comm)
{
    static int32_t send[RANKS][UNDER_WAY][RANKS * LONG_COUNT];
    static int32_t recv[RANKS][UNDER_WAY][RANKS * LONG_COUNT];
    coll_request *requests[UNDER_WAY] = {NULL};
    for (int i = 0; i < OPS; i++) {
        const int at = i % UNDER_WAY;
        int32_t *from = send[rank->rank][at];
        int32_t *to = recv[rank->rank][at];
        for (int r = 0; r < RANKS; r++) {
            from[r * (i % 7 == 0 ? LONG_COUNT : COUNT)] = i + rank->rank;
        }
        const coll_op_desc desc = nth(i, from, to);
        const coll_status status = i / UNDER_WAY % 2 == 0
                                       ? coll_run(comm, &desc, &rank->error)
                                       : coll_start(comm, &desc, &requests[at], &rank->error);
        if (status != COLL_OK ||
            (at == UNDER_WAY - 1 &&
             coll_request_wait_all(requests, UNDER_WAY, &rank->error) != COLL_OK)) {
            return false;
        }
        for (int k = i - UNDER_WAY + 1; at == UNDER_WAY - 1 && k <= i; k++) {
            if (!is_right(k, rank->rank, recv[rank->rank][k % UNDER_WAY][0])) {
                (void)snprintf(rank->error.message, sizeof rank->error.message, "operation %d", k);
                return false;
            }
        }
    }
    return coll_request_wait_all(requests, UNDER_WAY, &rank->error) == COLL_OK;
}

static pthread_barrier_t all_here;

static void body(test_rank *rank)
{
    char number[32];
    coll_comm *comm = coll_context_world(rank->context);
    float values[2] = {0};
    const coll_status met = coll_barrier(comm, &rank->error);
    (void)pthread_barrier_wait(&all_here);
    age(comm);
    (void)pthread_barrier_wait(&all_here);
    RANK_OK(rank, met);
    RANK_CHECK(rank, run_ops(rank, comm));
    RANK_CHECK(rank, comm->sequence == LAST + OPS);
    (void)snprintf(number, sizeof number, "operation #%llu:", (unsigned long long)LAST + OPS + 1);
    RANK_CHECK(rank, coll_all_reduce(comm, values, values, rank->rank == 1 ? 2 : 1, COLL_FLOAT32,
                                     COLL_SUM, &rank->error) == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, strstr(rank->error.message, number) != NULL);
}

static void numbers_may_wrap(void **state)
{
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_ZMQ,
                                                COLL_TRANSPORT_TCP};
    (void)state;
    for (int i = 0; i < 6; i++) {
        test_processors_claim(i % 2 == 0 ? 1 : RANKS);
        assert_int_equal(pthread_barrier_init(&all_here, NULL, RANKS), 0);
        test_ranks_as_threads(&(test_ranks_options){.size = RANKS, .transport = transports[i / 2]},
                              body);
        (void)pthread_barrier_destroy(&all_here);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_may_wrap)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
