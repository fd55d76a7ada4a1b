/* Writes chats as the checkpoint's template does. Called by generate/ for what is asked, and by encode.c for what is
 * learned. */
#include "chat.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "proto/chat_json.h"
#include "proto/request.h"

static const char MESSAGES[] = "messages";
static const char TOOLS[] = "tools"; /* of a template */
static const char THINKING[] = "enable_thinking";

bool rank_chat_is_role(const char *role)
{
    return strcmp(role, "system") == 0 || strcmp(role, "user") == 0 ||
           strcmp(role, "assistant") == 0 || strcmp(role, "tool") == 0;
}

/* ---- running the template ---- */

/* The message of a role and a content; NULL: there is no memory, or what is to be JSON is none. */
static json_t *make_message(const char *role, const char *content)
{
    json_t *message =
        strcmp(role, PROTO_CHAT_MESSAGE) == 0 ? json_loads(content, 0, NULL) : json_object();
    if (strcmp(role, PROTO_CHAT_MESSAGE) != 0 &&
        (json_object_set_new(message, "role", json_string_nocheck(role)) != 0 ||
         json_object_set_new(message, "content", json_string_nocheck(content)) != 0)) {
        json_decref(message);
        return NULL;
    }
    return message;
}

/* Whether the texts begin with a list of tools. */
static bool has_tools(const rank_chat_messages *messages)
{
    return strcmp(messages->texts, PROTO_CHAT_TOOLS) == 0;
}

/* The messages as a list, and the tools, a null if there are none. False: as make_message. */
static bool set_messages(json_t *variables, const rank_chat_messages *messages)
{
    json_t *list = json_array();
    const char *at = messages->texts;
    bool made = json_object_set_new(variables, MESSAGES, list) == 0 &&
                json_object_set_new(variables, TOOLS, json_null()) == 0;
    for (uint32_t i = 0; i < messages->count && made; i++) {
        const char *content = at + strlen(at) + 1;
        made = i == 0 && has_tools(messages)
                   ? json_object_set_new(variables, TOOLS, json_loads(content, 0, NULL)) == 0
                   : json_array_append_new(list, make_message(at, content)) == 0;
        at = content + strlen(content) + 1;
    }
    return made;
}

/* What a template sees, as transformers gives it; NULL: as make_message. */
static json_t *make_variables(const rank_chat *chat, const rank_chat_messages *messages,
                              bool begins_answer)
{
    json_t *made = json_object();
    bool ok =
        made != NULL && set_messages(made, messages) &&
        json_object_set_new(made, "add_generation_prompt", json_boolean(begins_answer)) == 0 &&
        json_object_set_new(made, "documents", json_null()) == 0;
    if (ok && chat->begin_token[0] != '\0') {
        ok = json_object_set_new(made, "bos_token", json_string_nocheck(chat->begin_token)) == 0;
    }
    if (ok && chat->end_token[0] != '\0') {
        ok = json_object_set_new(made, "eos_token", json_string_nocheck(chat->end_token)) == 0;
    }
    if (ok && messages->no_thinking) {
        ok = json_object_set_new(made, THINKING, json_false()) == 0;
    }
    if (!ok) {
        json_decref(made);
        return NULL;
    }
    return made;
}

static base_status render(const rank_chat *chat, const rank_chat_messages *messages,
                          bool begins_answer, rank_jinja_text *text, base_error *reterr)
{
    if (has_tools(messages) && !rank_jinja_reads(chat->program, TOOLS)) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                         "tools: this model's chat template writes none");
    }
    json_t *variables = make_variables(chat, messages, begins_answer);
    if (variables == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a chat, or no JSON in it");
    }
    const rank_jinja_given given = {.variables = variables,
                                    .traced = MESSAGES,
                                    .quoted = TOOLS,
                                    .now = chat->dated ? &chat->now : NULL};
    const base_status status = rank_jinja_render(chat->program, &given, text, reterr);
    json_decref(variables);
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "the chat template");
}

/* The end of the bytes from `at` on that the template wrote. */
static size_t own_end(const rank_jinja_text *text, size_t at)
{
    while (at < text->bytes && text->origins[at] == 0) {
        at++;
    }
    return at;
}

/* Line ends and spaces are text, also where they are added tokens (Gemma) and its template writes them. */
static bool is_blank(const char *text, size_t bytes)
{
    return strspn(text, " \t\n\r") >= bytes;
}

/* The first token, but for blank ones, that the template wrote at `from` or behind it, before any byte of a message,
 * and its end. -1: there is none. */
