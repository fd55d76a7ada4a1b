/* Draws texts at random. Called by the tests of tokenizers. */
#include "random_text.h"

#include <string.h>

#include "base/splitmix.h"

/* Spaces and line ends stand here more than once: they come more often. */
static const char words[][TEST_RANDOM_WORD_BYTES_MAX] = {" ",
                                                         " ",
                                                         " ",
                                                         "\n",
                                                         "\n",
                                                         "\r\n",
                                                         "\t",
                                                         "\xc2\xa0",
                                                         "\xe3\x80\x80",
                                                         "a",
                                                         "Zoo",
                                                         "x y",
                                                         "he goes",
                                                         "a\nb",
                                                         "7",
                                                         "1234",
                                                         "-1",
                                                         "'",
                                                         "'s",
                                                         "'T",
                                                         "...",
                                                         "!?",
                                                         "\xc3\xa9t\xc3\xa9",
                                                         "\xe4\xb8\xad",
                                                         "\xff",
                                                         "\xe4",
                                                         "\x80",
                                                         "<|endoftext|>",
                                                         "\x1b",
                                                         "\x7f"};

size_t test_random_text(uint64_t *random, size_t words_max, char *text)
{
    size_t used = 0;
    for (uint64_t left = base_splitmix_next(random) % words_max; left > 0; left--) {
        const char *word = words[base_splitmix_next(random) % (sizeof words / sizeof *words)];
        memcpy(text + used, word, strlen(word));
        used += strlen(word);
    }
    return used;
}
