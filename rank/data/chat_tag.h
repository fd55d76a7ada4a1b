/* A tag of a chat template, {{ … }} or {% … %}, in one form whatever its spaces and quotes: what is between the
 * braces, without spaces outside of strings unless words would run together, with ' around strings, \n for a line
 * end in one, and `content` for message.content. Pure. */
#ifndef RANK_DATA_CHAT_TAG_H
#define RANK_DATA_CHAT_TAG_H

#include <stdbool.h>
#include <stddef.h>

enum { RANK_CHAT_TAG_BYTES = 256 };

typedef struct rank_chat_tag {
    char text[RANK_CHAT_TAG_BYTES];
    size_t used;     /* more: it was too long, and is cut */
    bool of_message; /* it has message.content */
    const char *end; /* behind the tag; NULL: it has no end */
} rank_chat_tag;

rank_chat_tag rank_chat_tag_read(const char *begin);

#endif
