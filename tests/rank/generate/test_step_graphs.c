/* The sizes that steps of decoding are padded to, and the key of a step's graph. */
#include "generate/step_graphs.h"

#include "support.h"

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

struct rank_graph {
    int unused;
};

static struct rank_graph graph;
static int decoded;
static bool refused;

static base_status capture(rank_queue *queue, rank_graph **made, base_error *reterr)
{
    (void)queue;
    *made = &graph;
    return refused ? base_fail(reterr, BASE_ERR_IO, "no capture today") : BASE_OK;
}

static base_status capture_end(rank_queue *queue, base_error *reterr)
{
    (void)queue;
    (void)reterr;
    return BASE_OK;
}

static void use(rank_queue *queue, rank_graph *used)
{
    (void)queue;
    (void)used;
}

static base_status alloc(rank_queue *queue, rank_memory kind, size_t size_bytes, void **memory,
                         base_error *reterr)
{
    static float few[4];
    (void)queue;
    (void)kind;
    (void)reterr;
    assert_true(size_bytes <= sizeof few);
    *memory = few;
    return BASE_OK;
}

static void release(rank_queue *queue, void *memory)
{
    (void)queue;
    (void)memory;
}

static const rank_backend backend = {.alloc = alloc,
                                     .release = release,
                                     .capture = capture,
                                     .capture_end = capture_end,
                                     .replay = use,
                                     .graph_destroy = use};

static void decode(const rank_run *run, const rank_decode_args *args)
{
    (void)run;
    (void)args;
    decoded++;
}

typedef struct bed {
    rank_family family;
    rank_model_config config;
    rank_run run;
    rank_step_tables tables; /* nothing is copied */
    rank_tp_group *group;
    rank_graphs *graphs;
} bed;

static void bed_open(bed *b)
{
    base_error error;
    *b = (bed){.family = {.decode = decode}, .run = {.device = {.backend = &backend}}};
    b->config.family = &b->family;
    b->run.shape.config = &b->config;
    decoded = 0;
    refused = false;
    assert_ok(rank_tp_group_create(NULL, &b->run.device, 32, 4, &b->group, &error), &error);
    assert_ok(rank_graphs_create(&backend, RANK_STEP_GRAPHS_MAX, &b->graphs, &error), &error);
}

static void bed_close(bed *b)
{
    rank_graphs_destroy(b->graphs);
    rank_tp_group_destroy(b->group);
}

/* How often the family was called. */
static int step(const bed *b, size_t rows, size_t segments, size_t active)
{
    base_error error;
    const int before = decoded;
    rank_saved saved = {.rows = {.count = rows, .segment_count = segments, .active_count = active}};
    const rank_decode_args args = {.saved = &saved};
    assert_ok(
        rank_step_enqueue(
            b->graphs,
            &(rank_step){.run = &b->run, .tables = &b->tables, .args = &args, .group = b->group},
            &error),
        &error);
    return decoded - before;
}

static void each_part_of_a_shape_counts(void **state)
{
    bed b;
    (void)state;
    bed_open(&b);
    assert_int_equal(step(&b, 4, 4, 4), 1);
    assert_int_equal(step(&b, 5, 4, 4), 1);
    assert_int_equal(step(&b, 4, 3, 4), 1);
    assert_int_equal(step(&b, 4, 4, 3), 1);
    assert_int_equal(rank_graphs_get_info(b.graphs).captures, 0);
    assert_int_equal(step(&b, 4, 4, 4), 1);
    assert_int_equal(rank_graphs_get_info(b.graphs).captures, 1);
    assert_int_equal(step(&b, 4, 4, 4), 0);
    assert_int_equal(rank_graphs_get_info(b.graphs).replays, 2);
    bed_close(&b);
}

static void a_refused_capture_is_no_error(void **state)
{
    bed b;
    (void)state;
    bed_open(&b);
    refused = true;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(step(&b, 4, 4, 4), 1);
    }
    assert_string_equal(rank_graphs_get_info(b.graphs).failure, "no capture today");
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_have_few_sizes),
                                       cmocka_unit_test(each_part_of_a_shape_counts),
                                       cmocka_unit_test(a_refused_capture_is_no_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
