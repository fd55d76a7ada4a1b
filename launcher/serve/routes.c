/* Which path is answered how. Called by libmicrohttpd's thread, through server.c. */
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "serve/body.h"
#include "serve/completion_body.h"
#include "serve/headers.h"
#include "serve/request_key.h"
#include "serve/server_impl.h"

/* One HTTP request. */
typedef struct call {
    launch_completion *completion; /* NULL: it is none, or not yet */
    launch_body body;              /* until it is parsed */
} call;

#define PAGE_PATH  "/"
#define MODEL_PATH "/v1/models/{model}" /* as OpenAI writes it */

typedef bool answer_function(launch_server *server, struct MHD_Connection *connection, call *own);

/* Sends the response, if it is done, and lets go of it. NULL: there was no memory for it. */
static bool queue(struct MHD_Connection *connection, int status, struct MHD_Response *response,
                  bool done)
{
    const char *origin = launch_connections_origin(connection);
    done = done && (origin[0] == '\0' ||
                    MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN,
                                            origin) == MHD_YES);
    done = done && MHD_queue_response(connection, (unsigned)status, response) == MHD_YES;
    if (response != NULL) {
        MHD_destroy_response(response);
    }
    return done;
}

/* Sends a text, which is freed. NULL: there was no memory for it. */
static bool send_text(struct MHD_Connection *connection, int status, const char *type, char *text,
                      const char *header, const char *value)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(text != NULL ? strlen(text) : 0,
                                                                    text, MHD_RESPMEM_MUST_FREE);
    const bool done =
        response != NULL && text != NULL &&
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES &&
        (header == NULL || MHD_add_response_header(response, header, value) == MHD_YES);
    if (response == NULL) {
        free(text);
    }
    return queue(connection, status, response, done);
}

/* Sends JSON, with a newline at its end for terminals. The text is freed. */
static bool send_object(struct MHD_Connection *connection, int status, char *json,
                        const char *header, const char *value)
{
    const size_t length = json != NULL ? strlen(json) : 0;
    char *text = json != NULL ? realloc(json, length + sizeof "\n") : NULL;
    if (text == NULL) {
        free(json);
    } else {
        memcpy(text + length, "\n", sizeof "\n");
    }
    return send_text(connection, status, "application/json", text, header, value);
}

static bool send_json(struct MHD_Connection *connection, int status, char *text)
{
    return send_object(connection, status, text, NULL, NULL);
}

static bool send_error(struct MHD_Connection *connection, int status, const char *field,
                       const char *message, const char *header, const char *value)
{
    return send_object(connection, status, launch_reply_error(status, field, message), header,
                       value);
}

/* ---- completions ---- */

/* Begins a completion, unless the server is full or ends. Returns the HTTP status if it does not. */
static int begin(launch_server *server, struct MHD_Connection *connection, call *own,
                 launch_completion_body *body)
{
    int status = 0;
    (void)pthread_mutex_lock(&server->lock);
    if (server->draining || server->over) {
        status = MHD_HTTP_SERVICE_UNAVAILABLE;
    } else if (!launch_completions_have_room(server, body->prompt_count * body->choices_each)) {
        status = MHD_HTTP_TOO_MANY_REQUESTS;
    } else {
        launch_completion *one = launch_completion_add(server, body, connection);
        status = one != NULL ? 0 : MHD_HTTP_INTERNAL_SERVER_ERROR;
        if (one != NULL) {
            struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT,
                                        .data.u64 = one->head.id};
            (void)epoll_ctl(server->events_fd, EPOLL_CTL_ADD, one->fd, &event);
            own->completion = one;
            (void)MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
                                            (unsigned)LAUNCH_SERVE_USED_SECONDS);
            one->suspended = true;
            MHD_suspend_connection(connection);
            launch_server_wake(server);
        }
    }
    (void)pthread_mutex_unlock(&server->lock);
    return status;
}

