/* Signs, opens and decodes tokens: PASETO with our footer and assertion. Called by server/sign.c,
 * verify.c and receipt.c, and to read token files. */
#include "budget/token.h"

#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "paserk.h"
#include "paseto.h"

base_status budget_crypto_init(base_error *reterr)
{
    return sodium_init() >= 0 ? BASE_OK
                              : base_fail(reterr, BASE_ERR_UNSUPPORTED, "libsodium does not start");
}

const char *budget_verdict_token_name(budget_verdict_token verdict)
{
    static const char *const names[] = {
        [BUDGET_TOKEN_OK] = "ok",
        [BUDGET_TOKEN_MALFORMED] = "malformed",
        [BUDGET_TOKEN_UNKNOWN_KEY] = "unknown-key",
        [BUDGET_TOKEN_REVOKED_KEY] = "revoked-key",
        [BUDGET_TOKEN_RETIRED_KEY] = "retired-key",
        [BUDGET_TOKEN_BAD_SIGNATURE] = "bad-signature",
        [BUDGET_TOKEN_BAD_CLAIMS] = "bad-claims",
        [BUDGET_TOKEN_NOT_YET] = "not-yet-valid",
        [BUDGET_TOKEN_EXPIRED] = "expired",
        [BUDGET_TOKEN_WRONG_JOB] = "wrong-job",
    };
    return (size_t)verdict < sizeof names / sizeof names[0] ? names[verdict] : "unknown";
}

void budget_jti_make(char jti[BUDGET_JTI_BYTES])
{
    uint8_t random[(BUDGET_JTI_BYTES - 1) / 2];
    randombytes_buf(random, sizeof random);
    (void)sodium_bin2hex(jti, BUDGET_JTI_BYTES, random, sizeof random);
}

base_status budget_token_sign_bytes(const void *payload, size_t payload_bytes,
                                    const char *assertion,
                                    const uint8_t secret[BUDGET_SECRET_KEY_BYTES],
                                    char token[BUDGET_TOKEN_BYTES], base_error *reterr)
{
    char kid[BUDGET_KID_BYTES];
    char footer[BUDGET_FOOTER_BYTES_MAX];
    budget_paserk_pid(secret + BUDGET_SECRET_KEY_BYTES - BUDGET_PUBLIC_KEY_BYTES, kid);
    const int footer_bytes = snprintf(footer, sizeof footer, "{\"kid\":\"%s\"}", kid);
    return budget_paseto_sign((budget_piece){payload, payload_bytes},
                              (budget_piece){footer, (size_t)footer_bytes}, assertion, secret,
                              token)
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_LIMIT, "a payload of %zu bytes fits no token",
                           payload_bytes);
}

base_status budget_token_sign(const budget_claims *claims,
                              const uint8_t secret[BUDGET_SECRET_KEY_BYTES],
                              char token[BUDGET_TOKEN_BYTES], base_error *reterr)
{
    char payload[BUDGET_CLAIMS_JSON_BYTES];
    size_t payload_bytes = 0;
    const base_status status = budget_claims_write(claims, payload, &payload_bytes, reterr);
    return status == BASE_OK
               ? budget_token_sign_bytes(payload, payload_bytes, BUDGET_ASSERTION_AUTHORIZATION,
                                         secret, token, reterr)
               : status;
}

static budget_verdict_token refuse(base_error *why, budget_verdict_token verdict,
                                   const char *message)
{
    (void)base_fail(why, BASE_ERR_AUTH, "%s", message);
    return verdict;
}

/* One object with one key and nothing deeper: looked at before a parser sees it. */
static bool footer_is_flat(const char *footer, size_t footer_bytes)
{
    int opened = 0;
    int keys = 0;
    bool inside = false;
    for (size_t i = 0; i < footer_bytes; i++) {
        if (inside && footer[i] == '\\') {
            return false; /* no escape stands in a key's id */
        }
        if (footer[i] == '"') {
            inside = !inside;
        } else if (!inside) {
            opened += footer[i] == '{' || footer[i] == '[' ? 1 : 0;
            keys += footer[i] == ':' ? 1 : 0;
        }
    }
    return footer_bytes > 0 && footer[0] == '{' && opened == 1 && keys == 1 && !inside;
}

