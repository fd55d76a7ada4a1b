/* Texts at random, for what cuts, splits or encodes any text. */
#ifndef TEST_RANDOM_TEXT_H
#define TEST_RANDOM_TEXT_H

#include <stddef.h>
#include <stdint.h>

enum { TEST_RANDOM_WORD_BYTES_MAX = 16 };

/* Fewer than words_max words, numbers, marks, spaces of all kinds, and bytes that are no UTF-8, in any order. text has
 * room for words_max * TEST_RANDOM_WORD_BYTES_MAX bytes, and gets no NUL. random: the state of base/splitmix.h.
 * Returns the bytes. */
size_t test_random_text(uint64_t *random, size_t words_max, char *text);

#endif
