/* Muon: orthogonal updates of matrices, which ranks share out. Called by optimizer.c. */
#include "optim/muon.h"

#include <math.h>
#include <stdlib.h>

#include "base/assert.h"
#include "model/family.h"
#include "trace/trace.h"

enum { ITERATIONS = 5 };

static const float NORM_MIN = 1e-7F;
static const float FIRST = 3.4445F; /* of the polynomial: odd powers of a singular value */
static const float THIRD = -4.7750F;
static const float FIFTH = 2.0315F;
static const double ADAMW_SIZE = 0.2; /* about the root mean square of AdamW's updates */

typedef struct muon_matrix {
    size_t offset;
    size_t rows;
    size_t columns;
    int owner; /* the rank that computes it */
} muon_matrix;

struct rank_muon {
    rank_device device;
    rank_muon_options options;
    size_t param_count;
    muon_matrix *matrices;
    size_t count;
    /* Room for the largest matrix, */
    float *update;
    float *next;
    float *gram; /* the smaller square of one, */
    float *square;
    float *packed; /* and a product's scratch */
    double *sum_squares;
    size_t bytes; /* of all these */
};

static size_t smaller(const muon_matrix *of)
{
    return of->rows < of->columns ? of->rows : of->columns;
}

/* Multiplications of an iteration. */
static double work(const muon_matrix *of)
{
    const double side = (double)smaller(of);
    return side * (2.0 * (double)of->rows * (double)of->columns + side * side);
}

/* Writes the matrices of blocks that are held, and returns their number. Experts of other ranks have no elements.
 * matrices NULL: only that. */
static size_t find_matrices(const rank_model_config *model, const rank_held *held,
                            muon_matrix *matrices)
{
    const int end = model->family->block_begin(model, model->layers);
    size_t count = 0;
    for (int i = model->family->block_begin(model, 0); i < end; i++) {
        rank_tensor tensor;
        rank_model_tensor(model, i, &tensor);
        if (tensor.dims != 2 || tensor.count == 0 || !rank_held_has(held, tensor.offset)) {
            continue;
        }
        if (matrices != NULL) {
            matrices[count] = (muon_matrix){.offset = rank_held_place(held, tensor.offset),
                                            .rows = tensor.shape[0],
                                            .columns = tensor.shape[1]};
        }
        count++;
    }
    return count;
}

/* Each rank gets neighbouring matrices, about as much work as the others: what it has then is one range. */
static void share_out(muon_matrix *matrices, size_t count, int ranks)
{
    double all = 0.0;
    double before = 0.0;
    for (size_t i = 0; i < count; i++) {
        all += work(&matrices[i]);
    }
    for (size_t i = 0; i < count; i++) {
        const double middle = before + work(&matrices[i]) / 2;
        const int owner = (int)(middle / all * ranks);
        matrices[i].owner = owner < ranks ? owner : ranks - 1;
        before += work(&matrices[i]);
    }
}

/* Floats of `update`, of `gram` and of `packed`. */
typedef struct muon_room {
    size_t update;
    size_t gram;
    size_t packed;
} muon_room;

static void grow(size_t *most, size_t count)
{
    *most = count > *most ? count : *most;
}

static muon_room room_of(const muon_matrix *matrices, size_t count)
{
    muon_room room = {.update = 0};
    for (size_t i = 0; i < count; i++) {
        const size_t side = smaller(&matrices[i]);
        const size_t length = matrices[i].rows + matrices[i].columns - side;
        grow(&room.update, side * length);
        grow(&room.gram, side * side);
        grow(&room.packed,
             rank_pack_count(length, side)); /* gram = x xᵀ; of gram gram it is less */
        grow(&room.packed, rank_pack_count(side, length)); /* p x, where rows are fewer */
        grow(&room.packed, rank_pack_count(side, side));   /* x p */
    }
    return room;
}

static size_t room_bytes(const muon_room *room)
{
    return (2 * room->update + 2 * room->gram + room->packed) * sizeof(float) + sizeof(double);
}

void rank_muon_plan(const rank_model_config *model, rank_memory_use *use)
{
    const size_t count = find_matrices(model, NULL, NULL);
    muon_matrix *matrices = calloc(count, sizeof *matrices);
    if (matrices != NULL) { /* if there is no memory, create says so */
        (void)find_matrices(model, NULL, matrices);
        const muon_room room = room_of(matrices, count);
        use->bytes[RANK_MEMORY_OPTIMIZER] += room_bytes(&room);
    }
    free(matrices);
}

