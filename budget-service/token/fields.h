/* A plain struct as one JSON object, by a table: written canonically, read strictly.
 *
 * Each row says where a member lies, what it is, and what its range is. Unknown, missing and
 * duplicate keys, wrong types and values out of range are refused by name. Pure; thread safe. */
#ifndef BUDGET_TOKEN_FIELDS_H
#define BUDGET_TOKEN_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum budget_field_kind {
    BUDGET_FIELD_TEXT,    /* char[]: printable ASCII, no quotes, no backslash */
    BUDGET_FIELD_NAME,    /* char[]: budget_name_ok without slashes */
    BUDGET_FIELD_PATH,    /* char[]: budget_name_ok with slashes */
    BUDGET_FIELD_HEXNAME, /* char[]: lower-case hex, all but the NUL of it */
    BUDGET_FIELD_INT,     /* int64_t, or uint64_t up to INT64_MAX */
    BUDGET_FIELD_TIME,    /* int64_t seconds, RFC 3339 in JSON */
    BUDGET_FIELD_BYTES,   /* uint8_t[], lower-case hex in JSON */
} budget_field_kind;

typedef struct budget_field {
    const char *key;
    budget_field_kind kind;
    size_t offset;
    size_t size_bytes; /* of a text with its NUL, of bytes */
    int64_t min;       /* of an INT */
    int64_t max;
    bool optional; /* may be absent, and is not written, when it is empty or all zero */
    bool empty_ok; /* a text may be empty */
} budget_field;

/* One object that a table describes. */
typedef struct budget_fields {
    const budget_field *rows; /* sorted by key */
    int count;
    const char *what; /* "token" say, in front of messages */
} budget_fields;

BASE_MUST_CHECK base_status budget_fields_check(const budget_fields *fields, const void *object,
                                                base_error *reterr);

/* Checks, then writes compact JSON with sorted keys and a NUL;
 * BASE_ERR_LIMIT when it does not fit. */
BASE_MUST_CHECK base_status budget_fields_write(const budget_fields *fields, const void *object,
                                                char *text, size_t text_size_bytes,
                                                base_error *reterr);

/* The other way round; object must be zeroed, and is spoilt on failure. */
BASE_MUST_CHECK base_status budget_fields_parse(const budget_fields *fields, const void *text,
                                                size_t text_bytes, void *object,
                                                base_error *reterr);

/* The same from a value of jansson's that is already there (json_t *). */
BASE_MUST_CHECK base_status budget_fields_from_json(const budget_fields *fields, const void *json,
                                                    void *object, base_error *reterr);

/* A new json_t object of a checked object; NULL without memory. */
void *budget_fields_to_json(const budget_fields *fields, const void *object);

#endif