static int32_t next_mark(const rank_tokenizer *tokenizer, const rank_jinja_text *text, size_t from,
                         size_t *end)
{
    const size_t until = own_end(text, from);
    for (size_t at = from; at < until; at++) {
        size_t bytes = 0;
        const int32_t id = rank_tokenizer_added_at(tokenizer, text->at + at, until - at, &bytes);
        if (id >= 0 && !is_blank(text->at + at, bytes)) {
            *end = at + bytes;
            return id;
        }
    }
    *end = until;
    return -1;
}

/* The first byte of the message at `from` or behind it; text->bytes: there is none. */
static size_t message_begin(const rank_jinja_text *text, uint32_t index, size_t from)
{
    while (from < text->bytes && text->origins[from] != index + 1) {
        from++;
    }
    return from;
}

/* ---- what a template says of itself ---- */

/* Thoughts are words of the model, also where its template writes them. */
static bool is_thought(const char *text, size_t bytes)
{
    static const char *const marks[] = {"<think>", "</think>"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        if (bytes == strlen(marks[i]) && memcmp(text, marks[i], bytes) == 0) {
            return true;
        }
    }
    return false;
}

/* A mark is a special token, whatever the tokenizer calls it: what a user has typed is none. */
static void make_marks_special(rank_tokenizer *tokenizer, const rank_jinja_text *text)
{
    for (size_t at = 0; at < text->bytes; at++) {
        size_t bytes = 0;
        const int32_t id =
            rank_tokenizer_added_at(tokenizer, text->at + at, own_end(text, at) - at, &bytes);
        if (id >= 0 && !is_thought(text->at + at, bytes) && !is_blank(text->at + at, bytes)) {
            rank_tokenizer_make_special(tokenizer, id);
        }
        at += id >= 0 ? bytes - 1 : 0;
    }
}

static const char QUESTION[] = "user\0a";
static const char ANSWERED[] = "user\0a\0assistant\0b";
static const char SYSTEM_ANSWERED[] = "system\0s\0user\0a\0assistant\0b";
static const char TOOL_ANSWERED[] = "user\0a\0assistant\0b\0tool\0r";

/* Asks a question, with and without the beginning of an answer. begun: the text with it. */
static base_status learn_question(rank_chat *chat, rank_tokenizer *tokenizer,
                                  rank_jinja_text *begun)
{
    const rank_chat_messages asked = {.texts = QUESTION, .count = 1};
    rank_jinja_text alone = {.at = NULL};
    base_status status = render(chat, &asked, false, &alone, &chat->why);
    status = status == BASE_OK ? render(chat, &asked, true, begun, &chat->why) : status;
    if (status == BASE_OK && message_begin(begun, 0, 0) == begun->bytes) {
        status = base_fail(&chat->why, BASE_ERR_UNSUPPORTED,
                           "the chat template leaves out what a user says");
    }
    if (status == BASE_OK) {
        make_marks_special(tokenizer, begun);
        if (begun->bytes > alone.bytes && memcmp(begun->at, alone.at, alone.bytes) == 0) {
            chat->answer = strdup(begun->at + alone.bytes);
            status = chat->answer != NULL
                         ? BASE_OK
                         : base_fail(&chat->why, BASE_ERR_MEMORY, "no memory for a chat");
        }
    }
    rank_jinja_text_fini(&alone);
    return status;
}

/* Finds what begins and ends an answer. A template may refuse to write one: then nothing is known. */
static base_status learn_answer(rank_chat *chat, rank_tokenizer *tokenizer,
                                const rank_jinja_text *begun)
{
    const rank_chat_messages answered = {.texts = ANSWERED, .count = 2};
    rank_jinja_text text = {.at = NULL};
    base_status status = BASE_OK;
    size_t end = 0;
    if (render(chat, &answered, false, &text, NULL) != BASE_OK) {
        return BASE_OK;
    }
    const size_t begin = message_begin(&text, 1, 0);
    if (begin < text.bytes) {
        chat->close_id = next_mark(tokenizer, &text, begin + 1, &end);
    }
    if (chat->close_id >= 0) {
        rank_tokenizer_make_special(tokenizer, chat->close_id);
    }
    if (begin < text.bytes && begun->bytes <= begin &&
        memcmp(text.at, begun->at, begun->bytes) == 0) {
        chat->lead = strndup(text.at + begun->bytes, begin - begun->bytes);
        status = chat->lead != NULL
                     ? BASE_OK
                     : base_fail(&chat->why, BASE_ERR_MEMORY, "no memory for a chat");
    }
    rank_jinja_text_fini(&text);
    return status;
}

/* Marks that stand round other messages than a question, of three messages. A template may refuse a
 * system's message, or a tool's. */
