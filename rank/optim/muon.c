/* Muon: orthogonal updates of matrices, which ranks share out. Called by optimizer.c. */
#include "optim/muon.h"

#include <math.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "optim/muon_matrices.h"
#include "trace/trace.h"

enum { ITERATIONS = 5 };

static const float NORM_MIN = 1e-7F;
static const float FIRST = 3.4445F; /* of the polynomial: odd powers of a singular value */
static const float THIRD = -4.7750F;
static const float FIFTH = 2.0315F;
static const double ADAMW_SIZE = 0.2; /* about the root mean square of AdamW's updates */

struct rank_muon {
    rank_device device;
    muon_matrices matrices;
    /* Room for the largest matrix, */
    float *update;
    float *next;
    float *gram; /* the smaller square of one, */
    float *square;
    float *packed; /* and a product's scratch; */
    float *mine;   /* in the memory of these three, while no matrix is computed: this rank's parts
                    * of those of a round */
    double *sum_squares;
    size_t bytes; /* of all these */
};

static size_t room_bytes(const muon_room *room)
{
    const size_t shared = base_max_size(2 * room->gram + room->packed, room->mine);
    return (2 * room->update + shared) * sizeof(float) + sizeof(double);
}

void rank_muon_plan(const rank_model_config *model, const rank_muon_options *options,
                    rank_memory_use *use)
{
    muon_matrices matrices;
    if (muon_matrices_make(model, options, NULL, &matrices, NULL) == BASE_OK) {
        use->bytes[RANK_MEMORY_OPTIMIZER] += room_bytes(&matrices.room);
    } /* if there is no memory, create says so */
    muon_matrices_free(&matrices);
}

static base_status fill(rank_muon *made, const rank_model_config *model,
                        const rank_optimizer_options *options, base_error *reterr)
{
    const rank_device *device = &made->device;
    void *memory = NULL;
    base_status status =
        muon_matrices_make(model, &options->muon, options->held, &made->matrices, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const muon_room *room = &made->matrices.room;
    status = device->backend->alloc(device->queue, RANK_MEMORY_OPTIMIZER, room_bytes(room), &memory,
                                    reterr);
    if (status != BASE_OK) {
        return status;
    }
    made->bytes = room_bytes(room);
    made->sum_squares = memory;
    made->update = (float *)(made->sum_squares + 1);
    made->next = made->update + room->update;
    made->gram = made->next + room->update;
    made->square = made->gram + room->gram;
    made->packed = made->square + room->gram;
    made->mine = made->gram;
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
    const base_status status = fill(made, model, options, reterr);
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
        muon_matrices_free(&muon->matrices);
        free(muon);
    }
}

/* Of what this rank has of the matrix, or with ZeRO of all of it. */
static size_t count_here(const rank_muon *muon, const muon_matrix *matrix)
{
    return matrix->parted && matrix->cut == NULL ? muon->matrices.runs[matrix->first_run].count
                                                 : matrix->rows * matrix->columns;
}

size_t rank_muon_others(const rank_muon *muon, rank_optimizer_piece *ranges)
{
    const muon_matrices *matrices = &muon->matrices;
    size_t count = 0;
    size_t at = 0;
    for (size_t i = 0; i <= matrices->count; i++) {
        const muon_matrix *next = i < matrices->count ? &matrices->all[i] : NULL;
        const size_t end = next != NULL ? next->offset : matrices->param_count;
        if (end > at && ranges != NULL) {
            ranges[count] = (rank_optimizer_piece){.offset = at, .count = end - at};
        }
        count += end > at ? 1 : 0;
        at = end + (next != NULL ? count_here(muon, next) : 0);
    }
    return count;
}

/* Where the first matrix begins that is not of a rank before `rank`; the end of all, if there is none. */
static size_t share_begin(const muon_matrices *matrices, int rank)
{
    size_t end = 0;
    for (size_t i = 0; i < matrices->count; i++) {
        const muon_matrix *matrix = &matrices->all[i];
        if (matrix->owner >= rank) {
            return matrix->offset;
        }
        end = matrix->offset + matrix->rows * matrix->columns;
    }
    return end;
}

rank_optimizer_piece rank_muon_share(const rank_muon *muon, int rank)
{
    const size_t begin = share_begin(&muon->matrices, rank);
    return (rank_optimizer_piece){.offset = begin,
                                  .count = share_begin(&muon->matrices, rank + 1) - begin};
}

size_t rank_muon_bytes(const rank_muon *muon)
{
    return muon->bytes;
}

