/* Reads requests from standard input, and prints what becomes of them: as text, a line for each
 * whole text, or as JSON, a line for each event. Made by run_job.c; job/feed.c calls it. */
#include "cli/feed.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/prompt_line.h"
#include "job/writer.h"
#include "proto/envelope.h"
#include "serve/request_key.h"

enum {
    LINE_BYTES_MAX = 1 << 20, /* a prompt of the largest size, escaped or as tokens */
    READ_BYTES = 64 * 1024,
    TEXTS_MAX = PROTO_REQUESTS_OPEN_MAX,
};

/* A text that is not whole yet. */
typedef struct growing {
    uint64_t id; /* 0: none */
    base_buffer text;
} growing;

struct launch_cli_feed {
    launch_feed table;
    const launch_options *options;
    uint64_t last_id;
    bool ended;     /* the input */
    bool skipping;  /* the rest of a line that was too long */
    size_t begin;   /* of what is not parsed yet, */
    size_t scanned; /* without a newline up to here, */
    size_t end;
    char bytes[LINE_BYTES_MAX + READ_BYTES];
    growing texts[TEXTS_MAX];
};

/* ---- in ---- */

static void refuse(launch_cli_feed *feed, uint64_t id, const char *reason)
{
    feed->table.on_event(
        feed, &(launch_request_event){.kind = LAUNCH_EVENT_REFUSED, .id = id, .reason = reason});
}

/* Reads once. */
static void read_more(launch_cli_feed *feed)
{
    memmove(feed->bytes, feed->bytes + feed->begin, feed->end - feed->begin);
    feed->end -= feed->begin;
    feed->scanned -= feed->begin;
    feed->begin = 0;
    const size_t room = sizeof feed->bytes - feed->end;
    const ssize_t got =
        read(feed->table.fd, feed->bytes + feed->end, room < READ_BYTES ? room : READ_BYTES);
    if (got > 0) {
        feed->end += (size_t)got;
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
        feed->ended = true;
    }
}

/* Finds the next line, and steps over it. False: there is no whole one. */
static bool next_line(launch_cli_feed *feed, const char **line, size_t *line_bytes)
{
    const char *newline = memchr(feed->bytes + feed->scanned, '\n', feed->end - feed->scanned);
    *line = feed->bytes + feed->begin;
    const bool rest = feed->ended && (feed->end > feed->begin || feed->skipping);
    if (newline == NULL && !rest) {
        feed->scanned = feed->end;
        if (feed->end - feed->begin <= LINE_BYTES_MAX) {
            return false;
        }
        feed->skipping = true; /* and the beginning of the line is dropped */
        feed->begin = feed->end;
        return false;
    }
    const size_t end = newline != NULL ? (size_t)(newline - feed->bytes) : feed->end;
    *line_bytes = end - feed->begin;
    feed->begin = newline != NULL ? end + 1 : end;
    feed->scanned = feed->begin;
    return true;
}

static void set_defaults(const launch_cli_feed *feed, proto_request *request)
{
    launch_request_defaults(&feed->options->job, request);
    request->id = feed->last_id + 1;
    request->prompt_index = feed->last_id;
}

/* Reads the line. *kind is what to do about it; nothing if it was refused. */
static launch_feed_kind take_line(launch_cli_feed *feed, const char *line, size_t line_bytes,
                                  proto_request *request)
{
    base_error error = {.message = ""};
    launch_line_kind kind = LAUNCH_LINE_REQUEST;
    set_defaults(feed, request);
    const uint64_t id = request->id;
    base_status status =
        feed->skipping || line_bytes > LINE_BYTES_MAX
            ? base_fail(&error, BASE_ERR_LIMIT, "a line of more than %d bytes", LINE_BYTES_MAX)
            : launch_prompt_line(line, line_bytes, request, &kind, &error);
    feed->skipping = false;
    feed->last_id += kind == LAUNCH_LINE_REQUEST ? 1 : 0;
    if (status == BASE_OK && kind == LAUNCH_LINE_CANCEL && request->id > feed->last_id) {
        status = base_fail(&error, BASE_ERR_NOTFOUND, "cancel: there is no request %" PRIu64,
                           request->id);
    }
    if (status != BASE_OK) {
        refuse(feed, kind == LAUNCH_LINE_REQUEST ? id : 0, error.message);
        return LAUNCH_FEED_NOTHING;
    }
    return kind == LAUNCH_LINE_REQUEST  ? LAUNCH_FEED_REQUEST
           : kind == LAUNCH_LINE_CANCEL ? LAUNCH_FEED_CANCEL
                                        : LAUNCH_FEED_NOTHING;
}

