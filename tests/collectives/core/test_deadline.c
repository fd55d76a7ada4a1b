/* The deadline of an operation that never stalls, over shared memory: it holds all the same. Ranks
 * are threads; for rank 0 the clock shows an hour more as soon as its bytes have begun to move, and
 * until they are all there, so that any look at it in between is one too late. */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "core/op.h"
#include "ranks.h"
#include "support.h"
#include "transport/shm/layout.h"

enum { COUNT = 8 << 20, PIECES_MAX = 4 * COLL_MOVES_PER_LOOK };

static _Thread_local bool is_watched; /* rank 0 */
static _Thread_local bool is_late;
static _Thread_local int pieces;

int64_t __real_base_now_ns(void);
int64_t __wrap_base_now_ns(void);
bool __real_coll_zero_copy_advance(coll_op *op);
bool __wrap_coll_zero_copy_advance(coll_op *op);
bool __real_coll_staged_advance(coll_op *op, bool *moved);
bool __wrap_coll_staged_advance(coll_op *op, bool *moved);

int64_t __wrap_base_now_ns(void)
{
    return __real_base_now_ns() + (is_late ? 3600 * BASE_NS_PER_S : 0);
}

bool __wrap_coll_zero_copy_advance(coll_op *op)
{
    const bool ended = __real_coll_zero_copy_advance(op);
    pieces++;
    is_late = is_watched && !ended;
    return ended;
}

bool __wrap_coll_staged_advance(coll_op *op, bool *moved)
{
    bool here = false;
    const bool ended = __real_coll_staged_advance(op, &here);
    *moved = *moved || here;
    pieces += here;
    is_late = is_watched && !ended && pieces > 0;
    return ended;
}

typedef struct steady {
    coll_kind kind;
    bool arena;
    bool blocking;
} steady;

/* Rank 1 has come when rank 0 begins. */
static void steady_body(test_rank *rank)
{
    static atomic_int begun;
    static int32_t memory[2][COUNT];
    const steady *s = rank->user;
    coll_comm *comm = coll_context_world(rank->context);
    coll_arena *arena = NULL;
    coll_request *request = NULL;
    coll_status status = COLL_OK;
    RANK_OK(rank, coll_arena_create(comm, sizeof memory[0], &arena, &rank->error));
    int32_t *data = s->arena ? coll_arena_data(arena) : memory[rank->rank];
    const bool message = s->kind == COLL_SEND;
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = message && rank->rank == 0 ? COLL_RECEIVE : s->kind,
                               .send = data,
                               .recv = data,
                               .count = COUNT,
                               .type = COLL_INT32,
                               .reduce = COLL_SUM,
                               .root = message ? 1 - rank->rank : 1};
    atomic_store(&begun, 0);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    if (rank->rank == 1) {
        RANK_OK(rank, coll_start(comm, &desc, &request, &rank->error));
        atomic_store(&begun, 1);
        status = coll_request_wait(&request, &rank->error); /* may have all it needs */
        RANK_CHECK(rank, status == COLL_OK || status == COLL_ERR_TIMEOUT);
        return;
    }
    while (atomic_load(&begun) == 0) {
        (void)sched_yield();
    }
    is_watched = true;
    is_late = message;
    pieces = 0;
    if (s->blocking) {
        status = coll_run(comm, &desc, &rank->error);
    } else {
        status = coll_start(comm, &desc, &request, &rank->error);
        status = status == COLL_OK ? coll_request_wait(&request, &rank->error) : status;
    }
    is_watched = false;
    is_late = false;
    RANK_CHECK(rank, status == COLL_ERR_TIMEOUT);
    RANK_CHECK(rank, strstr(rank->error.message, "no end after") != NULL);
    RANK_CHECK(rank, pieces <= PIECES_MAX);
}

static void on_both_ways(coll_kind kind, bool arena)
{
    for (int i = 0; i < 2; i++) {
        steady s = {.kind = kind, .arena = arena, .blocking = i == 0};
        test_ranks_as_threads(
            &(test_ranks_options){.size = 2, .transport = COLL_TRANSPORT_SHM, .user = &s},
            steady_body);
    }
}

static void test_slices_in_arenas(void **state)
{
    (void)state;
    on_both_ways(COLL_ALL_REDUCE, true);
}

static void test_copies_between_arenas(void **state)
{
    (void)state;
    on_both_ways(COLL_BROADCAST, true);
}

static void test_windows(void **state)
{
    (void)state;
    on_both_ways(COLL_ALL_REDUCE, false);
    on_both_ways(COLL_BROADCAST, false);
}

static void test_messages(void **state)
{
    (void)state;
    on_both_ways(COLL_SEND, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slices_in_arenas),
        cmocka_unit_test(test_copies_between_arenas),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