/* momentum += (1 - mu) (g - momentum). With `update`, that is g + mu (momentum - g). */
static void take_momentum(const rank_muon *muon, const rank_muon_step *step, const muon_run *run,
                          float *update)
{
    const double mean = muon->matrices.options.momentum;
    const float mu = (float)mean;
    const float rest = (float)(1.0 - mean);
    const float *grads = step->grads + (step->packed_grads ? run->place : run->offset);
    float *momentum = step->momentum + run->place;
    for (size_t i = 0; i < run->count; i++) {
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
    const size_t side = muon_smaller(of);
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
    const size_t side = muon_smaller(of);
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

/* Brings the singular values of muon->update near 1, into muon->next. */
static void orthogonalise(const rank_muon *muon, const muon_matrix *of)
{
    float *x = muon->update;
    float *next = muon->next;
    const int64_t begun_ns = rank_trace_begin(muon->matrices.options.trace);
    normalise(muon, of->rows * of->columns);
    for (int i = 0; i < ITERATIONS; i++) {
        float *const last = x;
        make_gram(muon, of, x);
        make_polynomial(muon, muon_smaller(of));
        apply_polynomial(muon, of, x, next);
        x = next;
        next = last;
    }
    BASE_ASSERT(x == muon->next);
    (void)rank_trace_add(muon->matrices.options.trace,
                         (rank_trace_span){.kind = RANK_TRACE_NEWTON_SCHULZ,
                                           .begin_ns = begun_ns,
                                           .index = (int32_t)(of - muon->matrices.all)});
}

/* Updates the parameters of a run of the matrix. */
static void take_update(const rank_muon_step *step, const muon_matrix *of, const muon_run *run,
                        const float *update)
{
    const double rate = step->learning_rate;
    const size_t length = base_max_size(of->rows, of->columns);
    const float keep = (float)(1.0 - rate * step->weight_decay);
    const float size = (float)(rate * ADAMW_SIZE * sqrt((double)length));
    float *params = step->params + (step->packed_params ? run->place : run->offset);
    for (size_t i = 0; i < run->count; i++) {
        params[i] = keep * params[i] - size * update[i];
    }
}

void rank_muon_update(rank_muon *muon, const rank_muon_step *step)
{
    const muon_matrices *matrices = &muon->matrices;
    for (size_t i = 0; i < matrices->count; i++) {
        const muon_matrix *matrix = &matrices->all[i];
        const muon_run *run = &matrices->runs[matrix->first_run];
        const bool mine = matrix->owner == matrices->options.rank;
        if (matrix->parted) {
            continue;
        }
        take_momentum(muon, step, run, mine ? muon->update : NULL);
        if (mine) {
            orthogonalise(muon, matrix);
            take_update(step, matrix, run, muon->next);
        }
    }
}

/* ---- rounds ---- */

int rank_muon_rounds(const rank_muon *muon)
{
    return muon->matrices.rounds;
}

rank_muon_round rank_muon_round_of(const rank_muon *muon, int round, size_t *mine, size_t *parts)
{
    const muon_matrices *matrices = &muon->matrices;
    const bool apart = round >= matrices->common;
    const int ranks = muon_ranks(matrices, apart);
    for (int i = 0; i < ranks; i++) {
        mine[i] = 0;
        parts[i] = 0;
    }
    for (size_t i = 0; i < matrices->count; i++) {
        const muon_matrix *matrix = &matrices->all[i];
        const int rank = muon_rank(matrices, matrix->apart);
        if (matrix->round != round) {
            continue;
        }
        mine[matrix->owner] = muon_part_count(matrices, matrix, rank);
        for (int from = 0; matrix->owner == rank && from < ranks; from++) {
            parts[from] = muon_part_count(matrices, matrix, from);
        }
    }
    return (rank_muon_round){
        .apart = apart, .mine = muon->mine, .gathered = muon->next, .computed = muon->update};
}

void rank_muon_begin_round(rank_muon *muon, int round, const rank_muon_step *step)
{
    const muon_matrices *matrices = &muon->matrices;
    float *mine = muon->mine;
    for (size_t i = 0; i < matrices->count; i++) {
        const muon_matrix *matrix = &matrices->all[i];
        for (size_t k = 0; matrix->round == round && k < matrix->run_count; k++) {
            const muon_run *run = &matrices->runs[matrix->first_run + k];
            take_momentum(muon, step, run, mine);
            mine += run->count;
        }
    }
}

void rank_muon_compute_round(rank_muon *muon, int round)
{
    const muon_matrices *matrices = &muon->matrices;
    const float *gathered = muon->next;
    float *computed = muon->update;
    for (size_t i = 0; i < matrices->count; i++) {
        const muon_matrix *matrix = &matrices->all[i];
        const int ranks = muon_ranks(matrices, matrix->apart);
        if (matrix->round != round || matrix->owner != muon_rank(matrices, matrix->apart)) {
            continue;
        }
        for (int rank = 0; rank < ranks; rank++) {
            gathered = muon_put_part(matrices, matrix, rank, gathered, muon->update);
        }
        orthogonalise(muon, matrix);
        for (int rank = 0; rank < ranks; rank++) {
            computed = muon_take_part(matrices, matrix, rank, muon->next, computed);
        }
        return; /* there is one at most */
    }
}

void rank_muon_end_round(rank_muon *muon, int round, const rank_muon_step *step)
{
    const muon_matrices *matrices = &muon->matrices;
    const float *mine = muon->mine;
    for (size_t i = 0; i < matrices->count; i++) {
        const muon_matrix *matrix = &matrices->all[i];
        for (size_t k = 0; matrix->round == round && k < matrix->run_count; k++) {
            const muon_run *run = &matrices->runs[matrix->first_run + k];
            take_update(step, matrix, run, mine);
            mine += run->count;
        }
    }
}
