/* Reads the JSON files of a Hugging Face directory. Called by generation.c and hf_directory.c. */
#include "checkpoint/hf_json.h"

#include <jansson.h>

#include "base/json_file.h"
#include "base/limits.h"
#include "base/path.h"

enum { JSON_BYTES_MAX = 1 << 20 };

base_status rank_hf_json_read(const char *directory, const char *name, json_t **object,
                              base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    *object = NULL;
    base_status status = base_path_join(directory, name, path, reterr);
    if (status == BASE_OK) {
        status = base_json_read(path, JSON_BYTES_MAX, object, reterr);
    }
    if (status != BASE_OK || json_is_object(*object)) {
        return status;
    }
    json_decref(*object);
    *object = NULL;
    return base_fail(reterr, BASE_ERR_INVALID, "%s: no JSON object", path);
}
