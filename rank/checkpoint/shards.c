/* Reads this rank's part of each tensor and packs it. Called when an engine is made. */
#include "checkpoint/shards.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "checkpoint/shards_beside.h"
#include "model/decoder.h"

enum {
    PARTS_MAX = 4,    /* pieces of one tensor's axis that are cut in the same way */
    STAGED_ROWS = 64, /* rows of the file that are packed at a time */
    STAGED_COLUMNS = RANK_PANEL,
};

struct rank_shards {
    rank_device device;
    int count;
    size_t *offset; /* (count), ascending: offsets in the whole model's parameters */
    float **at;     /* (count): this rank's part */
    size_t elements;
    size_t uncut_elements; /* of tensors that are not cut */
    size_t size_bytes;
    rank_shards_beside beside;
};

/* This rank's elements along one axis: some ranges, one after the other. */
typedef struct axis {
    rank_cut_range range[PARTS_MAX];
    int parts;
    size_t count;  /* of all, padding included */
    size_t extent; /* of the whole axis; elements beyond it are padding, and zero */
} axis;

/* One tensor that is being read. Rows and columns are the file's. */
typedef struct transfer {
    const rank_shards_options *options;
    const rank_tensor_source *source;
    int index;
    rank_tensor tensor;
    axis rows;
    axis columns;
    float *staging; /* STAGED_ROWS rows, in RANK_MEMORY_HOST */
} transfer;

static axis whole(size_t extent)
{
    return (axis){.range = {{0, extent}}, .parts = 1, .count = extent, .extent = extent};
}

static axis cut_axis(const rank_tensor *tensor, const rank_tp *tp)
{
    const rank_cut *cut = &tensor->cut;
    const size_t extent = tensor->shape[cut->axis];
    if (cut->kind == RANK_CUT_VOCAB) {
        return (axis){.range = {{(size_t)tp->vocab_first, (size_t)tp->vocab_count}},
                      .parts = 1,
                      .count = (size_t)tp->vocab_count,
                      .extent = extent};
    }
    axis made = {.parts = cut->parts, .extent = extent};
    BASE_ASSERT(cut->parts <= PARTS_MAX);
    for (int part = 0; part < cut->parts; part++) {
        made.range[part] = rank_cut_range_make(cut, extent, part, tp->rank, tp->ranks);
        made.count += made.range[part].count;
    }
    return made;
}

static void find_axes(transfer *t)
{
    const rank_tensor *tensor = &t->tensor;
    const bool cut = tensor->cut.kind != RANK_CUT_NONE;
    axis axes[RANK_TENSOR_DIMS_MAX] = {whole(tensor->shape[0]),
                                       whole(tensor->dims > 1 ? tensor->shape[1] : 1)};
    if (cut) {
        axes[tensor->cut.axis] = cut_axis(tensor, t->options->tp);
    }
    const bool vector = tensor->dims == 1; /* one row */
    t->rows = axes[vector ? 1 : 0];
    t->columns = axes[vector ? 0 : 1];
}

/* Whether a product sums over the file's rows. */
static bool rows_are_depth(const rank_tensor *tensor)
{
    return tensor->pack == RANK_TENSOR_PACKED;
}

/* The index in the whole axis of element `i` of this rank's part; SIZE_MAX: padding. */
static size_t element_at(const axis *along, size_t i)
{
    int part = 0;
    while (i >= along->range[part].count) {
        i -= along->range[part].count;
        part++;
    }
    const size_t element = along->range[part].first + i;
    return element < along->extent ? element : SIZE_MAX;
}

/* Reads this rank's columns of one row of the file. */
static base_status read_row(const transfer *t, size_t row, float *to, base_error *reterr)
{
    base_status status = BASE_OK;
    for (int part = 0; status == BASE_OK && part < t->columns.parts; part++) {
        const rank_cut_range range = t->columns.range[part];
        const size_t there = range.first >= t->columns.extent ? 0
                             : range.first + range.count > t->columns.extent
                                 ? t->columns.extent - range.first
                                 : range.count;
        if (row == SIZE_MAX || there < range.count) {
            memset(to, 0, range.count * sizeof *to);
        }
        if (row != SIZE_MAX && there > 0) {
            const rank_row_part wanted = {
                .tensor = t->index, .row = row, .column = range.first, .count = there};
            status = t->source->read(t->source->user, &wanted, to, reterr);
        }
        to += range.count;
    }
    return status;
}

