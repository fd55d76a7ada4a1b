/* Writes model parameters to a safetensors file, and reads them back. Called by hf_directory.c and
 * bench/. */
#include "base/safetensors.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "checkpoint/match.h"
#include "checkpoint/weights.h"
#include "checkpoint/widen.h"
#include "model/family.h"
#include "model/share_out.h"
#include "rank/checkpoint.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "float32 arrays are written as they lie in memory");

enum {
    NAME_BYTES = 2 * RANK_TENSOR_NAME_BYTES,
    ROUNDED_AT_ONCE = 4096,
    TURNED_ROWS = 32,
    TURNED_OF_THREAD = 1 << 19, /* elements that a thread transposes at least */
};

/* Adds one tensor's entry; false when out of memory. */
static bool add_entry(json_t *header, const rank_tensor *tensor, const char *prefix, rank_type type)
{
    char name[NAME_BYTES];
    (void)snprintf(name, sizeof name, "%s%s", prefix, tensor->name);
    json_t *shape = json_array();
    for (int i = 0; i < tensor->dims; i++) {
        const size_t extent = tensor->shape[tensor->transposed ? tensor->dims - 1 - i : i];
        if (json_array_append_new(shape, json_integer((json_int_t)extent)) != 0) {
            json_decref(shape);
            return false;
        }
    }
    const json_int_t begin = (json_int_t)(tensor->offset * rank_type_bytes(type));
    const json_int_t end = begin + (json_int_t)(tensor->count * rank_type_bytes(type));
    json_t *entry =
        json_pack("{s:s, s:o, s:[I, I]}", "dtype", type == RANK_BFLOAT16 ? "BF16" : "F32", "shape",
                  shape, "data_offsets", begin, end);
    return entry != NULL && json_object_set_new(header, name, entry) == 0;
}

/* The header's JSON text, malloc'ed; NULL if memory runs out. Tensors are in layout order. */
static char *make_header(const rank_model_config *config, const char *prefix, rank_type type)
{
    bool made = true;
    char *text = NULL;
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    const int count = rank_model_tensor_count(config);
    for (int i = 0; header != NULL && made && i < count; i++) {
        rank_tensor tensor;
        rank_model_tensor(config, i, &tensor);
        made = add_entry(header, &tensor, prefix, type);
    }
    if (header != NULL && made) {
        text = json_dumps(header, JSON_COMPACT | JSON_PRESERVE_ORDER);
    }
    json_decref(header);
    return text;
}

/* A transpose under way. */
typedef struct turning {
    const float *from; /* (rows, columns) */
    size_t rows;
    size_t columns;
    float *to; /* (columns, rows) */
} turning;

/* Columns first … end, TURNED_ROWS rows at a time, whose cache lines serve several columns. */
static void turn_columns(void *user, size_t first, size_t end)
{
    const turning *of = user;
    for (size_t row = 0; row < of->rows; row += TURNED_ROWS) {
        const size_t last = row + TURNED_ROWS < of->rows ? row + TURNED_ROWS : of->rows;
        for (size_t j = first; j < end; j++) {
            for (size_t i = row; i < last; i++) {
                of->to[j * of->rows + i] = of->from[i * of->columns + j];
            }
        }
    }
}

/* to (columns, rows) = the transpose of from (rows, columns). */
static void transpose(const float *from, size_t rows, size_t columns, float *to)
{
    turning of = {.from = from, .rows = rows, .columns = columns, .to = to};
    rank_share_out(columns, TURNED_OF_THREAD / (rows + 1) + 1, turn_columns, &of);
}

static base_status put_floats(base_file_writer *writer, const float *from, size_t count,
                              rank_type type, base_error *reterr)
{
    if (type == RANK_FLOAT32) {
        return base_file_writer_put(writer, from, count * sizeof *from, reterr);
    }
    rank_bfloat16 part[ROUNDED_AT_ONCE];
    base_status status = BASE_OK;
    for (size_t i = 0; status == BASE_OK && i < count; i += ROUNDED_AT_ONCE) {
        const size_t some = count - i < ROUNDED_AT_ONCE ? count - i : ROUNDED_AT_ONCE;
        rank_narrow(from + i, some, part);
        status = base_file_writer_put(writer, part, some * sizeof *part, reterr);
    }
    return status;
}

