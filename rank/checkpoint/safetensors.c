/* Model parameters as a safetensors file, and back. */
#include "base/safetensors.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "rank/checkpoint.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "float32 arrays are written as they lie in memory");

enum { NAME_BYTES = 2 * RANK_TENSOR_NAME_BYTES };

/* Adds one tensor's entry; false when out of memory. */
static bool add_entry(json_t *header, const rank_tensor *tensor, const char *prefix)
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
    const json_int_t begin = (json_int_t)(tensor->offset * sizeof(float));
    const json_int_t end = begin + (json_int_t)(tensor->count * sizeof(float));
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape,
                              "data_offsets", begin, end);
    return entry != NULL && json_object_set_new(header, name, entry) == 0;
}

/* The header's JSON text, malloc'ed; NULL when out of memory. Tensors stand in layout order. */
static char *make_header(const rank_model_config *config, const char *prefix)
{
    bool made = true;
    char *text = NULL;
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    const int count = rank_model_tensor_count(config);
    for (int i = 0; header != NULL && made && i < count; i++) {
        rank_tensor tensor;
        rank_model_tensor(config, i, &tensor);
        made = add_entry(header, &tensor, prefix);
    }
    if (header != NULL && made) {
        text = json_dumps(header, JSON_COMPACT | JSON_PRESERVE_ORDER);
    }
    json_decref(header);
    return text;
}

base_status rank_safetensors_write(const char *path, const rank_model_config *config,
                                   const float *params, const char *prefix, base_error *reterr)
{
    static const char SPACES[BASE_SAFETENSORS_ALIGN_BYTES + 1] = "        ";
    base_file_writer *writer = NULL;
    uint8_t length[sizeof(uint64_t)];
    char *header = make_header(config, prefix);
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
        {params, rank_model_param_count(config) * sizeof(float)},
    };
    for (size_t i = 0; status == BASE_OK && i < sizeof parts / sizeof parts[0]; i++) {
        status = base_file_writer_put(writer, parts[i].data, parts[i].size_bytes, reterr);
    }
    if (status == BASE_OK) {
        status = base_file_writer_commit(writer, reterr);
    } else {
        base_file_writer_abandon(writer);
    }
    free(header);
    return status;
}

static const base_safetensor *find_tensor(const base_safetensors *file, const char *name)
{
    char prefixed[NAME_BYTES];
    const base_safetensor *found = base_safetensors_find(file, name);
    if (found == NULL) {
        (void)snprintf(prefixed, sizeof prefixed, "transformer.%s", name);
        found = base_safetensors_find(file, prefixed);
    }
    return found;
}

/* The file's tensor for one of the model's, with the type and shape the model wants. */
static base_status match_tensor(const base_safetensors *file, const rank_tensor *wanted,
                                const base_safetensor **found, base_error *reterr)
{
    *found = find_tensor(file, wanted->name);
    if (*found == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "no tensor %s in it", wanted->name);
    }
    if (strcmp((*found)->dtype, "F32") != 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "tensor %s is %s, not F32", wanted->name,
                         (*found)->dtype);
    }
    bool same = (*found)->dims == wanted->dims;
    for (int i = 0; same && i < wanted->dims; i++) {
        same = (*found)->shape[i] == wanted->shape[i];
    }
    if (!same || (*found)->count != wanted->count) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "tensor %s has another shape than the model's configuration says",
                         wanted->name);
    }
    return BASE_OK;
}

/* Checks every tensor first, then copies. */
static base_status take_tensors(const base_safetensors *file, const rank_model_config *config,
                                float *params, base_error *reterr)
{
    const int count = rank_model_tensor_count(config);
    if (file->count != (size_t)count) {
        return base_fail(reterr, BASE_ERR_INVALID, "%zu tensors in it, the model has %d",
                         file->count, count);
    }
    for (int copying = 0; copying < 2; copying++) {
        for (int i = 0; i < count; i++) {
            rank_tensor wanted;
            const base_safetensor *found = NULL;
            rank_model_tensor(config, i, &wanted);
            const base_status status = match_tensor(file, &wanted, &found, reterr);
            if (status != BASE_OK) {
                return status;
            }
            if (copying) {
                memcpy(params + wanted.offset, file->data + found->offset_bytes, found->size_bytes);
            }
        }
    }
    return BASE_OK;
}

base_status rank_safetensors_read(const char *path, const rank_model_config *config, float *params,
                                  base_error *reterr)
{
    void *bytes = NULL;
    size_t size_bytes = 0;
    size_t size_bytes_max = 0;
    base_safetensors file;
    if (!base_mul_size(rank_model_param_count(config), sizeof(float), &size_bytes_max) ||
        !base_add_size(size_bytes_max, sizeof(uint64_t) + RANK_SAFETENSORS_HEADER_BYTES_MAX,
                       &size_bytes_max)) {
        return base_fail(reterr, BASE_ERR_LIMIT, "the model is too large to read %s", path);
    }
    base_status status = base_file_read(path, size_bytes_max, &bytes, &size_bytes, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status =
        base_safetensors_parse(bytes, size_bytes, RANK_SAFETENSORS_HEADER_BYTES_MAX, &file, reterr);
    if (status == BASE_OK) {
        status = take_tensors(&file, config, params, reterr);
        base_safetensors_release(&file);
    }
    free(bytes);
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "%s", path);
}
