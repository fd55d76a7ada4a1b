/* Keeps log-probabilities, and writes them as JSON. Called by events.c for each event, and by reply.c for each
 * answer and each piece of one. */
#include "serve/logprobs.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/text.h"
#include "base/utf8.h"

enum {
    FIRST_ROOM = 64,
    ESCAPED_BYTES = 4, /* \xNN */
    NAME_BYTES = 16 + ESCAPED_BYTES * PROTO_TOKEN_BYTES_MAX,
};

/* Makes room for more bytes. False: no memory. */
static bool make_room(void **memory, size_t *room, size_t needed, size_t item_bytes)
{
    void *moved = base_reserve(*memory, 0, needed, room, FIRST_ROOM, item_bytes);
    *memory = moved != NULL ? moved : *memory;
    return moved != NULL;
}

static void keep(launch_logprobs *logprobs, const launch_logprob *one)
{
    if (one->bytes > 0) {
        memcpy(logprobs->texts + logprobs->texts_bytes, one->text, one->bytes);
    }
    logprobs->kept[logprobs->count++] = (launch_kept_logprob){.value = one->value,
                                                              .begin = logprobs->texts_bytes,
                                                              .bytes = one->bytes,
                                                              .token = one->token,
                                                              .text_offset = logprobs->characters};
    logprobs->texts_bytes += one->bytes;
}

static uint32_t count_characters(const char *text, size_t bytes)
{
    uint32_t count = 0;
    for (size_t i = 0; i < bytes && text[i] != '\0'; i++) {
        count += ((unsigned char)text[i] & 0xc0) != 0x80 ? 1 : 0;
    }
    return count;
}

void launch_logprobs_add(launch_logprobs *logprobs, const launch_request_event *event)
{
    const size_t count = event->token_count * logprobs->each;
    size_t bytes = 0;
    size_t at = 0; /* of the event's text */
    if (logprobs->each == 0 || event->token_count == 0) {
        return;
    }
    if (event->logprob_count != logprobs->each) {
        logprobs->failed = true;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        bytes += event->logprobs[i].bytes;
    }
    void *kept = logprobs->kept;
    void *texts = logprobs->texts;
    logprobs->failed =
        logprobs->failed ||
        !make_room(&kept, &logprobs->room, logprobs->count + count, sizeof *logprobs->kept) ||
        !make_room(&texts, &logprobs->texts_room, logprobs->texts_bytes + bytes, 1);
    logprobs->kept = kept;
    logprobs->texts = texts;
    for (size_t token = 0; !logprobs->failed && token < event->token_count; token++) {
        for (size_t i = 0; i < logprobs->each; i++) {
            keep(logprobs, &event->logprobs[token * logprobs->each + i]);
        }
        if (logprobs->given) {
            logprobs->kept[logprobs->count - logprobs->each].value = NAN;
            logprobs->given = false;
        }
        logprobs->characters += count_characters(event->text + at, event->text_bytes[token]);
        at += event->text_bytes[token];
    }
}

/* The token as a text: its own, if that is UTF-8; else its bytes, as "\xe2\x82" behind the prefix. One that prints
 * nothing is named by its id, as vLLM does. */
static json_t *name_of(const launch_logprobs *logprobs, const launch_kept_logprob *one,
                       const char *prefix)
{
    char name[NAME_BYTES];
    const char *text = logprobs->texts + one->begin;
    if (one->bytes == 0) {
        (void)snprintf(name, sizeof name, "token_id:%" PRId32, one->token);
        return json_string(name);
    }
    if (base_utf8_valid(text, one->bytes)) {
        return json_stringn(text, one->bytes);
    }
    (void)snprintf(name, sizeof name, "%s", prefix);
    for (uint32_t i = 0; i < one->bytes; i++) {
        base_text_append(name, sizeof name, "\\x%02x", (unsigned)(unsigned char)text[i]);
    }
    return json_string(name);
}

static json_t *bytes_of(const launch_logprobs *logprobs, const launch_kept_logprob *one)
{
    if (one->bytes == 0) {
        return json_null();
    }
    json_t *bytes = json_array();
    for (uint32_t i = 0; i < one->bytes; i++) {
        (void)json_array_append_new(bytes,
                                    json_integer((unsigned char)logprobs->texts[one->begin + i]));
    }
    return bytes;
}

static json_t *chat_entry(const launch_logprobs *logprobs, const launch_kept_logprob *one)
{
    return json_pack("{s:o, s:f, s:o}", "token", name_of(logprobs, one, ""), "logprob", one->value,
                     "bytes", bytes_of(logprobs, one));
}

static json_t *describe_chat(const launch_logprobs *logprobs)
{
    json_t *content = json_array();
    for (size_t first = 0; first < logprobs->count; first += logprobs->each) {
        json_t *entry = chat_entry(logprobs, &logprobs->kept[first]);
        json_t *best = json_array();
        for (size_t i = first + 1; i < first + logprobs->each; i++) {
            if (logprobs->kept[i].token >= 0) {
                (void)json_array_append_new(best, chat_entry(logprobs, &logprobs->kept[i]));
            }
        }
        (void)json_object_set_new(entry, "top_logprobs", best);
        (void)json_array_append_new(content, entry);
    }
    return json_pack("{s:o, s:n}", "content", content, "refusal");
}

/* A token's best, and itself, by their texts. Of several with one text the most probable counts. */
static json_t *best_by_text(const launch_logprobs *logprobs, size_t first)
{
    json_t *best = json_object();
    for (size_t i = 1; i <= logprobs->each; i++) {
        const launch_kept_logprob *one = &logprobs->kept[first + i % logprobs->each];
        json_t *name = name_of(logprobs, one, "bytes:");
        const char *key = json_string_value(name);
        if (one->token >= 0 && key != NULL && json_object_get(best, key) == NULL) {
            (void)json_object_set_new(best, key, json_real(one->value));
        }
        json_decref(name);
    }
    return best;
}

static json_t *describe_completion(const launch_logprobs *logprobs)
{
    json_t *tokens = json_array();
    json_t *values = json_array();
    json_t *offsets = json_array();
    json_t *best = logprobs->each > 1 ? json_array() : json_null();
    for (size_t first = 0; first < logprobs->count; first += logprobs->each) {
        const launch_kept_logprob *one = &logprobs->kept[first];
        (void)json_array_append_new(tokens, name_of(logprobs, one, "bytes:"));
        const bool known = !isnan(one->value); /* not of a prompt's first token */
        (void)json_array_append_new(values, known ? json_real(one->value) : json_null());
        (void)json_array_append_new(offsets, json_integer(one->text_offset));
        if (logprobs->each > 1) {
            (void)json_array_append_new(best, known ? best_by_text(logprobs, first) : json_null());
        }
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", values,
                     "top_logprobs", best, "text_offset", offsets);
}

json_t *launch_logprobs_take(launch_logprobs *logprobs, bool chat)
{
    json_t *object = chat ? describe_chat(logprobs) : describe_completion(logprobs);
    logprobs->count = 0;
    logprobs->texts_bytes = 0;
    return object;
}

void launch_logprobs_fini(launch_logprobs *logprobs)
{
    free(logprobs->kept);
    free(logprobs->texts);
}