/* How many of this rank's rows from `first` on, at most `count`, are wanted whole and follow each
 * other in the file, so that one read gets them all. */
static size_t rows_in_one(const transfer *t, size_t first, size_t count)
{
    const axis *columns = &t->columns;
    size_t rows = 1;
    if (columns->parts != 1 || columns->range[0].first != 0 || columns->count != columns->extent) {
        return 1;
    }
    const size_t element = element_at(&t->rows, first);
    while (element != SIZE_MAX && rows < count &&
           element_at(&t->rows, first + rows) == element + rows) {
        rows++;
    }
    return rows;
}

/* Reads rows of this rank's part, from `first` on, into the staging memory. */
static base_status read_rows(const transfer *t, size_t first, size_t count, base_error *reterr)
{
    const rank_shards_options *options = t->options;
    base_status status = BASE_OK;
    for (size_t i = 0; status == BASE_OK && i < count;) {
        const size_t rows = rows_in_one(t, first + i, count - i);
        const size_t element = element_at(&t->rows, first + i);
        float *to = t->staging + i * t->columns.count;
        status = options->on_rows != NULL ? options->on_rows(options->user, reterr) : BASE_OK;
        if (status != BASE_OK) {
            return status;
        }
        if (rows > 1) {
            const rank_row_part wanted = {
                .tensor = t->index, .row = element, .count = rows * t->columns.count};
            status = t->source->read(t->source->user, &wanted, to, reterr);
        } else {
            status = read_row(t, element, to, reterr);
        }
        i += rows;
    }
    return status;
}

/* Whether this rank's part is held as the file has it: a backend that wants plain weights gets a
 * matrix (columns, depth), and that is what the file has where its rows are not the depth. */
static bool is_plain(const transfer *t)
{
    return t->tensor.pack == RANK_TENSOR_PLAIN ||
           (t->options->device->backend->plain_weights && !rows_are_depth(&t->tensor));
}

/* Matrices that products read have the type that is asked for, or that of words; all else is float32. */
static rank_type type_of(const transfer *t)
{
    return t->tensor.pack == RANK_TENSOR_PLAIN    ? RANK_FLOAT32
           : t->tensor.cut.kind == RANK_CUT_VOCAB ? rank_words_type(t->options->type)
                                                  : t->options->type;
}

/* How many leaves the products with this rank's part have, if its form depends on that: one, unless their sum is
 * cut. */
static int leaves_of(const transfer *t)
{
    const int depth_axis = t->tensor.pack == RANK_TENSOR_PACKED ? 0 : 1;
    return rank_in_blocks(type_of(t)) && t->tensor.cut.kind != RANK_CUT_NONE &&
                   t->tensor.cut.axis == depth_axis
               ? rank_decoder_describe(t->options->config, t->options->tp->ranks).leaves
               : 1;
}

static size_t depth_of(const transfer *t)
{
    return rows_are_depth(&t->tensor) ? t->rows.count : t->columns.count;
}

/* Where row `row` of the matrix stands in a panel: in a block its first one. */
static size_t packed_row(const transfer *t, size_t row)
{
    const size_t leaf = depth_of(t) / (size_t)leaves_of(t);
    const rank_type type = type_of(t);
    return row / leaf * rank_pack_depth(type, leaf, 1) + rank_pack_depth(type, row % leaf, 1);
}

/* Packs staged rows of the file, from `row` on: rows of one leaf, or all of some panels. */
static void pack_staged(const transfer *t, size_t row, size_t rows, char *at)
{
    const rank_device *device = t->options->device;
    const size_t element_bytes = rank_type_bytes(type_of(t));
    rank_pack args = {.depth = rows,
                      .columns = t->columns.count,
                      .from = t->staging,
                      .from_row = t->columns.count,
                      .to_type = type_of(t)};
    if (device->backend->plain_weights) { /* see is_plain: the depth is the file's rows */
        args.to = at + row * element_bytes;
        args.to_row = t->rows.count;
        device->backend->pack(device->queue, &args);
        return;
    }
    args.to_panel = rank_pack_depth(args.to_type, depth_of(t), leaves_of(t)) * RANK_PANEL;
    if (rows_are_depth(&t->tensor)) {
        args.to = at + packed_row(t, row) * RANK_PANEL * element_bytes;
        device->backend->pack(device->queue, &args);
        return;
    }
    args.depth = t->columns.count / (size_t)leaves_of(t);
    args.columns = rows;
    args.transposed = true;
    at += row / RANK_PANEL * args.to_panel * element_bytes;
    for (size_t k = 0; k < t->columns.count; k += args.depth) {
        args.from = t->staging + k;
        args.to = at + packed_row(t, k) * RANK_PANEL * element_bytes;
        device->backend->pack(device->queue, &args);
    }
}

