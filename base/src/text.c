/* Appends to a text, escapes control characters, and shortens a text between UTF-8 characters. Called
 * by log.c and by every page or message that quotes text from a file or a peer. */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* How many bytes a character has, by its first byte. Stray bytes count as characters. */
static size_t wanted_bytes(unsigned char first)
{
    return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
}

/* How many bytes of the character are there. */
static size_t present_bytes(const char *text)
{
    const size_t wanted = wanted_bytes((unsigned char)text[0]);
    size_t bytes = 1;
    while (bytes < wanted && ((unsigned char)text[bytes] & 0xc0) == 0x80) {
        bytes++;
    }
    return bytes;
}

void base_text_append(char *text, size_t size_bytes, const char *format, ...)
{
    const size_t used = strnlen(text, size_bytes);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text + used, size_bytes - used, format, args);
    va_end(args);
}

void base_text_shorten(const char *text, char shown[BASE_TEXT_SHOWN_BYTES])
{
    size_t length = 0;
    int characters = 0;
    while (text[length] != '\0' && characters < BASE_TEXT_SHOWN_CHARACTERS) {
        const size_t bytes = present_bytes(text + length);
        const bool whole = bytes == wanted_bytes((unsigned char)text[length]);
        if (!whole && text[length + bytes] == '\0') {
            break; /* cut off */
        }
        length += bytes;
        characters++;
    }
    memcpy(shown, text, length);
    memcpy(shown + length, text[length] != '\0' ? "…" : "",
           text[length] != '\0' ? sizeof "…" : sizeof "");
}

/* How many bytes the control character at `at` has; 0: it is none. C0 and DEL, C1 (U+0080 to U+009F),
 * and what reorders the text after it (U+202A to U+202E, U+2066 to U+2069). */
static size_t control_bytes(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] < ' ' || at[0] == 0x7f) {
        return 1;
    }
    if (at[0] == 0xc2) {
        return at[1] >= 0x80 && at[1] < 0xa0 ? 2 : 0;
    }
    if (at[0] != 0xe2 || (at[1] != 0x80 && at[1] != 0x81)) {
        return 0;
    }
    const bool reorders =
        at[1] == 0x80 ? at[2] >= 0xaa && at[2] <= 0xae : at[2] >= 0xa6 && at[2] <= 0xa9;
    return reorders ? 3 : 0;
}

bool base_text_has_control(const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        if (control_bytes(at) > 0) {
            return true;
        }
    }
    return false;
}

void base_text_escape(char *text, size_t size_bytes)
{
    enum { ESCAPED_BYTES = 4 };
    static const char digits[] = "0123456789abcdef";
    size_t length = strlen(text);
    size_t left = 0; /* bytes of a control character that are not escaped yet */
    for (size_t i = 0; i < length; i++) {
        left = left > 0 ? left : control_bytes(text + i);
        if (left == 0) {
            continue;
        }
        left--;
        if (length + ESCAPED_BYTES - 1 >= size_bytes) {
            text[i] = '?';
            continue;
        }
        const unsigned char byte = (unsigned char)text[i];
        memmove(text + i + ESCAPED_BYTES, text + i + 1, length - i);
        memcpy(text + i, "\\x", 2);
        text[i + 2] = digits[byte >> 4];
        text[i + 3] = digits[byte & 15];
        length += ESCAPED_BYTES - 1;
        i += ESCAPED_BYTES - 1;
    }
}
