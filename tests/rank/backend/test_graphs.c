/* What is run, captured and replayed, and which graphs are given up. */
#include "backend/graphs.h"

#include <string.h>

#include "base/status.h"
#include "support.h"

enum { GRAPHS = 3 };

struct rank_graph {
    bool destroyed;
};

static struct rank_graph made[16];
static int made_count;
static int destroyed;
static int enqueued;
static int replayed;
static int captures_allowed;
static bool ends_well;
static bool others_can;
static rank_graphs *graphs;

static base_status capture(rank_queue *queue, rank_graph **graph, base_error *reterr)
{
    (void)queue;
    if (captures_allowed-- <= 0) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "no capture today");
    }
    *graph = &made[made_count++];
    return BASE_OK;
}

static base_status capture_end(rank_queue *queue, base_error *reterr)
{
    (void)queue;
    return ends_well ? BASE_OK : base_fail(reterr, BASE_ERR_IO, "a bad end");
}

static void replay(rank_queue *queue, rank_graph *graph)
{
    (void)queue;
    assert_false(graph->destroyed);
    replayed++;
}

static void destroy(rank_queue *queue, rank_graph *graph)
{
    (void)queue;
    if (graph != NULL) {
        assert_false(graph->destroyed);
        graph->destroyed = true;
        destroyed++;
    }
}

static const rank_backend backend = {
    .capture = capture, .capture_end = capture_end, .replay = replay, .graph_destroy = destroy};

static void enqueue(void *user)
{
    (void)user;
    enqueued++;
}

static bool all(void *user, bool mine)
{
    (void)user;
    return mine && others_can;
}

static int setup(void **state)
{
    base_error error;
    (void)state;
    memset(made, 0, sizeof made);
    made_count = 0;
    destroyed = 0;
    enqueued = 0;
    replayed = 0;
    captures_allowed = 16;
    ends_well = true;
    others_can = true;
    return rank_graphs_create(&backend, GRAPHS, &graphs, &error) == BASE_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    rank_graphs_destroy(graphs);
    assert_int_equal(destroyed, made_count);
    return 0;
}

static rank_graph_way work(uint64_t shape)
{
    return rank_graphs_do(graphs, &(rank_graph_work){.key = {{RANK_GRAPH_BATCH, 7, 8, shape}},
                                                     .enqueue = enqueue,
                                                     .all = all});
}

static void a_key_is_run_then_captured_then_replayed(void **state)
{
    (void)state;
    assert_int_equal(work(1), RANK_GRAPH_RAN);
    assert_int_equal(work(2), RANK_GRAPH_RAN); /* the last part counts */
    assert_int_equal(work(1), RANK_GRAPH_CAPTURED);
    assert_int_equal(work(1), RANK_GRAPH_REPLAYED);
    assert_int_equal(work(1), RANK_GRAPH_REPLAYED);
    assert_int_equal(enqueued, 3);
    assert_int_equal(replayed, 3);
    const rank_graphs_info info = rank_graphs_get_info(graphs);
    assert_int_equal(info.captures, 1);
    assert_int_equal(info.replays, 3);
    assert_string_equal(info.failure, "");
}

static void note_three(void *user)
{
    ((rank_graph_note *)user)->part[0] += 3;
}

/* A replay gives back what enqueue has left while its graph was captured. */
static void a_graph_keeps_a_note(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 4; i++) {
        rank_graph_note note = {{i, 7}};
        (void)rank_graphs_do(graphs, &(rank_graph_work){.key = {{RANK_GRAPH_STEP}},
                                                        .enqueue = note_three,
                                                        .note = &note,
                                                        .user = &note});
        assert_int_equal(note.part[0], i == 0 ? 3 : 4);
        assert_int_equal(note.part[1], 7);
    }
}

static void the_key_that_was_used_longest_ago_goes(void **state)
{
    (void)state;
    for (uint64_t shape = 1; shape <= GRAPHS; shape++) {
        assert_int_equal(work(shape), RANK_GRAPH_RAN);
        assert_int_equal(work(shape), RANK_GRAPH_CAPTURED);
    }
    assert_int_equal(work(1), RANK_GRAPH_REPLAYED);
    assert_int_equal(destroyed, 0);
    assert_int_equal(work(100), RANK_GRAPH_RAN); /* in the place of 2 */
    assert_int_equal(destroyed, 1);
    assert_true(made[1].destroyed);
    assert_int_equal(work(1), RANK_GRAPH_REPLAYED);
    assert_int_equal(work(2), RANK_GRAPH_RAN);
    assert_true(made[2].destroyed);
}

/* What cannot be captured runs each time, and is not tried again. The first reason is kept. */
static void what_fails_runs(void **state)
{
    (void)state;
    captures_allowed = 1;
    ends_well = false;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(work(1), RANK_GRAPH_RAN);
        assert_int_equal(work(2), RANK_GRAPH_RAN);
    }
    assert_int_equal(made_count, 1);
    assert_int_equal(destroyed, 1);
    assert_int_equal(enqueued, 7); /* once in the capture that ended badly */
    assert_int_equal(replayed, 0);
    assert_string_equal(rank_graphs_get_info(graphs).failure, "a bad end");
    assert_int_equal(rank_graphs_get_info(graphs).captures, 0);
}

static void no_rank_has_a_graph_that_another_has_not(void **state)
{
    (void)state;
    others_can = false;
    (void)work(1);
    assert_int_equal(work(1), RANK_GRAPH_RAN);
    assert_int_equal(work(1), RANK_GRAPH_RAN);
    assert_int_equal(enqueued, 3); /* not in the capture, which the others have not begun */
    assert_int_equal(destroyed, 1);
    assert_string_equal(rank_graphs_get_info(graphs).failure, "another rank could not");
}

static void after_a_stop_all_runs(void **state)
{
    (void)state;
    (void)work(1);
    (void)work(1);
    rank_graphs_stop(graphs);
    assert_int_equal(destroyed, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(work(1), RANK_GRAPH_RAN);
    }
    rank_graphs_stop(NULL);
    assert_int_equal(rank_graphs_do(NULL, &(rank_graph_work){.enqueue = enqueue}), RANK_GRAPH_RAN);
    assert_int_equal(rank_graphs_get_info(NULL).replays, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_key_is_run_then_captured_then_replayed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_graph_keeps_a_note, setup, teardown),
        cmocka_unit_test_setup_teardown(the_key_that_was_used_longest_ago_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(what_fails_runs, setup, teardown),
        cmocka_unit_test_setup_teardown(no_rank_has_a_graph_that_another_has_not, setup, teardown),
        cmocka_unit_test_setup_teardown(after_a_stop_all_runs, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
