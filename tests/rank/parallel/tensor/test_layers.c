/* The layers of a model cut between ranks, one by one: column-parallel, row-parallel, the sharded
 * embedding, and the MLP that is made of the first two. On 1, 2 and 4 ranks each gives the bits of
 * one rank that holds everything, which a plain loop in double confirms, and libcoll's own counter
 * says how many all-reduces that took. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/shards.h"
#include "model/family.h"
#include "ranks.h"
#include "support.h"

enum {
    RANKS_MAX = 4,
    VOCAB = 100,
    WIDTH = 64,
    HIDDEN = 4 * WIDTH,
    HEADS = 4,
    HIDDEN_LEAVES = 16, /* of the hidden columns, by sixteen */
    ROWS = 5,
    OUT = ROWS * HIDDEN,
};

static const rank_model_config shape = {
    .vocab_size = VOCAB, .width = WIDTH, .layers = 1, .heads = HEADS, .context = 16};

typedef struct layer_test layer_test;

/* One rank's shards. */
typedef struct bed {
    const layer_test *test;
    rank_device device;
    rank_tp_group *group;
    const rank_tp *tp;
    rank_shards *shards;
    rank_hooks hooks;
} bed;

struct layer_test {
    rank_model_config config;
    float *params;
    float x[ROWS * HIDDEN];
    void (*compute)(const bed *b, float *out); /* out (ROWS, columns): the whole of it */
    uint64_t all_reduces;
    size_t columns;
    bool each_has_all; /* else out has this rank's columns, others are 0 */
    float alone[OUT];
    float together[OUT];        /* every rank puts in its own columns, or rank 0 all */
    size_t elements[RANKS_MAX]; /* of the model, that each rank holds; of them uncut */
    size_t uncut[RANKS_MAX];
};

static void find(const layer_test *test, const char *name, rank_tensor *tensor)
{
    for (int i = 0; i < rank_model_tensor_count(&test->config); i++) {
        rank_model_tensor(&test->config, i, tensor);
        if (strcmp(tensor->name, name) == 0) {
            return;
        }
    }
    tensor->count = 0;
}

static const float *shard(const bed *b, const char *name)
{
    rank_tensor tensor;
    find(b->test, name, &tensor);
    return b->hooks.need(b->hooks.weights, tensor.offset, tensor.count);
}

static const float *whole(const layer_test *test, const char *name)
{
    rank_tensor tensor;
    find(test, name, &tensor);
    return test->params + tensor.offset;
}

static base_status bed_open(bed *b, const layer_test *test, coll_comm *comm, base_error *reterr)
{
    *b = (bed){.test = test};
    rank_flat_params params = {&test->config, test->params};
    const rank_tensor_source source = rank_flat_source(&params);
    base_status status = rank_device_open("cpu", &b->device, reterr);
    if (status == BASE_OK) {
        status = rank_tp_group_create(comm, &b->device, VOCAB, OUT, &b->group, reterr);
    }
    if (status == BASE_OK) {
        b->tp = rank_tp_group_tp(b->group);
        status = rank_shards_create(
            &(rank_shards_options){
                .config = &test->config, .device = &b->device, .tp = b->tp, .type = RANK_FLOAT32},
            &source, &b->shards, reterr);
    }
    if (status == BASE_OK) {
        b->hooks = rank_shards_hooks(b->shards);
    }
    return status;
}

static void bed_close(bed *b)
{
    rank_shards_destroy(b->shards);
    rank_tp_group_destroy(b->group);
    rank_device_close(&b->device);
}

/* ---- the layers ---- */

/* y (ROWS, this rank's columns) = x · W. */
static void column_parallel(const bed *b, const float *x, const char *weight, size_t columns,
                            float *y)
{
    b->device.backend->product(b->device.queue, &(rank_product){.rows = ROWS,
                                                                .columns = columns,
                                                                .depth = WIDTH,
                                                                .a = x,
                                                                .a_row = WIDTH,
                                                                .a_depth = 1,
                                                                .b = shard(b, weight),
                                                                .c = y,
                                                                .c_row = columns,
                                                                .leaves = 1});
}

/* y (ROWS, WIDTH), on every rank, = x · W; x (ROWS, depth) is what this rank has of it. */
static float *row_parallel(const bed *b, const float *x, const char *weight, size_t depth,
                           int leaves)
{
    float *y = rank_tp_group_memory(b->group);
    b->device.backend->product(b->device.queue, &(rank_product){.rows = ROWS,
                                                                .columns = WIDTH,
                                                                .depth = depth,
                                                                .a = x,
                                                                .a_row = depth,
                                                                .a_depth = 1,
                                                                .b = shard(b, weight),
                                                                .c = y,
                                                                .c_row = WIDTH,
                                                                .leaves = leaves});
    b->tp->all_reduce(b->tp->group, y, (size_t)ROWS * WIDTH);
    return y;
}

/* Columns first … first + count of x (ROWS, columns), and back. */
static void cut_columns(const float *x, size_t columns, size_t first, size_t count, float *to)
{
    for (size_t row = 0; row < ROWS; row++) {
        memcpy(to + row * count, x + row * columns + first, count * sizeof *to);
    }
}

