/* Parity of what ends a step: the loss, the gradients' norm and scale, AdamW; and of digests and
 * differences. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "generate/sample.h"
#include "support.h"

/* The gradient in place of the logits, or rounded: then the CPU makes it from a copy. */
static void lose(twin *t, int side, rank_cross_entropy args, int rounded)
{
    const rank_device *device = &t->device[side];
    if (rounded >= 0 && side == TWIN_OTHER) {
        args.rounded = twin_at(t, rounded, side);
    } else if (rounded >= 0) {
        float *copy = FLOATS(t, rounded, side);
        device->backend->zero(device->queue, copy, args.rows * args.row_floats * sizeof *copy);
        for (size_t row = 0; row < args.rows; row++) {
            device->backend->copy(device->queue, copy + row * args.row_floats,
                                  args.logits + row * args.row_floats,
                                  args.vocab_size * sizeof *copy);
        }
        args.logits = copy;
    }
    device->backend->cross_entropy(device->queue, &args);
}

static void cross_entropy_of(twin *t, rank_type type, size_t rows, size_t vocab)
{
    char shape[PARITY_TEXT_BYTES];
    const bool grad = type == RANK_BFLOAT16 || twin_between(t, 0, 2) > 0;
    const double before = 0.25;
    const int targets = twin_ints(t, "targets", rows, -1, (int)vocab - 1);
    const size_t row = vocab + (twin_between(t, 0, 1) > 0 ? twin_between(t, 1, 9) : 0);
    /* of many columns only large logits have gradients that are more than the tolerance */
    const int logits = twin_floats(t, "logits", rows * row, vocab > 512 ? 512.0f : 8.0f);
    const int loss = twin_copy(t, "loss", RANK_MEMORY_HOST, &before, sizeof before);
    if (!grad) { /* what is left of the logits then is nobody's */
        twin_tolerate(t, logits, INFINITY);
    }
    int rounded = -1;
    if (type == RANK_BFLOAT16) {
        rounded = twin_elements(t, "rounded", type, rows * row, 1.0f);
        twin_tolerate(t, rounded, PARITY_ROUNDED);
    }
    (void)snprintf(shape, sizeof shape, "cross_entropy (%zu, %zu of %zu), gradient %d, type %d",
                   rows, vocab, row, grad, (int)type);
    for (int side = 0; side < TWIN_SIDES; side++) {
        base_error error;
        lose(t, side,
             (rank_cross_entropy){.rows = rows,
                                  .vocab_size = vocab,
                                  .targets = INTS(t, targets, side),
                                  .logits = FLOATS(t, logits, side),
                                  .want_gradient = grad,
                                  .loss = twin_at(t, loss, side),
                                  .row_floats = row},
             rounded);
        assert_ok(t->device[side].backend->sync(t->device[side].queue, &error), &error);
    }
    const double expected = *(const double *)twin_at(t, loss, TWIN_CPU);
    const double found = *(const double *)twin_at(t, loss, TWIN_OTHER);
    if (!(fabs(expected - found) <= (t->exact ? 1e-12 : 1e-4) * (1.0 + fabs(expected)))) {
        fail_msg("%s: loss %.17g, on the CPU %.17g", shape, found, expected);
    }
    memcpy(twin_at(t, loss, TWIN_OTHER), &expected, sizeof expected); /* log may round otherwise */
    twin_compare(t, shape);
}

static void cross_entropy_some(twin *t, rank_type type)
{
    const bool many = twin_between(t, 0, 2) == 0; /* more than are added up at once */
    const size_t rows = many ? twin_between(t, 257, 600) : twin_between(t, 1, 60);
    const size_t vocab = many                         ? twin_between(t, 1, 20)
                         : twin_between(t, 0, 2) == 0 ? twin_between(t, 513, 4300)
                                                      : twin_between(t, 1, 300);
    cross_entropy_of(t, type, rows, vocab);
}

