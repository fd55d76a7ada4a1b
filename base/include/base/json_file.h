/* Files of one JSON value each. */
#ifndef BASE_JSON_FILE_H
#define BASE_JSON_FILE_H

#include <stddef.h>

#include "base/status.h"

struct json_t;

/* Reads a regular file of at most size_bytes_max into *json, which is the caller's. An object with a
 * key twice is none. BASE_ERR_NOTFOUND: there is no such file. BASE_ERR_INVALID names the file and
 * its line. *json is NULL after an error. */
BASE_MUST_CHECK base_status base_json_read(const char *path, size_t size_bytes_max,
                                           struct json_t **json, base_error *reterr);

/* The same, with all integers as reals: none is too large then. */
BASE_MUST_CHECK base_status base_json_read_reals(const char *path, size_t size_bytes_max,
                                                 struct json_t **json, base_error *reterr);

#endif
