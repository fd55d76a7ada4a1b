/* The arithmetic of the exchange between ranks that share out experts: every routing of a few rows is played
 * on paper. Each place comes to the rank of its expert, once, and the way back brings it to where it was. */
#include <limits.h>
#include <string.h>

#include "parallel/expert/dispatch.h"
#include "support.h"

enum {
    RANKS_MAX = 4,
    EXPERTS_MAX = 4,
    ROWS_MAX = 3,
    PLACES_MAX = RANKS_MAX * ROWS_MAX * EXPERTS_MAX
};

/* Which experts each row of each rank goes to, as bits. */
typedef struct routing {
    rank_ep_cut cut;
    size_t rows[RANKS_MAX];
    unsigned choices[RANKS_MAX][ROWS_MAX];
} routing;

/* What stands at a place: whose row, which one, and for which expert. */
typedef struct label {
    int rank;
    size_t row;
    size_t expert;
} label;

/* A rank's places, sorted by expert and then by row, and their table. */
static size_t sort_places(const routing *of, int rank, label *places, int32_t *sent)
{
    size_t count = 0;
    for (size_t e = 0; e < of->cut.experts; e++) {
        sent[e] = (int32_t)count;
        for (size_t row = 0; row < of->rows[rank]; row++) {
            if ((of->choices[rank][row] >> e & 1U) != 0) {
                places[count++] = (label){rank, row, e};
            }
        }
    }
    sent[of->cut.experts] = (int32_t)count;
    return count;
}

typedef struct side {
    label places[PLACES_MAX];
    int32_t begins[EXPERTS_MAX + 1];
} side;

/* What a rank receives, from all ranks' sorted places. */
static void receive(const routing *of, const side *sent, int rank, side *received)
{
    const size_t here = rank_ep_here(&of->cut);
    int32_t counts[EXPERTS_MAX];
    for (int from = 0; from < of->cut.ranks; from++) {
        int32_t all[EXPERTS_MAX];
        rank_ep_count(&of->cut, sent[from].begins, all);
        memcpy(counts + (size_t)from * here, all + (size_t)rank * here, here * sizeof *counts);
    }
    assert_true(rank_ep_place(&of->cut, counts, received->begins));
    assert_true((size_t)received->begins[of->cut.experts] <= rank_ep_received_max(&of->cut));
    for (int from = 0; from < of->cut.ranks; from++) {
        const rank_ep_places block = rank_ep_block(&of->cut, sent[from].begins, rank);
        const rank_ep_places to = rank_ep_block(&of->cut, received->begins, from);
        assert_int_equal(block.count, to.count);
        assert_true(block.count <= rank_ep_block_max(&of->cut));
        memcpy(received->places + to.first, sent[from].places + block.first,
               block.count * sizeof(label));
    }
}

/* Every leaf has the rows of one rank that chose one expert, in their order. */
static void check_leaves(const routing *of, int rank, const side *received)
{
    const size_t here = rank_ep_here(&of->cut);
    size_t next = 0;
    for (int from = 0; from < of->cut.ranks; from++) {
        for (size_t e = 0; e < here; e++) {
            const size_t expert = (size_t)rank * here + e;
            const rank_ep_places leaf = rank_ep_leaf(&of->cut, received->begins, from, e);
            size_t place = leaf.first;
            assert_int_equal(leaf.first, next);
            for (size_t row = 0; row < of->rows[from]; row++) {
                if ((of->choices[from][row] >> expert & 1U) != 0) {
                    const label *found = &received->places[place++];
                    assert_int_equal(found->rank, from);
                    assert_int_equal(found->row, row);
                    assert_int_equal(found->expert, expert);
                }
            }
            assert_int_equal(place, leaf.first + leaf.count);
            next = place;
        }
    }
    assert_int_equal(next, received->begins[of->cut.experts]);
}