static bool read_kid(const char *footer, size_t footer_bytes, char kid[BUDGET_KID_BYTES])
{
    uint8_t digest[BUDGET_ID_DIGEST_BYTES];
    if (!footer_is_flat(footer, footer_bytes)) {
        return false;
    }
    json_t *json = json_loadb(footer, footer_bytes, JSON_REJECT_DUPLICATES, NULL);
    const json_t *value = json_object_get(json, "kid");
    const char *text = json_string_value(value);
    const bool good =
        text != NULL && json_string_length(value) == BUDGET_KID_BYTES - 1 &&
        budget_paserk_decode("k4.pid.", text, BUDGET_KID_BYTES - 1, digest, sizeof digest);
    if (good) {
        memcpy(kid, text, BUDGET_KID_BYTES);
    }
    json_decref(json);
    return good;
}

budget_verdict_token budget_token_decode(const char *token, size_t token_bytes,
                                         budget_token_parts *parts, base_error *why)
{
    const char *wrong = budget_paseto_decode(token, token_bytes, parts);
    parts->key = NULL;
    if (wrong != NULL) {
        return refuse(why, BUDGET_TOKEN_MALFORMED, wrong);
    }
    if (!read_kid(parts->footer, parts->footer_bytes, parts->kid)) {
        return refuse(why, BUDGET_TOKEN_MALFORMED,
                      "the token's footer is not {\"kid\":\"k4.pid.…\"}");
    }
    return BUDGET_TOKEN_OK;
}

static budget_verdict_token wrong_signature(const budget_token_parts *parts, const char *assertion,
                                            const uint8_t *key, base_error *why)
{
    const bool is_receipt = strcmp(assertion, BUDGET_ASSERTION_RECEIPT) != 0 &&
                            budget_paseto_signature_ok(parts, BUDGET_ASSERTION_RECEIPT, key);
    const bool is_token = strcmp(assertion, BUDGET_ASSERTION_AUTHORIZATION) != 0 &&
                          budget_paseto_signature_ok(parts, BUDGET_ASSERTION_AUTHORIZATION, key);
    return refuse(why, BUDGET_TOKEN_BAD_SIGNATURE,
                  is_receipt ? "this is a receipt, and no authorization"
                  : is_token ? "this is an authorization, and no receipt"
                             : "the signature is wrong: the token was changed, or made by others");
}

budget_verdict_token budget_token_open(const char *token, size_t token_bytes,
                                       const budget_keyring *keyring, const char *assertion,
                                       budget_token_parts *parts, base_error *why)
{
    const budget_verdict_token verdict = budget_token_decode(token, token_bytes, parts, why);
    if (verdict != BUDGET_TOKEN_OK) {
        return verdict;
    }
    const budget_public_key *key = budget_keyring_find(keyring, parts->kid);
    if (key == NULL) {
        (void)base_fail(why, BASE_ERR_AUTH, "the keyring has no key %s", parts->kid);
        return BUDGET_TOKEN_UNKNOWN_KEY;
    }
    if (key->revoked_at != 0) {
        (void)base_fail(why, BASE_ERR_AUTH, "the key %s has been revoked", parts->kid);
        return BUDGET_TOKEN_REVOKED_KEY;
    }
    if (!budget_paseto_signature_ok(parts, assertion, key->key)) {
        return wrong_signature(parts, assertion, key->key, why);
    }
    parts->key = key;
    return BUDGET_TOKEN_OK;
}

base_status budget_token_read_file(const char *path, char token[BUDGET_TOKEN_BYTES],
                                   size_t *token_bytes, base_error *reterr)
{
    void *text = NULL;
    size_t text_bytes = 0;
    base_status status = base_file_read(path, BUDGET_TOKEN_BYTES, &text, &text_bytes, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const char *bytes = text;
    if (text_bytes > 0 && bytes[text_bytes - 1] == '\n') {
        text_bytes--;
    }
    if (text_bytes >= BUDGET_TOKEN_BYTES) {
        status = base_fail(reterr, BASE_ERR_LIMIT, "%s: longer than any token", path);
    } else {
        memcpy(token, bytes, text_bytes);
        token[text_bytes] = '\0';
        *token_bytes = text_bytes;
    }
    free(text);
    return status;
}
