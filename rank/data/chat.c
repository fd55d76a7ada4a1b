/* Writes chats in the form that the checkpoint's template has. Called by generate/ for what is asked, and by
 * encode.c for what is learned. */
#include "chat.h"

#include <stdlib.h>
#include <string.h>

#include "chat_thinking.h"

enum {
    /* beside a message: a gap, and what a content begins with, or the marks around thoughts */
    BESIDE_BYTES = 2 * RANK_CHAT_SYSTEM_BYTES + 64,
};

/* A mark is a special token, whatever the tokenizer calls it: what a user has typed is none. */
static bool find_id(rank_tokenizer *tokenizer, const char *name, int32_t *id, rank_chat *chat)
{
    *id = name[0] != '\0' ? rank_tokenizer_added_id(tokenizer, name) : -1;
    if (name[0] != '\0' && *id < 0) {
        (void)base_fail(&chat->why, BASE_ERR_UNSUPPORTED,
                        "the checkpoint's chat template has %s, which is no token of its tokenizer",
                        name);
        return false;
    }
    if (*id >= 0) {
        rank_tokenizer_make_special(tokenizer, *id);
    }
    return true;
}

void rank_chat_init(const char *text, const char *begin_token, rank_tokenizer *tokenizer,
                    rank_chat *chat)
{
    *chat = (rank_chat){.form = NULL};
    if (text == NULL) {
        (void)base_fail(&chat->why, BASE_ERR_UNSUPPORTED, "the checkpoint has no chat template");
        return;
    }
    const rank_chat_form *form = rank_chat_form_find(text, &chat->habits);
    if (form == NULL && chat->habits.unknown[0] != '\0') {
        (void)base_fail(&chat->why, BASE_ERR_UNSUPPORTED,
                        "the checkpoint's chat template begins an answer on a condition that is "
                        "not known here, %s",
                        chat->habits.unknown);
        return;
    }
    if (form == NULL) {
        (void)base_fail(&chat->why, BASE_ERR_UNSUPPORTED,
                        "the checkpoint's chat template is not of a form that is known here, as "
                        "ChatML or Llama 3");
        return;
    }
    const char *begin = chat->habits.begins ? begin_token : "";
    if (find_id(tokenizer, begin, &chat->begin_id, chat) &&
        find_id(tokenizer, form->open, &chat->open_id, chat) &&
        find_id(tokenizer, form->named, &chat->named_id, chat) &&
        find_id(tokenizer, form->close, &chat->close_id, chat)) {
        chat->form = form;
    }
}

bool rank_chat_is_role(const char *role)
{
    return strcmp(role, "system") == 0 || strcmp(role, "user") == 0 ||
           strcmp(role, "assistant") == 0;
}

/* ---- writing ---- */

typedef struct writing {
    const rank_chat *chat;
    rank_tokenizer *tokenizer;
    rank_ids *ids;
    base_error *reterr;
    char *text;                 /* as long as all messages, and BESIDE_BYTES */
    size_t text_bytes;          /* what lies between two marks is encoded as one text, */
    rank_tokenizer_place place; /* which stands there */
    bool is_lesson;             /* what is not learned is ~id, */
    bool passes_over;           /* also what the assistant says next; */
    bool learns;        /* which what comes now is; and what is learned is a text of its own */
    size_t learned_end; /* of the ids; 0: nothing is learned */
} writing;

static void put_text(writing *to, const char *text, size_t text_bytes)
{
    memcpy(to->text + to->text_bytes, text, text_bytes);
    to->text_bytes += text_bytes;
}

/* Encodes the text so far. */
static base_status flush(writing *to)
{
    rank_ids *ids = to->ids;
    const size_t room = ids->count < ids->capacity ? ids->capacity - ids->count : 0;
    rank_ids more = {.at = room > 0 ? ids->at + ids->count : NULL, .capacity = room};
    const base_status status = rank_tokenizer_encode_at(to->tokenizer, to->place, to->text,
                                                        to->text_bytes, &more, to->reterr);
    to->place = to->text_bytes > 0 ? RANK_TOKENIZER_GOES_ON : to->place;
    to->text_bytes = 0;
    for (size_t i = 0; to->is_lesson && !to->learns && i < more.count && i < room; i++) {
        more.at[i] = ~more.at[i];
    }
    ids->count += more.count;
    return status;
}

