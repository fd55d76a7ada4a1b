/* A struct as one JSON object, by its table (base/fields.h): written canonically, read strictly.
 *
 * Canonical: compact, keys sorted, every key present except optional ones. Strict: unknown, missing
 * and duplicate keys, wrong types and values out of range are refused by name. A key with a dot,
 * "train.steps", is in a group: {"train":{"steps":…}}.
 *
 * It is a library of its own (base_json), because it needs jansson. Pure; thread safe. */
#ifndef BASE_FIELDS_JSON_H
#define BASE_FIELDS_JSON_H

#include "base/fields.h"

/* Checks the record and writes it as a text, which the caller frees. The text ends with a NUL that
 * *text_bytes does not count. BASE_ERR_LIMIT if it is longer than text_bytes_max. */
BASE_MUST_CHECK base_status base_fields_write_json(const base_fields *fields, const void *record,
                                                   size_t text_bytes_max, char **text,
                                                   size_t *text_bytes, base_error *reterr);

/* Parses such a text and checks it. The first row (a version, say) is read first. On failure the
 * record is undefined. */
BASE_MUST_CHECK base_status base_fields_parse_json(const base_fields *fields, const void *text,
                                                   size_t text_bytes, size_t text_bytes_max,
                                                   void *record, base_error *reterr);

/* The same from and to a json_t. NULL: no memory, or a text is not UTF-8. */
BASE_MUST_CHECK base_status base_fields_from_json(const base_fields *fields, const void *json,
                                                  void *record, base_error *reterr);
void *base_fields_to_json(const base_fields *fields, const void *record);

#endif
