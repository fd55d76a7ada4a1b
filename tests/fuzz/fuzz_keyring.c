/* Any bytes are a keyring or refused; what is read is written again, and reads back the same. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "budget/keyring.h"
#include "budget/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static budget_keyring keyring;
    static budget_keyring again;
    uint8_t key[BUDGET_PUBLIC_KEY_BYTES];
    char *text = NULL;
    size_t text_bytes = 0;
    BASE_ASSERT(budget_crypto_init(NULL) == BASE_OK);
    if (budget_paserk_public_parse((const char *)data, size_bytes, key, NULL) == BASE_OK) {
        char shown[BUDGET_PASERK_PUBLIC_BYTES];
        budget_paserk_public(key, shown);
        BASE_ASSERT(strlen(shown) == size_bytes);
        BASE_ASSERT(memcmp(shown, data, size_bytes) == 0);
    }
    if (budget_keyring_parse(data, size_bytes, &keyring, NULL) != BASE_OK) {
        return 0;
    }
    BASE_ASSERT(budget_keyring_format(&keyring, &text, &text_bytes, NULL) == BASE_OK);
    BASE_ASSERT(budget_keyring_parse(text, text_bytes, &again, NULL) == BASE_OK);
    BASE_ASSERT(memcmp(&keyring, &again, sizeof keyring) == 0);
    free(text);
    return 0;
}
