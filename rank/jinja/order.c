/* Sorting: a merge sort. Called by the filters sort, dictsort and tojson. */
#include "order.h"

#include <string.h>

/* Merges two sorted runs that follow each other. */
static void merge(jinja_work *work, const jinja_pair *from, size_t middle, size_t count,
                  jinja_pair *to, bool reverse)
{
    size_t left = 0;
    size_t right = middle;
    for (size_t i = 0; i < count; i++) {
        bool takes_right = left == middle;
        if (left < middle && right < count) {
            takes_right = reverse ? jinja_is_less(work, from[left].key, from[right].key)
                                  : jinja_is_less(work, from[right].key, from[left].key);
        }
        to[i] = takes_right ? from[right++] : from[left++];
    }
}

void jinja_sort(jinja_work *work, jinja_pair *pairs, size_t count, bool reverse)
{
    jinja_pair *from = pairs;
    jinja_pair *to = jinja_zeros(work, count, sizeof *to);
    for (size_t width = 1; width < count; width *= 2) {
        jinja_step(work, count);
        for (size_t at = 0; at < count; at += 2 * width) {
            const size_t whole = count - at < 2 * width ? count - at : 2 * width;
            merge(work, from + at, whole < width ? whole : width, whole, to + at, reverse);
        }
        jinja_pair *sorted = to;
        to = from;
        from = sorted;
    }
    if (from != pairs) {
        memcpy(pairs, from, count * sizeof *pairs);
    }
}

jinja_pair *jinja_sort_pairs(jinja_work *work, const jinja_dict *dict)
{
    jinja_pair *pairs = jinja_zeros(work, dict->count, sizeof *pairs);
    if (dict->count > 0) {
        memcpy(pairs, dict->at, dict->count * sizeof *pairs);
    }
    jinja_sort(work, pairs, dict->count, false);
    return pairs;
}
