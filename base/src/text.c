/* Escapes control characters, and shortens a text between UTF-8 characters. Called by log.c and by
 * every page or message that quotes text from a file or a peer. */
#include "base/text.h"

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

static bool is_control(char character)
{
    return (unsigned char)character < ' ' || character == 0x7f;
}

bool base_text_has_control(const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        const bool upper = (unsigned char)at[0] == 0xc2 && ((unsigned char)at[1] & 0xe0) == 0x80;
        if (is_control(*at) || upper) {
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
    for (size_t i = 0; i < length; i++) {
        if (!is_control(text[i])) {
            continue;
        }
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
