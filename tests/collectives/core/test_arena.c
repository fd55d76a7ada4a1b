/* What a peer may name of its arenas: bytes inside one of them, and only where memory is shared. Pages that are
 * discarded can be written again. Ranks are threads. */
#include <string.h>

#include "core/comm.h"
#include "ranks.h"
#include "support.h"

enum { ARENA_BYTES = 3 * 4096 + 100, PAGE = 4096 };

static void addresses_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    const int peer = 1 - rank->rank;
    const bool shared = coll_context_transport(rank->context) == COLL_TRANSPORT_SHM;
    coll_arena *arena = NULL;
    RANK_OK(rank, coll_arena_create(comm, ARENA_BYTES, &arena, &rank->error));
    memset(coll_arena_data(arena), rank->rank + 1, ARENA_BYTES);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    const uint8_t *at = coll_arena_of_peer(comm, peer, 1, 0, ARENA_BYTES);
    RANK_CHECK(rank, (at != NULL) == shared);
    RANK_CHECK(rank, !shared || (at[0] == peer + 1 && at[ARENA_BYTES - 1] == peer + 1));
    at = coll_arena_of_peer(comm, peer, 1, ARENA_BYTES - 1, 1);
    RANK_CHECK(rank, (at != NULL) == shared);
    RANK_CHECK(rank, coll_arena_of_peer(comm, peer, 1, ARENA_BYTES, 1) == NULL);
    RANK_CHECK(rank, coll_arena_of_peer(comm, peer, 1, 1, ARENA_BYTES) == NULL);
    RANK_CHECK(rank, coll_arena_of_peer(comm, peer, 1, UINT64_MAX, 2) == NULL);
    RANK_CHECK(rank, coll_arena_of_peer(comm, peer, 1, 2, SIZE_MAX) == NULL);
    RANK_CHECK(rank, coll_arena_of_peer(comm, peer, 0, 0, 1) == NULL);
    RANK_CHECK(rank, coll_arena_of_peer(comm, peer, 2, 0, 1) == NULL);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    coll_arena_destroy(arena);
}

/* What stands around whole pages stays, and peers see what is written there again. */
static void discard_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    coll_arena *arena = NULL;
    RANK_OK(rank, coll_arena_create(comm, ARENA_BYTES, &arena, &rank->error));
    uint8_t *at = coll_arena_data(arena);
    for (int turn = 1; turn <= 3; turn++) {
        memset(at, turn, ARENA_BYTES);
        coll_arena_discard(arena, 10, 2 * PAGE);
        RANK_CHECK(rank, at[PAGE - 1] == turn && at[2 * PAGE] == turn);
        memset(at + PAGE, turn + rank->rank, PAGE);
        RANK_OK(rank, coll_all_reduce(comm, at + PAGE, at + PAGE, PAGE, COLL_UINT8, COLL_SUM,
                                      &rank->error));
        for (int i = 0; i < PAGE; i++) {
            RANK_CHECK(rank, at[PAGE + i] == 2 * turn + 1);
        }
    }
    coll_arena_discard(arena, 0, ARENA_BYTES);
    coll_arena_discard(arena, ARENA_BYTES, 0);
    RANK_CHECK(rank, at[ARENA_BYTES - 1] == 3); /* of a page that is not whole */
    coll_arena_destroy(arena);
}

static void on_all(test_rank_body body)
{
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_ZMQ,
                                                COLL_TRANSPORT_TCP};
    for (size_t t = 0; t < sizeof transports / sizeof transports[0]; t++) {
        test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = transports[t]}, body);
    }
}

static void only_shared_bytes_have_addresses(void **state)
{
    (void)state;
    on_all(addresses_body);
}

static void pages_can_go_and_come(void **state)
{
    (void)state;
    on_all(discard_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_shared_bytes_have_addresses),
        cmocka_unit_test(pages_can_go_and_come),
    };
    return cmocka_run_group_tests_name("coll-arena", tests, NULL, NULL);
}
