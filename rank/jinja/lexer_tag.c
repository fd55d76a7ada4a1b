/* Names, literals and signs within tags. Called by lexer.c. */
#include <string.h>

#include <utf8proc.h>

#include "lexing.h"
#include "limits.h"
#include "real.h"

enum {
    NUMBER_BYTES = 256,
    POINT_MAX = 0x10ffff,
    OCTAL_DIGITS = 3,
    DECIMAL = 10,
};

/* ---- strings ---- */

static int digit_of(char digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    const int letter = digit | 0x20;
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + DECIMAL : 16;
}

/* Reads up to `most` digits of a number to that base, and passes them. */
static uint32_t read_code(const char **at, size_t most, int base, size_t *count)
{
    uint32_t code = 0;
    for (*count = 0; *count < most && digit_of(**at) < base; ++*count) {
        code = code * (uint32_t)base + (uint32_t)digit_of(*(*at)++);
    }
    return code;
}

static void put_code(jinja_text *text, const char **at, size_t digits, int base)
{
    size_t count = 0;
    const uint32_t code = read_code(at, digits, base, &count);
    const bool surrogate = code >= 0xd800 && code <= 0xdfff;
    if ((base == 16 && count < digits) || code > POINT_MAX || surrogate) {
        jinja_fail(text->work, BASE_ERR_INVALID, "a string has an escape that is no character");
    }
    jinja_text_put_point(text, (int32_t)code, 0);
}

/* at: behind the backslash. Passes what it escapes. */
static void put_escape(jinja_text *text, const char **at)
{
    static const char letters[] = "ntrabfv\\'\"";
    static const char meant[] = "\n\t\r\a\b\f\v\\'\"";
    const char letter = **at;
    const char *found = letter != '\0' ? strchr(letters, letter) : NULL;
    if (found != NULL) {
        jinja_text_put_bytes(text, &meant[found - letters], 1, 0);
        ++*at;
    } else if (letter == '\n') {
        ++*at;
    } else if (letter >= '0' && letter <= '7') {
        put_code(text, at, OCTAL_DIGITS, 8);
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
        ++*at;
        put_code(text, at, letter == 'x' ? 2 : letter == 'u' ? 4 : 8, 16);
    } else if (letter == 'N') {
        jinja_fail(text->work, BASE_ERR_UNSUPPORTED, "\\N{...} in a string is not known here");
    } else {
        jinja_text_put_bytes(text, "\\", 1, 0); /* no escape: the backslash stays */
    }
}

static void lex_string(jinja_lexing *lexing)
{
    const char quote = *lexing->at;
    const char stops[] = {quote, '\\', '\0'};
    jinja_text text = {.work = lexing->work};
    jinja_token *token = jinja_lexing_put(lexing, JINJA_TOKEN_STRING);
    const char *at = lexing->at + 1;
    for (;;) {
        const size_t plain = strcspn(at, stops);
        jinja_text_put_bytes(&text, at, plain, 0);
        at += plain;
        if (*at == '\0') {
            jinja_fail(lexing->work, BASE_ERR_INVALID, "a string has no end");
        }
        if (*at++ == quote) {
            break;
        }
        if (*at == '\0') {
            jinja_fail(lexing->work, BASE_ERR_INVALID, "a string has no end");
        }
        put_escape(&text, &at);
    }
    token->value = jinja_text_end(&text);
    jinja_lexing_skip(lexing, (size_t)(at - lexing->at));
}

/* ---- numbers ---- */

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* Copies digits without the _ between them, and passes them. */
static size_t take_digits(jinja_lexing *lexing, const char **at, char number[NUMBER_BYTES],
                          size_t used)
{
    while (is_digit(**at) || (**at == '_' && is_digit((*at)[-1]) && is_digit((*at)[1]))) {
        if (used + 3 >= NUMBER_BYTES) {
            jinja_fail(lexing->work, BASE_ERR_LIMIT, "a number has too many digits");
        }
        if (**at != '_') {
            number[used++] = **at;
        }
        ++*at;
    }
    return used;
}

static jinja_value integer_of(jinja_lexing *lexing, const char *number)
{
    int64_t integer = 0;
    for (; *number != '\0'; number++) {
        if (__builtin_mul_overflow(integer, DECIMAL, &integer) ||
            __builtin_add_overflow(integer, *number - '0', &integer)) {
            jinja_fail(lexing->work, BASE_ERR_LIMIT, "an integer is too great");
        }
    }
    return jinja_int(integer);
}

