/* Writes a record as a token's payload. Called by claims.c and receipt.c. */
#include "payload.h"

#include <stdlib.h>
#include <string.h>

#include "base/fields_json.h"

base_status budget_payload_write(const base_fields *fields, const void *record,
                                 char text[BUDGET_CLAIMS_JSON_BYTES], size_t *text_bytes,
                                 base_error *reterr)
{
    char *made = NULL;
    const base_status status = base_fields_write_json(fields, record, BUDGET_CLAIMS_JSON_BYTES - 1,
                                                      &made, text_bytes, reterr);
    if (status == BASE_OK) {
        memcpy(text, made, *text_bytes + 1);
        free(made);
    }
    return status;
}
