/* Gives a sentence its capitals and its full stop. Called by generate.c for a part of the training
 * lines. */
#include "dress.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static bool has_capital(const corpus_table *words, const char *word, size_t bytes)
{
    for (int i = 0; i < words->row_count; i++) {
        char *const *cells = words->rows[i].cells;
        if (strcmp(cells[0], "capital") == 0 && strlen(cells[2]) == bytes &&
            memcmp(cells[2], word, bytes) == 0) {
            return true;
        }
    }
    return false;
}

void corpus_dress(const corpus_grammar *grammar, char sentence[CORPUS_SENTENCE_BYTES])
{
    const size_t used = strlen(sentence);
    if (used == 0 || used + 1 >= CORPUS_SENTENCE_BYTES) {
        return;
    }
    for (char *word = sentence; *word != '\0';) {
        const size_t bytes = strcspn(word, " ?");
        if (word == sentence || has_capital(&grammar->table_words, word, bytes)) {
            *word = (char)toupper((unsigned char)*word);
        }
        word += bytes;
        word += strspn(word, " ?");
    }
    if (sentence[used - 1] != '?') {
        memcpy(sentence + used, ".", sizeof ".");
    }
}
