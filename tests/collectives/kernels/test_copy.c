/* Copies that go past the cache: of any length from anywhere to anywhere, and nothing beside them;
 * and what is so long that ranks share it by such copies. Ranks are threads. */
#include "kernels/copy.h"

#include <string.h>

#include "common/limits.h"
#include "processors.h"
#include "ranks.h"
#include "support.h"

enum { LENGTH_MAX = 330, SHIFTS = 64, AROUND = 8, WORDS = COLL_PAST_CACHE_BYTES / 4 + 3 };

static void any_bytes_are_copied(void **state)
{
    static uint8_t from[LENGTH_MAX + SHIFTS];
    static _Alignas(64) uint8_t to[AROUND + SHIFTS + LENGTH_MAX + AROUND];
    uint8_t around[sizeof to];
    (void)state;
    memset(around, 0xee, sizeof around);
    for (size_t i = 0; i < sizeof from; i++) {
        from[i] = (uint8_t)(i * 31 + i / 97);
    }
    for (size_t length = 0; length <= LENGTH_MAX; length++) {
        for (size_t shift = 0; shift < SHIFTS; shift += 7) {
            uint8_t *at = to + AROUND + shift;
            const uint8_t *source = from + (shift * 5) % SHIFTS;
            memset(to, 0xee, sizeof to);
            coll_copy_past_cache(at, source, length);
            assert_memory_equal(at, source, length);
            assert_memory_equal(to, around, AROUND + shift);
            assert_memory_equal(at + length, around, (size_t)(to + sizeof to - at) - length);
        }
    }
}

static int32_t patterns[2][WORDS]; /* what each rank gives */

static bool holds(const int32_t *block, int rank)
{
    return memcmp(block, patterns[rank], sizeof patterns[rank]) == 0;
}

/* Broadcast is loaded, or stored by its root; gather and all-gather are loaded. */
static void long_body(test_rank *rank)
{
    static const coll_kind kinds[] = {COLL_BROADCAST, COLL_GATHER, COLL_ALL_GATHER};
    coll_comm *comm = coll_context_world(rank->context);
    coll_arena *arena = NULL;
    RANK_OK(rank, coll_arena_create(comm, (size_t)3 * 4 * WORDS, &arena, &rank->error));
    int32_t *data = coll_arena_data(arena);
    for (int k = 0; k < 3; k++) {
        const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                                   .kind = kinds[k],
                                   .send = data,
                                   .recv = data + WORDS,
                                   .count = WORDS,
                                   .type = COLL_INT32,
                                   .root = 1};
        memcpy(data, patterns[rank->rank], sizeof patterns[0]);
        memset(data + WORDS, 0xee, sizeof patterns);
        RANK_OK(rank, coll_run(comm, &desc, &rank->error));
        const bool takes = kinds[k] != COLL_GATHER || rank->rank == 1;
        const bool both = kinds[k] != COLL_BROADCAST;
        RANK_CHECK(rank, !takes || holds(data + WORDS, both ? 0 : 1));
        RANK_CHECK(rank, !takes || !both || holds(data + (size_t)2 * WORDS, 1));
        RANK_CHECK(rank, both || data[2 * WORDS] == data[3 * WORDS - 1]); /* untouched */
    }
    coll_arena_destroy(arena);
}

static void long_blocks_come_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < WORDS; i++) {
        patterns[0][i] = (int32_t)(i * 2654435761u);
        patterns[1][i] = (int32_t)(i * 40503u + 5);
    }
    for (int processors = 1; processors <= 2; processors++) {
        test_processors_claim(processors);
        test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = COLL_TRANSPORT_SHM},
                              long_body);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_bytes_are_copied),
        cmocka_unit_test(long_blocks_come_whole),
    };
    return cmocka_run_group_tests_name("coll-copy", tests, NULL, NULL);
}