static bool refuse_full(launch_server *server, struct MHD_Connection *connection)
{
    (void)pthread_mutex_lock(&server->lock);
    server->metrics.requests[LAUNCH_OUTCOME_FULL]++;
    (void)pthread_mutex_unlock(&server->lock);
    return send_error(connection, MHD_HTTP_TOO_MANY_REQUESTS, NULL,
                      "too many requests wait: try again later", MHD_HTTP_HEADER_RETRY_AFTER, "1");
}

static bool post(launch_server *server, struct MHD_Connection *connection, call *own, bool chat)
{
    char field[LAUNCH_FIELD_BYTES];
    base_error error = {.message = ""};
    launch_completion_body *body = calloc(1, sizeof *body);
    if (body == NULL) {
        return send_error(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "no memory", NULL,
                          NULL);
    }
    body->chat = chat;
    launch_request_defaults(server->job, &body->request);
    const base_status read =
        launch_completion_body_read(own->body.bytes != NULL ? own->body.bytes : "",
                                    own->body.size_bytes, server->model, body, field, &error);
    launch_body_drop(&own->body, &server->large_bytes);
    if (read != BASE_OK) {
        launch_completion_body_fini(body);
        free(body);
        (void)pthread_mutex_lock(&server->lock);
        server->metrics.requests[LAUNCH_OUTCOME_REFUSED]++;
        (void)pthread_mutex_unlock(&server->lock);
        return send_error(connection,
                          read == BASE_ERR_NOTFOUND ? MHD_HTTP_NOT_FOUND : MHD_HTTP_BAD_REQUEST,
                          field, error.message, NULL, NULL);
    }
    const int status = begin(server, connection, own, body);
    launch_completion_body_fini(body);
    free(body);
    switch (status) {
    case 0:
        return true;
    case MHD_HTTP_TOO_MANY_REQUESTS:
        return refuse_full(server, connection);
    case MHD_HTTP_SERVICE_UNAVAILABLE:
        return send_error(connection, status, NULL, "the server ends", NULL, NULL);
    default:
        return send_error(connection, status, NULL, "no memory", NULL, NULL);
    }
}

static bool post_completion(launch_server *server, struct MHD_Connection *connection, call *own)
{
    return post(server, connection, own, false);
}

static bool post_chat(launch_server *server, struct MHD_Connection *connection, call *own)
{
    return post(server, connection, own, true);
}

static ssize_t read_stream(void *user, uint64_t position, char *bytes, size_t bytes_max)
{
    return (ssize_t)launch_stream_read(user, position, bytes, bytes_max);
}

static bool send_stream(struct MHD_Connection *connection, launch_completion *one)
{
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, LAUNCH_SERVE_CHUNK_BYTES, read_stream, one, NULL);
    const bool done =
        response != NULL &&
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream") ==
            MHD_YES &&
        MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache") == MHD_YES &&
        MHD_add_response_header(response, "X-Accel-Buffering", "no") == MHD_YES;
    return queue(connection, MHD_HTTP_OK, response, done);
}

/* The field that a completion's error is about; NULL: it is about none. */
static const char *field_of(const launch_completion *one)
{
    if (one->trouble != LAUNCH_TROUBLE_REQUEST) {
        return one->trouble == LAUNCH_TROUBLE_LARGE ? "max_tokens" : NULL;
    }
    static const char *const keys[] = {PROTO_STOPS_KEY, PROTO_BIAS_KEY, PROTO_FORMAT_KEY,
                                       LAUNCH_TOOLS_KEY};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strncmp(one->reason.message, keys[i], strlen(keys[i])) == 0) {
            return keys[i];
        }
    }
    return one->head.chat ? "messages" : "prompt";
}

