/* What becomes of a completion and its choices. Called by the HTTP thread (routes.c, stream.c) and by the
 * job's (events.c, server.c). */
#include <jansson.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "serve/server_impl.h"

void launch_completion_forget_texts(launch_completion *one)
{
    for (int i = 0; i < one->choice_count; i++) {
        launch_choice *choice = &one->choices[i];
        base_buffer_fini(&choice->text);
        launch_logprobs_fini(&choice->logprobs);
        choice->held_bytes = 0;
        choice->logprobs = (launch_logprobs){.each = choice->logprobs.each};
    }
}

static void free_completion(launch_completion *one)
{
    launch_completion_forget_texts(one);
    for (int i = 0; i < one->choice_count / one->choices_each; i++) {
        free(one->requests[i]);
    }
    base_buffer_fini(&one->out);
    json_decref(one->tools);
    free(one);
}

/* The ids of the choices follow each other. */
launch_completion *launch_completion_add(launch_server *server, launch_completion_body *body,
                                         struct MHD_Connection *connection)
{
    char timestamp[BASE_TIMESTAMP_BYTES];
    const int count = body->prompt_count * body->choices_each;
    launch_completion *one = calloc(1, sizeof *one + (size_t)count * sizeof one->choices[0]);
    if (one == NULL) {
        return NULL;
    }
    one->server = server;
    one->head = (launch_reply_head){.id = server->last_id + 1,
                                    .created_s = base_timestamp(timestamp) / 1000,
                                    .model = server->model,
                                    .chat = body->chat};
    one->connection = connection;
    one->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    one->stops = body->stops;
    one->tools = json_incref(body->tools.list);
    one->seeded = body->seeded;
    one->echo = body->request.echo;
    one->silent = body->silent;
    one->stream = body->stream;
    one->include_usage = body->include_usage;
    one->came_ns = base_now_ns();
    one->choices_each = body->choices_each;
    one->choice_count = count;
    one->open_count = count;
    memcpy(one->requests, body->requests, sizeof one->requests);
    memset(body->requests, 0, sizeof body->requests); /* they are the completion's now */
    for (int i = 0; i < count; i++) {
        one->choices[i].index = i;
        one->choices[i].logprobs.each = (size_t)body->request.logprob_count;
        one->choices[i].logprobs.given = one->echo;
    }
    launch_completion **end = &server->completions;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = one;
    server->last_id += (uint64_t)count;
    server->open_count += count;
    server->held++;
    return one;
}

/* The memory of a finished completion. */
static size_t unread_bytes(const launch_completion *one)
{
    size_t bytes = one->answer_bytes + one->out.capacity_bytes;
    for (int i = 0; i < one->choice_count; i++) {
        const launch_logprobs *logprobs = &one->choices[i].logprobs;
        bytes += one->choices[i].text.capacity_bytes + logprobs->texts_room +
                 logprobs->room * sizeof *logprobs->kept;
    }
    return bytes;
}

bool launch_completions_have_room(const launch_server *server, int choices)
{
    size_t bytes = 0;
    for (const launch_completion *one = server->completions; one != NULL; one = one->next) {
        bytes += one->open_count == 0 ? unread_bytes(one) : 0;
    }
    return choices <= server->open_max - server->open_count &&
           bytes <= LAUNCH_SERVE_FINISHED_BYTES_MAX;
}

void launch_completion_end_choice(launch_completion *one, launch_choice *choice, launch_stage stage)
{
    BASE_ASSERT(choice->stage < LAUNCH_STAGE_DROPPED);
    choice->stage = stage;
    one->open_count--;
    one->server->open_count--;
}

void launch_completion_take_request(launch_completion *one, launch_choice *choice,
                                    proto_request *request)
{
    proto_request **of = &one->requests[choice->index / one->choices_each];
    memcpy(request, *of, proto_request_bytes(*of));
    request->id = one->head.id + (uint64_t)choice->index;
    request->prompt_index = one->seeded ? (uint64_t)choice->index : request->id;
    request->seed = one->seeded ? request->seed : one->server->seed;
    if (choice->index % one->choices_each == one->choices_each - 1) { /* they are taken in turn */
        free(*of);
        *of = NULL;
    }
    choice->stage = LAUNCH_STAGE_SENT;
}

void launch_completion_wake(launch_completion *one)
{
    if (one->suspended) {
        one->suspended = false;
        MHD_resume_connection(one->connection);
    }
}