/* Reads a few rows of the file at a time, and packs them. */
static base_status fill_packed(const transfer *t, char *at, base_error *reterr)
{
    const rank_device *device = t->options->device;
    const bool depth = rows_are_depth(&t->tensor);
    const size_t at_once = depth ? STAGED_ROWS : STAGED_COLUMNS;
    const size_t leaf = depth ? t->rows.count / (size_t)leaves_of(t) : t->rows.count;
    base_status status = BASE_OK;
    for (size_t row = 0, rows = 0; status == BASE_OK && row < t->rows.count; row += rows) {
        const size_t left = leaf - row % leaf;
        rows = left < at_once ? left : at_once;
        status = read_rows(t, row, rows, reterr);
        if (status != BASE_OK) {
            return status;
        }
        pack_staged(t, row, rows, at);
        status =
            device->backend->sync(device->queue, reterr); /* the staging memory can be used again */
    }
    return status;
}

/* Rows of the staging memory, as they are or rounded. */
static void put_rows(const transfer *t, size_t row, size_t rows, float *at)
{
    const rank_device *device = t->options->device;
    const size_t count = rows * t->columns.count;
    char *to = (char *)at + row * t->columns.count * rank_type_bytes(type_of(t));
    if (type_of(t) == RANK_BFLOAT16) {
        device->backend->cast(device->queue, &(rank_cast){count, t->staging, to});
    } else {
        device->backend->copy(device->queue, to, t->staging, count * sizeof *at);
    }
}

static base_status fill_plain(const transfer *t, float *at, base_error *reterr)
{
    const rank_device *device = t->options->device;
    base_status status = BASE_OK;
    for (size_t row = 0; status == BASE_OK && row < t->rows.count; row += STAGED_ROWS) {
        const size_t left = t->rows.count - row;
        const size_t rows = left < STAGED_ROWS ? left : STAGED_ROWS;
        status = read_rows(t, row, rows, reterr);
        if (status == BASE_OK) {
            put_rows(t, row, rows, at);
            status = device->backend->sync(device->queue, reterr);
        }
    }
    return status;
}

/* Elements of this rank's part, with the padding of panels. */
static size_t packed_count(const transfer *t)
{
    if (is_plain(t) || t->options->device->backend->plain_weights) {
        return t->rows.count * t->columns.count;
    }
    const size_t columns = rows_are_depth(&t->tensor) ? t->columns.count : t->rows.count;
    return rank_pack_count(rank_pack_depth(type_of(t), depth_of(t), leaves_of(t)), columns);
}

/* How many elements of an axis are not padding. */
static size_t count_there(const axis *along)
{
    size_t there = 0;
    for (int part = 0; part < along->parts; part++) {
        const rank_cut_range range = along->range[part];
        const size_t end = range.first + range.count;
        const size_t stop = end < along->extent ? end : along->extent;
        there += stop > range.first ? stop - range.first : 0;
    }
    return there;
}

static base_status take_tensor(rank_shards *shards, transfer *t, base_error *reterr)
{
    const rank_device *device = t->options->device;
    void *memory = NULL;
    find_axes(t);
    const size_t size_bytes = packed_count(t) * rank_type_bytes(type_of(t));
    shards->offset[t->index] = t->tensor.offset;
    base_status status =
        device->backend->alloc(device->queue, RANK_MEMORY_WEIGHTS, size_bytes, &memory, reterr);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "tensor %s", t->tensor.name);
    }
    shards->at[t->index] = memory;
    shards->size_bytes += size_bytes;
    const size_t elements = count_there(&t->rows) * count_there(&t->columns);
    shards->elements += elements;
    shards->uncut_elements += t->tensor.cut.kind == RANK_CUT_NONE ? elements : 0;
    return is_plain(t) ? fill_plain(t, memory, reterr) : fill_packed(t, memory, reterr);
}

size_t rank_shards_plan(const rank_shards_options *options)
{
    size_t size_bytes = 0;
    for (int i = 0; i < rank_model_tensor_count(options->config); i++) {
        transfer t = {.options = options};
        rank_model_tensor(options->config, i, &t.tensor);
        find_axes(&t);
        size_bytes += packed_count(&t) * rank_type_bytes(type_of(&t));
    }
    return size_bytes + rank_shards_beside_plan(options);
}

