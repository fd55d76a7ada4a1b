/* Text for people to read. UTF-8. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum {
    BASE_TEXT_SHOWN_CHARACTERS = 100, /* of a sentence, in a line or a record */
    BASE_TEXT_SHOWN_BYTES = 4 * BASE_TEXT_SHOWN_CHARACTERS + sizeof "…",
};

/* Copies the first BASE_TEXT_SHOWN_CHARACTERS characters of the text, with "…" after them if there
 * are more. If the text ends inside a character, that one is left out. */
void base_text_shorten(const char *text, char shown[BASE_TEXT_SHOWN_BYTES]);

/* Appends to the text, which has room for size_bytes with its NUL. What does not fit is cut off. */
void base_text_append(char *text, size_t size_bytes, const char *format, ...) BASE_PRINTF(3, 4);

/* Replaces each byte of a control character by "\\x1b" if size_bytes leaves room, else by '?'. Those are
 * C0, DEL, C1, and the characters that turn the direction of text. So a stranger's text cannot control a
 * terminal, make a second line, or look like another. */
void base_text_escape(char *text, size_t size_bytes);

/* Whether the UTF-8 text has one of these. */
bool base_text_has_control(const char *text);

#endif
