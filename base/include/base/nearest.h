/* Finds a word in a list of names, or the name that a mistyped word may have meant: "did you mean
 * --ranks?". Pure; thread safe. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

enum { BASE_NEAREST_BYTES = 96 }; /* of a question, with its NUL */

/* Names from 0 on, then NULL. */
typedef const char *base_name_of(int value);

/* The value whose name the word is; -1: it is none. */
int base_names_find(base_name_of *name_of, const char *word);

/* "ring tree direct". What does not fit is left out. */
void base_names_list(base_name_of *name_of, char *text, size_t size_bytes);

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

/* Takes all names of a list. */
void base_nearest_offer_all(base_nearest *nearest, base_name_of *name_of);

/* "; did you mean MARKname?", or an empty text if no name is near. */
const char *base_nearest_ask(const base_nearest *nearest, const char *mark,
                             char text[BASE_NEAREST_BYTES]);

#endif
