/* UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF. Pure; thread safe. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* How many bytes the character at `text` has (1 … 4); 0 if it is NUL or not UTF-8. size_bytes are
 * left of the text. If the text ends with a NUL, any size beyond it will do. */
size_t base_utf8_length(const char *text, size_t size_bytes);

/* Whether the whole text is UTF-8. A NUL in it counts as a character. */
bool base_utf8_valid(const char *text, size_t size_bytes);

/* Bytes of the byte order mark that some editors write first, if the text begins with it; else 0. */
size_t base_utf8_mark(const char *text, size_t size_bytes);

/* Copies a text that ends with a NUL, and cuts it between characters. Bytes that are not UTF-8
 * become U+FFFD. size_bytes > 0. */
void base_utf8_copy(char *copy, size_t size_bytes, const char *text);

#endif