static base_status put_tensor(base_file_writer *writer, const rank_tensor *tensor,
                              const float *params, rank_type type, base_error *reterr)
{
    const float *from = params + tensor->offset;
    if (!tensor->transposed) {
        return put_floats(writer, from, tensor->count, type, reterr);
    }
    float *turned = malloc(tensor->count * sizeof *turned);
    if (turned == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to write tensor %s", tensor->name);
    }
    transpose(from, tensor->shape[0], tensor->shape[1], turned);
    const base_status status = put_floats(writer, turned, tensor->count, type, reterr);
    free(turned);
    return status;
}

base_status rank_safetensors_write(const char *path, const rank_model_config *config,
                                   const float *params, const char *prefix, rank_type type,
                                   base_error *reterr)
{
    static const char SPACES[BASE_SAFETENSORS_ALIGN_BYTES + 1] = "        ";
    base_file_writer *writer = NULL;
    uint8_t length[sizeof(uint64_t)];
    char *header = make_header(config, prefix, type);
    if (header == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to write %s", path);
    }
    const size_t text_bytes = strlen(header);
    const size_t padding_bytes = (0 - text_bytes) % BASE_SAFETENSORS_ALIGN_BYTES;
    base_writer cursor = base_writer_make(length, sizeof length);
    base_write_u64(&cursor, text_bytes + padding_bytes);

    base_status status = base_file_writer_open(path, &writer, reterr);
    const struct {
        const void *data;
        size_t size_bytes;
    } parts[] = {
        {length, sizeof length},
        {header, text_bytes},
        {SPACES, padding_bytes},
    };
    for (size_t i = 0; status == BASE_OK && i < sizeof parts / sizeof parts[0]; i++) {
        status = base_file_writer_put(writer, parts[i].data, parts[i].size_bytes, reterr);
    }
    for (int i = 0; status == BASE_OK && i < rank_model_tensor_count(config); i++) {
        rank_tensor tensor;
        rank_model_tensor(config, i, &tensor);
        status = put_tensor(writer, &tensor, params, type, reterr);
    }
    if (status == BASE_OK) {
        status = base_file_writer_commit(writer, reterr);
    } else {
        base_file_writer_abandon(writer);
    }
    free(header);
    return status;
}

/* Transposes a tensor that the file has transposed, through `scratch`. */
static void turn_tensor(const rank_tensor *tensor, float *params, float *scratch)
{
    float *at = params + tensor->offset;
    memcpy(scratch, at, tensor->count * sizeof *at);
    transpose(scratch, tensor->shape[1], tensor->shape[0], at);
}

static size_t transposed_count_max(const rank_model_config *config)
{
    size_t most = 0;
    for (int i = 0; i < rank_model_tensor_count(config); i++) {
        rank_tensor tensor;
        rank_model_tensor(config, i, &tensor);
        most = tensor.transposed && tensor.count > most ? tensor.count : most;
    }
    return most;
}

/* A tensor that is optional and not in the checkpoint is zero. */
static base_status take_tensors(const rank_weights *weights, const rank_model_config *config,
                                float *params, base_error *reterr)
{
    float *scratch = malloc((transposed_count_max(config) + 1) * sizeof *scratch);
    base_status status =
        scratch != NULL ? BASE_OK
                        : base_fail(reterr, BASE_ERR_MEMORY, "no memory to turn tensors round");
    for (int i = 0; status == BASE_OK && i < rank_model_tensor_count(config); i++) {
        rank_tensor wanted;
        rank_model_tensor(config, i, &wanted);
        float *to = params + wanted.offset;
        const base_safetensor *found = rank_tensors_find(&weights->all, config->family, &wanted);
        if (found == NULL) {
            memset(to, 0, wanted.count * sizeof *to);
            continue;
        }
        status = rank_weights_read(weights, found, 0, found->count, to, reterr);
        if (status == BASE_OK && wanted.transposed) {
            turn_tensor(&wanted, params, scratch);
        }
    }
    free(scratch);
    return status;
}

static base_status read_file(const char *path, const rank_model_config *config, bool takes_any,
                             float *params, base_error *reterr)
{
    rank_weights weights;
    base_status status = rank_weights_open(&weights, path, config, RANK_TIED_CONTENTS, reterr);
    if (status == BASE_OK) {
        weights.takes_any = takes_any;
        status = take_tensors(&weights, config, params, reterr);
        rank_weights_close(&weights);
        status = status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "%s", path);
    }
    return status;
}

base_status rank_safetensors_read(const char *path, const rank_model_config *config, float *params,
                                  base_error *reterr)
{
    return read_file(path, config, false, params, reterr);
}

base_status rank_safetensors_read_saved(const char *path, const rank_model_config *config,
                                        float *params, base_error *reterr)
{
    return read_file(path, config, true, params, reterr);
}
