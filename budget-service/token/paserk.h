/* The encodings that tokens and keys share: strict unpadded base64url, PASERK texts and ids. */
#ifndef BUDGET_TOKEN_PASERK_H
#define BUDGET_TOKEN_PASERK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "budget/keyring.h"

enum { BUDGET_ID_DIGEST_BYTES = 33 };

/* header, then base64url of data, then a NUL; false when text is too small. */
bool budget_paserk_encode(const char *header, const void *data, size_t data_bytes, char *text,
                          size_t text_size_bytes);

/* The bytes behind exactly this header, exactly data_bytes of them; false for anything else. */
bool budget_paserk_decode(const char *header, const char *text, size_t text_bytes, void *data,
                          size_t data_bytes);

/* Strict base64url: no padding, no stray bits, no other characters; *data_bytes gets the length. */
bool budget_base64url_decode(const char *text, size_t text_bytes, void *data,
                             size_t data_size_bytes, size_t *data_bytes);

#endif