static void cross_entropy(twin *t)
{
    cross_entropy_some(t, RANK_FLOAT32);
}

/* Each width of row that has a kernel of its own. */
static void cross_entropy_wide(twin *t)
{
    cross_entropy_of(t, RANK_FLOAT32, twin_between(t, 1, 9), twin_between(t, 513, 1024));
}

static void cross_entropy_wider(twin *t)
{
    cross_entropy_of(t, RANK_FLOAT32, twin_between(t, 1, 9), twin_between(t, 1025, 2048));
}

static void cross_entropy_widest(twin *t)
{
    cross_entropy_of(t, RANK_FLOAT32, twin_between(t, 1, 9), twin_between(t, 2049, 4300));
}

void parity_cross_entropy_bfloat16(twin *t)
{
    cross_entropy_some(t, RANK_BFLOAT16);
}

typedef struct scalars {
    double tokens, sum, norm;
    rank_adamw_step step;
} scalars;

static void check_scalars(const scalars *expected, const scalars *found, const char *shape)
{
    const double scale = (double)expected->step.grad_scale;
    if (!(fabs(expected->sum - found->sum) <= 1e-12 * expected->sum) ||
        !(fabs(expected->norm - found->norm) <= 1e-12 * expected->norm) ||
        !(fabs(scale - (double)found->step.grad_scale) <= 1e-6 * scale)) {
        fail_msg("%s: sum %.17g, norm %.17g, scale %.9g; on the CPU %.17g, %.17g, %.9g", shape,
                 found->sum, found->norm, (double)found->step.grad_scale, expected->sum,
                 expected->norm, scale);
    }
}

enum {
    PARTS_MAX = 1200,  /* more than one launch takes */
    NORM_BLOCK = 1024, /* elements that a warp of the fast sum of squares takes at once */
};

/* Parts of some elements, of which some are empty. */
static size_t cut_parts(twin *t, size_t count, size_t *ends)
{
    const size_t kind = twin_between(t, 0, 2);
    const size_t parts = kind == 0 ? 1 : twin_between(t, 1, kind == 1 ? 12 : PARTS_MAX);
    size_t end = 0;
    for (size_t i = 0; i < parts; i++) {
        const size_t left = count - end;
        const size_t most = 2 * count / parts + 1;
        end += twin_between(t, 0, left < most ? left : most);
        ends[i] = end;
    }
    ends[parts - 1] = count;
    return parts;
}

/* More elements than the threads of a grid, some not in whole blocks of the fast sum. With bfloat16 the
 * device also writes the parameters rounded; the CPU then has them as they are. */