/* The whole answer, after which the choices have no texts any more. NULL: no memory. */
static char *write_answer(launch_completion *one)
{
    launch_reply_choice choices[LAUNCH_SERVE_CHOICES_MAX];
    const launch_usage usage = launch_completion_usage(one);
    for (int i = 0; i < one->choice_count; i++) {
        launch_choice *choice = &one->choices[i];
        struct json_t *calls = launch_choice_take_calls(one, choice);
        const bool wordless = calls != NULL && choice->text.length_bytes == 0;
        choices[i] = (launch_reply_choice){.index = i,
                                           .text = wordless                    ? NULL
                                                   : choice->text.data != NULL ? choice->text.data
                                                                               : "",
                                           .calls = calls,
                                           .finish_reason = choice->finish_reason,
                                           .logprobs = &choice->logprobs};
    }
    char *answer = launch_reply_completion(&one->head, choices, one->choice_count, &usage);
    one->answer_bytes = answer != NULL ? strlen(answer) : 0;
    launch_completion_forget_texts(one);
    return answer;
}

/* Goes on with a completion that was suspended: a stream was accepted, or the whole text is there. */
static bool go_on(launch_server *server, struct MHD_Connection *connection, launch_completion *one)
{
    char *text = NULL;
    (void)pthread_mutex_lock(&server->lock);
    const bool over = launch_completion_is_over(one);
    const bool gone = one->gone;
    const bool stream =
        one->stream && one->trouble == LAUNCH_TROUBLE_NONE && launch_completion_is_accepted(one);
    const int status = launch_completion_status(one);
    if (!stream && over) {
        text = one->trouble != LAUNCH_TROUBLE_NONE
                   ? launch_reply_error(status, field_of(one), one->reason.message)
                   : write_answer(one);
    } else if (!stream && !gone) {
        one->suspended = true;
        MHD_suspend_connection(connection);
    }
    (void)pthread_mutex_unlock(&server->lock);
    if (gone) {
        free(text);
        return false; /* closes the connection */
    }
    if (stream) {
        return send_stream(connection, one);
    }
    return !over || send_json(connection, status, text);
}

/* ---- the other paths ---- */

static bool get_models(launch_server *server, struct MHD_Connection *connection, call *own)
{
    (void)own;
    return send_json(connection, MHD_HTTP_OK,
                     launch_reply_models(server->model, server->base, server->started_s));
}

static bool get_model(launch_server *server, struct MHD_Connection *connection, call *own)
{
    (void)own;
    return send_json(connection, MHD_HTTP_OK,
                     launch_reply_model(server->model, server->base, server->started_s));
}

static bool get_health(launch_server *server, struct MHD_Connection *connection, call *own)
{
    (void)own;
    (void)pthread_mutex_lock(&server->lock);
    const char *state = server->draining || server->over ? "ending"
                        : server->ready                  ? "ok"
                                                         : "loading";
    (void)pthread_mutex_unlock(&server->lock);
    return send_json(connection,
                     strcmp(state, "ok") == 0 ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
                     launch_reply_health(state));
}

static bool get_metrics(launch_server *server, struct MHD_Connection *connection, call *own)
{
    base_buffer text = {.data = NULL};
    int running = 0;
    int waiting = 0;
    (void)own;
    (void)pthread_mutex_lock(&server->lock);
    for (const launch_completion *one = server->completions; one != NULL; one = one->next) {
        for (int i = 0; i < one->choice_count && one->trouble == LAUNCH_TROUBLE_NONE; i++) {
            if (!launch_choice_is_over(
                    &one->choices[i])) { /* it may wait for its reader long after */
                running += one->choices[i].first_ns != 0 ? 1 : 0;
                waiting += one->choices[i].first_ns == 0 ? 1 : 0;
            }
        }
    }
    launch_metrics_write(&server->metrics, running, waiting, &text);
    (void)pthread_mutex_unlock(&server->lock);
    return send_text(connection, MHD_HTTP_OK, "text/plain; version=0.0.4", text.data, NULL, NULL);
}

