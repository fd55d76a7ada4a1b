/* Large and small letters. Called by filters and methods. Tables are utf8proc's. */
#include <utf8proc.h>

#include "text.h"

enum { SHARP_S = 0xdf };

bool jinja_is_upper(int32_t point)
{
    const utf8proc_category_t category = utf8proc_category(point);
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LT;
}

bool jinja_is_lower(int32_t point)
{
    return utf8proc_category(point) == UTF8PROC_CATEGORY_LL;
}

static bool begins_word(int32_t before)
{
    return jinja_is_blank(before) || before == '-' || before == '(' || before == '{' ||
           before == '[' || before == '<';
}

/* Whether the character behind `before` becomes large. */
static bool becomes_upper(jinja_letters how, int32_t before, bool is_first)
{
    switch (how) {
    case JINJA_UPPER:
        return true;
    case JINJA_LOWER:
        return false;
    case JINJA_CAPITALIZE:
        return is_first;
    case JINJA_TITLE:
        return is_first || !(jinja_is_upper(before) || jinja_is_lower(before));
    case JINJA_TITLE_WORDS:
        break;
    }
    return is_first || begins_word(before);
}

jinja_value jinja_set_letters(jinja_work *work, const jinja_string *string, jinja_letters how)
{
    jinja_text text = {.work = work};
    int32_t before = 0;
    int32_t point = 0;
    for (size_t at = 0; at < string->bytes;) {
        const size_t bytes = jinja_point_at(string, at, &point);
        const bool upper = becomes_upper(how, before, at == 0);
        const uint32_t origin = jinja_origin_at(string, at);
        if (point < 0) {
            jinja_text_put_bytes(&text, string->at + at, bytes, origin);
        } else if (point == SHARP_S && upper) { /* two letters, which the tables do not have */
            const bool all = how == JINJA_UPPER || how == JINJA_TITLE_WORDS;
            jinja_text_put_bytes(&text, all ? "SS" : "Ss", 2, origin);
        } else if (upper) {
            const bool title = how == JINJA_CAPITALIZE || how == JINJA_TITLE;
            jinja_text_put_point(&text, title ? utf8proc_totitle(point) : utf8proc_toupper(point),
                                 origin);
        } else {
            jinja_text_put_point(&text, utf8proc_tolower(point), origin);
        }
        before = point;
        at += bytes;
    }
    jinja_step_bytes(work, string->bytes);
    return jinja_text_end(&text);
}