/* From here on tokens are learned, or are not. */
static base_status set_learning(writing *to, bool learns)
{
    if (!to->is_lesson || learns == to->learns) {
        return BASE_OK;
    }
    const base_status status = flush(to);
    to->learned_end = to->learns ? to->ids->count : to->learned_end;
    to->learns = learns;
    return status;
}

/* -1: there is no such mark. */
static base_status put_mark(writing *to, int32_t id)
{
    if (id < 0) {
        return BASE_OK;
    }
    const base_status status = flush(to);
    to->place = RANK_TOKENIZER_BEHIND_TOKEN;
    if (to->ids->count < to->ids->capacity) {
        to->ids->at[to->ids->count] = to->is_lesson && !to->learns ? ~id : id;
    }
    to->ids->count++;
    return status;
}

static base_status put_role(writing *to, const char *role)
{
    const rank_chat *chat = to->chat;
    base_status status = put_mark(to, chat->open_id);
    put_text(to, role, strlen(role));
    if (status == BASE_OK) {
        status = put_mark(to, chat->named_id);
    }
    put_text(to, chat->form->gap, strlen(chat->form->gap));
    return status == BASE_OK ? set_learning(to, strcmp(role, "assistant") == 0 && !to->passes_over)
                             : status;
}

/* The length of the character at the text's begin if it is a space to Python's str.strip(), as which Jinja's
 * trim is; else 0. */
static size_t blank_bytes(const char *text)
{
    static const char *const wide[] = {"\xc2\x85", "\u00a0", "\u1680", "\u2028",
                                       "\u2029",   "\u202f", "\u205f", "\u3000"};
    const unsigned char first = (unsigned char)text[0];
    if (first == ' ' || (first >= '\t' && first <= '\r') || (first >= 0x1c && first <= 0x1f)) {
        return 1;
    }
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        if (strncmp(text, wide[i], strlen(wide[i])) == 0) {
            return strlen(wide[i]);
        }
    }
    /* U+2000 ... U+200A */
    return strncmp(text, "\xe2\x80", 2) == 0 && (unsigned char)text[2] >= 0x80 &&
                   (unsigned char)text[2] <= 0x8a
               ? 3
               : 0;
}

/* Leaves out the spaces at both ends. */
static const char *trim(const char *text, size_t *text_bytes)
{
    size_t end = 0;
    for (size_t blank = blank_bytes(text); blank > 0; blank = blank_bytes(text)) {
        text += blank;
    }
    for (size_t at = 0; text[at] != '\0';) {
        const size_t blank = blank_bytes(text + at);
        at += blank > 0 ? blank : 1;
        end = blank > 0 ? end : at;
    }
    *text_bytes = end;
    return text;
}

/* What stands behind a content. */
static base_status put_end(writing *to)
{
    base_status status = put_mark(to, to->chat->close_id);
    status = status == BASE_OK ? set_learning(to, false) : status;
    put_text(to, to->chat->form->tail, strlen(to->chat->form->tail));
    return status;
}

static base_status put_message(writing *to, const char *role, const char *preamble,
                               const char *content, bool trims)
{
    size_t bytes = strlen(content);
    if (trims) {
        content = trim(content, &bytes);
    }
    base_status status = put_role(to, role);
    put_text(to, preamble, strlen(preamble));
    put_text(to, content, bytes);
    return status == BASE_OK ? put_end(to) : status;
}

static const char thought_opens[] = "<think>\n";
static const char thought_closes[] = "\n</think>\n\n";

/* An answer of a model that thinks. `keeps`: its thoughts are written, even none; else only what it said. */
static base_status put_answer(writing *to, const char *role, const rank_chat_thought *answer,
                              bool keeps)
{
    const char *said = answer->said;
    const base_status status = put_role(to, role);
    if (keeps) {
        put_text(to, thought_opens, sizeof thought_opens - 1);
        put_text(to, answer->thought, answer->thought_bytes);
        put_text(to, thought_closes, sizeof thought_closes - 1);
        said += strspn(said, "\n");
    }
    put_text(to, said, strlen(said));
    return status == BASE_OK ? put_end(to) : status;
}