/* The page for browsers. It has no secret, and asks for the key that its own requests need. */
static bool get_page(launch_server *server, struct MHD_Connection *connection, call *own)
{
    static const char *const headers[][2] = {
        {MHD_HTTP_HEADER_CONTENT_TYPE, "text/html; charset=utf-8"},
        {MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache"},
        {"X-Content-Type-Options", "nosniff"},
        {"Content-Security-Policy",
         "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src "
         "'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    };
    (void)server;
    (void)own;
    struct MHD_Response *response = MHD_create_response_from_buffer(
        launch_page_bytes, (void *)(uintptr_t)launch_page, MHD_RESPMEM_PERSISTENT);
    bool done = response != NULL;
    for (size_t i = 0; done && i < sizeof headers / sizeof headers[0]; i++) {
        done = MHD_add_response_header(response, headers[i][0], headers[i][1]) == MHD_YES;
    }
    return queue(connection, MHD_HTTP_OK, response, done);
}

/* A browser asks whether a page of another origin may send JSON, or a key. It sends no key itself. */
static bool allow_page(struct MHD_Connection *connection)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    const bool done =
        response != NULL && MHD_add_response_header(response, "Access-Control-Allow-Headers",
                                                    "Authorization, *") == MHD_YES;
    return queue(connection, MHD_HTTP_NO_CONTENT, response, done);
}

/* Whether it is asked so, and pages of another origin may come. */
static bool asks_for_page(const launch_server *server, const char *method)
{
    return server->origin[0] != '\0' && strcmp(method, MHD_HTTP_METHOD_OPTIONS) == 0;
}

static const struct {
    const char *path;
    const char *method;
    answer_function *answer;
} routes[] = {
    {"/v1/completions", MHD_HTTP_METHOD_POST, post_completion},
    {"/v1/chat/completions", MHD_HTTP_METHOD_POST, post_chat},
    {"/v1/models", MHD_HTTP_METHOD_GET, get_models},
    {MODEL_PATH, MHD_HTTP_METHOD_GET, get_model},
    {PAGE_PATH, MHD_HTTP_METHOD_GET, get_page},
    {"/metrics", MHD_HTTP_METHOD_GET, get_metrics},
    {"/health", MHD_HTTP_METHOD_GET, get_health},
};

/* ---- requests ---- */

static bool refuse_long(struct MHD_Connection *connection)
{
    return send_error(connection, MHD_HTTP_CONTENT_TOO_LARGE, NULL, "the body has too many bytes",
                      NULL, NULL);
}

/* Makes the state of a request whose headers have come. What its body cannot change is answered at
 * once. */
static bool open_call(launch_server *server, struct MHD_Connection *connection, const char *path,
                      const char *method, const char *version, void **state)
{
    const char *wrong = launch_headers_wrong(connection, version);
    const char *length =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    call *own = calloc(1, sizeof *own);
    if (own == NULL) {
        return false;
    }
    *state = own;
    if (wrong != NULL) { /* an answer before the body closes the connection */
        return send_error(connection, MHD_HTTP_BAD_REQUEST, NULL, wrong, NULL, NULL);
    }
    const bool for_all = strcmp(path, "/health") == 0 || strcmp(path, PAGE_PATH) == 0 ||
                         asks_for_page(server, method);
    if (server->has_key && !for_all && !launch_headers_have_key(connection, server->key_hash)) {
        return send_error(connection, MHD_HTTP_UNAUTHORIZED, NULL,
                          "the header Authorization: Bearer KEY is missing, or has a wrong key",
                          MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    }
    if (!server->has_key && !server->is_open && !launch_headers_ask_by_address(connection)) {
        return send_error(connection, MHD_HTTP_FORBIDDEN, NULL,
                          "the header Host must be an address or localhost, unless the server has "
                          "--serve-key-file or --serve-open",
                          NULL, NULL);
    }
    if (launch_headers_encode(connection)) {
        return send_error(connection, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, NULL,
                          "the body has a Content-Encoding: send it as it is",
                          MHD_HTTP_HEADER_ACCEPT_ENCODING, "identity");
    }
    return length == NULL || strtoull(length, NULL, 10) <= LAUNCH_SERVE_BODY_BYTES_MAX ||
           refuse_long(connection);
}

/* HEAD is GET: libmicrohttpd leaves out the body. */
static bool answer(launch_server *server, struct MHD_Connection *connection, const char *path,
                   const char *method, call *own)
{
    static const char models[] = "/v1/models/";
    const char *asked = strcmp(method, MHD_HTTP_METHOD_HEAD) == 0 ? MHD_HTTP_METHOD_GET : method;
    if (asks_for_page(server, method)) {
        return allow_page(connection);
    }
    if (strncmp(path, models, sizeof models - 1) == 0) {
        if (strcmp(path + sizeof models - 1, server->model) != 0) {
            base_error error;
            (void)base_fail(&error, BASE_ERR_NOTFOUND, LAUNCH_NO_SUCH_MODEL, server->model);
            return send_error(connection, MHD_HTTP_NOT_FOUND, "model", error.message, NULL, NULL);
        }
        path = MODEL_PATH;
    }
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (strcmp(path, routes[i].path) == 0) {
            const bool gets = strcmp(routes[i].method, MHD_HTTP_METHOD_GET) == 0;
            return strcmp(asked, routes[i].method) == 0
                       ? routes[i].answer(server, connection, own)
                       : send_error(connection, MHD_HTTP_METHOD_NOT_ALLOWED, NULL,
                                    gets ? "this path takes GET and HEAD only"
                                         : "this path takes POST only",
                                    MHD_HTTP_HEADER_ALLOW, gets ? "GET, HEAD" : routes[i].method);
        }
    }
    return send_error(connection, MHD_HTTP_NOT_FOUND, NULL,
                      "there are /v1/completions, /v1/chat/completions, /v1/models, " MODEL_PATH
                      ", /metrics, /health, and / for a browser",
                      NULL, NULL);
}

int launch_routes_handle(void *user, struct MHD_Connection *connection, const char *path,
                         const char *method, const char *version, const char *data,
                         size_t *data_bytes, void **state)
{
    launch_server *server = user;
    call *own = *state;
    if (own == NULL) {
        return open_call(server, connection, path, method, version, state);
    }
    if (*data_bytes > 0) {
        launch_body_take(&own->body, &server->large_bytes, data, *data_bytes,
                         strcmp(method, MHD_HTTP_METHOD_POST) == 0);
        *data_bytes = 0;
        return true;
    }
    launch_connections_busy(connection);
    if (own->body.state != LAUNCH_BODY_TAKEN) {
        return own->body.state == LAUNCH_BODY_TOO_LONG ? refuse_long(connection)
                                                       : refuse_full(server, connection);
    }
    return own->completion != NULL ? go_on(server, connection, own->completion)
                                   : answer(server, connection, path, method, own);
}

void launch_routes_end(void *user, struct MHD_Connection *connection, void **state, int how)
{
    launch_server *server = user;
    call *own = *state;
    (void)how;
    launch_connections_idle(&server->connections, connection);
    if (own == NULL) {
        return;
    }
    launch_completion *one = own->completion;
    if (one != NULL) {
        (void)pthread_mutex_lock(&server->lock);
        (void)epoll_ctl(server->events_fd, EPOLL_CTL_DEL, one->fd, NULL);
        one->connection = NULL;
        launch_completion_cancel(one);
        server->held--;
        if (server->held == 0) {
            (void)pthread_cond_signal(&server->idle);
        }
        launch_completion_drop(one);
        (void)pthread_mutex_unlock(&server->lock);
    }
    launch_body_drop(&own->body, &server->large_bytes);
    free(own);
    *state = NULL;
}
