/* Cuts texts into blocks that are tokenized one after the other. Called by windows.c and tokenizer/texts.c. */
#include "text_cut.h"

#include <stdbool.h>

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
