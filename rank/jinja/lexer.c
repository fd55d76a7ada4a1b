/* Text outside of tags, comments, raw, and the spaces that tags take. Called by the parser. */
#include "lexer.h"

#include <string.h>

#include <utf8proc.h>

#include "lexing.h"

jinja_token *jinja_lexing_put(jinja_lexing *lexing, jinja_token_kind kind)
{
    lexing->tokens = jinja_grow(lexing->work, lexing->tokens, lexing->count, &lexing->room,
                                sizeof *lexing->tokens);
    jinja_token *token = &lexing->tokens[lexing->count++];
    *token = (jinja_token){.kind = kind, .line = lexing->work->line, .name = ""};
    return token;
}

void jinja_lexing_skip(jinja_lexing *lexing, size_t bytes)
{
    for (const char *end = lexing->at + bytes; lexing->at < end; lexing->at++) {
        lexing->work->line += *lexing->at == '\n' ? 1 : 0;
    }
}

size_t jinja_lexing_blank(const char *at, const char *end)
{
    int32_t point = 0;
    const jinja_string rest = {.at = at, .bytes = (size_t)(end - at)};
    if (at >= end) {
        return 0;
    }
    const size_t bytes = jinja_point_at(&rest, 0, &point);
    return jinja_is_blank(point) ? bytes : 0;
}

static const char *behind_blanks(const jinja_lexing *lexing, const char *at)
{
    for (size_t blank = 0; (blank = jinja_lexing_blank(at, lexing->end)) > 0;) {
        at += blank;
    }
    return at;
}

void jinja_lexing_skip_blanks(jinja_lexing *lexing)
{
    jinja_lexing_skip(lexing, (size_t)(behind_blanks(lexing, lexing->at) - lexing->at));
}

bool jinja_lexing_is(const jinja_lexing *lexing, const char *what)
{
    return strncmp(lexing->at, what, strlen(what)) == 0;
}

/* The next {{, {% or {#, or the end. */
static const char *next_mark(const jinja_lexing *lexing)
{
    for (const char *at = lexing->at; at < lexing->end; at++) {
        at = memchr(at, '{', (size_t)(lexing->end - at));
        if (at == NULL) {
            break;
        }
        if (at[1] == '{' || at[1] == '%' || at[1] == '#') {
            return at;
        }
    }
    return lexing->end;
}

/* The text without what the mark behind it takes. sign: what follows the mark's two characters. */
static jinja_string text_before(jinja_lexing *lexing, jinja_string text, char sign, bool is_print)
{
    if (sign == '-') {
        return jinja_strip(lexing->work, &text, NULL, JINJA_ENDS_RIGHT);
    }
    if (sign == '+' || is_print) {
        return text;
    }
    size_t begin = text.bytes;
    while (begin > 0 && text.at[begin - 1] != '\n') {
        begin--;
    }
    if (begin == 0 && !lexing->at_line) {
        return text;
    }
    const jinja_string line = jinja_cut(&text, begin, text.bytes);
    return jinja_strip(lexing->work, &line, NULL, JINJA_ENDS_BOTH).bytes == 0
               ? jinja_cut(&text, 0, begin)
               : text;
}

static void put_text(jinja_lexing *lexing, jinja_string text)
{
    if (text.bytes > 0) {
        jinja_token *token = jinja_lexing_put(lexing, JINJA_TOKEN_TEXT);
        token->value = jinja_string_value(lexing->work, text);
    }
}

/* Passes an end mark of two characters, with the sign before it. trims: also the line end behind it. */
static void pass_end(jinja_lexing *lexing, char sign, bool trims)
{
    jinja_lexing_skip(lexing, sign == '+' || sign == '-' ? 3 : 2);
    if (sign == '-') {
        jinja_lexing_skip_blanks(lexing);
    } else if (trims && sign != '+' && *lexing->at == '\n') {
        jinja_lexing_skip(lexing, 1);
    }
    lexing->at_line = lexing->at[-1] == '\n';
}

static void pass_comment(jinja_lexing *lexing)
{
    const char *end = strstr(lexing->at + 2, "#}");
    if (end == NULL) {
        jinja_fail(lexing->work, BASE_ERR_INVALID, "a comment has no end");
    }
    const char sign = end > lexing->at + 2 ? end[-1] : ' ';
    const bool has_sign = sign == '-' || sign == '+';
    jinja_lexing_skip(lexing, (size_t)(end - lexing->at) - (has_sign ? 1 : 0));
    pass_end(lexing, sign, true);
}

