/* Reads tags of chat templates. Called by chat_thinking.c and chat_answer.c. */
#include "chat_tag.h"

#include <ctype.h>
#include <string.h>

static void put(rank_chat_tag *tag, char one)
{
    if (tag->used + 1 < sizeof tag->text) {
        tag->text[tag->used] = one;
        tag->text[tag->used + 1] = '\0';
    }
    tag->used++;
}

static bool is_word(char one)
{
    return isalnum((unsigned char)one) || one == '_';
}

/* Spaces stay where words, or a word and a string, would run together. */
static const char *put_blank(rank_chat_tag *tag, const char *at)
{
    while (isspace((unsigned char)*at)) {
        at++;
    }
    const size_t used = tag->used < sizeof tag->text ? tag->used : 0;
    const char last = used > 0 ? tag->text[used - 1] : '\0';
    const bool opens = is_word(*at) || *at == '\'' || *at == '"';
    if ((is_word(last) && opens) ||
        ((last == '\'' || last == ')' || last == ']') && is_word(*at))) {
        put(tag, ' ');
    }
    return at;
}

/* From behind the quote that begins it to behind that which ends it; NULL: it has no end. */
static const char *put_string(rank_chat_tag *tag, const char *at, char quote)
{
    put(tag, '\'');
    for (; *at != quote; at++) {
        if (*at == '\0') {
            return NULL;
        }
        if (*at == '\n') {
            put(tag, '\\');
            put(tag, 'n');
            continue;
        }
        put(tag, *at == '\'' ? '"' : *at); /* which no statement has */
        if (*at == '\\' && at[1] != '\0') {
            put(tag, *++at);
        }
    }
    put(tag, '\'');
    return at + 1;
}

static bool ends_here(const char *at, const char *end)
{
    return strncmp(at, end, 2) == 0 || (*at == '-' && strncmp(at + 1, end, 2) == 0);
}

rank_chat_tag rank_chat_tag_read(const char *begin)
{
    static const char own[] = "message.content";
    rank_chat_tag tag = {.used = 0};
    const char *end = begin[1] == '{' ? "}}" : "%}";
    const char *at = begin + 2 + (begin[2] == '-' ? 1 : 0);
    while (at != NULL && *at != '\0' && !ends_here(at, end)) {
        if (isspace((unsigned char)*at)) {
            at = put_blank(&tag, at);
        } else if (*at == '\'' || *at == '"') {
            at = put_string(&tag, at + 1, *at);
        } else if (strncmp(at, own, sizeof own - 1) == 0 && !is_word(at[sizeof own - 1])) {
            tag.of_message = true;
            at += strlen("message.");
        } else {
            put(&tag, *at++);
        }
    }
    if (at != NULL && *at != '\0') {
        tag.end = at + (*at == '-' ? 3 : 2);
    }
    return tag;
}
