/* Any bytes are an index of safetensors files or refused; one that is read names files beside it, by
 * rising name, and has the tensors that it says of each, and no others. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/safetensors_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static base_status check(const base_safetensors_index *index,
                         const base_safetensors_index_file *file, base_safetensor *tensors,
                         size_t count)
{
    const base_safetensors parsed = {.count = count, .tensors = tensors};
    return base_safetensors_index_check(index, file, &parsed, NULL);
}

/* Checks the file against the tensors that the map says; returns their number. */
static size_t check_file(const base_safetensors_index *index,
                         const base_safetensors_index_file *file, json_t *map)
{
    const char *name = NULL;
    json_t *said = NULL;
    size_t count = 0;
    base_safetensor *tensors = calloc(json_object_size(map) + 1, sizeof *tensors);
    BASE_ASSERT(tensors != NULL);
    json_object_foreach(map, name, said)
    {
        if (strcmp(json_string_value(said), file->name) == 0) {
            tensors[count++].name = name;
        }
    }
    BASE_ASSERT(check(index, file, tensors, count) == BASE_OK);
    BASE_ASSERT(check(index, file, tensors, count - 1) == BASE_ERR_INVALID);
    tensors[count].name = "";
    BASE_ASSERT(json_object_get(map, "") != NULL ||
                check(index, file, tensors, count + 1) == BASE_ERR_INVALID);
    free(tensors);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    base_safetensors_index index;
    base_error error = {.message = ""};
    const base_status status = base_safetensors_index_parse(data, size_bytes, &index, &error);
    BASE_ASSERT((status == BASE_OK) == (error.message[0] == '\0'));
    BASE_ASSERT((status == BASE_OK) == (index.file_count > 0));
    if (status != BASE_OK) {
        return 0;
    }
    json_t *root = json_loadb((const char *)data, size_bytes, 0, NULL);
    json_t *map = json_object_get(root, "weight_map");
    size_t count = 0;
    for (size_t i = 0; i < index.file_count; i++) {
        const char *name = index.files[i].name;
        BASE_ASSERT(name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, "..") != 0);
        BASE_ASSERT(i == 0 || strcmp(index.files[i - 1].name, name) < 0);
        count += check_file(&index, &index.files[i], map);
    }
    BASE_ASSERT(count == json_object_size(map));
    json_decref(root);
    base_safetensors_index_close(&index);
    return 0;
}
