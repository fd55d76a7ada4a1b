/* Finds Muon's matrices, says what each rank has of them, and shares them out. Called by muon.c. */
#include "optim/muon_matrices.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "model/family.h"

int muon_ranks(const muon_matrices *of, bool apart)
{
    return apart ? of->options.copies : of->options.ranks;
}

int muon_rank(const muon_matrices *of, bool apart)
{
    return apart ? of->options.copy : of->options.rank;
}

static size_t elements(const muon_matrix *of)
{
    return of->rows * of->columns;
}

size_t muon_smaller(const muon_matrix *of)
{
    return base_min_size(of->rows, of->columns);
}

/* Multiplications of an iteration. */
static double work(const muon_matrix *of)
{
    const double side = (double)muon_smaller(of);
    return side * (2.0 * (double)elements(of) + side * side);
}

/* ---- what a rank has of a matrix ---- */

/* The next elements of the matrix that the rank has, in its piece of a unit from *unit on, which is
 * then the next one. False: there are no more. */
static bool next_range(const muon_matrix *matrix, int rank, size_t *unit, rank_zero_range *found)
{
    const rank_zero_cut *cut = matrix->cut;
    const size_t end = matrix->offset + elements(matrix);
    while (*unit < rank_zero_units(cut) && rank_zero_unit(cut, *unit).offset < end) {
        const rank_zero_range piece = rank_zero_piece(cut, (*unit)++, rank);
        const size_t from = base_max_size(piece.offset, matrix->offset);
        const size_t to = base_min_size(piece.offset + piece.count, end);
        if (from < to) {
            *found = (rank_zero_range){.offset = from, .count = to - from};
            return true;
        }
    }
    return false;
}

static size_t first_unit(const muon_matrix *matrix)
{
    return (matrix->offset - matrix->cut->offset) / matrix->cut->unit_elements;
}

/* The model, as one of its tensor ranks has it. */
static rank_model_config part_of(const muon_matrices *of, int rank)
{
    rank_model_config part = of->model;
    part.tensor_rank = rank;
    return part;
}

size_t muon_part_count(const muon_matrices *of, const muon_matrix *matrix, int rank)
{
    rank_tensor tensor;
    rank_zero_range range;
    size_t count = 0;
    if (matrix->cut == NULL) {
        const rank_model_config part = part_of(of, rank);
        rank_model_tensor(&part, matrix->index, &tensor);
        return tensor.count;
    }
    for (size_t unit = first_unit(matrix); next_range(matrix, rank, &unit, &range);) {
        count += range.count;
    }
    return count;
}

float *muon_take_part(const muon_matrices *of, const muon_matrix *matrix, int rank,
                      const float *whole, float *part)
{
    rank_zero_range range;
    if (matrix->cut == NULL) {
        const rank_model_config config = part_of(of, rank);
        rank_tensor_take_part(&config, matrix->index, whole, part);
        return part + muon_part_count(of, matrix, rank);
    }
    for (size_t unit = first_unit(matrix); next_range(matrix, rank, &unit, &range);) {
        memcpy(part, whole + (range.offset - matrix->offset), range.count * sizeof *part);
        part += range.count;
    }
    return part;
}

const float *muon_put_part(const muon_matrices *of, const muon_matrix *matrix, int rank,
                           const float *part, float *whole)
{
    rank_zero_range range;
    if (matrix->cut == NULL) {
        const rank_model_config config = part_of(of, rank);
        rank_tensor_put_part(&config, matrix->index, part, whole);
        return part + muon_part_count(of, matrix, rank);
    }
    for (size_t unit = first_unit(matrix); next_range(matrix, rank, &unit, &range);) {
        memcpy(whole + (range.offset - matrix->offset), part, range.count * sizeof *part);
        part += range.count;
    }
    return part;
}

/* ---- which matrices there are ---- */

/* The tensors of blocks; of adapters all. */
static int first_tensor(const rank_model_config *model)
{
    return model->adapters.of != NULL ? 0 : model->family->block_begin(model, 0);
}

