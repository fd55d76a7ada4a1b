/* PASETO v4.public: encodes, signs, decodes and checks a signature. Called by token.c alone. */
#include "paseto.h"

#include <sodium.h>
#include <string.h>

#include "paserk.h"

enum {
    HEADER_BYTES = sizeof BUDGET_PASETO_HEADER - 1,
    SIGNATURE_BYTES = crypto_sign_BYTES,
    ASSERTION_BYTES_MAX = 64,
    PAE_PIECES = 4,
    PAE_BYTES = 8 * (PAE_PIECES + 1) + HEADER_BYTES + BUDGET_CLAIMS_JSON_BYTES +
                BUDGET_FOOTER_BYTES_MAX + ASSERTION_BYTES_MAX,
};
_Static_assert((int)crypto_sign_PUBLICKEYBYTES == (int)BUDGET_PUBLIC_KEY_BYTES, "Ed25519");
_Static_assert((int)crypto_sign_SECRETKEYBYTES == (int)BUDGET_SECRET_KEY_BYTES, "Ed25519");

static uint8_t *put_le64(uint8_t *at, uint64_t value)
{
    for (int i = 0; i < 8; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
    return at + 8;
}

/* Pre-authentication encoding of header, payload, footer and assertion: how many pieces, then each
 * with its length in front, so that no two lists of pieces give the same bytes. 0: does not fit.
 * Source: PASETO, 01-Protocol-Versions/Common, PAE. */
static size_t encode_pieces(const budget_piece pieces[PAE_PIECES], uint8_t message[PAE_BYTES])
{
    uint8_t *at = put_le64(message, PAE_PIECES);
    for (int i = 0; i < PAE_PIECES; i++) {
        if (pieces[i].size_bytes + 8 > (size_t)(message + PAE_BYTES - at)) {
            return 0;
        }
        at = put_le64(at, pieces[i].size_bytes);
        memcpy(at, pieces[i].data, pieces[i].size_bytes);
        at += pieces[i].size_bytes;
    }
    return (size_t)(at - message);
}

static size_t encode_token(budget_piece payload, budget_piece footer, const char *assertion,
                           uint8_t message[PAE_BYTES])
{
    const budget_piece pieces[PAE_PIECES] = {
        {BUDGET_PASETO_HEADER, HEADER_BYTES},
        payload,
        footer,
        {assertion, strlen(assertion)},
    };
    return encode_pieces(pieces, message);
}

bool budget_paseto_sign(budget_piece payload, budget_piece footer, const char *assertion,
                        const uint8_t secret[BUDGET_SECRET_KEY_BYTES],
                        char token[BUDGET_TOKEN_BYTES])
{
    uint8_t message[PAE_BYTES];
    uint8_t body[BUDGET_CLAIMS_JSON_BYTES + SIGNATURE_BYTES];
    if (payload.size_bytes >= BUDGET_CLAIMS_JSON_BYTES ||
        footer.size_bytes > BUDGET_FOOTER_BYTES_MAX) {
        return false;
    }
    const size_t message_bytes = encode_token(payload, footer, assertion, message);
    if (message_bytes == 0) {
        return false;
    }
    memcpy(body, payload.data, payload.size_bytes);
    (void)crypto_sign_detached(body + payload.size_bytes, NULL, message, message_bytes, secret);
    if (!budget_paserk_encode(BUDGET_PASETO_HEADER, body, payload.size_bytes + SIGNATURE_BYTES,
                              token, BUDGET_TOKEN_BYTES)) {
        return false;
    }
    const size_t length = strlen(token);
    return footer.size_bytes == 0 ||
           budget_paserk_encode(".", footer.data, footer.size_bytes, token + length,
                                BUDGET_TOKEN_BYTES - length);
}

const char *budget_paseto_decode(const char *token, size_t token_bytes, budget_token_parts *parts)
{
    uint8_t body[BUDGET_CLAIMS_JSON_BYTES - 1 + SIGNATURE_BYTES];
    size_t body_bytes = 0;
    if (token_bytes >= BUDGET_TOKEN_BYTES) {
        return "the token is longer than any of ours";
    }
    if (token_bytes < HEADER_BYTES || memcmp(token, BUDGET_PASETO_HEADER, HEADER_BYTES) != 0) {
        return "not a token: it does not begin with " BUDGET_PASETO_HEADER;
    }
    const char *text = token + HEADER_BYTES;
    const char *end = token + token_bytes;
    const char *dot = memchr(text, '.', (size_t)(end - text));
    const char *body_end = dot != NULL ? dot : end;
    if (!budget_base64url_decode(text, (size_t)(body_end - text), body, sizeof body, &body_bytes) ||
        body_bytes <= SIGNATURE_BYTES) {
        return "the token's body is not strict base64url of a payload and a signature";
    }
    parts->footer_bytes = 0;
    if (dot != NULL && (!budget_base64url_decode(dot + 1, (size_t)(end - dot - 1), parts->footer,
                                                 BUDGET_FOOTER_BYTES_MAX, &parts->footer_bytes) ||
                        parts->footer_bytes == 0)) {
        return "the token's footer is not strict base64url, or too long";
    }
    parts->footer[parts->footer_bytes] = '\0';
    parts->payload_bytes = body_bytes - SIGNATURE_BYTES;
    memcpy(parts->payload, body, parts->payload_bytes);
    parts->payload[parts->payload_bytes] = '\0';
    memcpy(parts->signature, body + parts->payload_bytes, SIGNATURE_BYTES);
    return NULL;
}

bool budget_paseto_signature_ok(const budget_token_parts *parts, const char *assertion,
                                const uint8_t key[BUDGET_PUBLIC_KEY_BYTES])
{
    uint8_t message[PAE_BYTES];
    const size_t message_bytes =
        encode_token((budget_piece){parts->payload, parts->payload_bytes},
                     (budget_piece){parts->footer, parts->footer_bytes}, assertion, message);
    return message_bytes > 0 &&
           crypto_sign_verify_detached(parts->signature, message, message_bytes, key) == 0;
}
