/* rank/zero.h: the pieces are the whole array, each element once, and cuts are at the ends of
 * blocks. */
#include "rank/zero.h"

#include "support.h"

static void check(size_t count, size_t wished, int ranks)
{
    const rank_zero_cut cut = rank_zero_cut_make(count, wished, ranks);
    size_t end = 0;
    size_t places[8] = {0};
    assert_int_equal(cut.unit_elements % ((size_t)ranks * RANK_ZERO_BLOCK), 0);
    for (size_t unit = 0; unit < rank_zero_units(&cut); unit++) {
        assert_int_equal(rank_zero_unit(&cut, unit).offset, end);
        for (int rank = 0; rank < ranks; rank++) {
            const rank_zero_range piece = rank_zero_piece(&cut, unit, rank);
            assert_int_equal(piece.offset, end);
            assert_int_equal(rank_zero_place(&cut, unit, rank), places[rank]);
            end += piece.count;
            places[rank] += piece.count;
            assert_true(end % RANK_ZERO_BLOCK == 0 || end == count);
        }
        const rank_zero_range whole = rank_zero_unit(&cut, unit);
        assert_int_equal(whole.offset + whole.count, end);
    }
    assert_int_equal(end, count);
    size_t shards = 0;
    for (int rank = 0; rank < ranks; rank++) {
        const size_t shard = rank_zero_shard(&cut, rank);
        assert_int_equal(shard, places[rank]);
        /* nobody has more than a block beyond an equal part */
        assert_true(shard <= count / (size_t)ranks + RANK_ZERO_BLOCK);
        shards += shard;
    }
    assert_int_equal(shards, count);
}

static void pieces_are_the_whole(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 1023, 1024, 1025, 4096, 10007, 31200, 470528};
    static const size_t wished[] = {1, 1024, 5000, 131072, SIZE_MAX};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        for (size_t w = 0; w < sizeof wished / sizeof wished[0]; w++) {
            for (int ranks = 1; ranks <= 8; ranks++) {
                check(counts[c], wished[w], ranks);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pieces_are_the_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
