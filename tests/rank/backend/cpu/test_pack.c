/* Packed matrices: transposed ones, and in bfloat16. */
#include <math.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "numbers.h"
#include "random.h"
#include "support.h"

static void a_transposed_matrix_packs_alike(void **state)
{
    (void)state;
    enum { DEPTH = 70, COLUMNS = 83, COUNT = 96 * DEPTH };
    static float b[DEPTH * COLUMNS];
    static float turned[COLUMNS * DEPTH];
    static float packed[2][COUNT];
    assert_int_equal(rank_pack_count(DEPTH, COLUMNS), COUNT);
    test_random_floats(b, DEPTH * COLUMNS, 1, 4);
    for (size_t k = 0; k < DEPTH; k++) {
        for (size_t j = 0; j < COLUMNS; j++) {
            turned[j * DEPTH + k] = b[k * COLUMNS + j];
        }
    }
    const rank_kernels *kernels = NULL;
    for (int isa = 1; (kernels = rank_kernels_at(isa)) != NULL; isa++) {
        test_random_floats(packed[0], COUNT, 1, 7);
        test_random_floats(packed[1], COUNT, 1, 8);
        kernels->pack(&(rank_pack){DEPTH, COLUMNS, b, COLUMNS, false, packed[0], DEPTH * RANK_PANEL,
                                   0, RANK_FLOAT32});
        kernels->pack(&(rank_pack){DEPTH, COLUMNS, turned, DEPTH, true, packed[1],
                                   DEPTH * RANK_PANEL, 0, RANK_FLOAT32});
        assert_memory_equal(packed[0], packed[1], sizeof packed[0]);
        assert_true(packed[0][RANK_PANEL + 5] == b[COLUMNS + 5]);
        assert_true(packed[0][2 * RANK_PANEL * DEPTH + RANK_PANEL - 1] == 0.0f);
    }
}

/* Ties go to even, what is above the largest number becomes infinite, and no number stays none. */
static void packing_rounds_to_nearest(void **state)
{
    (void)state;
    static const uint32_t bits[][2] = {
        {0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81},
        {0xbf80ffff, 0xbf81}, {0x7f7fffff, 0x7f80}, {0x7f800000, 0x7f80}, {0x7f800001, 0x7fc0},
        {0xffffffff, 0xffff}, {0x00008000, 0x0000}, {0x80000001, 0x8000}, {0x00018000, 0x0002},
    };
    enum { COUNT = sizeof bits / sizeof *bits };
    float from[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        memcpy(&from[i], &bits[i][0], sizeof from[i]);
    }
    const rank_kernels *kernels = NULL;
    for (int isa = 0; (kernels = rank_kernels_at(isa)) != NULL; isa++) {
        rank_bfloat16 to[RANK_PANEL] = {0};
        kernels->pack(&(rank_pack){.depth = 1,
                                   .columns = COUNT,
                                   .from = from,
                                   .from_row = COUNT,
                                   .to = to,
                                   .to_panel = RANK_PANEL,
                                   .to_type = RANK_BFLOAT16});
        for (size_t i = 0; i < COUNT; i++) {
            assert_int_equal(to[i], bits[i][1]);
        }
    }
}

/* Tokens of a packed table are the same in both types. */
static void an_embedding_may_be_bfloat16(void **state)
{
    (void)state;
    enum { WIDTH = 21, TOKENS = 70 };
    static float table[TOKENS * WIDTH];
    static float wide[96 * WIDTH];
    static rank_bfloat16 half[96 * WIDTH];
    static float positions[2 * WIDTH];
    static const int32_t ids[] = {0, 31, 32, 69, 70, 5};
    static const int32_t at[] = {0, 1, 0, 1, 0, 1};
    float out[2][6 * WIDTH];
    test_random_floats(table, TOKENS * WIDTH, 1, 8);
    test_random_floats(positions, 2 * WIDTH, 1, 9);
    for (size_t i = 0; i < TOKENS * WIDTH; i++) {
        table[i] = widened(upper(table[i]));
    }
    for (int type = RANK_FLOAT32; type <= RANK_BFLOAT16; type++) {
        void *packed = type == RANK_BFLOAT16 ? (void *)half : (void *)wide;
        const rank_kernels *kernels = rank_kernels_get();
        kernels->pack(&(rank_pack){.depth = WIDTH,
                                   .columns = TOKENS,
                                   .from = table,
                                   .from_row = WIDTH,
                                   .transposed = true,
                                   .to = packed,
                                   .to_panel = WIDTH * RANK_PANEL,
                                   .to_type = (rank_type)type});
        kernels->embed_packed(&(rank_embed_packed){.tokens = 6,
                                                   .width = WIDTH,
                                                   .ids = ids,
                                                   .positions = at,
                                                   .columns = TOKENS,
                                                   .wte = packed,
                                                   .wte_type = (rank_type)type,
                                                   .wpe = positions,
                                                   .out = out[type]});
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    assert_true(out[0][0] == table[0] + positions[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_transposed_matrix_packs_alike),
        cmocka_unit_test(packing_rounds_to_nearest),
        cmocka_unit_test(an_embedding_may_be_bfloat16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
