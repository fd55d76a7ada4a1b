/* Fills the placeholders of a sentence pattern with words that a seed chooses. Called by generate.c
 * for the wrong and the right sentence of a line. */
#include "pattern.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/splitmix.h"

enum {
    PLACEHOLDER_BYTES = 32,
    WORD_BYTES = CORPUS_SENTENCE_BYTES + 1, /* a longer word is cut, and then does not fit */
};

uint64_t corpus_mix(uint64_t value)
{
    return base_splitmix_next(&value);
}

uint64_t corpus_hash(uint64_t seed, const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *c = text; *c != '\0'; c++) {
        hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
    }
    return corpus_mix(hash ^ corpus_mix(seed));
}

const corpus_subject *corpus_pick_subject(const corpus_grammar *grammar, const char *wrong,
                                          uint64_t seed)
{
    const bool only_he = strstr(wrong, "{he}") != NULL;
    const bool only_they = strstr(wrong, "{they}") != NULL;
    uint64_t fitting = 0;
    for (int i = 0; i < grammar->subject_count; i++) {
        const bool he = grammar->subjects[i].person == CORPUS_HE;
        fitting += he ? !only_they : !only_he;
    }
    uint64_t wanted = fitting == 0 ? 0 : corpus_hash(seed, "subject") % fitting;
    for (int i = 0; i < grammar->subject_count; i++) {
        const bool he = grammar->subjects[i].person == CORPUS_HE;
        if ((he ? !only_they : !only_he) && wanted-- == 0) {
            return &grammar->subjects[i];
        }
    }
    return NULL;
}

/* An irregular base with -ed, spelt as a regular verb would be: "goed", "runned", "flied". */
static bool over_regularised(const corpus_verb *verb, char word[WORD_BYTES])
{
    const char *base = verb->forms[CORPUS_BASE];
    const size_t bytes = strlen(base);
    const bool doubled = strlen(verb->forms[CORPUS_ING]) == bytes + 4 &&
                         verb->forms[CORPUS_ING][bytes] == base[bytes - 1];
    if (verb->kind != CORPUS_IRREGULAR) {
        return false;
    }
    if (base[bytes - 1] == 'e') {
        snprintf(word, WORD_BYTES, "%sd", base);
    } else if (base[bytes - 1] == 'y' && bytes > 1 && strchr("aeiou", base[bytes - 2]) == NULL) {
        snprintf(word, WORD_BYTES, "%.*sied", (int)bytes - 1, base);
    } else if (doubled) {
        snprintf(word, WORD_BYTES, "%s%ced", base, base[bytes - 1]);
    } else {
        snprintf(word, WORD_BYTES, "%sed", base);
    }
    return true;
}

/* Joins base and ending without the spelling rules. False if the result is right, or a word of
 * another verb. */
static bool misspelt(const corpus_fill *fill, corpus_form form, const char *ending,
                     char word[WORD_BYTES])
{
    const corpus_verb *verb = fill->verb;
    const char *base = verb->forms[CORPUS_BASE];
    if (form == CORPUS_PAST && (verb->kind != CORPUS_REGULAR || base[strlen(base) - 1] == 'e')) {
        return false;
    }
    snprintf(word, WORD_BYTES, "%s%s", base, ending);
    return !corpus_is_form(fill->grammar, word);
}

static bool verb_form_of(const corpus_fill *fill, const char *placeholder, char word[WORD_BYTES])
{
    static const char *const forms[CORPUS_FORMS] = {"base", "third", "past", "participle", "ing"};
    const corpus_verb *verb = fill->verb;
    const char *found = NULL;
    for (int form = 0; form < CORPUS_FORMS; form++) {
        found = strcmp(placeholder, forms[form]) == 0 ? verb->forms[form] : found;
    }
    if (strcmp(placeholder, "present") == 0) {
        found = verb->forms[fill->subject->person == CORPUS_HE ? CORPUS_THIRD : CORPUS_BASE];
    } else if (strcmp(placeholder, "object") == 0) {
        found = verb->objects[corpus_hash(fill->seed, placeholder) % (uint64_t)verb->object_count];
    } else if (strcmp(placeholder, "subject") == 0 || strcmp(placeholder, "he") == 0 ||
               strcmp(placeholder, "they") == 0) {
        found = fill->subject->text;
    } else if (strcmp(placeholder, "patient") == 0) {
        found = verb->patient;
    }
    if (found != NULL) {
        snprintf(word, WORD_BYTES, "%s", found);
    }
    return found != NULL;
}

/* Whether a time expression fits how often the verb is used. Common verbs fit all. */
static bool fits_often(const corpus_verb *verb, const char *often)
{
    const bool state = strcmp(verb->often, "state") == 0;
    return strcmp(often, "any") == 0 || strcmp(often, verb->often) == 0 ||
           (verb->common && !state && strcmp(often, "state") != 0);
}

/* The rows of a table whose first cell is the placeholder, and whose second fits the verb
 * (by_often); one of them by seed. */
