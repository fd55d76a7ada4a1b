/* Recognises the form of a chat template. Called by chat.c. */
#include "chat_form.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "chat_answer.h"
#include "chat_thinking.h"

static const rank_chat_form forms[] = {
    {"ChatML", "<|im_start|>", "", "<|im_end|>", "\n", "\n", false},
    {"Llama 3", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "\n\n", "", true},
};

enum { FORMS = sizeof forms / sizeof forms[0] };

/* Roles whose messages the template writes, as bits. */
enum { SYSTEM = 1, USER = 2, ASSISTANT = 4, ALL = 7 };

typedef struct reading {
    const rank_chat_form *form;
    rank_chat_habits *habits;
    const char *template;
    int written;       /* roles */
    bool trims_known;  /* habits->trims is said */
    bool answers;      /* the beginning of an answer is written */
    bool opens_system; /* a system message is begun whose content is written elsewhere */
    bool has_tools;    /* what is said to tools is not looked at, */
    bool has_dates;    /* nor what stands beside dates */
    bool has_mark;     /* the tag that is read */
    const char *tag;
    rank_chat_thinking thinking;
} reading;

/* ---- words ---- */

static bool eat(const char **at, const char *word)
{
    const size_t bytes = strlen(word);
    const bool equal = strncmp(*at, word, bytes) == 0;
    *at += equal ? bytes : 0;
    return equal;
}

static void skip_blank(const char **at)
{
    while (isspace((unsigned char)**at)) {
        (*at)++;
    }
}

/* Line ends as such, or as escapes. */
static bool eat_lines(const char **at, const char *lines)
{
    for (; *lines != '\0'; lines++) {
        if (!eat(at, "\\n") && !eat(at, "\n")) {
            return false;
        }
    }
    return true;
}

static bool eat_quote(const char **at)
{
    return eat(at, "'") || eat(at, "\"");
}

/* A quote that ends a string, a plus, and a quote that begins the next; without the quotes, a plus. */
static bool eat_plus(const char **at)
{
    skip_blank(at);
    const bool plus = eat(at, "+");
    skip_blank(at);
    return plus;
}

/* NAME.member, NAME['member'], or NAME[0].member. */
static bool eat_member(const char **at, const char *member)
{
    const char *begin = *at;
    while (isalnum((unsigned char)**at) || **at == '_') {
        (*at)++;
    }
    (void)eat(at, "[0]");
    if (*at == begin) {
        return false;
    }
    if (eat(at, ".")) {
        return eat(at, member) && !isalnum((unsigned char)**at) && **at != '_';
    }
    return eat(at, "[") && eat_quote(at) && eat(at, member) && eat_quote(at) && eat(at, "]");
}

static bool ends_tag(const char *at)
{
    skip_blank(&at);
    (void)eat(&at, "-");
    return strncmp(at, "}}", 2) == 0 || strncmp(at, "%}", 2) == 0;
}

/* A message's content, or the variable that has it. */
static bool eat_content_name(const reading *of, const char **at)
{
    const char *variable = *at;
    if (rank_chat_thinking_has_content(&of->thinking) && eat(&variable, "content") &&
        strchr(" \n+-}|", *variable) != NULL) {
        *at = variable;
        return true;
    }
    return eat_member(at, "content");
}

/* The content of a message, and whether it is trimmed, as elsewhere. */
static bool eat_content(reading *of, const char **at)
{
    bool trims = false;
    if (!eat_content_name(of, at)) {
        return false;
    }
    if (eat(at, ".strip()")) {
        trims = true;
    } else {
        const char *pipe = *at;
        skip_blank(&pipe);
        if (eat(&pipe, "|")) {
            skip_blank(&pipe);
            trims = eat(&pipe, "trim");
            *at = pipe;
        }
    }
    const bool same = !of->trims_known || of->habits->trims == trims;
    of->habits->trims = trims;
    of->trims_known = true;
    skip_blank(at);
    return same && (**at == '+' || ends_tag(*at));
}

/* Copies what stands in a string at `from`, up to `end` or, if that is NULL, to the string's own end. False:
 * the string ends sooner, has an escape that is not known, or is too long. */
