/* Rows that go to the ranks of their experts, and come back, over every transport: also to a rank that gets
 * all of them, and to one that gets none. */
#include <string.h>

#include "parallel/expert/ep.h"
#include "ranks.h"
#include "support.h"

enum { EXPERTS = 4, ROWS = 5, CHOSEN = 2, WIDTH = 3, GROUP = 2 };

/* Where the rows go. */
typedef enum destination { SPREAD, TO_THE_FIRST, TO_THE_LAST, NOWHERE, DESTINATIONS } destination;

static bool goes(destination way, int rank, size_t row, size_t expert)
{
    switch (way) {
    case SPREAD:
        return (expert + row + (size_t)rank) % 3 == 0;
    case TO_THE_FIRST:
        return expert < CHOSEN;
    case TO_THE_LAST:
        return expert >= EXPERTS - CHOSEN && rank % GROUP == 0;
    default:
        return false;
    }
}

/* What a row of a place has: the rank, the row, the expert. */
static void put(float *at, int rank, size_t row, size_t expert)
{
    at[0] = (float)rank;
    at[1] = (float)row;
    at[2] = (float)expert;
}

typedef struct places {
    int32_t begins[EXPERTS + 1];
    float rows[GROUP * ROWS * EXPERTS * WIDTH];
} places;

static void sort_places(destination way, int rank, places *sent)
{
    size_t count = 0;
    for (size_t e = 0; e < EXPERTS; e++) {
        sent->begins[e] = (int32_t)count;
        for (size_t row = 0; row < ROWS; row++) {
            if (goes(way, rank, row, e)) {
                put(sent->rows + count++ * WIDTH, rank, row, e);
            }
        }
    }
    sent->begins[EXPERTS] = (int32_t)count;
}

static void check_received(test_rank *rank, const rank_ep *ep, destination way, const places *got)
{
    const size_t here = rank_ep_here(&ep->cut);
    size_t next = 0;
    for (int from = 0; from < GROUP; from++) {
        const int peer = rank->rank / GROUP * GROUP + from;
        for (size_t e = 0; e < here; e++) {
            const size_t expert = (size_t)ep->rank * here + e;
            for (size_t row = 0; row < ROWS; row++) {
                float wanted[WIDTH];
                put(wanted, peer, row, expert);
                if (goes(way, peer, row, expert)) {
                    RANK_CHECK(rank,
                               memcmp(got->rows + next++ * WIDTH, wanted, sizeof wanted) == 0);
                }
            }
        }
    }
    RANK_CHECK(rank, (size_t)got->begins[EXPERTS] == next);
}

/* Adds the rows that came. */
static void there_and_back(test_rank *rank, const rank_ep *ep, destination way, uint64_t *rows)
{
    places sent;
    places got;
    places back;
    sort_places(way, rank->rank, &sent);
    memset(&back, 0, sizeof back);
    ep->announce(ep->group, sent.begins, got.begins);
    ep->exchange(ep->group, &(rank_ep_exchange){.from = sent.rows,
                                                .from_begins = sent.begins,
                                                .to = got.rows,
                                                .to_begins = got.begins,
                                                .width = WIDTH});
    check_received(rank, ep, way, &got);
    ep->exchange(ep->group, &(rank_ep_exchange){.from = got.rows,
                                                .from_begins = got.begins,
                                                .to = back.rows,
                                                .to_begins = sent.begins,
                                                .width = WIDTH});
    RANK_CHECK(rank, memcmp(back.rows, sent.rows,
                            (size_t)sent.begins[EXPERTS] * WIDTH * sizeof(float)) == 0);
    *rows += (uint64_t)got.begins[EXPERTS];
}

static void body(test_rank *rank)
{
    rank_ep_group *group = NULL;
    const rank_ep_cut cut = {
        .ranks = GROUP, .experts = EXPERTS, .rows_max = ROWS, .chosen = CHOSEN};
    RANK_OK(rank,
            rank_ep_group_create(coll_context_world(rank->context), &cut, &group, &rank->failure));
    const rank_ep *ep = rank_ep_group_ep(group);
    RANK_CHECK(rank, coll_comm_size(rank_ep_group_members(group)) == GROUP);
    RANK_CHECK(rank, coll_comm_size(rank_ep_group_copies(group)) == rank->size / GROUP);
    uint64_t rows = 0;
    for (destination way = SPREAD; way < DESTINATIONS; way++) {
        there_and_back(rank, ep, way, &rows);
    }
    RANK_OK(rank, rank_ep_group_check(group, &rank->failure));
    const rank_ep_costs costs = rank_ep_group_costs(group);
    RANK_CHECK(rank, costs.count == 3 * DESTINATIONS);
    RANK_CHECK(rank, costs.rows == rows);
    RANK_CHECK(rank, costs.bytes > 0 && costs.bytes < coll_context_bytes_sent(rank->context));
    rank_ep_group_destroy(group);
}

static void rows_go_to_their_experts_and_back(void **state)
{
    (void)state;
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                                COLL_TRANSPORT_ZMQ};
    for (size_t i = 0; i < sizeof transports / sizeof transports[0]; i++) {
        for (int ranks = GROUP; ranks <= 2 * GROUP; ranks += GROUP) {
            test_ranks_as_threads(&(test_ranks_options){.size = ranks, .transport = transports[i]},
                                  body);
        }
    }
}

/* Ranks that disagree about the number of rows that a batch may have. */
static void liar(test_rank *rank)
{
    rank_ep_group *group = NULL;
    const bool lies = rank->rank == 0;
    int32_t sent[EXPERTS + 1] = {0};
    int32_t received[EXPERTS + 1];
    const rank_ep_cut cut = {
        .ranks = GROUP, .experts = EXPERTS, .rows_max = lies ? 100 : ROWS, .chosen = CHOSEN};
    RANK_OK(rank,
            rank_ep_group_create(coll_context_world(rank->context), &cut, &group, &rank->failure));
    const rank_ep *ep = rank_ep_group_ep(group);
    sent[EXPERTS] = lies ? 100 : 0; /* all for the last expert, which rank 1 has */
    ep->announce(ep->group, sent, received);
    base_error error;
    const base_status status = rank_ep_group_check(group, &error);
    RANK_CHECK(rank, status == (lies ? BASE_OK : BASE_ERR_MISMATCH));
    RANK_CHECK(rank, received[EXPERTS] == 0);
    rank_ep_group_destroy(group);
}

static void too_many_rows_are_refused(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = GROUP, .transport = COLL_TRANSPORT_SHM},
                          liar);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_go_to_their_experts_and_back),
        cmocka_unit_test(too_many_rows_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