static void put_columns(const float *from, size_t columns, size_t first, size_t count, float *to)
{
    for (size_t row = 0; row < ROWS; row++) {
        memcpy(to + row * columns + first, from + row * count, count * sizeof *to);
    }
}

static void up(const bed *b, float *out)
{
    const size_t mine = (size_t)HIDDEN / (size_t)b->tp->ranks;
    float y[OUT];
    column_parallel(b, b->test->x, "h.0.mlp.c_fc.weight", mine, y);
    put_columns(y, HIDDEN, (size_t)b->tp->rank * mine, mine, out);
}

static void projection(const bed *b, float *out)
{
    const size_t mine = (size_t)WIDTH / (size_t)b->tp->ranks;
    float x[ROWS * WIDTH];
    cut_columns(b->test->x, WIDTH, (size_t)b->tp->rank * mine, mine, x);
    memcpy(out,
           row_parallel(b, x, "h.0.attn.c_proj.weight", mine, rank_tp_leaves(HEADS) / b->tp->ranks),
           sizeof(float) * ROWS * WIDTH);
}

static const int32_t ids[ROWS] = {0, 99, 31, 32, 64};
static const int32_t positions[ROWS] = {3, 0, 15, 7, 7};

static void embedding(const bed *b, float *out)
{
    float *y = rank_tp_group_memory(b->group);
    b->device.backend->embed_packed(b->device.queue,
                                    &(rank_embed_packed){.tokens = ROWS,
                                                         .width = WIDTH,
                                                         .ids = ids,
                                                         .positions = positions,
                                                         .first_id = b->tp->vocab_first,
                                                         .columns = b->tp->vocab_count,
                                                         .wte = shard(b, "wte.weight"),
                                                         .wpe = shard(b, "wpe.weight"),
                                                         .out = y});
    b->tp->all_reduce(b->tp->group, y, (size_t)ROWS * WIDTH);
    memcpy(out, y, sizeof(float) * ROWS * WIDTH);
}

static void mlp(const bed *b, float *out)
{
    const size_t mine = (size_t)HIDDEN / (size_t)b->tp->ranks;
    float y[OUT];
    float active[OUT];
    column_parallel(b, b->test->x, "h.0.mlp.c_fc.weight", mine, y);
    b->device.backend->gelu(b->device.queue, &(rank_gelu){.rows = ROWS,
                                                          .width = mine,
                                                          .bias = shard(b, "h.0.mlp.c_fc.bias"),
                                                          .x = y,
                                                          .out = active});
    memcpy(out,
           row_parallel(b, active, "h.0.mlp.c_proj.weight", mine,
                        rank_tp_leaves(HIDDEN_LEAVES) / b->tp->ranks),
           sizeof(float) * ROWS * WIDTH);
}

/* ---- the same in double ---- */

static void multiply(const double *x, const float *w, size_t depth, size_t columns, double *y)
{
    for (size_t row = 0; row < ROWS; row++) {
        for (size_t c = 0; c < columns; c++) {
            double sum = 0;
            for (size_t k = 0; k < depth; k++) {
                sum += x[row * depth + k] * (double)w[k * columns + c];
            }
            y[row * columns + c] = sum;
        }
    }
}

static void check_close(const layer_test *test, const double *expected)
{
    for (size_t i = 0; i < ROWS * test->columns; i++) {
        if (!(fabs((double)test->alone[i] - expected[i]) <= 1e-4 * (1.0 + fabs(expected[i])))) {
            fail_msg("element %zu: %g, not %g", i, (double)test->alone[i], expected[i]);
        }
    }
}

static void widen(const float *x, size_t count, double *to)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = (double)x[i];
    }
}

/* ---- one rank and several ---- */

static void layer_body(test_rank *rank)
{
    layer_test *test = rank->user;
    coll_comm *comm = coll_context_world(rank->context);
    bed b;
    float out[OUT] = {0};
    base_status status = bed_open(&b, test, comm, &rank->failure);
    const uint64_t before = coll_comm_operations(comm, COLL_ALL_REDUCE);
    if (status == BASE_OK) {
        test->compute(&b, out);
        test->elements[rank->rank] = rank_shards_elements(b.shards);
        test->uncut[rank->rank] = rank_shards_uncut_elements(b.shards);
        status = rank_tp_group_check(b.group, &rank->failure);
    }
    const uint64_t made = coll_comm_operations(comm, COLL_ALL_REDUCE) - before;
    const uint64_t counted = status == BASE_OK ? rank_tp_group_costs(b.group).count : 0;
    const size_t mine = test->columns / (size_t)rank->size;
    const size_t first = (size_t)rank->rank * mine;
    for (size_t row = 0; row < ROWS; row++) { /* a rank's columns, of what all have as well */
        memcpy(test->together + row * test->columns + first, out + row * test->columns + first,
               mine * sizeof *out);
    }
    bed_close(&b);
    RANK_CHECK(rank, status == BASE_OK);
    RANK_CHECK(rank, made == test->all_reduces);
    RANK_CHECK(rank, counted == made);
    RANK_CHECK(rank, !test->each_has_all ||
                         memcmp(out, test->alone, sizeof(float) * ROWS * test->columns) == 0);
}

