/* Cuts texts into blocks that are tokenized one after the other. Called by text_parts.c. */
#include "text_cut.h"

#include <stdbool.h>

enum { TAIL_BYTES_MAX = 3 }; /* behind the first byte of a character in UTF-8 */

static bool is_visible(char byte)
{
    return byte > ' ' && byte <= '~';
}

static size_t last_between(const char *text, size_t text_bytes, char what)
{
    for (size_t at = text_bytes; at > 2; at--) {
        if (text[at - 2] == what && is_visible(text[at - 1]) && is_visible(text[at - 3])) {
            return at - 2;
        }
    }
    return 0;
}

size_t rank_text_cut(const char *text, size_t text_bytes)
{
    const size_t at = last_between(text, text_bytes, ' ');
    return at > 0 ? at : last_between(text, text_bytes, '\n');
}

static bool is_tail(char byte)
{
    return ((unsigned char)byte & 0xc0U) == 0x80U;
}

size_t rank_text_block(const char *block, size_t bytes)
{
    const size_t cut = rank_text_cut(block, bytes);
    size_t last = bytes - 1;
    for (int i = 0; i < TAIL_BYTES_MAX && last > 0 && is_tail(block[last]); i++) {
        last--;
    }
    if (cut > 0) {
        return cut;
    }
    return last == 0 || is_tail(block[last]) ? bytes : last;
}