/* The beginning of the answer to all. */
static base_status put_beginning(writing *to, bool no_thinking)
{
    const base_status status = put_role(to, "assistant");
    if (no_thinking && to->chat->habits.has_switch) {
        put_text(to, thought_opens, sizeof thought_opens - 1);
        put_text(to, thought_closes, sizeof thought_closes - 1);
    }
    return status == BASE_OK ? flush(to) : status;
}

/* The messages alone. */
static base_status put_messages(writing *to, const rank_chat_messages *messages)
{
    const char *texts = messages->texts;
    const uint32_t message_count = messages->count;
    const bool has_system = message_count > 0 && strcmp(texts, "system") == 0;
    base_status status = put_mark(to, to->chat->begin_id);
    const rank_chat_habits *habits = &to->chat->habits;
    if (status == BASE_OK && habits->adds_system && !has_system) {
        status = put_message(to, "system", habits->preamble, habits->system, false);
    }
    const uint32_t question = rank_chat_last_question(texts, message_count);
    for (uint32_t i = 0; status == BASE_OK && i < message_count; i++) {
        const char *content = texts + strlen(texts) + 1;
        to->passes_over = messages->passed_over != NULL && messages->passed_over[i] != 0;
        if (habits->thinks && strcmp(texts, "assistant") == 0) {
            const rank_chat_thought answer = rank_chat_thought_of(content);
            const bool last = i + 1 == message_count;
            status =
                put_answer(to, texts, &answer, i > question && (last || answer.thought_bytes > 0));
        } else {
            status = put_message(to, texts, i == 0 && has_system ? habits->preamble : "", content,
                                 habits->trims);
        }
        texts = content + strlen(content) + 1;
    }
    return status;
}

/* The role of the last message, and the bytes of all. */
static const char *last_role(const rank_chat_messages *messages, size_t *bytes)
{
    const char *role = "";
    const char *at = messages->texts;
    for (uint32_t i = 0; i < messages->count; i++) {
        role = at;
        at += strlen(at) + 1;
        at += strlen(at) + 1;
    }
    *bytes = (size_t)(at - messages->texts);
    return role;
}

static base_status put_chat(writing *to, const rank_chat_messages *messages)
{
    size_t bytes = 0;
    const bool answered = strcmp(last_role(messages, &bytes), "assistant") == 0;
    to->ids->count = 0;
    if (to->chat->form == NULL) {
        return base_fail(to->reterr, BASE_ERR_UNSUPPORTED, "%s%s", to->chat->why.message,
                         to->is_lesson ? "" : ": send a whole prompt");
    }
    to->text = malloc(bytes + BESIDE_BYTES);
    if (to->text == NULL) {
        return base_fail(to->reterr, BASE_ERR_MEMORY, "no memory for a chat");
    }
    base_status status = put_messages(to, messages);
    if (status == BASE_OK && !to->is_lesson) {
        status = to->chat->habits.ends_answered && answered
                     ? flush(to)
                     : put_beginning(to, messages->no_thinking);
    }
    free(to->text);
    return status;
}

base_status rank_chat_encode(const rank_chat *chat, rank_tokenizer *tokenizer,
                             const rank_chat_messages *messages, rank_ids *ids, base_error *reterr)
{
    writing to = {.chat = chat, .tokenizer = tokenizer, .ids = ids, .reterr = reterr};
    return put_chat(&to, messages);
}

base_status rank_chat_encode_lesson(const rank_chat *chat, rank_tokenizer *tokenizer,
                                    const rank_chat_messages *messages, rank_ids *ids,
                                    base_error *reterr)
{
    writing to = {
        .chat = chat, .tokenizer = tokenizer, .ids = ids, .reterr = reterr, .is_lesson = true};
    const base_status status = put_chat(&to, messages);
    ids->count = to.learned_end;
    return status == BASE_OK && to.learned_end == 0
               ? base_fail(reterr, BASE_ERR_INVALID, "no message of the assistant to learn from")
               : status;
}
