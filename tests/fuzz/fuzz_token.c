/* Any bytes are refused as a token, unless they are one that a fixed key has signed. A decoded
 * token encodes to the very text it came from: there is one text for each token. The signature is
 * put in by the target itself for a part of the inputs, so that what lies behind it is reached,
 * too. */
#include <sodium.h>
#include <string.h>

#include "base/assert.h"
#include "budget/receipt.h"
#include "budget/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { FOOTER_BYTES = sizeof "{\"kid\":\"\"}" - 1 + BUDGET_KID_BYTES - 1 };

static uint8_t secret[BUDGET_SECRET_KEY_BYTES];
static budget_keyring keyring;

static void start(void)
{
    static const uint8_t seed[crypto_sign_SEEDBYTES] = {7};
    uint8_t key[BUDGET_PUBLIC_KEY_BYTES];
    if (keyring.count == 0) {
        BASE_ASSERT(budget_crypto_init(NULL) == BASE_OK);
        (void)crypto_sign_seed_keypair(key, secret, seed);
        BASE_ASSERT(budget_keyring_add(&keyring, key, 0, NULL) == BASE_OK);
    }
}

static void verify(const char *token, size_t token_bytes)
{
    static budget_token_parts parts;
    static budget_claims claims;
    static budget_receipt receipt;
    char again[BUDGET_TOKEN_BYTES];
    const budget_verdict_token whole =
        budget_token_verify(token, token_bytes, &keyring, BUDGET_ANY_TIME, &claims, NULL);
    const budget_verdict_token as_receipt =
        budget_receipt_verify(token, token_bytes, &keyring, 0, &receipt, NULL);
    BASE_ASSERT(whole != BUDGET_TOKEN_OK || as_receipt == BUDGET_TOKEN_BAD_SIGNATURE);
    if (budget_token_decode(token, token_bytes, &parts, NULL) != BUDGET_TOKEN_OK) {
        BASE_ASSERT(whole == BUDGET_TOKEN_MALFORMED);
        return;
    }
    if (whole == BUDGET_TOKEN_OK) {
        BASE_ASSERT(budget_claims_check(&claims, NULL) == BASE_OK);
        BASE_ASSERT(budget_token_sign_bytes(parts.payload, parts.payload_bytes,
                                            BUDGET_ASSERTION_AUTHORIZATION, secret, again,
                                            NULL) == BASE_OK);
        /* a footer with spaces is another text, and signed as such */
        BASE_ASSERT(parts.footer_bytes != FOOTER_BYTES || strlen(again) == token_bytes);
        BASE_ASSERT(parts.footer_bytes != FOOTER_BYTES || memcmp(again, token, token_bytes) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    char token[BUDGET_TOKEN_BYTES];
    start();
    verify((const char *)data, size_bytes);
    if (size_bytes > 0 && data[0] == '{' &&
        budget_token_sign_bytes(data, size_bytes,
                                size_bytes % 2 == 0 ? BUDGET_ASSERTION_AUTHORIZATION
                                                    : BUDGET_ASSERTION_RECEIPT,
                                secret, token, NULL) == BASE_OK) {
        verify(token, strlen(token));
    }
    return 0;
}