static void play(const routing *of)
{
    static side sent[RANKS_MAX];
    static side received[RANKS_MAX];
    for (int rank = 0; rank < of->cut.ranks; rank++) {
        (void)sort_places(of, rank, sent[rank].places, sent[rank].begins);
    }
    for (int rank = 0; rank < of->cut.ranks; rank++) {
        receive(of, sent, rank, &received[rank]);
        check_leaves(of, rank, &received[rank]);
    }
    for (int rank = 0; rank < of->cut.ranks; rank++) { /* and back */
        for (int from = 0; from < of->cut.ranks; from++) {
            const rank_ep_places block = rank_ep_block(&of->cut, received[from].begins, rank);
            const rank_ep_places to = rank_ep_block(&of->cut, sent[rank].begins, from);
            assert_int_equal(block.count, to.count);
            assert_memory_equal(received[from].places + block.first, sent[rank].places + to.first,
                                block.count * sizeof(label));
        }
    }
}

static bool has_bits(unsigned bits, size_t count)
{
    size_t found = 0;
    for (; bits > 0; bits &= bits - 1) {
        found++;
    }
    return found == count;
}

/* Plays all routings whose rows from this one on may be anything. */
static size_t play_all(routing *of, int rank, size_t row)
{
    size_t played = 0;
    if (rank == of->cut.ranks) {
        play(of);
        return 1;
    }
    if (row == of->rows[rank]) {
        return play_all(of, rank + 1, 0);
    }
    for (unsigned bits = 0; bits < 1U << of->cut.experts; bits++) {
        if (has_bits(bits, of->cut.chosen)) {
            of->choices[rank][row] = bits;
            played += play_all(of, rank, row + 1);
        }
    }
    return played;
}

static void every_routing_comes_and_goes(void **state)
{
    (void)state;
    static const size_t rows[][RANKS_MAX] = {
        {2, 1, 1, 1}, {1, 2, 0, 2}, {0, 3, 0, 0}, {0, 0, 0, 0}};
    size_t played = 0;
    for (int ranks = 1; ranks <= RANKS_MAX; ranks *= 2) {
        for (size_t experts = (size_t)ranks; experts <= EXPERTS_MAX; experts += (size_t)ranks) {
            for (size_t chosen = 1; chosen <= experts; chosen++) {
                for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
                    routing of = {.cut = {ranks, experts, ROWS_MAX, chosen}};
                    memcpy(of.rows, rows[i], sizeof of.rows);
                    played += play_all(&of, 0, 0);
                }
            }
        }
    }
    assert_true(played > 10000);
}

/* All rows of all ranks may go to one rank, and fill what it has room for. */
static void one_rank_may_get_all(void **state)
{
    (void)state;
    const rank_ep_cut cut = {.ranks = 2, .experts = 4, .rows_max = 3, .chosen = 2};
    routing of = {.cut = cut, .rows = {3, 3}};
    for (size_t row = 0; row < 3; row++) {
        of.choices[0][row] = of.choices[1][row] = 3;
    }
    play(&of);
    assert_int_equal(rank_ep_block_max(&cut), 6);
    assert_int_equal(rank_ep_received_max(&cut), 12);
    const rank_ep_cut few = {.ranks = 4, .experts = 4, .rows_max = 3, .chosen = 2};
    assert_int_equal(rank_ep_block_max(&few), 3);
    assert_int_equal(rank_ep_received_max(&few), 12);
}

/* Counts come from other processes. */
static void counts_that_cannot_be_are_refused(void **state)
{
    (void)state;
    const rank_ep_cut cut = {.ranks = 2, .experts = 4, .rows_max = 3, .chosen = 1};
    static const int32_t wrong[][4] = {
        {-1, 0, 0, 0},      {0, 0, 4, 0},       {2, 2, 0, 0},  {0, 0, 1, 3},
        {INT_MAX, 1, 0, 0}, {0, 0, INT_MIN, 0}, {3, 0, 0, -1}, {0, 0, INT_MAX, INT_MAX}};
    const int32_t most[] = {3, 0, 1, 2};
    int32_t received[5];
    assert_true(rank_ep_place(&cut, most, received));
    assert_int_equal(received[4], 6);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        memset(received, 1, sizeof received);
        assert_false(rank_ep_place(&cut, wrong[i], received));
        for (size_t e = 0; e <= cut.experts; e++) {
            assert_int_equal(received[e], 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_routing_comes_and_goes),
        cmocka_unit_test(one_rank_may_get_all),
        cmocka_unit_test(counts_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