static base_status fill(rank_muon *made, const rank_model_config *model, const rank_held *held,
                        base_error *reterr)
{
    const rank_device *device = &made->device;
    void *memory = NULL;
    made->param_count = held != NULL ? held->count : rank_model_param_count(model);
    made->count = find_matrices(model, held, NULL);
    made->matrices = calloc(made->count, sizeof *made->matrices);
    if (made->matrices == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the optimizer");
    }
    (void)find_matrices(model, held, made->matrices);
    share_out(made->matrices, made->count, made->options.ranks);
    const muon_room room = room_of(made->matrices, made->count);
    const base_status status = device->backend->alloc(device->queue, RANK_MEMORY_OPTIMIZER,
                                                      room_bytes(&room), &memory, reterr);
    if (status != BASE_OK) {
        return status;
    }
    made->bytes = room_bytes(&room);
    made->sum_squares = memory;
    made->update = (float *)(made->sum_squares + 1);
    made->next = made->update + room.update;
    made->gram = made->next + room.update;
    made->square = made->gram + room.gram;
    made->packed = made->square + room.gram;
    return BASE_OK;
}

base_status rank_muon_create(const rank_device *device, const rank_model_config *model,
                             const rank_optimizer_options *options, rank_muon **muon,
                             base_error *reterr)
{
    *muon = NULL;
    BASE_ASSERT(options->muon.rank >= 0);
    BASE_ASSERT(options->muon.rank < options->muon.ranks);
    rank_muon *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the optimizer");
    }
    made->device = *device;
    made->options = options->muon;
    const base_status status = fill(made, model, options->held, reterr);
    if (status != BASE_OK) {
        rank_muon_destroy(made);
        return status;
    }
    *muon = made;
    return BASE_OK;
}

void rank_muon_destroy(rank_muon *muon)
{
    if (muon != NULL) {
        muon->device.backend->release(muon->device.queue, muon->sum_squares);
        free(muon->matrices);
        free(muon);
    }
}

size_t rank_muon_others(const rank_muon *muon, rank_optimizer_piece *ranges)
{
    size_t count = 0;
    size_t at = 0;
    for (size_t i = 0; i <= muon->count; i++) {
        const bool last = i == muon->count;
        const size_t end = last ? muon->param_count : muon->matrices[i].offset;
        if (end > at && ranges != NULL) {
            ranges[count] = (rank_optimizer_piece){.offset = at, .count = end - at};
        }
        count += end > at ? 1 : 0;
        at = last ? end : end + muon->matrices[i].rows * muon->matrices[i].columns;
    }
    return count;
}

/* Where the first matrix begins that is not of a rank before `rank`; the end of all, if there is none. */
static size_t share_begin(const rank_muon *muon, int rank)
{
    size_t end = 0;
    for (size_t i = 0; i < muon->count; i++) {
        const muon_matrix *matrix = &muon->matrices[i];
        if (matrix->owner >= rank) {
            return matrix->offset;
        }
        end = matrix->offset + matrix->rows * matrix->columns;
    }
    return end;
}

rank_optimizer_piece rank_muon_share(const rank_muon *muon, int rank)
{
    const size_t begin = share_begin(muon, rank);
    return (rank_optimizer_piece){.offset = begin, .count = share_begin(muon, rank + 1) - begin};
}

size_t rank_muon_bytes(const rank_muon *muon)
{
    return muon->bytes;
}

/* momentum += (1 - mu) (g - momentum). With `update`, that is g + mu (momentum - g). */
static void take_momentum(const rank_muon *muon, const rank_muon_step *step,
                          const muon_matrix *matrix, float *update)
{
    const float mu = (float)muon->options.momentum;
    const float rest = (float)(1.0 - muon->options.momentum);
    const size_t count = matrix->rows * matrix->columns;
    const float *grads = step->grads + matrix->offset;
    float *momentum = step->momentum + matrix->offset;
    for (size_t i = 0; i < count; i++) {
        const float grad = grads[i] * step->grad_scale;
        momentum[i] += rest * (grad - momentum[i]);
        if (update != NULL) {
            update[i] = grad + mu * (momentum[i] - grad);
        }
    }
}

static void normalise(const rank_muon *muon, size_t count)
{
    const rank_backend *backend = muon->device.backend;
    backend->sum_squares(
        muon->device.queue,
        &(rank_sum_squares){.values = muon->update, .count = count, .sum = muon->sum_squares});
    const float norm = (float)sqrt(*muon->sum_squares);
    const float divisor = norm > NORM_MIN ? norm : NORM_MIN;
    for (size_t i = 0; i < count; i++) {
        muon->update[i] /= divisor;
    }
}