static bool copy_literal(const char *from, const char *end, char quote,
                         char to[RANK_CHAT_SYSTEM_BYTES])
{
    static const char escapes[] = "nt\\'\"";
    static const char meant[] = "\n\t\\'\"";
    size_t used = 0;
    while (end != NULL ? strncmp(from, end, strlen(end)) != 0 : *from != quote) {
        char one = *from++;
        if (one == '\\') {
            const char *escape = *from != '\0' ? strchr(escapes, *from++) : NULL;
            if (escape == NULL) {
                return false;
            }
            one = meant[escape - escapes];
        } else if (one == quote || one == '\0') {
            return false;
        }
        if (used + 1 == RANK_CHAT_SYSTEM_BYTES) {
            return false;
        }
        to[used++] = one;
    }
    to[used] = '\0';
    return true;
}

/* Whether the tag before the one that is read has the word. */
static bool tag_before_has(const reading *of, const char *word)
{
    const char *before = of->tag;
    while (before > of->template && *--before != '{') {
        if (strncmp(before, word, strlen(word)) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- marks ---- */

/* Behind "system" and the gap: a content, nothing yet, or the template's own message as a whole. */
static bool read_system(reading *of, const char *at, char quote)
{
    char text[RANK_CHAT_SYSTEM_BYTES];
    if (*at == quote) {
        at++;
        if (ends_tag(at)) {
            of->opens_system = true;
            return true;
        }
        of->written |= SYSTEM;
        return eat_plus(&at) && eat_content(of, &at);
    }
    const bool instead = tag_before_has(of, "system") || tag_before_has(of, "else");
    if (!instead || !copy_literal(at, of->form->close, quote, text) ||
        (of->habits->adds_system && strcmp(of->habits->system, text) != 0)) {
        return false;
    }
    memcpy(of->habits->system, text, strlen(text) + 1);
    of->habits->adds_system = true;
    return true;
}

/* Behind the open mark, where the role is the message's own. */
static bool read_any(reading *of, const char *at)
{
    if (!eat_plus(&at) || !eat_member(&at, "role")) {
        return false;
    }
    if (ends_tag(at)) {
        return of->has_tools; /* of a message that calls some */
    }
    of->written |= ALL;
    if (!eat_plus(&at) || !eat_quote(&at) || !eat(&at, of->form->named) ||
        !eat_lines(&at, of->form->gap) || !eat_quote(&at)) {
        return false;
    }
    return eat_plus(&at) && eat_content(of, &at);
}

/* Behind the open mark, where the role is a word. */
static bool read_word(reading *of, const char *at, char quote)
{
    const char *after = at;
    const bool user = eat(&at, "user");
    const bool assistant = !user && eat(&at, "assistant");
    const bool system = !user && !assistant && eat(&at, "system");
    if (at == after && !eat(&at, "tool") && !eat(&at, "ipython")) {
        return false;
    }
    after = at + 1;
    if (*at == quote && ends_tag(after)) {
        return of->has_tools && !system;
    }
    if (!eat(&at, of->form->named) || !eat_lines(&at, of->form->gap)) {
        return false;
    }
    if (system) {
        return read_system(of, at, quote);
    }
    if (*at++ != quote) {
        return false;
    }
    if (ends_tag(at)) {
        if (assistant) {
            of->answers = true;
            rank_chat_thinking_answer_begins(&of->thinking);
        }
        return assistant || of->has_tools;
    }
    of->written |= user ? USER : assistant ? ASSISTANT : 0;
    return eat_plus(&at) && eat_content(of, &at);
}

/* Behind the close mark comes the tail, in the same string or the next, and then the end of an expression. */
static bool read_close(const reading *of, const char *at)
{
    if (of->form->tail[0] == '\0') {
        return eat_quote(&at) && ends_tag(at);
    }
    if (eat_quote(&at)) {
        return eat_plus(&at) && eat_quote(&at) && eat_lines(&at, of->form->tail) &&
               eat_quote(&at) && ends_tag(at);
    }
    return eat_lines(&at, of->form->tail) && eat_quote(&at) && ends_tag(at);
}

/* One string of the program, from behind its quote on. */
static bool read_string(reading *of, const char *begin, const char *end, char quote)
{
    static const char *const of_tools[] = {"<|python_tag|>", "<|eom_id|>"};
    for (const char *at = begin; at < end; at++) {
        const char *after = at;
        if (strncmp(at, "<|", 2) != 0) {
            continue;
        }
        of->has_mark = true;
        if (eat(&after, of->form->open)) {
            if (at != begin) {
                return false;
            }
            if (!(*after == quote ? read_any(of, after + 1) : read_word(of, after, quote))) {
                return false;
            }
        } else if (eat(&after, of->form->close)) {
            if (!read_close(of, after)) {
                return false;
            }
        } else if (!(of->form->named[0] != '\0' && eat(&after, of->form->named)) &&
                   !(of->has_tools && (eat(&after, of_tools[0]) || eat(&after, of_tools[1])))) {
            return false;
        }
    }
    return true;
}

/* ---- the program ---- */

/* Whether a string without marks says nothing of its own: keys, spaces, and what is only compared. */
static bool is_silent(const reading *of, const char *tag, const char *begin, const char *end)
{
    static const char *const dates[] = {"Cutting Knowledge Date: ", "Today Date: "};
    const char *at = tag + 2;
    (void)eat(&at, "-");
    skip_blank(&at);
    const bool sets = tag[1] == '%' && eat(&at, "set ") && strncmp(at, "date_string", 11) != 0;
    const char *before = begin - 2;
    while (before > tag && isspace((unsigned char)*before)) {
        before--;
    }
    if (strncmp(at, "raise_exception", 15) == 0 || *before == '[' || *before == '(' ||
        strncmp(begin, of->form->open, strlen(of->form->open)) == 0 ||
        strncmp(begin, of->form->close, strlen(of->form->close)) == 0 ||
        (of->form->named[0] != '\0' &&
         strncmp(begin, of->form->named, strlen(of->form->named)) == 0)) {
        return true;
    }
    for (size_t i = 0; of->form->dated && i < sizeof dates / sizeof *dates; i++) {
        if (strncmp(begin, dates[i], strlen(dates[i])) == 0) {
            return true;
        }
    }
    at = begin;
    while (at < end && (isspace((unsigned char)*at) || eat(&at, "\\n"))) {
        at += isspace((unsigned char)*at) ? 1 : 0;
    }
    /* a variable may be the default of a system message, with tools or without */
    return at >= end || (sets ? *before != '=' : tag[1] == '%' || of->has_tools);
}

static bool begins_with(const char *at, const char *word)
{
    return eat(&at, word) && ends_tag(at);
}

/* Whether an expression without marks writes nothing that is not known: what begins all, what was put together
 * with marks before, or what ends a text that is not answered. */
static bool is_known(const reading *of, const char *tag)
{
    const char *at = tag + 2;
    (void)eat(&at, "-");
    skip_blank(&at);
    if (begins_with(at, "eos_token")) {
        return tag_before_has(of, "else");
    }
    const bool whole = begins_with(at, "content") && !rank_chat_thinking_has_content(&of->thinking);
    return of->has_tools || of->has_dates || begins_with(at, "bos_token") || whole ||
           strncmp(at, "raise_exception", 15) == 0;
}

/* Reads a tag with its strings. NULL: it has no end, or is not of the form. */
static const char *read_tag(reading *of, const char *tag)
{
    const char *end = tag[1] == '{' ? "}}" : tag[1] == '%' ? "%}" : "#}";
    const char *at = tag + 2;
    if (tag[1] == '#') {
        at = strstr(at, end);
        return at != NULL ? at + 2 : NULL;
    }
    const rank_chat_statement statement = rank_chat_thinking_read(&of->thinking, tag, &at);
    if (statement != RANK_CHAT_OTHER) {
        return statement == RANK_CHAT_KNOWN ? at : NULL;
    }
    at = tag + 2;
    of->has_mark = false;
    of->tag = tag;
    if (!rank_chat_answer_read(tag, tag_before_has(of, "defined"), of->habits)) {
        return NULL;
    }
    while (*at != '\0' && strncmp(at, end, 2) != 0) {
        const char quote = *at++;
        if (quote != '\'' && quote != '"') {
            continue;
        }
        const char *begin = at;
        while (*at != '\0' && *at != quote) {
            at += *at == '\\' && at[1] != '\0' ? 2 : 1;
        }
        if (*at == '\0' || !read_string(of, begin, at, quote) || !is_silent(of, tag, begin, at)) {
            return NULL;
        }
        at++;
    }
    if (*at == '\0' || (tag[1] == '{' && !of->has_mark && !is_known(of, tag))) {
        return NULL;
    }
    return at + 2;
}

static bool is_tag(const char *at)
{
    return at[0] == '{' && (at[1] == '{' || at[1] == '%' || at[1] == '#');
}

/* Whether nothing is left of the text between two tags, as transformers has Jinja read it: a line end behind a
 * block is dropped, and so are spaces before one at a line's beginning. */
static bool is_dropped(const char *template, const char *text, const char *end)
{
    const bool first = text == template;
    const bool block_before = !first && text[-1] == '}' && text[-2] != '}';
    const bool block_behind = *end != '\0' && end[1] != '{';
    const char *at = text;
    while (at < end && isspace((unsigned char)*at)) {
        at++;
    }
    if (at < end) {
        return false;
    }
    if ((!first && text[-3] == '-') || (*end != '\0' && end[2] == '-')) {
        return true;
    }
    at = text;
    if (at < end && *at == '\n' && (block_before || *end == '\0')) {
        at++;
    }
    const bool line_begins = first || (at > text);
    while (block_behind && line_begins && at < end && (*at == ' ' || *at == '\t')) {
        at++;
    }
    return at == end;
}

static bool read_program(reading *of, const char *template)
{
    const char *at = template;
    while (at != NULL && *at != '\0') {
        const char *end = at;
        while (*end != '\0' && !is_tag(end)) {
            end++;
        }
        if (!is_dropped(template, at, end)) {
            return false;
        }
        at = *end != '\0' ? read_tag(of, end) : end;
    }
    return at != NULL;
}

/* From Llama 3.1 on, a system message comes first in any case, and begins with two dates. The second is the
 * day's, if a program can say it. Here it is the one that the template has beside: the same command gives
 * the same text. */
static bool read_dates(const char *template, rank_chat_habits *habits)
{
    static const char known[] = "Cutting Knowledge Date: December 2023";
    static const char date[] = "date_string = \"";
    char day[RANK_CHAT_SYSTEM_BYTES];
    const char *at = strstr(template, date);
    if (strstr(template, known) == NULL || at == NULL ||
        !copy_literal(at + sizeof date - 1, NULL, '"', day)) {
        return false;
    }
    habits->adds_system = true;
    return snprintf(habits->preamble, sizeof habits->preamble, "%s\nToday Date: %s\n\n", known,
                    day) < (int)sizeof habits->preamble;
}

const rank_chat_form *rank_chat_form_find(const char *template, rank_chat_habits *habits)
{
    const rank_chat_form *form = NULL;
    for (int i = 0; form == NULL && i < FORMS; i++) {
        form = strstr(template, forms[i].open) != NULL ? &forms[i] : NULL;
    }
    *habits = (rank_chat_habits){.begins = strstr(template, "bos_token") != NULL};
    reading of = {.form = form,
                  .habits = habits,
                  .template = template,
                  .has_tools = strstr(template, "tools") != NULL,
                  .has_dates = strstr(template, "Cutting Knowledge") != NULL,
                  .thinking = {.thinks = strstr(template, "<think>") != NULL}};
    if (form == NULL || !read_program(&of, template) || of.written != ALL || !of.answers ||
        strstr(template, form->close) == NULL || !rank_chat_thinking_is_whole(&of.thinking)) {
        return NULL;
    }
    habits->thinks = of.thinking.thinks;
    habits->has_switch = rank_chat_thinking_has_switch(&of.thinking);
    if (of.has_dates) {
        return form->dated && of.opens_system && !habits->adds_system &&
                       read_dates(template, habits)
                   ? form
                   : NULL;
    }
    return !of.opens_system || (of.has_tools && !form->dated) ? form : NULL;
}
