/* A struct as one JSON object, by its table (base/fields.h): written canonically, read strictly.
 *
 * Canonical: compact, keys sorted, every key present but for optional ones. Strict: unknown,
 * missing and duplicate keys, wrong types and values out of range are refused by name. A key with a
 * dot, "train.steps", stands in a group: {"train":{"steps":…}}.
 *
 * A library of its own (base_json), since it needs jansson. Pure; thread safe. */
#ifndef BASE_FIELDS_JSON_H
#define BASE_FIELDS_JSON_H

#include "base/fields.h"

/* Checks, then writes a text that ends with a NUL, which is not counted; malloc'ed, the caller
 * frees it. BASE_ERR_LIMIT when it is longer than text_bytes_max. */
BASE_MUST_CHECK base_status base_fields_write_json(const base_fields *fields, const void *record,
                                                   size_t text_bytes_max, char **text,
                                                   size_t *text_bytes, base_error *reterr);

/* The other way round. The first row is read first (a version, say).
 * record is spoilt on failure. */
BASE_MUST_CHECK base_status base_fields_parse_json(const base_fields *fields, const void *text,
                                                   size_t text_bytes, size_t text_bytes_max,
                                                   void *record, base_error *reterr);

/* The same from and to a json_t of jansson's that is there already; NULL: no memory, or a text is
 * not UTF-8. */
BASE_MUST_CHECK base_status base_fields_from_json(const base_fields *fields, const void *json,
                                                  void *record, base_error *reterr);
void *base_fields_to_json(const base_fields *fields, const void *record);

#endif
