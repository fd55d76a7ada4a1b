/* A record as a token's payload. Private to token/. */
#ifndef BUDGET_TOKEN_PAYLOAD_H
#define BUDGET_TOKEN_PAYLOAD_H

#include "base/fields.h"
#include "budget/claims.h"

/* Writes the record as canonical JSON (base/fields_json.h), with a NUL that *text_bytes does not
 * count. */
BASE_MUST_CHECK base_status budget_payload_write(const base_fields *fields, const void *record,
                                                 char text[BUDGET_CLAIMS_JSON_BYTES],
                                                 size_t *text_bytes, base_error *reterr);

#endif