static void optimizer_of(twin *t, rank_type type)
{
    char shape[PARITY_TEXT_BYTES];
    const size_t kind = twin_between(t, 0, 5);
    const size_t count = kind == 0  ? twin_between(t, 1, 50)
                         : kind < 5 ? twin_between(t, 900, 9 * NORM_BLOCK)
                                    : twin_between(t, 257, 270) * NORM_BLOCK - 5;
    size_t ends[PARTS_MAX];
    const size_t parts = cut_parts(t, count, ends);
    const bool decay = twin_between(t, 0, 1) > 0;
    const double norm_max = twin_between(t, 0, 1) > 0 ? 0.5 : 0.0;
    const rank_adamw_config config = {0.9, 0.99, 1e-8, 0.1};
    const scalars begin = {
        .tokens = 37.0, .step = {.step = (int64_t)twin_between(t, 1, 2000), .learning_rate = 1e-3}};
    const int values = twin_copy(t, "values", RANK_MEMORY_HOST, &begin, sizeof begin);
    const int params = twin_floats(t, "params", count, 1.0f);
    const int grads = twin_floats(t, "grads", count, 3.0f);
    const int first = twin_floats(t, "first", count, 0.1f);
    const int second = twin_floats(t, "second", count, 0.0f);
    const int rounded = type == RANK_BFLOAT16 ? twin_elements(t, "rounded", type, count, 1.0f) : -1;
    if (rounded >= 0) {
        twin_tolerate(t, rounded, PARITY_ROUNDED);
    }
    for (int side = 0; side < TWIN_SIDES; side++) {
        const rank_device *device = &t->device[side];
        scalars *now = twin_at(t, values, side);
        device->backend->sum_squares(device->queue,
                                     &(rank_sum_squares){FLOATS(t, grads, side), count, &now->sum});
        device->backend->grad_scale(device->queue,
                                    &(rank_grad_scale){&now->sum, &now->tokens, norm_max,
                                                       &now->norm, &now->step.grad_scale});
        device->backend->adamw(device->queue,
                               &(rank_adamw){.config = &config,
                                             .step = &now->step,
                                             .decay = decay,
                                             .count = count,
                                             .params = FLOATS(t, params, side),
                                             .grads = FLOATS(t, grads, side),
                                             .first = FLOATS(t, first, side),
                                             .second = FLOATS(t, second, side),
                                             .rounded = rounded >= 0 && side == TWIN_OTHER
                                                            ? twin_at(t, rounded, side)
                                                            : NULL,
                                             .ends = parts > 1 ? ends : NULL,
                                             .parts = parts});
        if (rounded >= 0 && side == TWIN_CPU) {
            device->backend->copy(device->queue, FLOATS(t, rounded, side), FLOATS(t, params, side),
                                  count * sizeof(float));
        }
        base_error error;
        assert_ok(device->backend->sync(device->queue, &error), &error);
    }
    (void)snprintf(shape, sizeof shape,
                   "sum_squares, grad_scale, adamw of %zu in %zu parts, decay %d", count, parts,
                   decay);
    scalars *expected = twin_at(t, values, TWIN_CPU);
    scalars *found = twin_at(t, values, TWIN_OTHER);
    check_scalars(expected, found, shape);
    if (t->exact) { /* on a GPU sqrt and division of doubles are rounded as here */
        assert_memory_equal(expected, found, sizeof *found);
    }
    *found = *expected;
    twin_compare(t, shape);
}

static void optimizer(twin *t)
{
    optimizer_of(t, RANK_FLOAT32);
}

void parity_optimizer_bfloat16(twin *t)
{
    optimizer_of(t, RANK_BFLOAT16);
}

/* Of both signs, up to 2^most; some are less by as much as 2^-spread. With `odd`, one is that. */
static void squares_of(twin *t, size_t count, int most, size_t spread, const float *odd)
{
    char shape[PARITY_TEXT_BYTES];
    const double nothing = 0.0;
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++) {
        const float unit = (float)(int64_t)twin_random(t) * 0x1p-63f;
        values[i] = ldexpf(unit, most - (int)twin_between(t, 0, spread));
    }
    if (odd != NULL) {
        values[twin_between(t, 0, count - 1)] = *odd;
    }
    const int at = twin_copy(t, "values", RANK_MEMORY_WORK, values, count * sizeof *values);
    const int sum = twin_copy(t, "sum", RANK_MEMORY_HOST, &nothing, sizeof nothing);
    free(values);
    (void)snprintf(shape, sizeof shape, "sum_squares of %zu up to 2^%d, spread %zu, and %g", count,
                   most, spread, odd != NULL ? (double)*odd : 0.0);
    for (int side = 0; side < TWIN_SIDES; side++) {
        base_error error;
        const rank_device *device = &t->device[side];
        device->backend->sum_squares(
            device->queue, &(rank_sum_squares){FLOATS(t, at, side), count, twin_at(t, sum, side)});
        assert_ok(device->backend->sync(device->queue, &error), &error);
    }
    const double expected = *(const double *)twin_at(t, sum, TWIN_CPU);
    double *found = twin_at(t, sum, TWIN_OTHER);
    const bool same = memcmp(found, &expected, sizeof expected) == 0 ||
                      (isnan(*found) && isnan(expected)); /* any NaN */
    if (!same && (t->exact || !(fabs(expected - *found) <= 1e-12 * expected))) {
        fail_msg("%s: %.17g, on the CPU %.17g", shape, *found, expected);
    }
    *found = expected;
    twin_compare(t, shape);
}

