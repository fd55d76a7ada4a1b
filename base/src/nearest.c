/* Finds a word among names, and the name nearest to a mistyped one. Called by options.c and
 * fields.c, and by programs for their commands. */
#include "base/nearest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum { WORD_BYTES_MAX = 48, EDITS_MAX = 3, BYTES_PER_EDIT = 3 };

int base_names_find(base_name_of *name_of, const char *word)
{
    int value = 0;
    while (name_of(value) != NULL && strcmp(name_of(value), word) != 0) {
        value++;
    }
    return name_of(value) != NULL ? value : -1;
}

void base_names_list(base_name_of *name_of, char *text, size_t size_bytes)
{
    text[0] = '\0';
    for (int value = 0; name_of(value) != NULL; value++) {
        base_text_append(text, size_bytes, "%s%s", value > 0 ? " " : "", name_of(value));
    }
}

void base_nearest_offer_all(base_nearest *nearest, base_name_of *name_of)
{
    for (int value = 0; name_of(value) != NULL; value++) {
        base_nearest_offer(nearest, name_of(value));
    }
}

base_nearest base_nearest_begin(const char *word, size_t bytes)
{
    const size_t edits = bytes / BYTES_PER_EDIT;
    return (base_nearest){
        .word = word,
        .bytes = bytes,
        .edits = 1 + (int)(edits < 1           ? 1
                           : edits < EDITS_MAX ? edits
                                               : EDITS_MAX),
    };
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* The edits from one word to another: the distance of optimal string alignment, row by row. */
static int count_edits(const char *from, size_t from_bytes, const char *to, size_t to_bytes)
{
    int rows[3][WORD_BYTES_MAX + 1] = {{0}};
    for (size_t i = 0; i <= from_bytes; i++) {
        int *row = rows[i % 3];
        const int *above = rows[(i + 2) % 3];
        const int *two_above = rows[(i + 1) % 3];
        row[0] = (int)i;
        for (size_t j = 1; j <= to_bytes; j++) {
            if (i == 0) {
                row[j] = (int)j;
                continue;
            }
            const int replaced = above[j - 1] + (from[i - 1] != to[j - 1] ? 1 : 0);
            row[j] = least(replaced, 1 + least(above[j], row[j - 1]));
            if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
                row[j] = least(row[j], two_above[j - 2] + 1);
            }
        }
    }
    return rows[from_bytes % 3][to_bytes];
}

void base_nearest_offer(base_nearest *nearest, const char *name)
{
    const size_t bytes = strlen(name);
    if (nearest->bytes < 2 || nearest->bytes > WORD_BYTES_MAX || bytes > WORD_BYTES_MAX) {
        return;
    }
    const bool begins = bytes > nearest->bytes && memcmp(name, nearest->word, nearest->bytes) == 0;
    const int edits = begins ? 1 : count_edits(nearest->word, nearest->bytes, name, bytes);
    if (edits < nearest->edits) {
        nearest->edits = edits;
        nearest->name = name;
    }
}

const char *base_nearest_ask(const base_nearest *nearest, const char *mark,
                             char text[BASE_NEAREST_BYTES])
{
    text[0] = '\0';
    if (nearest->name != NULL) {
        (void)snprintf(text, BASE_NEAREST_BYTES, "; did you mean %s%s?", mark, nearest->name);
    }
    return text;
}