static void run_alone(layer_test *test)
{
    bed b;
    base_error error;
    assert_ok(bed_open(&b, test, NULL, &error), &error);
    test->compute(&b, test->alone);
    assert_ok(rank_tp_group_check(b.group, &error), &error);
    bed_close(&b);
}

/* Each element is on one rank, but for those that all have. */
static void check_elements(const layer_test *test, int ranks, size_t count)
{
    size_t sum = test->uncut[0];
    for (int rank = 0; rank < ranks; rank++) {
        assert_int_equal(test->uncut[rank], test->uncut[0]);
        sum += test->elements[rank] - test->uncut[rank];
    }
    assert_int_equal(sum, count);
}

static void run_layer(layer_test *test)
{
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                                COLL_TRANSPORT_ZMQ};
    test->config = shape;
    test->config.family = rank_family_default();
    const size_t count = rank_model_param_count(&test->config);
    test->params = malloc(count * sizeof *test->params);
    assert_non_null(test->params);
    rank_model_init(&test->config, 11, test->params);
    for (size_t i = 0; i < count; i++) { /* biases, too */
        test->params[i] += 0.01f * (float)(i % 13) - 0.06f;
    }
    for (size_t i = 0; i < ROWS * HIDDEN; i++) {
        test->x[i] = (float)(i * 7919 % 1000) * 0.002f - 1.0f;
    }
    run_alone(test);
    for (int ranks = 1; ranks <= RANKS_MAX; ranks *= 2) {
        for (int t = 0; t < 3; t++) {
            memset(test->together, 0, sizeof test->together);
            test_ranks_as_threads(
                &(test_ranks_options){.size = ranks, .transport = transports[t], .user = test},
                layer_body);
            assert_memory_equal(test->together, test->alone, sizeof(float) * ROWS * test->columns);
            check_elements(test, ranks, count);
        }
    }
}

static void test_column_parallel_matches_single_gpu(void **state)
{
    (void)state;
    static layer_test test = {.compute = up, .columns = HIDDEN};
    static double x[ROWS * WIDTH];
    static double expected[OUT];
    run_layer(&test);
    widen(test.x, ROWS * WIDTH, x);
    multiply(x, whole(&test, "h.0.mlp.c_fc.weight"), WIDTH, HIDDEN, expected);
    check_close(&test, expected);
    free(test.params);
}

static void test_row_parallel_matches_single_gpu(void **state)
{
    (void)state;
    static layer_test test = {
        .compute = projection, .all_reduces = 1, .columns = WIDTH, .each_has_all = true};
    static double x[ROWS * WIDTH];
    static double expected[OUT];
    run_layer(&test);
    widen(test.x, ROWS * WIDTH, x);
    multiply(x, whole(&test, "h.0.attn.c_proj.weight"), WIDTH, WIDTH, expected);
    check_close(&test, expected);
    free(test.params);
}

static void test_sharded_embedding_lookup(void **state)
{
    (void)state;
    static layer_test test = {
        .compute = embedding, .all_reduces = 1, .columns = WIDTH, .each_has_all = true};
    run_layer(&test);
    const float *wte = whole(&test, "wte.weight");
    const float *wpe = whole(&test, "wpe.weight");
    for (int row = 0; row < ROWS; row++) {
        for (int c = 0; c < WIDTH; c++) { /* one addition: the same to the bit */
            const float sum = wte[ids[row] * WIDTH + c] + wpe[positions[row] * WIDTH + c];
            assert_memory_equal(&test.alone[row * WIDTH + c], &sum, sizeof sum);
        }
    }
    free(test.params);
}

static void test_mlp_pattern_minimal(void **state)
{
    (void)state;
    static layer_test test = {
        .compute = mlp, .all_reduces = 1, .columns = WIDTH, .each_has_all = true};
    static double x[ROWS * WIDTH];
    static double hidden[OUT];
    static double expected[OUT];
    run_layer(&test);
    widen(test.x, ROWS * WIDTH, x);
    multiply(x, whole(&test, "h.0.mlp.c_fc.weight"), WIDTH, HIDDEN, hidden);
    const float *bias = whole(&test, "h.0.mlp.c_fc.bias");
    for (int i = 0; i < OUT; i++) {
        const double v = hidden[i] + (double)bias[i % HIDDEN];
        hidden[i] = 0.5 * v * (1.0 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
    }
    multiply(hidden, whole(&test, "h.0.mlp.c_proj.weight"), HIDDEN, WIDTH, expected);
    check_close(&test, expected);
    free(test.params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_column_parallel_matches_single_gpu),
        cmocka_unit_test(test_row_parallel_matches_single_gpu),
        cmocka_unit_test(test_sharded_embedding_lookup),
        cmocka_unit_test(test_mlp_pattern_minimal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
