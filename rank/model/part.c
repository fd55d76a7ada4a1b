/* What one rank has of each tensor where ranks share a model in training: tensor parallelism, or its experts
 * alone. Called by the optimizer, by pipeline/ and train/; transformer/layout.c lays parts out in the same order. */
#include <string.h>

#include "base/assert.h"
#include "model/family.h"

enum { PARTS_MAX = 4 /* of one tensor's axis */ };

/* This rank's elements along the axis that is cut. */
typedef struct axis_ranges {
    rank_cut_range of[PARTS_MAX];
    int parts;
    size_t count; /* of all */
} axis_ranges;

static axis_ranges ranges_of(const rank_model_config *config, const rank_tensor *whole)
{
    const rank_cut *cut = &whole->cut;
    const int ranks = rank_tensor_ranks(config);
    axis_ranges ranges = {.parts = 1};
    if (cut->kind == RANK_CUT_NONE) {
        ranges.of[0] = (rank_cut_range){0, whole->shape[cut->axis]};
    } else if (cut->kind == RANK_CUT_VOCAB) {
        const rank_tp_ids ids = rank_tp_ids_of(config->vocab_size, ranks, config->tensor_rank);
        ranges.of[0] = (rank_cut_range){(size_t)ids.first, (size_t)ids.count};
    } else {
        BASE_ASSERT(cut->parts <= PARTS_MAX);
        ranges.parts = cut->parts;
        for (int part = 0; part < cut->parts; part++) {
            ranges.of[part] =
                rank_cut_range_make(cut, whole->shape[cut->axis], part, config->tensor_rank, ranks);
        }
    }
    for (int part = 0; part < ranges.parts; part++) {
        ranges.count += ranges.of[part].count;
    }
    return ranges;
}

/* Whether the tensor is that of an expert which another rank has. */
static bool is_elsewhere(const rank_model_config *config, const rank_tensor *tensor)
{
    const int here = rank_model_experts(config).count / rank_expert_ranks(config);
    return tensor->expert > 0 && (tensor->expert - 1) / here != config->expert_rank;
}

/* The tensor as its family describes it, but for its place and extent. */
static void cut_tensor(const rank_model_config *config, rank_tensor *tensor)
{
    if (is_elsewhere(config, tensor)) {
        tensor->shape[0] = 0;
        tensor->count = 0;
        return;
    }
    const size_t extent = tensor->shape[tensor->cut.axis];
    const size_t count = ranges_of(config, tensor).count;
    tensor->shape[tensor->cut.axis] = count;
    tensor->count = tensor->count / extent * count;
}

/* Elements of the tensors first … end that other ranks have, as experts of theirs. */
static size_t count_elsewhere(const rank_model_config *config, int first, int end)
{
    size_t count = 0;
    for (int i = first; i < end; i++) {
        rank_tensor tensor;
        config->family->tensor(config, i, &tensor);
        count += is_elsewhere(config, &tensor) ? tensor.count : 0;
    }
    return count;
}

/* Where the tensor stands among those that are here. All layers lack equally much, so that only its own is gone
 * through: there may be many experts. */
static size_t place_among_experts(const rank_model_config *config, int index, size_t offset)
{
    const int begin = config->family->block_begin(config, 0);
    const int end = config->family->block_begin(config, 1);
    if (index < begin) {
        return offset;
    }
    const int past = (index - begin) / (end - begin);
    const int layer = past < config->layers ? past : config->layers;
    return offset - (size_t)layer * count_elsewhere(config, begin, end) -
           count_elsewhere(config, config->family->block_begin(config, layer), index);
}

void rank_model_tensor(const rank_model_config *config, int index, rank_tensor *tensor)
{
    size_t offset = 0;
    if (rank_tensor_ranks(config) == 1) {
        config->family->tensor(config, index, tensor);
        if (rank_expert_ranks(config) > 1) {
            tensor->offset = place_among_experts(config, index, tensor->offset);
            cut_tensor(config, tensor);
        }
        return;
    }
    for (int i = 0; i <= index; i++) {
        config->family->tensor(config, i, tensor);
        cut_tensor(config, tensor);
        tensor->offset = offset;
        offset += tensor->count;
    }
}

/* Some neighbouring elements of a tensor that this rank has. */
typedef struct part_run {
    size_t offset; /* in the whole tensor */
    size_t count;
} part_run;

/* A tensor's runs, in the order of the part. */
typedef struct part_runs {
    axis_ranges ranges;
    size_t rows; /* of runs */
    size_t row;  /* elements from one row of runs to the next */
    size_t each; /* elements that stand together at one place of the axis */
} part_runs;

static part_runs runs_of(const rank_model_config *config, int index)
{
    rank_tensor tensor;
    config->family->tensor(config, index, &tensor);
    const bool rows_are_cut = tensor.cut.axis == 0;
    return (part_runs){.ranges = ranges_of(config, &tensor),
                       .rows = is_elsewhere(config, &tensor) ? 0
                               : rows_are_cut                ? 1
                                                             : tensor.shape[0],
                       .row = tensor.shape[1],
                       .each = rows_are_cut ? tensor.shape[1] : 1};
}

static part_run run_at(const part_runs *runs, size_t row, int range)
{
    const rank_cut_range *of = &runs->ranges.of[range];
    return (part_run){.offset = row * runs->row + of->first * runs->each,
                      .count = of->count * runs->each};
}

void rank_tensor_take_part(const rank_model_config *config, int index, const float *values,
                           float *part)
{
    const part_runs runs = runs_of(config, index);
    for (size_t row = 0; row < runs.rows; row++) {
        for (int i = 0; i < runs.ranges.parts; i++) {
            const part_run run = run_at(&runs, row, i);
            memcpy(part, values + run.offset, run.count * sizeof *part);
            part += run.count;
        }
    }
}

void rank_tensor_put_part(const rank_model_config *config, int index, const float *part,
                          float *values)
{
    const part_runs runs = runs_of(config, index);
    for (size_t row = 0; row < runs.rows; row++) {
        for (int i = 0; i < runs.ranges.parts; i++) {
            const part_run run = run_at(&runs, row, i);
            memcpy(values + run.offset, part, run.count * sizeof *part);
            part += run.count;
        }
    }
}

/* Where the tensor stands in the whole model. */
static size_t whole_offset(const rank_model_config *config, int index)
{
    rank_tensor tensor;
    config->family->tensor(config, index, &tensor);
    return tensor.offset;
}

void rank_model_take_part(const rank_model_config *config, int index, const float *whole,
                          float *part)
{
    rank_tensor_take_part(config, index, whole + whole_offset(config, index), part);
}

void rank_model_put_part(const rank_model_config *config, int index, const float *part,
                         float *whole)
{
    rank_tensor_put_part(config, index, part, whole + whole_offset(config, index));
}