json_t *launch_choice_take_calls(const launch_completion *one, launch_choice *choice)
{
    base_buffer *text = &choice->text;
    size_t content_bytes = 0;
    json_t *calls =
        one->tools != NULL && text->data != NULL
            ? launch_tools_calls(one->tools, text->data, text->length_bytes, choice->worded,
                                 one->head.id + (uint64_t)choice->index, &content_bytes)
            : NULL;
    if (calls != NULL) {
        text->length_bytes = content_bytes;
        text->data[content_bytes] = '\0';
        choice->finish_reason =
            strcmp(choice->finish_reason, "stop") == 0 ? "tool_calls" : choice->finish_reason;
    }
    return calls;
}

bool launch_choice_is_over(const launch_choice *choice)
{
    return choice->stage == LAUNCH_STAGE_DROPPED || choice->stage == LAUNCH_STAGE_FINISHED ||
           choice->stopped;
}

bool launch_completion_is_over(const launch_completion *one)
{
    bool over = true;
    for (int i = 0; i < one->choice_count; i++) {
        over = over && launch_choice_is_over(&one->choices[i]);
    }
    return over || one->trouble != LAUNCH_TROUBLE_NONE;
}

bool launch_completion_is_accepted(const launch_completion *one)
{
    bool accepted = true;
    for (int i = 0; i < one->choice_count; i++) {
        accepted = accepted && (one->choices[i].stage == LAUNCH_STAGE_ACCEPTED ||
                                one->choices[i].stage == LAUNCH_STAGE_FINISHED);
    }
    return accepted;
}

int launch_completion_status(const launch_completion *one)
{
    switch (one->trouble) {
    case LAUNCH_TROUBLE_NONE:
        return MHD_HTTP_OK;
    case LAUNCH_TROUBLE_REQUEST:
    case LAUNCH_TROUBLE_LARGE: /* not 5xx: clients would ask again for the same */
        return MHD_HTTP_BAD_REQUEST;
    case LAUNCH_TROUBLE_ENDING:
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    case LAUNCH_TROUBLE_FAILED:
    case LAUNCH_TROUBLE_UNREAD:
        break;
    }
    return MHD_HTTP_INTERNAL_SERVER_ERROR;
}

/* A prompt counts once, however many choices it has. */
launch_usage launch_completion_usage(const launch_completion *one)
{
    launch_usage usage = {.prompt_tokens = 0};
    for (int i = 0; i < one->choice_count; i++) {
        const launch_choice *choice = &one->choices[i];
        usage.completion_tokens += choice->usage.completion_tokens;
        if (i % one->choices_each == 0) {
            usage.prompt_tokens += choice->usage.prompt_tokens;
            usage.cached_tokens += choice->usage.cached_tokens;
        }
    }
    return usage;
}

void launch_completion_cancel(launch_completion *one)
{
    for (int i = 0; i < one->choice_count; i++) {
        launch_choice *choice = &one->choices[i];
        if (choice->stage == LAUNCH_STAGE_WAITING) {
            launch_completion_end_choice(one, choice, LAUNCH_STAGE_DROPPED);
            one->server->metrics.requests[LAUNCH_OUTCOME_CANCELLED]++;
        }
        choice->cancel_due = choice->cancel_due || !launch_choice_is_over(choice);
    }
    launch_server_wake(one->server);
}

void launch_completion_fail(launch_completion *one, launch_trouble trouble, const char *reason)
{
    if (one->trouble == LAUNCH_TROUBLE_NONE) { /* the first cause counts */
        one->trouble = trouble;
        (void)snprintf(one->reason.message, sizeof one->reason.message, "%s", reason);
        launch_completion_cancel(one);
    }
}

void launch_completion_drop(launch_completion *one)
{
    launch_server *server = one->server;
    if (one->connection != NULL || (one->open_count > 0 && !server->over)) {
        return; /* rank 0 will say more of an open choice */
    }
    launch_completion **at = &server->completions;
    while (*at != one) {
        at = &(*at)->next;
    }
    *at = one->next;
    server->open_count -= one->open_count;
    free_completion(one);
    launch_server_wake(server); /* the last one may end a drain */
}

void launch_completions_free(launch_server *server)
{
    while (server->completions != NULL) {
        launch_completion *one = server->completions;
        server->completions = one->next;
        free_completion(one);
    }
}
