/* UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF. Pure; thread safe. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character at `text` (1 … 4), of which size_bytes are left; 0: it is none, or NUL. Of
 * a text that ends with a NUL, any size beyond it will do. */
size_t base_utf8_length(const char *text, size_t size_bytes);

/* The whole text is UTF-8; a NUL in it is a character as any other. */
bool base_utf8_valid(const char *text, size_t size_bytes);

/* Copies a text that ends with a NUL, with bytes that are no UTF-8 as U+FFFD, cut between
 * characters. size_bytes > 0. */
void base_utf8_copy(char *copy, size_t size_bytes, const char *text);

#endif