static int end_tensor(const rank_model_config *model)
{
    return model->adapters.of != NULL ? rank_model_tensor_count(model)
                                      : model->family->block_begin(model, model->layers);
}

/* Those that are held. Experts of other ranks have no elements. Without `matrices` only counts them. */
static size_t find(const rank_model_config *model, const rank_held *held, muon_matrix *matrices)
{
    rank_model_config whole = *model;
    whole.tensor_ranks = 1;
    whole.tensor_rank = 0;
    size_t count = 0;
    for (int i = first_tensor(model); i < end_tensor(model); i++) {
        rank_tensor mine;
        rank_tensor all;
        rank_model_tensor(model, i, &mine);
        if (mine.dims != 2 || mine.count == 0 || !rank_held_has(held, mine.offset)) {
            continue;
        }
        if (matrices != NULL) {
            rank_model_tensor(&whole, i, &all);
            matrices[count] = (muon_matrix){.index = i,
                                            .offset = rank_held_place(held, mine.offset),
                                            .rows = all.shape[0],
                                            .columns = all.shape[1],
                                            .parted = mine.count < all.count,
                                            .round = -1};
        }
        count++;
    }
    return count;
}

/* With ZeRO each has the cut of the stretch that it lies in. */
static void find_cuts(muon_matrices *made)
{
    size_t at = 0;
    for (size_t i = 0; made->stretches != NULL && i < made->count; i++) {
        muon_matrix *matrix = &made->all[i];
        while (matrix->offset >= made->stretches[at].cut.offset + made->stretches[at].cut.count) {
            at++;
        }
        matrix->parted = true;
        matrix->cut = &made->stretches[at].cut;
        matrix->apart = made->stretches[at].apart;
        BASE_ASSERT(matrix->offset >= matrix->cut->offset);
        BASE_ASSERT(elements(matrix) <=
                    matrix->cut->count - (matrix->offset - matrix->cut->offset));
    }
}

/* Each rank gets neighbouring matrices, about as much work as the others: what it has then is one
 * range. A matrix of which all tensor ranks have the whole is computed by each. */
static void share_out(muon_matrices *made, bool apart)
{
    const int ranks = muon_ranks(made, apart);
    const bool by_tensor = made->stretches == NULL && rank_tensor_ranks(&made->model) > 1;
    double all = 0.0;
    double before = 0.0;
    for (size_t i = 0; i < made->count; i++) {
        all += made->all[i].apart == apart ? work(&made->all[i]) : 0.0;
    }
    for (size_t i = 0; i < made->count; i++) {
        muon_matrix *matrix = &made->all[i];
        if (matrix->apart != apart) {
            continue;
        }
        const double middle = before + work(matrix) / 2;
        const int owner = (int)(middle / all * ranks);
        matrix->owner = owner < ranks ? owner : ranks - 1;
        before += work(matrix);
        if (by_tensor && !matrix->parted) {
            matrix->owner = made->options.rank;
        }
    }
}

/* In a round every rank computes one matrix at most. Returns how many rounds there are before the
 * next ones. */
static int number_rounds(muon_matrices *made, bool apart, int first)
{
    int owner = -1;
    int next = first;
    int end = first;
    for (size_t i = 0; i < made->count; i++) {
        muon_matrix *matrix = &made->all[i];
        if (matrix->parted && matrix->apart == apart) {
            next = matrix->owner == owner ? next : first;
            owner = matrix->owner;
            matrix->round = next++;
            end = next > end ? next : end;
        }
    }
    return end;
}

/* Where a stretch begins in this rank's moments. */
static size_t stretch_place(const muon_matrices *made, const rank_zero_cut *cut)
{
    size_t place = 0;
    for (const rank_zero_stretch *at = made->stretches; &at->cut != cut; at++) {
        place += rank_zero_shard(&at->cut, muon_rank(made, at->apart));
    }
    return place;
}

