/* Strict base64url, and PASERK texts and ids of keys. Called by paseto.c, keyring.c, token.c and
 * keys/secret_key.c. */
#include "paserk.h"

#include <sodium.h>
#include <string.h>

#include "base/assert.h"

bool budget_paserk_encode(const char *header, const void *data, size_t data_bytes, char *text,
                          size_t text_size_bytes)
{
    const size_t header_bytes = strlen(header);
    const size_t needed = header_bytes + sodium_base64_encoded_len(
                                             data_bytes, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    if (needed > text_size_bytes) {
        return false;
    }
    memcpy(text, header, header_bytes);
    (void)sodium_bin2base64(text + header_bytes, text_size_bytes - header_bytes, data, data_bytes,
                            sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    return true;
}

/* libsodium 1.0.18 takes some bytes above 127 for characters of the alphabet. */
static bool alphabet_ok(const char *text, size_t text_bytes)
{
    bool good = true;
    for (size_t i = 0; i < text_bytes; i++) {
        const char c = text[i];
        good &= (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                c == '-' || c == '_';
    }
    return good;
}

bool budget_base64url_decode(const char *text, size_t text_bytes, void *data,
                             size_t data_size_bytes, size_t *data_bytes)
{
    return alphabet_ok(text, text_bytes) &&
           sodium_base642bin(data, data_size_bytes, text, text_bytes, NULL, data_bytes, NULL,
                             sodium_base64_VARIANT_URLSAFE_NO_PADDING) == 0;
}

bool budget_paserk_decode(const char *header, const char *text, size_t text_bytes, void *data,
                          size_t data_bytes)
{
    const size_t header_bytes = strlen(header);
    size_t decoded = 0;
    return text_bytes >= header_bytes && memcmp(text, header, header_bytes) == 0 &&
           budget_base64url_decode(text + header_bytes, text_bytes - header_bytes, data, data_bytes,
                                   &decoded) &&
           decoded == data_bytes;
}

void budget_paserk_public(const uint8_t key[BUDGET_PUBLIC_KEY_BYTES],
                          char text[BUDGET_PASERK_PUBLIC_BYTES])
{
    const bool fits = budget_paserk_encode("k4.public.", key, BUDGET_PUBLIC_KEY_BYTES, text,
                                           BUDGET_PASERK_PUBLIC_BYTES);
    BASE_ASSERT(fits);
}

base_status budget_paserk_public_parse(const char *text, size_t text_bytes,
                                       uint8_t key[BUDGET_PUBLIC_KEY_BYTES], base_error *reterr)
{
    uint8_t parsed[BUDGET_PUBLIC_KEY_BYTES];
    if (!budget_paserk_decode("k4.public.", text, text_bytes, parsed, sizeof parsed)) {
        return base_fail(reterr, BASE_ERR_INVALID, "not a public key (k4.public.…)");
    }
    memcpy(key, parsed, sizeof parsed);
    return BASE_OK;
}

void budget_paserk_pid(const uint8_t key[BUDGET_PUBLIC_KEY_BYTES], char kid[BUDGET_KID_BYTES])
{
    static const char header[] = "k4.pid.";
    char hashed[sizeof header - 1 + BUDGET_PASERK_PUBLIC_BYTES];
    uint8_t digest[BUDGET_ID_DIGEST_BYTES];
    memcpy(hashed, header, sizeof header - 1);
    budget_paserk_public(key, hashed + sizeof header - 1);
    (void)crypto_generichash(digest, sizeof digest, (const uint8_t *)hashed, strlen(hashed), NULL,
                             0);
    const bool fits = budget_paserk_encode(header, digest, sizeof digest, kid, BUDGET_KID_BYTES);
    BASE_ASSERT(fits);
}
