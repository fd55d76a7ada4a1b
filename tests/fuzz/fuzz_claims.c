/* Any bytes are claims or refused; what is read is written again, and reads back the same. */
#include <string.h>

#include "base/assert.h"
#include "budget/claims.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static budget_claims claims;
    static budget_claims again;
    char text[BUDGET_CLAIMS_JSON_BYTES];
    size_t text_bytes = 0;
    if (budget_claims_parse(data, size_bytes, &claims, NULL) != BASE_OK) {
        return 0;
    }
    BASE_ASSERT(budget_claims_check(&claims, NULL) == BASE_OK);
    BASE_ASSERT(budget_claims_write(&claims, text, &text_bytes, NULL) == BASE_OK);
    BASE_ASSERT(budget_claims_parse(text, text_bytes, &again, NULL) == BASE_OK);
    BASE_ASSERT(memcmp(&claims, &again, sizeof claims) == 0);
    return 0;
}