static void learn_marks(const rank_chat *chat, rank_tokenizer *tokenizer, const char *texts)
{
    const rank_chat_messages whole = {.texts = texts, .count = 3};
    rank_jinja_text text = {.at = NULL};
    if (render(chat, &whole, false, &text, NULL) == BASE_OK) {
        make_marks_special(tokenizer, &text);
        rank_jinja_text_fini(&text);
    }
}

void rank_chat_init(const rank_chat_source *source, rank_tokenizer *tokenizer, rank_chat *chat)
{
    *chat = (rank_chat){.close_id = -1};
    if (source->now != NULL) {
        chat->dated = true;
        chat->now = *source->now;
    }
    if (source->text == NULL) {
        (void)base_fail(&chat->why, BASE_ERR_UNSUPPORTED, "the checkpoint has no chat template");
        return;
    }
    BASE_ASSERT(strlen(source->begin_token) < sizeof chat->begin_token);
    BASE_ASSERT(strlen(source->end_token) < sizeof chat->end_token);
    memcpy(chat->begin_token, source->begin_token, strlen(source->begin_token) + 1);
    memcpy(chat->end_token, source->end_token, strlen(source->end_token) + 1);
    base_status status = rank_jinja_parse(source->text, &chat->program, &chat->why);
    if (status != BASE_OK) {
        (void)base_error_prepend(&chat->why, status, "the chat template");
    }
    rank_jinja_text begun = {.at = NULL};
    status = status == BASE_OK ? learn_question(chat, tokenizer, &begun) : status;
    status = status == BASE_OK ? learn_answer(chat, tokenizer, &begun) : status;
    rank_jinja_text_fini(&begun);
    if (status != BASE_OK) {
        rank_jinja_destroy(chat->program);
        chat->program = NULL;
        return;
    }
    chat->has_switch = rank_jinja_reads(chat->program, THINKING);
    chat->asks_date = rank_jinja_reads(chat->program, "strftime_now");
    learn_marks(chat, tokenizer, SYSTEM_ANSWERED);
    learn_marks(chat, tokenizer, TOOL_ANSWERED);
}

void rank_chat_fini(rank_chat *chat)
{
    rank_jinja_destroy(chat->program);
    free(chat->answer);
    free(chat->lead);
    *chat = (rank_chat){.close_id = -1};
}

/* ---- encoding ---- */

static base_status check_program(const rank_chat *chat, const char *more, base_error *reterr)
{
    return chat->program != NULL
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_UNSUPPORTED, "%s%s", chat->why.message, more);
}

base_status rank_chat_encode(const rank_chat *chat, rank_tokenizer *tokenizer,
                             const rank_chat_messages *messages, rank_ids *ids, base_error *reterr)
{
    rank_jinja_text text = {.at = NULL};
    ids->count = 0;
    base_status status = check_program(chat, ": send a whole prompt", reterr);
    status = status == BASE_OK ? render(chat, messages, true, &text, reterr) : status;
    if (status == BASE_OK) {
        status = rank_tokenizer_encode_text(
            tokenizer,
            &(rank_tokenizer_text){.at = text.at, .bytes = text.bytes, .origins = text.origins},
            ids, reterr);
    }
    rank_jinja_text_fini(&text);
    return status;
}

/* A chat that is learned from, as it is written part by part. */
typedef struct lesson {
    const rank_chat *chat;
    rank_tokenizer *tokenizer;
    const rank_jinja_text *text;
    size_t done; /* bytes of the text that are encoded */
    rank_tokenizer_place place;
    rank_ids *ids;
    base_error *reterr;
} lesson;

/* Encodes the text up to `end`. */
static base_status put_until(lesson *to, size_t end, bool learns, bool ends_with_token)
{
    rank_ids *ids = to->ids;
    const size_t room = ids->count < ids->capacity ? ids->capacity - ids->count : 0;
    rank_ids more = {.at = room > 0 ? ids->at + ids->count : NULL, .capacity = room};
    const rank_tokenizer_text part = {.at = to->text->at + to->done,
                                      .bytes = end - to->done,
                                      .place = to->place,
                                      .origins = to->text->origins + to->done};
    const base_status status = rank_tokenizer_encode_text(to->tokenizer, &part, &more, to->reterr);
    for (size_t i = 0; !learns && i < more.count && i < room; i++) {
        more.at[i] = ~more.at[i];
    }
    ids->count += more.count;
    to->place = ends_with_token  ? RANK_TOKENIZER_BEHIND_TOKEN
                : part.bytes > 0 ? RANK_TOKENIZER_GOES_ON
                                 : to->place;
    to->done = end;
    return status;
}

