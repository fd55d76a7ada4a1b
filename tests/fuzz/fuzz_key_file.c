/* Any bytes are refused as a key at rest. Those long enough also become the inside of a well-formed
 * file, with a cost that a fuzzer can pay, so that all that follows is reached. */
#include <string.h>

#include "base/assert.h"
#include "budget/secret_key.h"
#include "budget/token.h"
#include "paserk.h"

enum { WRAPPED_BYTES = 152, COST_AT = 16, COST_BYTES = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static const budget_passphrase passphrase = {.size_bytes = 1, .text = "x"};

static void refuse(const char *text, size_t text_bytes)
{
    budget_secret_key *key = NULL;
    BASE_ASSERT(budget_secret_key_unwrap(text, text_bytes, &passphrase, &key, NULL) != BASE_OK);
    BASE_ASSERT(key == NULL);
}

static bool is_cheap(const char *text, size_t text_bytes)
{
    static const uint8_t cheap[COST_BYTES] = {[6] = 0x20, [11] = 1, [15] = 1};
    uint8_t wrapped[WRAPPED_BYTES];
    return !budget_paserk_decode("k4.secret-pw.", text, text_bytes, wrapped, sizeof wrapped) ||
           memcmp(wrapped + COST_AT, cheap, sizeof cheap) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static const uint8_t cheap[COST_BYTES] = {[6] = 0x20, [11] = 1, [15] = 1};
    char text[BUDGET_PASERK_SECRET_PW_BYTES];
    uint8_t wrapped[WRAPPED_BYTES];
    BASE_ASSERT(budget_crypto_init(NULL) == BASE_OK);
    if (is_cheap((const char *)data, size_bytes)) {
        refuse((const char *)data, size_bytes);
    }
    if (size_bytes >= sizeof wrapped) {
        memcpy(wrapped, data, sizeof wrapped);
        memcpy(wrapped + COST_AT, cheap, sizeof cheap);
        BASE_ASSERT(
            budget_paserk_encode("k4.secret-pw.", wrapped, sizeof wrapped, text, sizeof text));
        refuse(text, strlen(text));
    }
    return 0;
}
