/* Writes model parameters to a safetensors file, and reads them back. Called by hf_directory.c and
 * bench/. */
#include "base/safetensors.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/file.h"
#include "checkpoint/fused.h"
#include "checkpoint/match.h"
#include "checkpoint/weights.h"
#include "checkpoint/widen.h"
#include "model/family.h"
#include "rank/checkpoint.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "float32 arrays are written as they lie in memory");

enum {
    NAME_BYTES = 2 * RANK_TENSOR_NAME_BYTES,
    ROUNDED_AT_ONCE = 4096,
};

/* Adds one tensor's entry; false when out of memory. */
static bool add_entry(json_t *header, const rank_tensor *tensor, const char *prefix, rank_type type)
{
    char name[NAME_BYTES];
    (void)snprintf(name, sizeof name, "%s%s", prefix, tensor->name);
    json_t *shape = json_array();
    for (int i = 0; i < tensor->dims; i++) {
        if (json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i])) != 0) {
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
    for (int i = 0; header != NULL && made && i < count;) {
        rank_tensor tensor;
        i = rank_fused_next(config, i, &tensor);
        made = add_entry(header, &tensor, prefix, type);
    }
    if (header != NULL && made) {
        text = json_dumps(header, JSON_COMPACT | JSON_PRESERVE_ORDER);
    }
    json_decref(header);
    return text;
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
    for (int i = 0; status == BASE_OK && i < rank_model_tensor_count(config);) {
        rank_tensor tensor;
        i = rank_fused_next(config, i, &tensor);
        status = put_floats(writer, params + tensor.offset, tensor.count, type, reterr);
    }
    if (status == BASE_OK) {
        status = base_file_writer_commit(writer, reterr);
    } else {
        base_file_writer_abandon(writer);
    }
    free(header);
    return status;
}

static base_status take_tensors(const rank_weights *weights, const rank_model_config *config,
                                float *params, base_error *reterr)
{
    base_status status = BASE_OK;
    for (int i = 0; status == BASE_OK && i < rank_model_tensor_count(config); i++) {
        rank_tensor wanted;
        rank_model_tensor(config, i, &wanted);
        const base_safetensor *found = rank_tensors_find(&weights->all, config->family, &wanted);
        BASE_ASSERT(found != NULL); /* rank_weights_open has checked */
        status = rank_weights_read(weights, found, 0, found->count, params + wanted.offset, reterr);
    }
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
