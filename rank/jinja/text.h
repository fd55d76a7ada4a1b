/* Strings: what they are made of, character by character, and how they are put together. */
#ifndef RANK_JINJA_TEXT_H
#define RANK_JINJA_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "value.h"

/* A string that grows. One of zeros but for its work is empty. */
typedef struct jinja_text {
    jinja_work *work;
    char *at;
    size_t bytes;
    size_t room;
    uint32_t *origins; /* (room); NULL: all have this origin: */
    uint32_t origin;
} jinja_text;

void jinja_text_put(jinja_text *text, const jinja_string *string);
void jinja_text_put_bytes(jinja_text *text, const char *at, size_t bytes, uint32_t origin);
void jinja_text_put_name(jinja_text *text, const char *name); /* ends with a NUL; origin 0 */
void jinja_text_put_point(jinja_text *text, int32_t point, uint32_t origin);
jinja_value jinja_text_end(jinja_text *text);

/* The string of a NUL-terminated text that stays, of origin 0. */
jinja_value jinja_string_of(jinja_work *work, const char *text);
jinja_value jinja_string_value(jinja_work *work, jinja_string string);
/* Bytes begin … end - 1. */
jinja_string jinja_cut(const jinja_string *string, size_t begin, size_t end);
uint32_t jinja_origin_at(const jinja_string *string, size_t index);
bool jinja_string_is(const jinja_string *string, const char *name);
bool jinja_string_equal(const jinja_string *left, const jinja_string *right);
/* Where the part is, from the byte `from` on; SIZE_MAX: nowhere. */
size_t jinja_find(jinja_work *work, const jinja_string *whole, const jinja_string *part,
                  size_t from);
/* A copy with a NUL behind it, for messages and names. */
const char *jinja_name_of(jinja_work *work, const jinja_string *string);

/* The character at the byte `at`, which is in the string: its bytes, and the code point; -1: no UTF-8. */
size_t jinja_point_at(const jinja_string *string, size_t at, int32_t *point);
size_t jinja_point_count(jinja_work *work, const jinja_string *string);
/* The bytes of the first (count) characters, of all if there are fewer. */
size_t jinja_point_offset(jinja_work *work, const jinja_string *string, size_t count);
/* The characters, a string each. */
jinja_value *jinja_points(jinja_work *work, const jinja_string *string, size_t *count);

/* Whether Python's str.isspace() has it. */
bool jinja_is_blank(int32_t point);
bool jinja_is_upper(int32_t point);
bool jinja_is_lower(int32_t point);
bool jinja_is_cased(int32_t point); /* one of these, or a title's */

typedef enum jinja_ends { JINJA_ENDS_BOTH, JINJA_ENDS_LEFT, JINJA_ENDS_RIGHT } jinja_ends;

/* As Python's str.strip, lstrip and rstrip. characters: NULL: blanks. */
jinja_string jinja_strip(jinja_work *work, const jinja_string *string,
                         const jinja_string *characters, jinja_ends ends);

typedef enum jinja_letters {
    JINJA_UPPER,
    JINJA_LOWER,
    JINJA_CAPITALIZE, /* the first large, all others small */
    JINJA_TITLE,      /* the first of each word large: behind what is no letter */
    JINJA_TITLE_WORDS /* Jinja's filter: behind blanks - ( { [ < alone */
} jinja_letters;
jinja_value jinja_set_letters(jinja_work *work, const jinja_string *string, jinja_letters how);

/* Each part that `old` is becomes `new`; count < 0: all, else so many. */
jinja_value jinja_replace(jinja_work *work, const jinja_string *string, const jinja_string *old,
                          const jinja_string *new, int64_t count);

#endif
