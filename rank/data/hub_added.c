/* Finds added tokens in texts. Called by hub.c and tokenizer.c; hub_read.c has them sorted. */
#include <stdlib.h>
#include <string.h>

#include "hub_parts.h"

static int compare(const void *left, const void *right)
{
    const hub_added *a = left;
    const hub_added *b = right;
    const size_t shorter = a->size_bytes < b->size_bytes ? a->size_bytes : b->size_bytes;
    const int order = memcmp(a->at, b->at, shorter);
    if (order != 0 || a->size_bytes != b->size_bytes) {
        return order != 0 ? order : (a->size_bytes < b->size_bytes ? -1 : 1);
    }
    return a->index < b->index ? -1 : 1;
}

void hub_added_sort(rank_tokenizer *self)
{
    qsort(self->added, self->added_count, sizeof *self->added, compare);
    for (size_t i = 0; i < self->added_count; i++) {
        self->added_begins[self->added[i].at[0]] = true;
    }
}

hub_added_search hub_added_at(const rank_tokenizer *self, const uint8_t *text, size_t text_bytes)
{
    const bool may_be = text_bytes > 0 && self->added_begins[text[0]];
    return (hub_added_search){.self = self,
                              .text = text,
                              .text_bytes = text_bytes,
                              .end = may_be ? self->added_count : 0};
}

/* The first of the tokens left whose next byte is `byte` or above. */
static size_t bound(const hub_added_search *search, unsigned byte)
{
    size_t first = search->begin;
    for (size_t count = search->end - first; count > 0;) {
        const size_t half = count / 2;
        if (search->self->added[first + half].at[search->matched] < byte) {
            first += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return first;
}

const hub_added *hub_added_next(hub_added_search *search)
{
    while (search->begin < search->end) {
        const hub_added *first = &search->self->added[search->begin];
        if (first->size_bytes == search->matched) {
            search->begin++;
            return first;
        }
        if (search->matched == search->text_bytes) {
            break;
        }
        const unsigned byte = search->text[search->matched];
        const size_t end = bound(search, byte + 1);
        search->begin = bound(search, byte);
        search->end = end;
        search->matched++;
    }
    return NULL;
}
