/* Several hosts, played by the ranks of this one: the test says which is where.
 * two_level really has two levels then, links have two classes, and `auto` has a choice. */
#include <stdlib.h>
#include <string.h>

#include "common/kinds.h"
#include "common/limits.h"
#include "grid_case.h"
#include "plan/hosts.h"
#include "reference.h"
#include "support.h"

#include "coll/tune.h"

void __real_coll_hosts_make(coll_hosts *hosts, const uint16_t *host_of, int ranks, uint16_t *words);
void __wrap_coll_hosts_make(coll_hosts *hosts, const uint16_t *host_of, int ranks, uint16_t *words);

static int ranks_per_host;
static bool strewn; /* neighbours on different hosts */

void __wrap_coll_hosts_make(coll_hosts *hosts, const uint16_t *host_of, int ranks, uint16_t *words)
{
    uint16_t played[COLL_RANKS_MAX];
    (void)host_of;
    for (int rank = 0; rank < ranks; rank++) {
        played[rank] = (uint16_t)(strewn ? rank % ranks_per_host : rank / ranks_per_host);
    }
    __real_coll_hosts_make(hosts, played, ranks, words);
}

/* A sixth of the shorter one still is too long to travel with a flag. */
enum { LONG_COUNT = TEST_HAS_SANITIZER ? 25013 : 40007 };

static bool run_case(grid_rank *g, grid_case c)
{
    static const size_t counts[] = {1, 5, 1000, LONG_COUNT};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        c.count = counts[i];
        if (!grid_case_run(g, &c)) {
            return false;
        }
    }
    return true;
}

static void algorithms_body(test_rank *rank)
{
    static const coll_kind kinds[] = {COLL_ALL_REDUCE, COLL_REDUCE,     COLL_REDUCE_SCATTER,
                                      COLL_BROADCAST,  COLL_ALL_GATHER, COLL_SCAN};
    static const coll_algorithm algorithms[] = {COLL_ALGORITHM_TWO_LEVEL, COLL_ALGORITHM_AUTO};
    grid_rank g = {.rank = rank, .comm = coll_context_world(rank->context), .bytes = 8 << 20};
    RANK_OK(rank, coll_arena_create(g.comm, g.bytes, &g.arena, &rank->error));
    g.memory = calloc(1, g.bytes);
    bool good = g.memory != NULL;
    for (int i = 0; good && i < 24; i++) {
        const coll_kind kind = kinds[i / 2 % 6];
        const coll_algorithm algorithm = algorithms[i % 2];
        /* strewn hosts have no canonical order, which integers do not mind */
        good = run_case(&g, (grid_case){.kind = kind,
                                        .type = i >= 12 && coll_kind_reduces(kind) ? REFERENCE_MAPS
                                                : strewn                           ? COLL_INT32
                                                                                   : COLL_FLOAT32,
                                        .reduce = i < 12 ? COLL_SUM : COLL_MAX,
                                        .root = i % rank->size,
                                        .algorithm = algorithm,
                                        .placement = i < 12 ? GRID_APART : GRID_IN_PLACE});
    }
    free(g.memory);
    coll_arena_destroy(g.arena);
}

static void over_hosts(coll_transport transport, int ranks, int per_host, bool strew)
{
    ranks_per_host = per_host;
    strewn = strew;
    test_ranks_as_threads(&(test_ranks_options){.size = ranks, .transport = transport},
                          algorithms_body);
}

static void test_two_level(void **state)
{
    static const coll_transport transports[] = {COLL_TRANSPORT_TCP, COLL_TRANSPORT_ZMQ};
    (void)state;
    for (int t = 0; t < 2; t++) {
        over_hosts(transports[t], 4, 2, false);
        over_hosts(transports[t], 5, 4, false);
        over_hosts(transports[t], 3, 1, false);
        over_hosts(transports[t], 6, 3, true);
    }
}

/* Both classes of links are measured, and everybody has the same figures. */
static void figures_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    const coll_costs *costs = coll_tune_costs(rank->context);
    coll_layout layout;
    RANK_CHECK(rank, costs != NULL);
    RANK_CHECK(rank, coll_context_algorithm(rank->context) == COLL_ALGORITHM_AUTO);
    coll_tune_layout(comm, &layout);
    RANK_CHECK(rank, layout.ranks == 4 && layout.hosts == 2 && layout.host_ranks_max == 2 &&
                         layout.host_ranks_min == 2 && layout.contiguous && layout.aligned);
    RANK_CHECK(rank, costs->inside.latency_us > 0 && costs->between.latency_us > 0);
    RANK_CHECK(rank, costs->inside.byte_ns > 0 && costs->between.byte_ns > 0);
    RANK_CHECK(rank, costs->reduce_byte_ns > 0 && costs->start_us > 0);
    uint8_t all[4 * sizeof *costs];
    RANK_OK(rank, coll_all_gather(comm, costs, all, sizeof *costs, COLL_UINT8, &rank->error));
    for (size_t r = 0; r < 4; r++) {
        RANK_CHECK(rank, memcmp(all + r * sizeof *costs, costs, sizeof *costs) == 0);
    }
    RANK_CHECK(rank, coll_context_bytes_sent(rank->context) < 4096); /* measuring does not count */
    coll_tune_row row;
    for (coll_kind kind = COLL_SEND; kind <= COLL_RECEIVE; kind++) {
        const coll_tune_case message = {.kind = kind, .whole_bytes = 64};
        RANK_CHECK(rank, coll_tune_compare(comm, costs, &message, &row, &rank->error) ==
                             COLL_ERR_INVALID);
    }
    const coll_tune_case which = {
        .kind = COLL_ALL_REDUCE, .algorithm = COLL_ALGORITHM_TWO_LEVEL, .whole_bytes = 65536};
    RANK_OK(rank, coll_tune_compare(comm, costs, &which, &row, &rank->error));
    RANK_CHECK(rank, row.measured_us > 0 && row.predicted_us > 0 && row.eligible);
}

static void test_figures(void **state)
{
    (void)state;
    ranks_per_host = 2;
    strewn = false;
    test_ranks_as_threads(&(test_ranks_options){.size = 4, .transport = COLL_TRANSPORT_TCP},
                          figures_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_level),
        cmocka_unit_test(test_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
