/* Reads and writes the JSON files of a Hugging Face directory. Called by the other files of this directory. */
#include "checkpoint/hf_json.h"

#include <float.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_file.h"
#include "base/limits.h"
#include "base/path.h"

enum { JSON_BYTES_MAX = 1 << 20, DIGITS_MIN = 6 };

typedef base_status read_function(const char *path, size_t size_bytes_max, json_t **json,
                                  base_error *reterr);

static base_status read_object(read_function *read, const char *directory, const char *name,
                               json_t **object, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    *object = NULL;
    base_status status = base_path_join(directory, name, path, reterr);
    if (status == BASE_OK) {
        status = read(path, JSON_BYTES_MAX, object, reterr);
    }
    if (status != BASE_OK || json_is_object(*object)) {
        return status;
    }
    json_decref(*object);
    *object = NULL;
    return base_fail(reterr, BASE_ERR_INVALID, "%s: no JSON object", path);
}

base_status rank_hf_json_read(const char *directory, const char *name, json_t **object,
                              base_error *reterr)
{
    return read_object(base_json_read, directory, name, object, reterr);
}

base_status rank_hf_json_read_reals(const char *directory, const char *name, json_t **object,
                                    base_error *reterr)
{
    return read_object(base_json_read_reals, directory, name, object, reterr);
}

/* The text with the fewest digits that reads back as the object. The caller frees it; NULL: no memory. */
static char *write_text(const json_t *object)
{
    char *text = NULL;
    bool same = false;
    for (int digits = DIGITS_MIN; !same && digits <= DBL_DECIMAL_DIG; digits++) {
        free(text);
        text = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(digits));
        json_t *back = text != NULL ? json_loads(text, 0, NULL) : NULL;
        same = json_equal(back, object) != 0;
        json_decref(back);
    }
    return text;
}

base_status rank_hf_json_write(const char *directory, const char *name, json_t *object,
                               base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    base_status status = base_path_join(directory, name, path, reterr);
    char *text = object != NULL ? write_text(object) : NULL;
    json_decref(object);
    if (status == BASE_OK && text == NULL) {
        status = base_fail(reterr, BASE_ERR_MEMORY, "no memory to write %s", path);
    }
    if (status == BASE_OK) {
        const size_t length = strlen(text);
        text[length] = '\n'; /* replaces the NUL, which is not written */
        status = base_file_write(path, text, length + 1, reterr);
    }
    free(text);
    return status;
}