static const corpus_row *pick_row(const corpus_fill *fill, const corpus_table *table,
                                  const char *placeholder, bool by_often, bool *known)
{
    int fitting = 0;
    for (int pass = 0, wanted = -1;; pass++) {
        int at = 0;
        for (int i = 0; i < table->row_count; i++) {
            const corpus_row *row = &table->rows[i];
            if (strcmp(row->cells[0], placeholder) != 0) {
                continue;
            }
            *known = true;
            if (by_often && !fits_often(fill->verb, row->cells[1])) {
                continue;
            }
            if (at++ == wanted) {
                return row;
            }
        }
        fitting = at;
        if (fitting == 0 || pass == 1) {
            return NULL;
        }
        wanted = (int)(corpus_hash(fill->seed, placeholder) % (uint64_t)fitting);
    }
}

static corpus_filled from_table(const corpus_fill *fill, const char *placeholder, bool wrong,
                                char word[WORD_BYTES])
{
    bool known = false;
    const corpus_row *row =
        pick_row(fill, &fill->grammar->table_agreement, placeholder, false, &known);
    const char *found = NULL;
    if (row != NULL) {
        found = corpus_agreement_word(row, fill->subject->person, wrong);
    } else if (!wrong) {
        row = pick_row(fill, &fill->grammar->table_words, placeholder, true, &known);
        found = row == NULL ? NULL : row->cells[2];
    }
    if (found == NULL) {
        return known && !wrong ? CORPUS_NOT_FOR_THIS : CORPUS_UNKNOWN_PLACEHOLDER;
    }
    snprintf(word, WORD_BYTES, "%s", found);
    return strcmp(found, "-") == 0 ? CORPUS_NOT_FOR_THIS : CORPUS_FILLED;
}

static void drop_apostrophes(char *word)
{
    char *to = word;
    for (const char *from = word; *from != '\0'; from++) {
        if (*from != '\'') {
            *to++ = *from;
        }
    }
    *to = '\0';
}

/* {when?}: {when} or nothing. */
static corpus_filled fill_optional(const corpus_fill *fill, char *placeholder,
                                   char word[WORD_BYTES])
{
    const bool left_out = corpus_hash(fill->seed, placeholder) % 2 == 0;
    placeholder[strlen(placeholder) - 1] = '\0';
    const corpus_filled filled = from_table(fill, placeholder, false, word);
    if (left_out) {
        word[0] = '\0';
    }
    return filled;
}

static corpus_filled fill_placeholder(const corpus_fill *fill, char *placeholder,
                                      char word[WORD_BYTES])
{
    const struct {
        const char *placeholder;
        corpus_form form;
        const char *ending;
    } spellings[] = {{"misspelt", CORPUS_PAST, "ed"},
                     {"thirds", CORPUS_THIRD, "s"},
                     {"ings", CORPUS_ING, "ing"}};
    if (strcmp(placeholder, "over") == 0) {
        return over_regularised(fill->verb, word) ? CORPUS_FILLED : CORPUS_NOT_FOR_THIS;
    }
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        if (strcmp(placeholder, spellings[i].placeholder) == 0) {
            return misspelt(fill, spellings[i].form, spellings[i].ending, word)
                       ? CORPUS_FILLED
                       : CORPUS_NOT_FOR_THIS;
        }
    }
    if (verb_form_of(fill, placeholder, word)) {
        return CORPUS_FILLED;
    }
    size_t bytes = strlen(placeholder);
    if (bytes > 0 && placeholder[bytes - 1] == '?') {
        return fill_optional(fill, placeholder, word);
    }
    const bool no_apostrophe = bytes > 0 && placeholder[bytes - 1] == '~';
    bytes -= no_apostrophe;
    const bool wrong = bytes > 0 && placeholder[bytes - 1] == '!';
    bytes -= wrong;
    placeholder[bytes] = '\0';
    const corpus_filled filled = from_table(fill, placeholder, wrong, word);
    if (no_apostrophe) {
        drop_apostrophes(word);
    }
    return filled;
}

/* Copies the placeholder's name behind an opening brace; NULL if it does not end. Returns what
 * follows. */
static const char *placeholder_name(const char *at, char placeholder[PLACEHOLDER_BYTES])
{
    const char *end = strchr(at, '}');
    if (end == NULL || (size_t)(end - at) >= PLACEHOLDER_BYTES) {
        return NULL;
    }
    memcpy(placeholder, at, (size_t)(end - at));
    placeholder[end - at] = '\0';
    return end + 1;
}

corpus_filled corpus_pattern_fill(const corpus_fill *fill, const char *pattern,
                                  char sentence[CORPUS_SENTENCE_BYTES])
{
    size_t used = 0;
    while (*pattern != '\0') {
        char word[WORD_BYTES] = {*pattern, '\0'};
        if (*pattern == '{') {
            char placeholder[PLACEHOLDER_BYTES];
            pattern = placeholder_name(pattern + 1, placeholder);
            const corpus_filled filled = pattern == NULL
                                             ? CORPUS_UNKNOWN_PLACEHOLDER
                                             : fill_placeholder(fill, placeholder, word);
            if (filled != CORPUS_FILLED) {
                return filled;
            }
        } else {
            pattern++;
        }
        const size_t bytes = strlen(word);
        if (bytes == 0) { /* nothing is put here: drop one of the spaces around it */
            used -= used > 0 && sentence[used - 1] == ' ';
            pattern += used == 0 && *pattern == ' ';
        }
        if (used + bytes >= CORPUS_SENTENCE_BYTES) {
            return CORPUS_TOO_LONG;
        }
        memcpy(sentence + used, word, bytes);
        used += bytes;
    }
    sentence[used] = '\0';
    return CORPUS_FILLED;
}