/* gram = x xᵀ, or xᵀ x if the columns are fewer. */
static void make_gram(const rank_muon *muon, const muon_matrix *of, const float *x)
{
    const bool wide = of->rows <= of->columns;
    const size_t side = smaller(of);
    muon->device.backend->product(muon->device.queue,
                                  &(rank_product){.rows = side,
                                                  .columns = side,
                                                  .depth = wide ? of->columns : of->rows,
                                                  .a = x,
                                                  .a_row = wide ? of->columns : 1,
                                                  .a_depth = wide ? 1 : of->columns,
                                                  .b = x,
                                                  .b_row = of->columns,
                                                  .b_transposed = wide,
                                                  .scratch = muon->packed,
                                                  .c = muon->gram,
                                                  .c_row = side,
                                                  .leaves = 1});
}

/* gram = THIRD gram + FIFTH gram gram */
static void make_polynomial(const rank_muon *muon, size_t side)
{
    muon->device.backend->product(muon->device.queue, &(rank_product){.rows = side,
                                                                      .columns = side,
                                                                      .depth = side,
                                                                      .a = muon->gram,
                                                                      .a_row = side,
                                                                      .a_depth = 1,
                                                                      .b = muon->gram,
                                                                      .b_row = side,
                                                                      .scratch = muon->packed,
                                                                      .c = muon->square,
                                                                      .c_row = side,
                                                                      .leaves = 1});
    for (size_t i = 0; i < side * side; i++) {
        muon->gram[i] = THIRD * muon->gram[i] + FIFTH * muon->square[i];
    }
}

/* next = FIRST x + gram x, or FIRST x + x gram if the columns are fewer. */
static void apply_polynomial(const rank_muon *muon, const muon_matrix *of, const float *x,
                             float *next)
{
    const bool wide = of->rows <= of->columns;
    const size_t side = smaller(of);
    for (size_t i = 0; i < of->rows * of->columns; i++) {
        next[i] = FIRST * x[i];
    }
    muon->device.backend->product(muon->device.queue, &(rank_product){.rows = of->rows,
                                                                      .columns = of->columns,
                                                                      .depth = side,
                                                                      .a = wide ? muon->gram : x,
                                                                      .a_row = side,
                                                                      .a_depth = 1,
                                                                      .b = wide ? x : muon->gram,
                                                                      .b_row = of->columns,
                                                                      .scratch = muon->packed,
                                                                      .c = next,
                                                                      .c_row = of->columns,
                                                                      .leaves = 1,
                                                                      .accumulate = true});
}

/* Brings the singular values of muon->update near 1. Returns where the result is. */
static const float *orthogonalise(const rank_muon *muon, const muon_matrix *of)
{
    float *x = muon->update;
    float *next = muon->next;
    normalise(muon, of->rows * of->columns);
    for (int i = 0; i < ITERATIONS; i++) {
        float *const last = x;
        make_gram(muon, of, x);
        make_polynomial(muon, smaller(of));
        apply_polynomial(muon, of, x, next);
        x = next;
        next = last;
    }
    return x;
}

void rank_muon_update(rank_muon *muon, const rank_muon_step *step)
{
    const double rate = step->learning_rate;
    const float keep = (float)(1.0 - rate * step->weight_decay);
    for (size_t i = 0; i < muon->count; i++) {
        const muon_matrix *matrix = &muon->matrices[i];
        const bool mine = matrix->owner == muon->options.rank;
        take_momentum(muon, step, matrix, mine ? muon->update : NULL);
        if (!mine) {
            continue;
        }
        const size_t length = matrix->rows > matrix->columns ? matrix->rows : matrix->columns;
        const float size = (float)(rate * ADAMW_SIZE * sqrt((double)length));
        const int64_t begun_ns = rank_trace_begin(muon->options.trace);
        const float *update = orthogonalise(muon, matrix);
        (void)rank_trace_add(muon->options.trace,
                             (rank_trace_span){.kind = RANK_TRACE_NEWTON_SCHULZ,
                                               .begin_ns = begun_ns,
                                               .index = (int32_t)i});
        float *params = step->params + matrix->offset;
        for (size_t k = 0; k < matrix->rows * matrix->columns; k++) {
            params[k] = keep * params[k] - size * update[k];
        }
    }
}
