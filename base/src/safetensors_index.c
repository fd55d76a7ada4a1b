/* Reads and checks the index of a checkpoint in several safetensors files. Called to pin, to load and to
 * compare such checkpoints. */
#include "base/safetensors_index.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"

static const char map_key[] = "weight_map";

/* Whether the name is that of a file beside the index. */
static bool is_file_name(const char *name)
{
    return name != NULL && name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0 && strlen(name) <= NAME_MAX && !base_text_has_control(name);
}

static int by_name(const void *left, const void *right)
{
    const base_safetensors_index_file *a = left;
    const base_safetensors_index_file *b = right;
    return strcmp(a->name, b->name);
}

/* Counts one more tensor of the file. */
static base_status add_tensor(base_safetensors_index *index, const char *name, base_error *reterr)
{
    size_t i = 0;
    while (i < index->file_count && strcmp(index->files[i].name, name) != 0) {
        i++;
    }
    if (i == BASE_SAFETENSORS_FILES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "\"weight_map\" names more than %d files",
                         BASE_SAFETENSORS_FILES_MAX);
    }
    index->files[i].name = name;
    index->files[i].tensor_count++;
    index->file_count += i == index->file_count;
    return BASE_OK;
}

/* Lists the files that the map names. */
static base_status read_map(json_t *map, base_safetensors_index *index, base_error *reterr)
{
    const char *tensor = NULL;
    json_t *file = NULL;
    const size_t count = json_object_size(map);
    if (count == 0 || count > BASE_SAFETENSORS_TENSORS_MAX) {
        return base_fail(reterr, count == 0 ? BASE_ERR_INVALID : BASE_ERR_LIMIT,
                         "\"weight_map\" names %zu tensors, not 1 to %d", count,
                         BASE_SAFETENSORS_TENSORS_MAX);
    }
    json_object_foreach(map, tensor, file)
    {
        const char *name = json_string_value(file);
        const base_status status =
            is_file_name(name)
                ? add_tensor(index, name, reterr)
                : base_fail(reterr, BASE_ERR_INVALID,
                            "\"weight_map\" has no name of a file for tensor %.100s", tensor);
        if (status != BASE_OK) {
            return status;
        }
    }
    qsort(index->files, index->file_count, sizeof *index->files, by_name);
    return BASE_OK;
}

base_status base_safetensors_index_parse(const void *text, size_t size_bytes,
                                         base_safetensors_index *index, base_error *reterr)
{
    json_error_t flaw;
    memset(index, 0, sizeof *index);
    if (size_bytes > BASE_SAFETENSORS_INDEX_BYTES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "an index of more than %d bytes",
                         BASE_SAFETENSORS_INDEX_BYTES_MAX);
    }
    json_t *root = json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES, &flaw);
    if (root == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "line %d: %s", flaw.line, flaw.text);
    }
    index->owner = root;
    json_t *map = json_object_get(root, map_key);
    const base_status status = json_is_object(map) ? read_map(map, index, reterr)
                                                   : base_fail(reterr, BASE_ERR_INVALID,
                                                               "no object \"%s\" in it", map_key);
    if (status != BASE_OK) {
        base_safetensors_index_close(index);
    }
    return status;
}

base_status base_safetensors_index_open(const char *path, base_safetensors_index *index,
                                        base_error *reterr)
{
    void *text = NULL;
    size_t size_bytes = 0;
    memset(index, 0, sizeof *index);
    base_status status =
        base_file_read_regular(path, BASE_SAFETENSORS_INDEX_BYTES_MAX, &text, &size_bytes, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = base_safetensors_index_parse(text, size_bytes, index, reterr);
    free(text);
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "%s", path);
}

base_status base_safetensors_index_check(const base_safetensors_index *index,
                                         const base_safetensors_index_file *file,
                                         const base_safetensors *parsed, base_error *reterr)
{
    const json_t *map = json_object_get(index->owner, map_key);
    for (size_t i = 0; i < parsed->count; i++) {
        const char *tensor = parsed->tensors[i].name;
        const char *said = json_string_value(json_object_get(map, tensor));
        if (said == NULL || strcmp(said, file->name) != 0) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "tensor %.100s is in %s, but \"weight_map\" says %s", tensor,
                             file->name, said != NULL ? said : "nothing of it");
        }
    }
    return parsed->count == file->tensor_count
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "\"weight_map\" says that %zu tensors are in %s, which has %zu",
                           file->tensor_count, file->name, parsed->count);
}

void base_safetensors_index_close(base_safetensors_index *index)
{
    json_decref(index->owner);
    memset(index, 0, sizeof *index);
}