/* The bytes of a tag with that name alone, with signs and blanks; 0: it is none there. */
static size_t tag_bytes(const jinja_lexing *lexing, const char *at, const char *name)
{
    const char *begin = at;
    if (strncmp(at, "{%", 2) != 0) {
        return 0;
    }
    at += 2;
    at += *at == '-' || *at == '+' ? 1 : 0;
    at = behind_blanks(lexing, at);
    if (strncmp(at, name, strlen(name)) != 0) {
        return 0;
    }
    at = behind_blanks(lexing, at + strlen(name));
    at += *at == '-' || *at == '+' ? 1 : 0;
    return strncmp(at, "%}", 2) == 0 ? (size_t)(at - begin) + 2 : 0;
}

/* {% raw %} has bytes; what follows is text up to {% endraw %}. */
static void pass_raw(jinja_lexing *lexing, size_t bytes)
{
    const char sign = lexing->at[bytes - 3];
    jinja_lexing_skip(lexing, bytes - (sign == '-' || sign == '+' ? 3 : 2));
    pass_end(lexing, sign, false);
    for (const char *end = lexing->at; (end = strstr(end, "{%")) != NULL; end += 2) {
        const size_t end_bytes = tag_bytes(lexing, end, "endraw");
        if (end_bytes > 0) {
            const size_t text_bytes = (size_t)(end - lexing->at);
            const jinja_string text = {.at = lexing->at, .bytes = text_bytes};
            const char last = end[end_bytes - 3];
            put_text(lexing, text_before(lexing, text, end[2], false));
            jinja_lexing_skip(lexing,
                              text_bytes + end_bytes - (last == '-' || last == '+' ? 3 : 2));
            pass_end(lexing, last, true);
            return;
        }
    }
    jinja_fail(lexing->work, BASE_ERR_INVALID, "a {%% raw %%} has no end");
}

static void lex_mark(jinja_lexing *lexing)
{
    const bool is_print = lexing->at[1] == '{';
    const size_t raw_bytes = tag_bytes(lexing, lexing->at, "raw");
    if (lexing->at[1] == '#') {
        pass_comment(lexing);
        return;
    }
    if (raw_bytes > 0) {
        pass_raw(lexing, raw_bytes);
        return;
    }
    (void)jinja_lexing_put(lexing, is_print ? JINJA_TOKEN_PRINT : JINJA_TOKEN_TAG);
    jinja_lexing_skip(lexing, lexing->at[2] == '-' || lexing->at[2] == '+' ? 3 : 2);
    jinja_lexing_tag(lexing, is_print ? JINJA_TOKEN_PRINT_END : JINJA_TOKEN_TAG_END,
                     is_print ? "}}" : "%}");
    pass_end(lexing, *lexing->at, !is_print);
}

/* A copy whose line ends are \n, without one at the end. */
static size_t normalize(char *copy, const char *source, size_t bytes)
{
    size_t used = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (source[i] == '\r' && i + 1 < bytes && source[i + 1] == '\n') {
            continue;
        }
        copy[used++] = source[i];
        if (source[i] == '\r') {
            copy[used - 1] = '\n';
        }
    }
    used -= used > 0 && copy[used - 1] == '\n' ? 1 : 0;
    copy[used] = '\0';
    return used;
}

const jinja_token *jinja_tokens_of(jinja_work *work, const char *source, size_t bytes)
{
    char *copy = jinja_alloc(work, bytes + 1);
    const size_t used = normalize(copy, source, bytes);
    jinja_lexing lexing = {.work = work, .at = copy, .end = copy + used, .at_line = true};
    work->line = 1;
    while (lexing.at < lexing.end) {
        const char *mark = next_mark(&lexing);
        const jinja_string text = {.at = lexing.at, .bytes = (size_t)(mark - lexing.at)};
        if (mark == lexing.end) {
            put_text(&lexing, text);
            break;
        }
        put_text(&lexing, text_before(&lexing, text, mark[2], mark[1] == '{'));
        jinja_lexing_skip(&lexing, text.bytes);
        lex_mark(&lexing);
    }
    (void)jinja_lexing_put(&lexing, JINJA_TOKEN_END);
    return lexing.tokens;
}