static void lex_number(jinja_lexing *lexing)
{
    char number[NUMBER_BYTES];
    const char *at = lexing->at;
    bool real = false;
    size_t used = take_digits(lexing, &at, number, 0);
    if (*at == '.' && is_digit(at[1])) {
        real = true;
        number[used++] = *at++;
        used = take_digits(lexing, &at, number, used);
    }
    if ((*at | 0x20) == 'e' &&
        (is_digit(at[1]) || ((at[1] == '+' || at[1] == '-') && is_digit(at[2])))) {
        real = true;
        number[used++] = *at++;
        if (!is_digit(*at)) {
            number[used++] = *at++;
        }
        used = take_digits(lexing, &at, number, used);
    }
    number[used] = '\0';
    if (!real && ((*at | 0x20) == 'x' || (*at | 0x20) == 'o' || (*at | 0x20) == 'b')) {
        jinja_fail(lexing->work, BASE_ERR_UNSUPPORTED, "numbers to other bases are not known here");
    }
    jinja_token *token = jinja_lexing_put(lexing, real ? JINJA_TOKEN_REAL : JINJA_TOKEN_INT);
    if (real) {
        token->value = jinja_real(0);
        if (!jinja_real_read(number, &token->value.real)) {
            jinja_fail(lexing->work, BASE_ERR_INVALID, "%s is no number", number);
        }
    } else {
        token->value = integer_of(lexing, number);
    }
    jinja_lexing_skip(lexing, (size_t)(at - lexing->at));
}

/* ---- names and signs ---- */

/* The bytes of a name's character; 0: it is none. */
static size_t name_bytes(const jinja_lexing *lexing, const char *at)
{
    int32_t point = 0;
    const jinja_string rest = {.at = at, .bytes = (size_t)(lexing->end - at)};
    if (rest.bytes == 0) {
        return 0;
    }
    const size_t bytes = jinja_point_at(&rest, 0, &point);
    if (point < 0x80) {
        const int letter = point | 0x20;
        return is_digit((char)point) || (letter >= 'a' && letter <= 'z') || point == '_' ? 1 : 0;
    }
    const utf8proc_category_t category = utf8proc_category(point);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NO ? bytes : 0;
}

static void lex_name(jinja_lexing *lexing)
{
    const char *end = lexing->at;
    for (size_t bytes = 0; (bytes = name_bytes(lexing, end)) > 0;) {
        end += bytes;
    }
    jinja_token *token = jinja_lexing_put(lexing, JINJA_TOKEN_NAME);
    token->name = jinja_copy(lexing->work, lexing->at, (size_t)(end - lexing->at));
    jinja_lexing_skip(lexing, (size_t)(end - lexing->at));
}

/* Returns the sign there, longer ones first. */
static const char *lex_sign(jinja_lexing *lexing)
{
    static const char *const signs[] = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*",
                                        "/",  "%",  "~",  "<",  ">",  "=",  ".", ",", ":",
                                        "|",  "(",  ")",  "[",  "]",  "{",  "}", ";"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (jinja_lexing_is(lexing, signs[i])) {
            jinja_lexing_put(lexing, JINJA_TOKEN_SIGN)->name = signs[i];
            jinja_lexing_skip(lexing, strlen(signs[i]));
            return signs[i];
        }
    }
    jinja_fail(lexing->work, BASE_ERR_INVALID, "the character '%c' has no meaning here",
               *lexing->at >= ' ' && *lexing->at <= '~' ? *lexing->at : '?');
}

/* Whether the end mark is there, with the sign that may be before it. */
static bool is_end(const jinja_lexing *lexing, const char *end_mark)
{
    const char sign = *lexing->at;
    const bool has_sign = sign == '-' || (sign == '+' && end_mark[0] == '%');
    return strncmp(lexing->at + (has_sign ? 1 : 0), end_mark, 2) == 0;
}

void jinja_lexing_tag(jinja_lexing *lexing, jinja_token_kind end_kind, const char *end_mark)
{
    char open[RANK_JINJA_NESTING_MAX]; /* the brackets that are open, as those that close them */
    size_t open_count = 0;
    for (;;) {
        jinja_lexing_skip_blanks(lexing);
        if (lexing->at >= lexing->end) {
            jinja_fail(lexing->work, BASE_ERR_INVALID, "a tag has no end");
        }
        if (open_count == 0 && is_end(lexing, end_mark)) {
            (void)jinja_lexing_put(lexing, end_kind);
            return;
        }
        if (*lexing->at == '"' || *lexing->at == '\'') {
            lex_string(lexing);
        } else if (is_digit(*lexing->at)) {
            lex_number(lexing);
        } else if (name_bytes(lexing, lexing->at) > 0) {
            lex_name(lexing);
        } else {
            const char sign = lex_sign(lexing)[0];
            if (sign == '(' || sign == '[' || sign == '{') {
                if (open_count == sizeof open) {
                    jinja_fail(lexing->work, BASE_ERR_LIMIT, "more than %d brackets are open",
                               RANK_JINJA_NESTING_MAX);
                }
                open[open_count++] = sign == '(' ? ')' : sign == '[' ? ']' : '}';
            } else if ((sign == ')' || sign == ']' || sign == '}') &&
                       (open_count == 0 || open[--open_count] != sign)) {
                jinja_fail(lexing->work, BASE_ERR_INVALID, "a '%c' closes nothing", sign);
            }
        }
    }
}