static launch_feed_kind next(void *user, bool readable, proto_request *request)
{
    launch_cli_feed *feed = user;
    const char *line = NULL;
    size_t line_bytes = 0;
    for (;;) {
        if (next_line(feed, &line, &line_bytes)) {
            const launch_feed_kind kind = take_line(feed, line, line_bytes, request);
            if (kind != LAUNCH_FEED_NOTHING) {
                return kind;
            }
        } else if (readable && !feed->ended) {
            read_more(feed);
            readable = false;
        } else {
            return feed->ended ? LAUNCH_FEED_END : LAUNCH_FEED_NOTHING;
        }
    }
}

/* ---- out, as text ---- */

/* The text of the request; NULL: there is no room for one, which cannot be. */
static growing *text_of(launch_cli_feed *feed, uint64_t id)
{
    growing *room = NULL;
    for (int i = 0; i < TEXTS_MAX; i++) {
        if (feed->texts[i].id == id) {
            return &feed->texts[i];
        }
        room = room == NULL && feed->texts[i].id == 0 ? &feed->texts[i] : room;
    }
    if (room != NULL) {
        room->id = id;
    }
    return room;
}

static void print_finished(const launch_request_event *event, growing *text)
{
    const bool cut =
        strcmp(event->finish_reason, "stop") != 0 && strcmp(event->finish_reason, "length") != 0;
    launch_writer_result("%" PRIu64 "%s%s%s: %s\n", event->id, cut ? " (" : "",
                         cut ? event->finish_reason : "", cut ? ")" : "",
                         text != NULL && text->text.data != NULL ? text->text.data : "");
    if (text != NULL) {
        base_buffer_fini(&text->text);
        *text = (growing){.id = 0};
    }
}

static void print_text(void *user, const launch_request_event *event)
{
    launch_cli_feed *feed = user;
    growing *text = NULL;
    switch (event->kind) {
    case LAUNCH_EVENT_ACCEPTED:
        break;
    case LAUNCH_EVENT_REFUSED:
        if (event->id == 0) {
            base_log(BASE_LOG_WARNING, "a line was refused: %s", event->reason);
        } else {
            base_log(BASE_LOG_WARNING, "request %" PRIu64 " was refused: %s", event->id,
                     event->reason);
        }
        break;
    case LAUNCH_EVENT_TOKENS:
        text = text_of(feed, event->id);
        if (text != NULL) {
            base_buffer_put(&text->text, event->text);
        }
        break;
    case LAUNCH_EVENT_FINISHED:
        print_finished(event, text_of(feed, event->id));
        break;
    }
}

/* ---- out, as JSON ---- */

static json_t *to_ms(int64_t ns)
{
    return json_real((double)ns / (double)BASE_NS_PER_MS);
}

/* A reason may quote what was read, and be cut within a character. */
static json_t *reason_text(const launch_request_event *event)
{
    char reason[BASE_ERROR_MESSAGE_BYTES];
    (void)snprintf(reason, sizeof reason, "%s", event->reason);
    proto_text_tame(reason);
    return json_string(reason);
}

/* Of each token its own log-probability, and those of the best as a list. */
static json_t *describe_logprobs(const launch_request_event *event)
{
    const size_t each = event->logprob_count;
    json_t *tokens = json_array();
    for (size_t token = 0; token < event->token_count; token++) {
        const launch_logprob *of = event->logprobs + token * each;
        json_t *best = json_array();
        for (size_t i = 1; i < each && of[i].token >= 0; i++) {
            (void)json_array_append_new(
                best, json_pack("{s:i, s:f}", "token_id", of[i].token, "logprob", of[i].value));
        }
        (void)json_array_append_new(tokens,
                                    json_pack("{s:f, s:o}", "logprob", of->value, "best", best));
    }
    return tokens;
}