/* Few values and many; of one size and of all; subnormal, the largest, none but zeros, not finite. */
static void squares(twin *t)
{
    enum { WHOLE = 280, SUBNORMAL = -127, ZERO = -1000 };
    const size_t some = twin_between(t, 1, 3000);
    const float odd[] = {0.0f, -FLT_MAX, 0x1p-149f, INFINITY, -INFINITY, NAN};
    squares_of(t, some, 0, 1, NULL);
    squares_of(t, some, 127, WHOLE, NULL);
    squares_of(t, some, 127, 0, NULL);
    squares_of(t, some, SUBNORMAL, 30, NULL);
    squares_of(t, some, ZERO, 0, NULL);
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        squares_of(t, twin_between(t, 1, 3000), i % 2 > 0 ? -20 : ZERO, 40, &odd[i]);
    }
    squares_of(t, twin_between(t, 131073, 300000), -4, 20, NULL);
}

static void digest(twin *t)
{
    char shape[PARITY_TEXT_BYTES];
    const size_t count = twin_between(t, 0, 3) > 0 ? twin_between(t, 1, 3000) : 1200000;
    const uint8_t nothing[RANK_DIGEST_BYTES] = {0};
    const int at = twin_floats(t, "at", count, 1.0f);
    const int digests = twin_copy(t, "digest", RANK_MEMORY_HOST, nothing, sizeof nothing);
    twin_tolerate(t, digests, -1.0);
    ON_BOTH(t, digest,
            &(rank_digest){twin_at(t, at, side), count * sizeof(float), twin_at(t, digests, side)});
    (void)snprintf(shape, sizeof shape, "digest of %zu", count);
    twin_compare(t, shape);
}

/* Arrays that are equal, that differ in one element, and in which one is not a number. */
static void difference(twin *t)
{
    char shape[PARITY_TEXT_BYTES];
    const size_t count = twin_between(t, 1, 70000);
    const size_t kind = twin_between(t, 0, 3);
    struct {
        bool equal;
        double largest;
    } results = {.largest = 3.0};
    const int a = twin_floats(t, "a", count, 1.0f);
    const int b = twin_floats(t, "b", count, 1.0f);
    const int result = twin_copy(t, "result", RANK_MEMORY_HOST, &results, sizeof results);
    twin_tolerate(t, result, -1.0);
    const size_t where = twin_between(t, 0, count - 1);
    const float odd = kind == 2 ? NAN : 0.75f;
    for (int side = 0; side < TWIN_SIDES; side++) {
        const rank_device *device = &t->device[side];
        if (kind < 3) {
            device->backend->copy(device->queue, FLOATS(t, b, side), FLOATS(t, a, side),
                                  count * sizeof(float));
        }
        if (kind == 1 || kind == 2) {
            base_error error;
            void *host = NULL;
            assert_ok(device->backend->map(device->queue, FLOATS(t, b, side) + where, sizeof odd,
                                           true, &host, &error),
                      &error);
            memcpy(host, &odd, sizeof odd);
            device->backend->unmap(device->queue, host);
        }
        bool *equal = twin_at(t, result, side);
        double *largest = (double *)((char *)twin_at(t, result, side) + sizeof(double));
        device->backend->difference(
            device->queue,
            &(rank_difference){FLOATS(t, a, side), FLOATS(t, b, side), count, equal, largest});
    }
    (void)snprintf(shape, sizeof shape, "difference of %zu, kind %zu", count, kind);
    if (kind == 2) { /* which NaN it is does not matter */
        for (int side = 0; side < TWIN_SIDES; side++) {
            base_error error;
            assert_ok(t->device[side].backend->sync(t->device[side].queue, &error), &error);
            char *at = twin_at(t, result, side);
            assert_true(isnan(*(double *)(at + sizeof(double))));
            memset(at + sizeof(double), 0, sizeof(double));
        }
    }
    twin_compare(t, shape);
}

