/* More than 2 GiB, which no 32-bit count of bytes holds: reduced in place, gathered, scattered and
 * sent between two ranks. Takes 9 GiB of memory and about a minute. */
#include <stdlib.h>

#include "base/clock.h"
#include "ranks.h"
#include "support.h"

#define LARGE_COUNT ((size_t)0x80000000U + 12345)
enum { STRIDE = 4093 }; /* a prime: all residues of every chunk size */

static uint8_t value(int rank, size_t index)
{
    return (uint8_t)(index * 7 + (index >> 31) * 13 + (size_t)rank * 31);
}

static void fill(uint8_t *data, int rank, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        data[i] = value(rank, i);
    }
}

/* Looks at every STRIDE-th element, and at the first and last ones. */
static bool holds(const uint8_t *data, size_t count, bool summed, int rank)
{
    for (size_t i = 0; i < count; i += i < 1000 || i + STRIDE > count ? 1 : STRIDE) {
        const uint8_t expected = summed ? (uint8_t)(value(0, i) + value(1, i)) : value(rank, i);
        if (data[i] != expected) {
            return false;
        }
    }
    return true;
}

static void large_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    const int me = rank->rank;
    static uint8_t *memory[2][2];
    memory[me][0] = malloc(LARGE_COUNT);
    memory[me][1] = malloc(LARGE_COUNT);
    uint8_t *data = memory[me][0];
    uint8_t *other = memory[me][1];
    RANK_CHECK(rank, data != NULL && other != NULL);
    fill(data, me, 0, LARGE_COUNT);
    RANK_OK(rank,
            coll_all_reduce(comm, data, data, LARGE_COUNT, COLL_UINT8, COLL_SUM, &rank->error));
    RANK_CHECK(rank, holds(data, LARGE_COUNT, true, me));
    const size_t counts[] = {LARGE_COUNT - 5, 5};
    fill(data, me, me == 0 ? 0 : counts[0], me == 0 ? counts[0] : LARGE_COUNT);
    const coll_op_desc gather = {.size = sizeof(coll_op_desc),
                                 .kind = COLL_ALL_GATHER,
                                 .send = me == 0 ? data : data + counts[0],
                                 .recv = data,
                                 .counts = counts,
                                 .type = COLL_UINT8};
    RANK_OK(rank, coll_run(comm, &gather, &rank->error));
    RANK_CHECK(rank, holds(data, counts[0], false, 0));
    RANK_CHECK(rank, data[LARGE_COUNT - 1] == value(1, LARGE_COUNT - 1));
    if (me == 0) {
        RANK_OK(rank, coll_send(comm, data, LARGE_COUNT, COLL_UINT8, 1, &rank->error));
    } else {
        RANK_OK(rank, coll_receive(comm, other, LARGE_COUNT, COLL_UINT8, 0, &rank->error));
        RANK_CHECK(rank, holds(other, counts[0], false, 0));
    }
    free(data);
    free(other);
}

static void test_large(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2,
                                                .transport = COLL_TRANSPORT_SHM,
                                                .timeout_ns = 300 * BASE_NS_PER_S},
                          large_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_large)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
