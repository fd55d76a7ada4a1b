/* Reads a JSON file. Called for configurations of checkpoints and for records. */
#include "base/json_file.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/file.h"

static base_status read_file(const char *path, size_t size_bytes_max, size_t flags, json_t **json,
                             base_error *reterr)
{
    void *text = NULL;
    size_t text_bytes = 0;
    json_error_t flaw;
    *json = NULL;
    const base_status status =
        base_file_read_regular(path, size_bytes_max, &text, &text_bytes, reterr);
    if (status != BASE_OK) {
        return status;
    }
    *json = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES | flags, &flaw);
    free(text);
    return *json != NULL
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "%s: line %d: %s", path, flaw.line, flaw.text);
}

base_status base_json_read(const char *path, size_t size_bytes_max, json_t **json,
                           base_error *reterr)
{
    return read_file(path, size_bytes_max, 0, json, reterr);
}

base_status base_json_read_reals(const char *path, size_t size_bytes_max, json_t **json,
                                 base_error *reterr)
{
    return read_file(path, size_bytes_max, JSON_DECODE_INT_AS_REAL, json, reterr);
}