/* How a row is drawn of: greedy, by temperature, by top-k, by top-p. */
static rank_sample_params some_sampling(twin *t)
{
    static const double temperatures[] = {0, 0.7, 1, 1.4};
    static const double top_ps[] = {0.02, 0.5, 0.95, 1};
    static const int32_t top_ks[] = {1, 2, 7, 40, 255, 256, 1000, RANK_SAMPLE_TOP_K_MAX};
    rank_sample_params params = {.temperature = temperatures[twin_between(t, 0, 3)],
                                 .top_p = 1,
                                 .seed = twin_random(t),
                                 .prompt_index = twin_random(t)};
    if (params.temperature != 0) {
        params.top_k = twin_between(t, 0, 2) == 0 ? top_ks[twin_between(t, 0, 7)] : 0;
        params.top_p = top_ps[twin_between(t, 0, 3)];
    }
    return params;
}

/* Logits of a row: few different ones, so that there are ties, or many; some of them are not
 * finite, zeros have both signs. */
static void some_logits(twin *t, float *row, size_t columns)
{
    const size_t different = twin_between(t, 0, 2) > 0 ? twin_between(t, 1, 200) : 1 << 24;
    const size_t broken = twin_between(t, 0, 4) == 0 ? 2 : 0;
    const size_t absent = twin_between(t, 0, 9) == 0 ? 3000 : twin_between(t, 0, 1) * 300;
    const float middle = (float)(different + 1) / 2;
    for (size_t i = 0; i < columns; i++) {
        const size_t odd = twin_between(t, 0, 2999);
        const float logit = ((float)twin_between(t, 0, different) - middle) * 10.0f / middle;
        row[i] = odd % 2 > 0 ? logit : -logit;
        if (odd < broken) {
            row[i] = odd == 0 ? NAN : INFINITY;
        } else if (odd < absent) {
            row[i] = -INFINITY;
        }
    }
}

/* What a device has found of all rows. */
typedef struct drawn_rows {
    const rank_drawn *of;
    const rank_kept *kept;
    const rank_mass *masses;
} drawn_rows;

static void compare_draw(const rank_sample_vocab *vocab, const rank_sample_params *params, int rank,
                         size_t row, const float *logits, const drawn_rows *drawn)
{
    enum { RECORD_BYTES = 1 << 14 };
    const size_t record_bytes = rank_sample_record_bytes(params, vocab->world_size);
    const rank_sample_drawn own = {
        .one = drawn->of + row,
        .kept = drawn->kept + row * RANK_KEPT_MAX,
        .masses = drawn->masses + row * (size_t)rank_sample_leaves(vocab, rank),
    };
    uint8_t *expected = malloc(RECORD_BYTES);
    uint8_t *record = malloc(RECORD_BYTES);
    assert_true(expected != NULL && record != NULL && record_bytes <= RECORD_BYTES);
    rank_sample_make(vocab, params, 40 + row, rank, logits, expected);
    rank_sample_make_drawn(vocab, params, rank, &own, record);
    /* beyond the header, a record that is refused has what was found before */
    assert_memory_equal(record, expected, 2 * sizeof(int32_t));
    if (((const int32_t *)(const void *)expected)[1] < 0) {
        assert_memory_equal(record, expected, record_bytes);
    }
    free(expected);
    free(record);
}

