/* Writes chats in the form that the checkpoint's template has. Called by work.c; mode.c makes it. */
#include "generate/chat.h"

#include <stdio.h>
#include <string.h>

#include "proto/limits.h"
#include "rank/checkpoint.h"

struct rank_chat_form {
    const char *name;
    const char *open;  /* tokens: before the role, */
    const char *named; /* behind it ("": none), */
    const char *close; /* and behind the content */
    const char *gap;   /* texts: between role and content, */
    const char *tail;  /* and behind the message */
    bool trims;        /* the content */
};

static const struct rank_chat_form forms[] = {
    {"ChatML", "<|im_start|>", "", "<|im_end|>", "\n", "\n", false},
    {"Llama 3", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "\n\n", "", true},
};

enum {
    FORMS = sizeof forms / sizeof forms[0],
    /* a role, a gap, and a content with what it begins with */
    TEXT_BYTES = PROTO_PROMPT_BYTES_MAX + RANK_CHAT_SYSTEM_BYTES + 64,
};

static const char blank[] = " \t\n\v\f\r";

/* Copies what stands in a template's string at `from`, up to `end` or, if that is NULL, to the string's
 * own end. False: the string ends sooner, has an escape that is not known, or is too long. */
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

/* ChatML's templates hold their own system message as a whole, in one string with its marks. */
static void find_system(const char *template, rank_chat *chat)
{
    static const char mark[] = "<|im_start|>system";
    for (const char *at = strstr(template, mark); at != NULL; at = strstr(at + 1, mark)) {
        const char *text = at + sizeof mark - 1;
        const char quote = at > template ? at[-1] : '\0';
        const size_t gap = strncmp(text, "\\n", 2) == 0 ? 2 : text[0] == '\n' ? 1 : 0;
        if ((quote == '\'' || quote == '"') && gap > 0 &&
            copy_literal(text + gap, "<|im_end|>", quote, chat->system)) {
            chat->adds_system = true;
            return;
        }
    }
}

/* From Llama 3.1 on, a system message comes first in any case, and begins with two dates. The second is
 * the day's, if a program can say it. Here it is the one that the template has beside: the same command
 * gives the same text. */
static bool find_dates(const char *template, rank_chat *chat)
{
    static const char known[] = "Cutting Knowledge Date: December 2023";
    static const char date[] = "date_string = \"";
    char day[RANK_CHAT_SYSTEM_BYTES];
    if (strstr(template, "Cutting Knowledge") == NULL) {
        return true;
    }
    const char *at = strstr(template, date);
    if (strstr(template, known) == NULL || at == NULL ||
        !copy_literal(at + sizeof date - 1, NULL, '"', day)) {
        return false;
    }
    chat->adds_system = true;
    return snprintf(chat->preamble, sizeof chat->preamble, "%s\nToday Date: %s\n\n", known, day) <
           (int)sizeof chat->preamble;
}

static bool find_id(const rank_tokenizer *tokenizer, const char *name, int32_t *id, rank_chat *chat)
{
    *id = name[0] != '\0' ? rank_tokenizer_added_id(tokenizer, name) : -1;
    if (name[0] != '\0' && *id < 0) {
        (void)base_fail(&chat->why, BASE_ERR_UNSUPPORTED,
                        "the checkpoint's chat template has %s, which is no token of its tokenizer",
                        name);
        return false;
    }
    return true;
}

void rank_chat_init(const rank_chat_template *template, const rank_tokenizer *tokenizer,
                    rank_chat *chat)
{
    const char *text = template->text;
    const struct rank_chat_form *form = NULL;
    *chat = (rank_chat){.form = NULL};
    if (text == NULL) {
        (void)base_fail(&chat->why, BASE_ERR_UNSUPPORTED,
                        "the checkpoint has no chat template: send a whole prompt");
        return;
    }
    for (int i = 0; form == NULL && i < FORMS; i++) {
        form = strstr(text, forms[i].open) != NULL ? &forms[i] : NULL;
    }
    if (form == &forms[0]) {
        find_system(text, chat);
    }
    /* those that think begin the answer with more than its role */
    if (form == NULL || strstr(text, "<think>") != NULL || !find_dates(text, chat)) {
        (void)base_fail(&chat->why, BASE_ERR_UNSUPPORTED,
                        "the checkpoint's chat template is not of a form that is known here, as "
                        "ChatML or Llama 3: send a whole prompt");
        return;
    }
    const char *begin = strstr(text, "bos_token") != NULL ? template->begin_token : "";
    if (find_id(tokenizer, begin, &chat->begin_id, chat) &&
        find_id(tokenizer, form->open, &chat->open_id, chat) &&
        find_id(tokenizer, form->named, &chat->named_id, chat) &&
        find_id(tokenizer, form->close, &chat->close_id, chat)) {
        chat->form = form;
    }
}

/* ---- writing ---- */

typedef struct writing {
    const rank_chat *chat;
    rank_tokenizer *tokenizer;
    rank_ids *ids;
    base_error *reterr;
    char text[TEXT_BYTES];
    size_t text_bytes; /* what lies between two marks is encoded as one text */
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
    const base_status status =
        rank_tokenizer_encode(to->tokenizer, to->text, to->text_bytes, &more, to->reterr);
    to->text_bytes = 0;
    ids->count += more.count;
    return status;
}

/* -1: there is no such mark. */
static base_status put_mark(writing *to, int32_t id)
{
    if (id < 0) {
        return BASE_OK;
    }
    const base_status status = flush(to);
    if (to->ids->count < to->ids->capacity) {
        to->ids->at[to->ids->count] = id;
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
    return status;
}

static base_status put_message(writing *to, const char *role, const char *preamble,
                               const char *content)
{
    const struct rank_chat_form *form = to->chat->form;
    size_t bytes = strlen(content);
    if (form->trims) {
        const size_t before = strspn(content, blank);
        content += before;
        bytes -= before;
        while (bytes > 0 && strchr(blank, content[bytes - 1]) != NULL) {
            bytes--;
        }
    }
    base_status status = put_role(to, role);
    put_text(to, preamble, strlen(preamble));
    put_text(to, content, bytes);
    if (status == BASE_OK) {
        status = put_mark(to, to->chat->close_id);
    }
    put_text(to, form->tail, strlen(form->tail));
    return status;
}

base_status rank_chat_encode(const rank_chat *chat, rank_tokenizer *tokenizer, const char *texts,
                             uint32_t message_count, rank_ids *ids, base_error *reterr)
{
    writing to = {.chat = chat, .tokenizer = tokenizer, .ids = ids, .reterr = reterr};
    const bool has_system = message_count > 0 && strcmp(texts, "system") == 0;
    ids->count = 0;
    if (chat->form == NULL) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "%s", chat->why.message);
    }
    base_status status = put_mark(&to, chat->begin_id);
    if (status == BASE_OK && chat->adds_system && !has_system) {
        status = put_message(&to, "system", chat->preamble, chat->system);
    }
    for (uint32_t i = 0; status == BASE_OK && i < message_count; i++) {
        const char *content = texts + strlen(texts) + 1;
        status = put_message(&to, texts, i == 0 && has_system ? chat->preamble : "", content);
        texts = content + strlen(content) + 1;
    }
    if (status == BASE_OK) {
        status = put_role(&to, "assistant");
    }
    return status == BASE_OK ? flush(&to) : status;
}