static json_t *describe_tokens(const launch_request_event *event)
{
    json_t *ids = json_array();
    for (size_t i = 0; i < event->token_count; i++) {
        (void)json_array_append_new(ids, json_integer(event->tokens[i]));
    }
    json_t *object = json_pack("{s:s, s:I, s:o, s:s}", "event", "tokens", "id",
                               (json_int_t)event->id, "token_ids", ids, "text", event->text);
    if (event->logprob_count > 0) {
        (void)json_object_set_new(object, "logprobs", describe_logprobs(event));
    }
    return object;
}

static json_t *describe_finished(const launch_request_event *event)
{
    json_t *object = json_pack("{s:s, s:I, s:s}", "event", "finished", "id", (json_int_t)event->id,
                               "finish_reason", event->finish_reason);
    if (event->reason != NULL) { /* the job has failed, and nothing else is known */
        (void)json_object_set_new(object, "reason", reason_text(event));
        return object;
    }
    (void)json_object_set_new(object, "completion_tokens",
                              json_integer((json_int_t)event->completion_tokens));
    (void)json_object_set_new(object, "cached_tokens",
                              json_integer((json_int_t)event->cached_tokens));
    (void)json_object_set_new(object, "drafted_tokens", json_integer((json_int_t)event->drafted));
    (void)json_object_set_new(object, "accepted_tokens", json_integer((json_int_t)event->accepted));
    (void)json_object_set_new(object, "queued_ms", to_ms(event->queued_ns));
    (void)json_object_set_new(object, "ttft_ms",
                              event->ttft_ns > 0 ? to_ms(event->ttft_ns) : json_null());
    (void)json_object_set_new(object, "decode_ms", to_ms(event->decode_ns));
    return object;
}

static json_t *describe(const launch_request_event *event)
{
    const json_int_t id = (json_int_t)event->id;
    switch (event->kind) {
    case LAUNCH_EVENT_ACCEPTED:
        return json_pack("{s:s, s:I, s:I}", "event", "accepted", "id", id, "prompt_tokens",
                         (json_int_t)event->prompt_tokens);
    case LAUNCH_EVENT_REFUSED:
        return json_pack("{s:s, s:o, s:o}", "event", "refused", "id",
                         id > 0 ? json_integer(id) : json_null(), "reason", reason_text(event));
    case LAUNCH_EVENT_TOKENS:
        return describe_tokens(event);
    case LAUNCH_EVENT_FINISHED:
        break;
    }
    return describe_finished(event);
}

static void print_json(void *user, const launch_request_event *event)
{
    json_t *object = describe(event);
    (void)user;
    /* a log-probability comes back with its bits */
    const size_t digits = event->kind == LAUNCH_EVENT_TOKENS ? 17 : 6;
    char *line =
        json_dumps(object, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(digits));
    launch_writer_result("%s\n", line != NULL ? line : "");
    free(line);
    json_decref(object);
}

/* ---- ---- */

base_status launch_cli_feed_create(const launch_options *options, int fd, launch_cli_feed **feed,
                                   base_error *reterr)
{
    launch_cli_feed *made = calloc(1, sizeof *made);
    *feed = made;
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for requests");
    }
    made->options = options;
    made->table = (launch_feed){
        .user = made,
        .fd = fd,
        .next = next,
        .on_event = options->stream == LAUNCH_STREAM_JSON ? print_json : print_text,
    };
    return BASE_OK;
}

void launch_cli_feed_destroy(launch_cli_feed *feed)
{
    for (int i = 0; feed != NULL && i < TEXTS_MAX; i++) {
        base_buffer_fini(&feed->texts[i].text);
    }
    free(feed);
}

const launch_feed *launch_cli_feed_table(const launch_cli_feed *feed)
{
    return &feed->table;
}