/* What the device draws is what the host draws: with ties, noise, infinities and NaNs. */
static void draw(twin *t)
{
    enum { ROWS_MAX = 5 };
    base_error error;
    const rank_device *device = &t->device[TWIN_OTHER];
    const size_t rows = twin_between(t, 1, ROWS_MAX);
    const size_t vocab = twin_between(t, 0, 1) > 0 ? twin_between(t, 300, 700) : 9000;
    const rank_sample_vocab whole = {.vocab_size = (int32_t)vocab,
                                     .leaf_width = rank_tp_leaf_width((int)vocab),
                                     .world_size = 1 << twin_between(t, 0, 2)};
    int32_t first = 0;
    int rank = (int)twin_between(t, 0, (size_t)whole.world_size - 1);
    if (rank_sample_tokens(&whole, rank, &first) == 0) {
        rank = 0; /* the last ranks may have padding alone, of which nobody draws */
    }
    const size_t columns = (size_t)rank_sample_tokens(&whole, rank, &first);
    const size_t leaves = (size_t)rank_sample_leaves(&whole, rank);
    const size_t stride = columns + twin_between(t, 0, 9);
    rank_draw_row of[ROWS_MAX];
    rank_sample_params params[ROWS_MAX];
    const rank_drawn nothing[ROWS_MAX] = {{.index = 7}};
    float *logits = malloc(rows * stride * sizeof *logits);
    rank_kept *none_kept = calloc(rows * RANK_KEPT_MAX, sizeof *none_kept);
    rank_mass *no_masses = calloc(rows * leaves, sizeof *no_masses);
    assert_true(logits != NULL && none_kept != NULL && no_masses != NULL);
    for (size_t r = 0; r < rows; r++) {
        params[r] = some_sampling(t);
        of[r] = rank_sample_draw_row(&params[r], 40 + r);
        some_logits(t, logits + r * stride, stride);
    }
    const int values =
        twin_copy(t, "logits", RANK_MEMORY_WORK, logits, rows * stride * sizeof *logits);
    const int how = twin_copy(t, "of", RANK_MEMORY_HOST, of, rows * sizeof *of);
    const int found = twin_copy(t, "drawn", RANK_MEMORY_HOST, nothing, rows * sizeof *nothing);
    const int kept =
        twin_copy(t, "kept", RANK_MEMORY_HOST, none_kept, rows * RANK_KEPT_MAX * sizeof *none_kept);
    const int masses =
        twin_copy(t, "masses", RANK_MEMORY_HOST, no_masses, rows * leaves * sizeof *no_masses);
    device->backend->draw(device->queue, &(rank_draw){.rows = rows,
                                                      .columns = columns,
                                                      .row_floats = stride,
                                                      .values = FLOATS(t, values, TWIN_OTHER),
                                                      .first_token = first,
                                                      .of = twin_at(t, how, TWIN_OTHER),
                                                      .drawn = twin_at(t, found, TWIN_OTHER),
                                                      .kept = twin_at(t, kept, TWIN_OTHER),
                                                      .masses = twin_at(t, masses, TWIN_OTHER),
                                                      .leaves = leaves,
                                                      .leaf_columns = (size_t)whole.leaf_width});
    assert_ok(device->backend->sync(device->queue, &error), &error);
    const drawn_rows drawn = {.of = twin_at(t, found, TWIN_OTHER),
                              .kept = twin_at(t, kept, TWIN_OTHER),
                              .masses = twin_at(t, masses, TWIN_OTHER)};
    for (size_t r = 0; r < rows; r++) {
        compare_draw(&whole, &params[r], rank, r, logits + r * stride, &drawn);
    }
    free(logits);
    free(none_kept);
    free(no_masses);
}

const parity_case parity_step_cases[] = {
    {.name = "cross_entropy", .run = cross_entropy},
    {.name = "cross_entropy_wide", .run = cross_entropy_wide, .shapes = 8},
    {.name = "cross_entropy_wider", .run = cross_entropy_wider, .shapes = 8},
    {.name = "cross_entropy_widest", .run = cross_entropy_widest, .shapes = 8},
    {.name = "optimizer", .run = optimizer},
    {.name = "squares", .run = squares, .shapes = 4},
    {.name = "draw", .run = draw, .shapes = 100},
    {.name = "digest", .run = digest},
    {.name = "difference", .run = difference},
    {.name = NULL},
};
