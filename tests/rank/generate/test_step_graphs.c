/* Which steps of decoding are run, captured and replayed, and which graphs are given up. */
#include "generate/step_graphs.h"

#include <string.h>

#include "support.h"

struct rank_graph {
    bool destroyed;
};

static struct rank_graph made[16];
static int destroyed;

static void destroy(rank_queue *queue, rank_graph *graph)
{
    (void)queue;
    assert_false(graph->destroyed);
    graph->destroyed = true;
    destroyed++;
}

static const rank_backend backend = {.graph_destroy = destroy};
static const rank_device device = {.backend = &backend};
static rank_step_graphs graphs;
static int next_graph;

static int reset(void **state)
{
    (void)state;
    graphs = (rank_step_graphs){.steps = 0};
    memset(made, 0, sizeof made);
    destroyed = 0;
    next_graph = 0;
    return 0;
}

/* A step of so many rows; gets a graph where one is to be captured. */
static rank_step_way step(size_t rows, size_t segments, size_t active)
{
    rank_step_graph *entry = NULL;
    const rank_rows shape = {.count = rows, .segment_count = segments, .active_count = active};
    const rank_step_way way = rank_step_graphs_find(&graphs, &device, &shape, &entry);
    if (way == RANK_STEP_CAPTURE) {
        entry->graph = &made[next_graph++];
    }
    return way;
}

static void a_shape_is_run_then_captured_then_replayed(void **state)
{
    (void)state;
    assert_int_equal(step(4, 4, 4), RANK_STEP_RUN);
    assert_int_equal(step(4, 4, 4), RANK_STEP_CAPTURE);
    assert_int_equal(step(4, 4, 4), RANK_STEP_REPLAY);
    assert_int_equal(step(4, 4, 4), RANK_STEP_REPLAY);
}

/* Every number of sequences has a size, no size is too small, and there are few. */
static void steps_have_few_sizes(void **state)
{
    (void)state;
    for (size_t most = 1; most <= 1100; most++) {
        size_t sizes = 0;
        size_t before = 0;
        for (size_t count = 1; count <= most; count++) {
            const size_t size = rank_step_size(most, count);
            assert_true(size >= count && size <= most);
            assert_true(size >= before);
            sizes += size != before;
            before = size;
        }
        assert_true(sizes <= RANK_STEP_SIZES_MAX);
    }
    assert_int_equal(rank_step_size(16, 1), 1);
    assert_int_equal(rank_step_size(16, 3), 4);
    assert_int_equal(rank_step_size(100, 14), 25);
}

static void each_part_of_a_shape_counts(void **state)
{
    (void)state;
    (void)step(4, 4, 4);
    assert_int_equal(step(5, 4, 4), RANK_STEP_RUN);
    assert_int_equal(step(4, 3, 4), RANK_STEP_RUN);
    assert_int_equal(step(4, 4, 3), RANK_STEP_RUN);
    assert_int_equal(step(4, 4, 4), RANK_STEP_CAPTURE);
}

static void the_shape_that_was_used_longest_ago_goes(void **state)
{
    (void)state;
    for (size_t rows = 1; rows <= RANK_STEP_GRAPHS_MAX; rows++) {
        assert_int_equal(step(rows, 1, 1), RANK_STEP_RUN);
        assert_int_equal(step(rows, 1, 1), RANK_STEP_CAPTURE);
    }
    assert_int_equal(step(1, 1, 1), RANK_STEP_REPLAY);
    assert_int_equal(destroyed, 0);
    assert_int_equal(step(100, 1, 1), RANK_STEP_RUN); /* in the place of 2 */
    assert_int_equal(destroyed, 1);
    assert_true(made[1].destroyed);
    assert_int_equal(step(1, 1, 1), RANK_STEP_REPLAY);
    assert_int_equal(step(2, 1, 1), RANK_STEP_RUN); /* in the place of 3 */
    assert_true(made[2].destroyed);
    rank_step_graphs_fini(&graphs, &device);
    assert_int_equal(destroyed, RANK_STEP_GRAPHS_MAX);
    assert_int_equal(step(1, 1, 1), RANK_STEP_RUN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_shape_is_run_then_captured_then_replayed, reset),
        cmocka_unit_test_setup(steps_have_few_sizes, reset),
        cmocka_unit_test_setup(each_part_of_a_shape_counts, reset),
        cmocka_unit_test_setup(the_shape_that_was_used_longest_ago_goes, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
