/* Splits matrices that a checkpoint has as one, and joins them. Called by weights.c and safetensors.c. */
#include "checkpoint/fused.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/family.h"

enum { SPLIT = -1 }; /* dims of a matrix whose parts are there */

/* A tensor of the model as a part: its place in a row of the family's table. */
typedef struct part {
    const rank_fused *row; /* NULL: it is none */
    int index;
    int prefix_bytes; /* of the tensor's name before that in the table */
} part;

static const rank_fused *table_of(const rank_model_config *config)
{
    return config->family->fused != NULL ? config->family->fused(config) : NULL;
}

static part find_part(const rank_fused *table, const char *name)
{
    const size_t length = strlen(name);
    for (const rank_fused *row = table; row != NULL && row->whole != NULL; row++) {
        for (int i = 0; i < RANK_FUSED_PARTS_MAX && row->parts[i] != NULL; i++) {
            const size_t own = strlen(row->parts[i]);
            if (length > own && strcmp(name + length - own, row->parts[i]) == 0) {
                return (part){row, i, (int)(length - own)};
            }
        }
    }
    return (part){.row = NULL};
}

/* The matrix that the part is in; NULL: the file has none. */
static base_safetensor *find_whole(const base_safetensors *file, const char *name, part of)
{
    char whole[2 * RANK_TENSOR_NAME_BYTES];
    if (of.row == NULL) {
        return NULL;
    }
    (void)snprintf(whole, sizeof whole, "%.*s%s", of.prefix_bytes, name, of.row->whole);
    const base_safetensor *found = base_safetensors_find(file, whole);
    return found != NULL ? &file->tensors[found - file->tensors] : NULL;
}

/* The part's rows, behind those of the parts before, which are *first elements. */
static base_status take_part(base_safetensor *whole, const rank_tensor *wanted, part of,
                             size_t *first, base_safetensor *made, base_error *reterr)
{
    const bool last = of.index + 1 == RANK_FUSED_PARTS_MAX || of.row->parts[of.index + 1] == NULL;
    const size_t begin = of.index > 0 ? *first : 0;
    const size_t end = begin + wanted->count;
    const bool fits = last ? end == whole->count : end < whole->count;
    if (whole->dims != 2 || whole->shape[1] != wanted->shape[1] || !fits) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "tensor %s has another shape than the model's configuration says",
                         whole->name);
    }
    *made = *whole;
    made->shape[0] = wanted->shape[0];
    made->count = wanted->count;
    made->offset_bytes += begin * made->element_bytes;
    made->size_bytes = made->count * made->element_bytes;
    whole->dims = last ? SPLIT : whole->dims;
    *first = end;
    return BASE_OK;
}

/* Puts the parts in place of what was split. */
static base_status replace(base_safetensors *file, const base_safetensor *parts, size_t part_count,
                           base_error *reterr)
{
    size_t kept = 0;
    for (size_t i = 0; i < file->count; i++) {
        if (file->tensors[i].dims != SPLIT) {
            file->tensors[kept++] = file->tensors[i];
        }
    }
    base_safetensor *all = realloc(file->tensors, (kept + part_count) * sizeof *all);
    file->count = kept;
    free(file->by_name);
    file->by_name = NULL;
    if (all == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %zu tensors", kept + part_count);
    }
    memcpy(all + kept, parts, part_count * sizeof *all);
    file->tensors = all;
    file->count = kept + part_count;
    return base_safetensors_sort(file, reterr);
}

base_status rank_fused_split(base_safetensors *file, const rank_model_config *config, char **names,
                             base_error *reterr)
{
    const rank_fused *table = table_of(config);
    const size_t count = table != NULL ? (size_t)rank_model_tensor_count(config) : 0;
    base_safetensor *parts = calloc(count + 1, sizeof *parts);
    size_t made = 0;
    size_t first = 0;
    base_status status = BASE_OK;
    *names = calloc(count + 1, RANK_TENSOR_NAME_BYTES);
    if (parts == NULL || *names == NULL) {
        status = base_fail(reterr, BASE_ERR_MEMORY, "no memory for %zu tensors", count);
    }
    for (size_t i = 0; status == BASE_OK && i < count; i++) {
        rank_tensor wanted;
        rank_model_tensor(config, (int)i, &wanted);
        const part of = find_part(table, wanted.name);
        base_safetensor *whole = find_whole(file, wanted.name, of);
        if (whole != NULL) {
            char *name = *names + made * RANK_TENSOR_NAME_BYTES;
            status = take_part(whole, &wanted, of, &first, &parts[made], reterr);
            memcpy(name, wanted.name, RANK_TENSOR_NAME_BYTES);
            parts[made++].name = name;
        }
    }
    if (status == BASE_OK && made > 0) {
        status = replace(file, parts, made, reterr);
    }
    free(parts);
    return status;
}

int rank_fused_next(const rank_model_config *config, int index, rank_tensor *tensor)
{
    char name[RANK_TENSOR_NAME_BYTES];
    rank_model_tensor(config, index++, tensor);
    memcpy(name, tensor->name, sizeof name);
    const part of = find_part(table_of(config), name);
    if (of.row == NULL) {
        return index;
    }
    for (int i = 1; i < RANK_FUSED_PARTS_MAX && of.row->parts[i] != NULL; i++) {
        rank_tensor next;
        rank_model_tensor(config, index++, &next);
        tensor->shape[0] += next.shape[0];
        tensor->count += next.count;
    }
    (void)snprintf(tensor->name, sizeof tensor->name, "%.*s%s", of.prefix_bytes, name,
                   of.row->whole);
    return index;
}
