/* "did you mean --ranks?": finds the name that a mistyped word may have meant. Pure; thread safe. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

enum { BASE_NEAREST_BYTES = 96 }; /* of a question, with its NUL */

/* A word, and the nearest of the names that were offered. */
typedef struct base_nearest {
    const char *word;
    size_t bytes;     /* of the word */
    const char *name; /* NULL: none is near enough */
    int edits;        /* from the word to the name */
} base_nearest;

/* Begins with the first `bytes` bytes of the word, which the caller keeps. */
base_nearest base_nearest_begin(const char *word, size_t bytes);

/* Takes the name if it is nearer than all before. An edit puts in, leaves out or replaces a letter, or
 * swaps two neighbours. A word may have one edit, a long one up to three. A name that begins with the
 * word is one edit away. */
void base_nearest_offer(base_nearest *nearest, const char *name);

/* "; did you mean MARKname?", or an empty text if no name is near. */
const char *base_nearest_ask(const base_nearest *nearest, const char *mark,
                             char text[BASE_NEAREST_BYTES]);

#endif
