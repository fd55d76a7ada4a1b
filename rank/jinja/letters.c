/* Large and small letters. Called by filters and methods. Tables are utf8proc's. */
#include <utf8proc.h>

#include "text.h"

enum { SHARP_S = 0xdf, DOTTED_I = 0x130, SIGMA = 0x3a3, FINAL_SIGMA = 0x3c2 };

typedef struct range {
    int32_t first;
    int32_t last;
} range;

static bool is_among(int32_t point, const range *ranges, size_t count)
{
    size_t i = 0;
    while (i < count && (point < ranges[i].first || point > ranges[i].last)) {
        i++;
    }
    return i < count;
}

/* By Unicode's properties Uppercase and Lowercase, which have more than the letters of these
 * categories. */
bool jinja_is_upper(int32_t point)
{
    static const range others[] = {{0x2160, 0x216f},
                                   {0x24b6, 0x24cf},
                                   {0x1f130, 0x1f149},
                                   {0x1f150, 0x1f169},
                                   {0x1f170, 0x1f189}};
    return utf8proc_category(point) == UTF8PROC_CATEGORY_LU ||
           is_among(point, others, sizeof others / sizeof *others);
}

bool jinja_is_lower(int32_t point)
{
    static const range others[] = {
        {0xaa, 0xaa},       {0xba, 0xba},       {0x2b0, 0x2b8},     {0x2c0, 0x2c1},
        {0x2e0, 0x2e4},     {0x345, 0x345},     {0x37a, 0x37a},     {0x1d2c, 0x1d6a},
        {0x1d78, 0x1d78},   {0x1d9b, 0x1dbf},   {0x2071, 0x2071},   {0x207f, 0x207f},
        {0x2090, 0x209c},   {0x2170, 0x217f},   {0x24d0, 0x24e9},   {0x2c7c, 0x2c7d},
        {0xa69c, 0xa69d},   {0xa770, 0xa770},   {0xa7f8, 0xa7f9},   {0xab5c, 0xab5f},
        {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107b0}, {0x107b2, 0x107ba}};
    return utf8proc_category(point) == UTF8PROC_CATEGORY_LL ||
           is_among(point, others, sizeof others / sizeof *others);
}

bool jinja_is_cased(int32_t point)
{
    return utf8proc_category(point) == UTF8PROC_CATEGORY_LT || jinja_is_upper(point) ||
           jinja_is_lower(point);
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
        return is_first || !jinja_is_cased(before);
    case JINJA_TITLE_WORDS:
        break;
    }
    return is_first || begins_word(before);
}

/* Whether its large form is several characters, which the tables do not have. */
static bool is_many(int32_t point)
{
    static const range ranges[] = {
        {0x149, 0x149},   {0x1f0, 0x1f0},   {0x390, 0x390},   {0x3b0, 0x3b0},   {0x587, 0x587},
        {0x1e96, 0x1e9a}, {0x1f50, 0x1f50}, {0x1f52, 0x1f52}, {0x1f54, 0x1f54}, {0x1f56, 0x1f56},
        {0x1f80, 0x1faf}, {0x1fb2, 0x1fb4}, {0x1fb6, 0x1fb7}, {0x1fbc, 0x1fbc}, {0x1fc2, 0x1fc4},
        {0x1fc6, 0x1fc7}, {0x1fcc, 0x1fcc}, {0x1fd2, 0x1fd3}, {0x1fd6, 0x1fd7}, {0x1fe2, 0x1fe4},
        {0x1fe6, 0x1fe7}, {0x1ff2, 0x1ff4}, {0x1ff6, 0x1ff7}, {0x1ffc, 0x1ffc}, {0xfb00, 0xfb06},
        {0xfb13, 0xfb17}};
    return is_among(point, ranges, sizeof ranges / sizeof *ranges);
}

/* What may stand in a word beside its letters, by Unicode's Case_Ignorable. */
static bool is_ignorable(int32_t point)
{
    static const int32_t others[] = {'\'',   '.',    ':',    '^',    '`',    0xa8,
                                     0xad,   0xaf,   0xb4,   0xb7,   0xb8,   0x387,
                                     0x55f,  0x5f4,  0x2018, 0x2019, 0x2024, 0x2027,
                                     0xfe13, 0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a};
    const utf8proc_category_t category = utf8proc_category(point);
    bool is_other = false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        is_other = is_other || point == others[i];
    }
    return is_other || category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME ||
           category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_LM ||
           category == UTF8PROC_CATEGORY_SK;
}

/* Whether a word goes on at the byte `at`. */
static bool goes_on(jinja_work *work, const jinja_string *string, size_t at)
{
    int32_t point = 0;
    while (at < string->bytes) {
        jinja_step(work, 1);
        at += jinja_point_at(string, at, &point);
        if (point < 0 || !is_ignorable(point)) {
            return jinja_is_cased(point);
        }
    }
    return false;
}

jinja_value jinja_set_letters(jinja_work *work, const jinja_string *string, jinja_letters how)
{
    jinja_text text = {.work = work};
    int32_t before = 0;
    int32_t point = 0;
    bool in_word = false; /* a letter is before, with what is ignorable at most between */
    for (size_t at = 0; at < string->bytes;) {
        const size_t bytes = jinja_point_at(string, at, &point);
        const bool upper = becomes_upper(how, before, at == 0);
        const uint32_t origin = jinja_origin_at(string, at);
        if (point < 0) {
            jinja_text_put_bytes(&text, string->at + at, bytes, origin);
        } else if (point == SHARP_S && upper) { /* two letters, which the tables do not have */
            const bool all = how == JINJA_UPPER || how == JINJA_TITLE_WORDS;
            jinja_text_put_bytes(&text, all ? "SS" : "Ss", 2, origin);
        } else if (upper && is_many(point)) {
            jinja_fail(work, BASE_ERR_UNSUPPORTED, "the large form of U+%04X is not known here",
                       (unsigned)point);
        } else if (upper) {
            const bool title = how == JINJA_CAPITALIZE || how == JINJA_TITLE;
            jinja_text_put_point(&text, title ? utf8proc_totitle(point) : utf8proc_toupper(point),
                                 origin);
        } else if (point == DOTTED_I) {
            jinja_text_put_bytes(&text, "i\u0307", sizeof "i\u0307" - 1, origin);
        } else if (point == SIGMA && in_word && !goes_on(work, string, at + bytes)) {
            jinja_text_put_point(&text, FINAL_SIGMA, origin);
        } else {
            jinja_text_put_point(&text, utf8proc_tolower(point), origin);
        }
        in_word = !(upper && how == JINJA_TITLE_WORDS) && /* it lowers what is behind that alone */
                  (jinja_is_cased(point) || (in_word && point >= 0 && is_ignorable(point)));
        before = point;
        at += bytes;
    }
    jinja_step_bytes(work, string->bytes);
    jinja_string made = *jinja_text_end(&text).string;
    made.is_markup = string->is_markup;
    return jinja_string_value(work, made);
}