/* Room for the longest rows that are staged at a time. */
static size_t staging_floats(const rank_shards_options *options)
{
    size_t most = 0;
    for (int i = 0; i < rank_model_tensor_count(options->config); i++) {
        transfer t = {.options = options};
        rank_model_tensor(options->config, i, &t.tensor);
        find_axes(&t);
        const size_t rows = t.rows.count < STAGED_ROWS ? t.rows.count : STAGED_ROWS;
        most = rows * t.columns.count > most ? rows * t.columns.count : most;
    }
    return most;
}

static base_status fill(rank_shards *shards, const rank_shards_options *options,
                        const rank_tensor_source *source, base_error *reterr)
{
    void *staging = NULL;
    const rank_device *device = options->device;
    base_status status = device->backend->alloc(
        device->queue, RANK_MEMORY_HOST, staging_floats(options) * sizeof(float), &staging, reterr);
    for (int i = 0; status == BASE_OK && i < shards->count; i++) {
        transfer t = {.options = options, .source = source, .index = i, .staging = staging};
        rank_model_tensor(options->config, i, &t.tensor);
        status = take_tensor(shards, &t, reterr);
    }
    device->backend->release(device->queue, staging);
    return status;
}

base_status rank_shards_create(const rank_shards_options *options, const rank_tensor_source *source,
                               rank_shards **shards, base_error *reterr)
{
    *shards = NULL;
    base_status status = rank_model_check_world(options->config, options->tp->ranks, reterr);
    if (status != BASE_OK) {
        return status;
    }
    rank_shards *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for weights");
    }
    made->device = *options->device;
    made->count = rank_model_tensor_count(options->config);
    made->offset = calloc((size_t)made->count, sizeof *made->offset);
    made->at = calloc((size_t)made->count, sizeof *made->at);
    status = made->offset != NULL && made->at != NULL
                 ? fill(made, options, source, reterr)
                 : base_fail(reterr, BASE_ERR_MEMORY, "no memory for weights");
    if (status == BASE_OK && rank_shards_are_beside(options)) {
        const rank_hooks own = rank_shards_hooks(made);
        status = rank_shards_beside_make(options, &own, &made->beside, reterr);
    }
    if (status != BASE_OK) {
        rank_shards_destroy(made);
        return status;
    }
    *shards = made;
    return BASE_OK;
}

void rank_shards_destroy(rank_shards *shards)
{
    if (shards == NULL) {
        return;
    }
    for (int i = 0; shards->at != NULL && i < shards->count; i++) {
        shards->device.backend->release(shards->device.queue, shards->at[i]);
    }
    rank_shards_beside_free(&shards->beside);
    free(shards->at);
    free(shards->offset);
    free(shards);
}

/* A tensor is asked for by its offset in the whole model's parameters. */
static const float *need(void *weights, size_t offset, size_t count)
{
    const rank_shards *shards = weights;
    int low = 0;
    int high = shards->count - 1;
    (void)count;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (shards->offset[middle] <= offset) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    BASE_ASSERT(shards->offset[low] == offset);
    return shards->at[low];
}

rank_hooks rank_shards_hooks(rank_shards *shards)
{
    return (rank_hooks){.need = need,
                        .weights = shards,
                        .beside = shards->beside.rows,
                        .beside_count = shards->beside.count};
}

static base_status read_flat(void *user, const rank_row_part *part, float *to, base_error *reterr)
{
    const rank_flat_params *flat = user;
    rank_tensor wanted;
    (void)reterr;
    rank_model_tensor(flat->config, part->tensor, &wanted);
    const float *from = flat->params + wanted.offset;
    const size_t columns = wanted.dims > 1 ? wanted.shape[1] : wanted.count;
    memcpy(to, from + part->row * columns + part->column, part->count * sizeof *to);
    return BASE_OK;
}

rank_tensor_source rank_flat_source(rank_flat_params *params)
{
    return (rank_tensor_source){.read = read_flat, .user = params};
}

size_t rank_shards_elements(const rank_shards *shards)
{
    return shards->elements;
}

size_t rank_shards_uncut_elements(const rank_shards *shards)
{
    return shards->uncut_elements;
}

size_t rank_shards_bytes(const rank_shards *shards)
{
    const rank_shards *adapters = shards->beside.adapters;
    return shards->size_bytes + (adapters != NULL ? adapters->size_bytes : 0);
}
