/* PASETO v4.public itself, with any footer: signing, strict decoding, checking a signature.
 * What our tokens demand beyond that (the kid, the claims) is token.c's. Pure; thread safe.
 * Source: PASETO, Version 4, sections Sign and Verify. */
#ifndef BUDGET_TOKEN_PASETO_H
#define BUDGET_TOKEN_PASETO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "budget/token.h"

#define BUDGET_PASETO_HEADER "v4.public."

typedef struct budget_piece {
    const void *data;
    size_t size_bytes;
} budget_piece;

/* Header, base64url of payload and signature, and "." and the footer where it is not empty.
 * assertion is NUL-terminated. false: something is longer than a token of ours may be. */
bool budget_paseto_sign(budget_piece payload, budget_piece footer, const char *assertion,
                        const uint8_t secret[BUDGET_SECRET_KEY_BYTES],
                        char token[BUDGET_TOKEN_BYTES]);

/* Fills all of parts but the kid; NULL, or a message that says what is wrong. An empty footer is
 * the absent one; a dot with nothing behind it is refused. */
const char *budget_paseto_decode(const char *token, size_t token_bytes, budget_token_parts *parts);

bool budget_paseto_signature_ok(const budget_token_parts *parts, const char *assertion,
                                const uint8_t key[BUDGET_PUBLIC_KEY_BYTES]);

#endif