/* Where the answer begins whose first byte is at `content`: behind what is written before any answer, if that is
 * there, so that it is drawn from there on. Where nothing is written before one, what leads to it is drawn, too. */
static size_t answer_begin(const lesson *to, size_t content)
{
    const char *answer = to->chat->answer;
    const char *lead = answer == NULL ? to->chat->lead : NULL;
    const size_t bytes = answer != NULL ? strlen(answer) : 0;
    const size_t lead_bytes = lead != NULL ? strlen(lead) : 0;
    size_t from = content;
    while (from > to->done && to->text->origins[from - 1] == 0) {
        from--;
    }
    for (size_t end = content; bytes > 0 && end >= from + bytes; end--) {
        if (memcmp(to->text->at + end - bytes, answer, bytes) == 0) {
            return end;
        }
    }
    return lead_bytes > 0 && content - from >= lead_bytes &&
                   memcmp(to->text->at + content - lead_bytes, lead, lead_bytes) == 0
               ? content - lead_bytes
               : content;
}

/* Whether a token that the template wrote ends at `end`. */
static bool token_ends(const lesson *to, size_t end)
{
    for (size_t at = end; at > to->done && to->text->origins[at - 1] == 0; at--) {
        size_t bytes = 0;
        const int32_t id =
            rank_tokenizer_added_at(to->tokenizer, to->text->at + at - 1, end - (at - 1), &bytes);
        if (id >= 0) {
            return at - 1 + bytes == end;
        }
    }
    return false;
}

/* Whether the template wrote a token behind an answer that ends it: that which ends any, or, if it is not there, the
 * first. Behind a call there may be others (</tool_call>). */
static bool find_end(const lesson *to, size_t from, size_t *end)
{
    size_t at = from;
    const int32_t first = next_mark(to->tokenizer, to->text, from, end);
    int32_t id = first;
    while (id >= 0 && id != to->chat->close_id) {
        id = next_mark(to->tokenizer, to->text, at, &at);
        *end = id == to->chat->close_id ? at : *end;
    }
    return first >= 0;
}

/* Learns what the assistant says in the message that is the list's element `index`, with the token that ends it. */
static base_status put_answer(lesson *to, uint32_t index)
{
    const size_t content = message_begin(to->text, index, to->done);
    if (content == to->text->bytes) {
        return BASE_OK; /* it says nothing, or the template leaves it out */
    }
    size_t last = content;
    for (size_t at = content;
         at < to->text->bytes && (to->text->origins[at] == 0 || to->text->origins[at] == index + 1);
         at++) {
        last = to->text->origins[at] != 0 ? at : last;
    }
    size_t end = 0;
    const size_t begin = answer_begin(to, content);
    if (!find_end(to, last + 1, &end)) {
        return base_fail(to->reterr, BASE_ERR_UNSUPPORTED,
                         "the chat template writes no token that ends an answer");
    }
    const base_status status = put_until(to, begin, false, token_ends(to, begin));
    return status == BASE_OK ? put_until(to, end, true, true) : status;
}

base_status rank_chat_encode_lesson(const rank_chat *chat, rank_tokenizer *tokenizer,
                                    const rank_chat_messages *messages, rank_ids *ids,
                                    base_error *reterr)
{
    rank_jinja_text text = {.at = NULL};
    lesson to = {.chat = chat, .tokenizer = tokenizer, .text = &text, .ids = ids, .reterr = reterr};
    const char *role = messages->texts;
    ids->count = 0;
    base_status status = check_program(chat, "", reterr);
    if (status == BASE_OK && rank_tokenizer_takes_spaces(tokenizer)) {
        /* between parts that are encoded one by one nobody knows whose it is */
        status = base_fail(reterr, BASE_ERR_UNSUPPORTED,
                           "no chats are learned with a tokenizer whose added tokens take the "
                           "spaces beside them (lstrip, rstrip)");
    }
    status = status == BASE_OK ? render(chat, messages, false, &text, reterr) : status;
    for (uint32_t i = 0; status == BASE_OK && i < messages->count; i++) {
        const char *content = role + strlen(role) + 1;
        const bool passes = messages->passed_over != NULL && messages->passed_over[i] != 0;
        if (proto_chat_is_answer(role, content) && !passes) {
            status = put_answer(&to, i - (has_tools(messages) ? 1 : 0));
        }
        role = content + strlen(content) + 1;
    }
    rank_jinja_text_fini(&text);
    return status == BASE_OK && to.done == 0
               ? base_fail(reterr, BASE_ERR_INVALID, "no message of the assistant to learn from")
               : status;
}