/* This rank's runs of a matrix. Without `runs` only counts them. */
static size_t find_runs(const muon_matrices *made, const muon_matrix *matrix, muon_run *runs)
{
    const rank_zero_cut *cut = matrix->cut;
    const int rank = muon_rank(made, matrix->apart);
    rank_zero_range range;
    size_t count = 0;
    if (cut == NULL) {
        const size_t here = matrix->parted ? muon_part_count(made, matrix, rank) : elements(matrix);
        if (runs != NULL) {
            runs[0] = (muon_run){matrix->offset, matrix->offset, here};
        }
        return 1;
    }
    const size_t stretch = runs != NULL ? stretch_place(made, cut) : 0;
    for (size_t unit = first_unit(matrix); next_range(matrix, rank, &unit, &range);) {
        if (runs != NULL) {
            const rank_zero_range piece = rank_zero_piece(cut, unit - 1, rank);
            runs[count] = (muon_run){.offset = range.offset,
                                     .place = stretch + rank_zero_place(cut, unit - 1, rank) +
                                              (range.offset - piece.offset),
                                     .count = range.count};
        }
        count++;
    }
    return count;
}

static bool list_runs(muon_matrices *made)
{
    size_t count = 0;
    for (size_t i = 0; i < made->count; i++) {
        made->all[i].first_run = count;
        made->all[i].run_count = find_runs(made, &made->all[i], NULL);
        count += made->all[i].run_count;
    }
    made->runs = calloc(count + 1, sizeof *made->runs);
    for (size_t i = 0; made->runs != NULL && i < made->count; i++) {
        (void)find_runs(made, &made->all[i], made->runs + made->all[i].first_run);
    }
    return made->runs != NULL;
}

/* ---- room ---- */

static void grow(size_t *most, size_t count)
{
    *most = base_max_size(*most, count);
}

static size_t round_count(const muon_matrices *of, int round)
{
    size_t count = 0;
    for (size_t i = 0; i < of->count; i++) {
        const muon_matrix *matrix = &of->all[i];
        for (size_t k = 0; matrix->round == round && k < matrix->run_count; k++) {
            count += of->runs[matrix->first_run + k].count;
        }
    }
    return count;
}

static void find_room(muon_matrices *made)
{
    muon_room *room = &made->room;
    for (size_t i = 0; i < made->count; i++) {
        const size_t side = muon_smaller(&made->all[i]);
        const size_t length = elements(&made->all[i]) / side;
        grow(&room->update, side * length);
        grow(&room->gram, side * side);
        grow(&room->packed,
             rank_pack_count(length, side)); /* gram = x xᵀ; of gram gram it is less */
        grow(&room->packed, rank_pack_count(side, length)); /* p x, where rows are fewer */
        grow(&room->packed, rank_pack_count(side, side));   /* x p */
    }
    for (int round = 0; round < made->rounds; round++) {
        grow(&room->mine, round_count(made, round));
    }
}

base_status muon_matrices_make(const rank_model_config *model, const rank_muon_options *options,
                               const rank_held *held, muon_matrices *made, base_error *reterr)
{
    const size_t stretches = options->stretch_count;
    *made = (muon_matrices){.model = *model, .options = *options};
    made->options.stretches = NULL;
    made->param_count = held != NULL ? held->count : rank_model_param_count(model);
    made->count = find(model, held, NULL);
    made->all = calloc(made->count + 1, sizeof *made->all);
    made->stretches = stretches > 0 ? calloc(stretches, sizeof *made->stretches) : NULL;
    if (made->all == NULL || (stretches > 0 && made->stretches == NULL)) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the optimizer");
    }
    if (stretches > 0) {
        memcpy(made->stretches, options->stretches, stretches * sizeof *made->stretches);
    }
    (void)find(model, held, made->all);
    find_cuts(made);
    share_out(made, false);
    share_out(made, true);
    made->common = number_rounds(made, false, 0);
    made->rounds = number_rounds(made, true, made->common);
    if (!list_runs(made)) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the optimizer");
    }
    find_room(made);
    return BASE_OK;
}

void muon_matrices_free(muon_matrices *matrices)
{
    free(matrices->stretches);
    free(matrices->all);
    free(matrices->runs);
}
