/* Matches a file's tensors with a model's. Called by safetensors.c and shards_file.c. */
#include "checkpoint/match.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/widen.h"
#include "model/family.h"

enum { NAME_BYTES = 2 * RANK_TENSOR_NAME_BYTES };

static const base_safetensor *find_name(const base_safetensors *file, const char *prefix,
                                        const char *name)
{
    char prefixed[NAME_BYTES];
    const base_safetensor *found = base_safetensors_find(file, name);
    if (found == NULL) {
        (void)snprintf(prefixed, sizeof prefixed, "%s%s", prefix, name);
        found = base_safetensors_find(file, prefixed);
    }
    return found;
}

const base_safetensor *rank_tensors_find(const base_safetensors *file, const rank_family *family,
                                         const rank_tensor *wanted)
{
    const base_safetensor *found = find_name(file, family->file_prefix, wanted->name);
    return found == NULL && wanted->tied != NULL
               ? find_name(file, family->file_prefix, wanted->tied)
               : found;
}

/* Checks that a tensor has the type and shape that the model needs. */
static base_status check_tensor(const base_safetensor *found, const rank_tensor *wanted,
                                base_error *reterr)
{
    if (!rank_widen_knows(found)) {
        return base_fail(reterr, BASE_ERR_INVALID, "tensor %s is %s, not F32, BF16 or F16",
                         wanted->name, found->dtype);
    }
    bool same = found->dims == wanted->dims;
    for (int i = 0; same && i < wanted->dims; i++) {
        same = found->shape[i] == wanted->shape[i];
    }
    if (!same || found->count != wanted->count) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "tensor %s has another shape than the model's configuration says",
                         wanted->name);
    }
    return BASE_OK;
}

static bool is_ignored(const rank_family *family, const char *name)
{
    const size_t prefix = strlen(family->file_prefix);
    const char *own = strncmp(name, family->file_prefix, prefix) == 0 ? name + prefix : name;
    for (const char *const *pattern = family->ignored; *pattern != NULL; pattern++) {
        if (fnmatch(*pattern, own, 0) == 0) {
            return true;
        }
    }
    return false;
}

/* Checks that a tied name has the same content as the tensor it is tied to. Counts it if the file
 * has it. */
static base_status check_tied(const base_safetensors *file, const rank_family *family,
                              const rank_tensor *wanted, const rank_weights *contents,
                              size_t *known, base_error *reterr)
{
    const base_safetensor *found = rank_tensors_find(file, family, wanted);
    const base_safetensor *tied =
        wanted->tied != NULL ? find_name(file, family->file_prefix, wanted->tied) : NULL;
    if (tied == NULL || tied == found) {
        return BASE_OK;
    }
    (*known)++;
    bool same = tied->size_bytes == found->size_bytes && strcmp(tied->dtype, found->dtype) == 0;
    if (same && contents != NULL) {
        const base_status status = rank_weights_same(contents, found, tied, &same, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    return same ? BASE_OK
                : base_fail(reterr, BASE_ERR_UNSUPPORTED, "tensors %s and %s must hold the same",
                            wanted->name, wanted->tied);
}

static base_status wrong_count(const base_safetensors *file, const rank_model_config *config,
                               base_error *reterr)
{
    return base_fail(reterr, BASE_ERR_INVALID, "%zu tensors in it, the model has %d", file->count,
                     rank_model_tensor_count(config));
}

base_status rank_tensors_check(const base_safetensors *file, const rank_model_config *config,
                               const rank_weights *contents, base_error *reterr)
{
    const rank_family *family = config->family;
    const int count = rank_model_tensor_count(config);
    size_t known = 0;
    for (size_t i = 0; i < file->count; i++) {
        known += is_ignored(family, file->tensors[i].name);
    }
    for (int i = 0; i < count; i++) {
        rank_tensor wanted;
        rank_model_tensor(config, i, &wanted);
        const base_safetensor *found = rank_tensors_find(file, family, &wanted);
        if (found == NULL) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "no tensor %s in it: it has %zu, the model %d", wanted.name,
                             file->count, count);
        }
        known++;
        base_status status = check_tensor(found, &wanted, reterr);
        if (status == BASE_OK) {
            status = check_tied(file, family, &wanted, contents, &known, reterr);
        }
        if (status != BASE_OK) {
            return status;
        }
    }
    return known == file->count ? BASE_OK : wrong_count(file, config, reterr);
}
