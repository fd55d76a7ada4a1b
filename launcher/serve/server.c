/* Listens, and begins and ends the server's thread. Called by
 * cli/run_job.c. */
#include "serve/server.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"
#include "engine/address.h"
#include "proto/checkpoints.h"
#include "proto/envelope.h"
#include "serve/server_impl.h"

void launch_server_wake(const launch_server *server)
{
    const uint64_t once = 1;
    (void)!write(server->wake_fd, &once, sizeof once);
}

/* ---- the address and the key ---- */

static base_status resolve(const char *text, struct addrinfo **found, base_error *reterr)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    launch_address address;
    char port[16];
    if (!launch_address_split(text, 0, &address)) {
        return base_fail(
            reterr, BASE_ERR_INVALID,
            "--serve '%s': must be HOST:PORT, as in 127.0.0.1:8000 or [::1]:8000; port "
            "0 is a free one",
            text);
    }
    (void)snprintf(port, sizeof port, "%d", address.port);
    const int failure = getaddrinfo(address.host, port, &hints, found);
    return failure == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "--serve %s: %s", text, gai_strerror(failure));
}

static base_status describe(const struct sockaddr *address, socklen_t bytes, char host[NI_MAXHOST],
                            char port[NI_MAXSERV], base_error *reterr)
{
    return getnameinfo(address, bytes, host, NI_MAXHOST, port, NI_MAXSERV,
                       NI_NUMERICHOST | NI_NUMERICSERV) == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "--serve: the address has no name");
}

/* Browsers compare it letter by letter: with a capital letter or a slash at its end it would match none. */
static bool is_origin(const char *text)
{
    static const char scheme[] = "abcdefghijklmnopqrstuvwxyz0123456789+.-";
    const char *host = text + strspn(text, scheme);
    if (text[0] == '\0' || strcmp(text, "*") == 0) {
        return true;
    }
    if (host == text || strncmp(host, "://", 3) != 0 || host[3] == '\0') {
        return false;
    }
    host += 3;
    return host[strspn(host, "abcdefghijklmnopqrstuvwxyz0123456789_.-:[]")] == '\0';
}

base_status launch_server_check(const launch_server_options *options, base_error *reterr)
{
    struct addrinfo *found = NULL;
    char host[NI_MAXHOST];
    char port[NI_MAXSERV];
    const bool has_key = options->key_file[0] != '\0';
    if (!is_origin(options->origin)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--serve-origin '%s': must be *, or an origin as browsers write it, as in "
                         "http://localhost:3000",
                         options->origin);
    }
    base_status status = resolve(options->address, &found, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = describe(found->ai_addr, found->ai_addrlen, host, port, reterr);
    freeaddrinfo(found);
    if (status == BASE_OK && has_key && options->open) {
        return base_fail(reterr, BASE_ERR_INVALID, "--serve-key-file or --serve-open, not both");
    }
    if (status == BASE_OK && !has_key && !options->open && !launch_address_is_loopback(host)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--serve %s: other hosts can connect: give --serve-key-file FILE, or "
                         "--serve-open if anybody may use the model",
                         options->address);
    }
    return status;
}

/* Whether a header can carry the key: it has no spaces and no control characters, and is ASCII. */
static bool is_key(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            return false;
        }
    }
    return bytes >= LAUNCH_SERVE_KEY_BYTES_MIN;
}

static base_status read_key(const char *path, launch_server *server, base_error *reterr)
{
    void *key = NULL;
    size_t bytes = 0;
    struct stat file;
    if (path[0] == '\0') {
        return BASE_OK;
    }
    if (stat(path, &file) == 0 && (file.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--serve-key-file %s may be written by others (mode %04o): chmod 600 it, "
                         "and look whether the key is still yours",
                         path, (unsigned)(file.st_mode & 07777));
    }
    base_status status = base_file_read(path, LAUNCH_SERVE_KEY_BYTES_MAX, &key, &bytes, reterr);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "--serve-key-file");
    }
    const char *text = key;
    while (bytes > 0 && (text[bytes - 1] == '\n' || text[bytes - 1] == '\r')) {
        bytes--;
    }
    if (!is_key(text, bytes)) {
        status = base_fail(reterr, BASE_ERR_INVALID,
                           "--serve-key-file %s: a key is one line of at least %d characters of "
                           "ASCII without spaces",
                           path, LAUNCH_SERVE_KEY_BYTES_MIN);
    } else {
        (void)crypto_generichash(server->key_hash, sizeof server->key_hash, key, bytes, NULL, 0);
        server->has_key = true;
    }
    sodium_memzero(key, bytes);
    free(key);
    return status;
}

static base_status open_socket(launch_server *server, const char *text, base_error *reterr)
{
    const int on = 1;
    struct addrinfo *found = NULL;
    struct sockaddr_storage bound;
    socklen_t bound_bytes = sizeof bound;
    char host[NI_MAXHOST];
    char port[NI_MAXSERV];
    base_status status = resolve(text, &found, reterr);
    if (status != BASE_OK) {
        return status;
    }
    server->listen_fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (server->listen_fd < 0 ||
        setsockopt(server->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(server->listen_fd, found->ai_addr, found->ai_addrlen) != 0 ||
        listen(server->listen_fd, LAUNCH_SERVE_BACKLOG) != 0 ||
        getsockname(server->listen_fd, (struct sockaddr *)&bound, &bound_bytes) != 0) {
        status = base_fail_errno(reterr, errno, "--serve %s: cannot listen there", text);
    }
    freeaddrinfo(found);
    if (status == BASE_OK) {
        status = describe((struct sockaddr *)&bound, bound_bytes, host, port, reterr);
    }
    if (status == BASE_OK) {
        const bool brackets = strchr(host, ':') != NULL;
        (void)snprintf(server->url, sizeof server->url, "http://%s%.64s%s:%.8s",
                       brackets ? "[" : "", host, brackets ? "]" : "", port);
    }
    return status;
}

/* ---- begin and end ---- */

static enum MHD_Result handle(void *user, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *data,
                              size_t *data_bytes, void **state)
{
    return launch_routes_handle(user, connection, path, method, version, data, data_bytes, state)
               ? MHD_YES
               : MHD_NO;
}

static void end(void *user, struct MHD_Connection *connection, void **state,
                enum MHD_RequestTerminationCode how)
{
    launch_routes_end(user, connection, state, (int)how);
}

static void notify(void *user, struct MHD_Connection *connection, void **context,
                   enum MHD_ConnectionNotificationCode what)
{
    launch_server *server = user;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        launch_connections_begin(&server->connections, connection, context);
    } else {
        launch_connections_end(&server->connections, context);
    }
}

/* A NUL would cut the path short, and what is left may be another one. */
static size_t unescape(void *user, struct MHD_Connection *connection, char *text)
{
    (void)user;
    (void)connection;
    return strstr(text, "%00") != NULL ? strlen(text) : MHD_http_unescape(text);
}

static base_status open_events(launch_server *server, base_error *reterr)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0};
    server->events_fd = epoll_create1(EPOLL_CLOEXEC);
    server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return server->events_fd >= 0 && server->wake_fd >= 0 &&
                   epoll_ctl(server->events_fd, EPOLL_CTL_ADD, server->wake_fd, &event) == 0
               ? BASE_OK
               : base_fail_errno(reterr, errno, "--serve: cannot watch for clients");
}

/* The thread gets no signals: they are the job's. By poll: with epoll libmicrohttpd 0.9.75 may miss that a
 * client has gone, and keeps its connection until the idle time is over. */
static base_status start_thread(launch_server *server, base_error *reterr)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    server->daemon = MHD_start_daemon(
        MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, handle, server,
        MHD_OPTION_LISTEN_SOCKET, server->listen_fd, MHD_OPTION_NOTIFY_COMPLETED, end, server,
        MHD_OPTION_NOTIFY_CONNECTION, notify, server, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)LAUNCH_SERVE_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)LAUNCH_SERVE_IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)LAUNCH_SERVE_HEADER_BYTES_MAX, MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL,
        MHD_OPTION_END);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return server->daemon != NULL
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_IO, "--serve: libmicrohttpd does not start");
}

static base_status write_url(const char *directory, launch_server *server, base_error *reterr)
{
    char line[LAUNCH_SERVE_URL_BYTES + 1];
    if (directory[0] == '\0') {
        return BASE_OK;
    }
    (void)snprintf(server->url_file, sizeof server->url_file, "%s/serve.url", directory);
    const int bytes = snprintf(line, sizeof line, "%s\n", server->url);
    return base_file_write(server->url_file, line, (size_t)bytes, reterr);
}

static size_t without_slashes(const char *path, size_t bytes)
{
    while (bytes > 1 && path[bytes - 1] == '/') {
        bytes--;
    }
    return bytes;
}

/* The last part of a path, or that before the adapters of a --lora-merge. */
static void name_model(const char *path, char name[LAUNCH_SERVE_MODEL_BYTES])
{
    static const char below[] = "/" PROTO_ADAPTER_DIRECTORY;
    size_t bytes = without_slashes(path, strlen(path));
    if (bytes > sizeof below &&
        memcmp(path + bytes - (sizeof below - 1), below, sizeof below - 1) == 0) {
        bytes = without_slashes(path, bytes - (sizeof below - 1));
    }
    size_t begin = bytes;
    while (begin > 0 && path[begin - 1] != '/') {
        begin--;
    }
    (void)snprintf(name, LAUNCH_SERVE_MODEL_BYTES, "%.*s", (int)(bytes - begin), path + begin);
    proto_text_tame(name);
}

base_status launch_server_create(const launch_server_options *options, launch_server **server,
                                 base_error *reterr)
{
    char timestamp[BASE_TIMESTAMP_BYTES];
    launch_server *made = calloc(1, sizeof *made);
    *server = made;
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the HTTP server");
    }
    made->job = options->job;
    made->is_open = options->open;
    made->listen_fd = made->events_fd = made->wake_fd = -1;
    (void)snprintf(made->origin, sizeof made->origin, "%s", options->origin);
    launch_connections_init(&made->connections, made->origin);
    made->open_max = (int)options->job->infer.max_num_seqs + PROTO_REQUESTS_WAITING_MAX;
    made->started_s = base_timestamp(timestamp) / 1000;
    made->seed = (uint64_t)options->job->infer.sampling_seed;
    if (made->seed == 0) { /* two servers, and two starts of one, draw different tokens */
        randombytes_buf(&made->seed, sizeof made->seed);
    }
    (void)pthread_mutex_init(&made->lock, NULL);
    base_cond_init(&made->idle);
    const bool adapted = made->job->model.adapter[0] != '\0';
    name_model(adapted ? made->job->model.adapter : made->job->model.checkpoint, made->model);
    if (options->model_name[0] != '\0') {
        (void)snprintf(made->model, sizeof made->model, "%s", options->model_name);
        proto_text_tame(made->model);
    }
    name_model(adapted ? made->job->model.checkpoint : "", made->base);
    name_model(made->job->model.draft, made->draft);
    made->metrics.draft_model = made->draft;
    base_status status = read_key(options->key_file, made, reterr);
    if (status == BASE_OK) {
        status = open_events(made, reterr);
    }
    if (status == BASE_OK) {
        status = open_socket(made, options->address, reterr);
    }
    if (status == BASE_OK) {
        status = write_url(options->url_directory, made, reterr);
    }
    if (status == BASE_OK) {
        status = start_thread(made, reterr);
    }
    if (status != BASE_OK) {
        launch_server_destroy(made, "");
        *server = NULL;
        return status;
    }
    made->table = (launch_feed){.user = made,
                                .fd = made->events_fd,
                                .next = launch_events_next,
                                .on_event = launch_events_take,
                                .on_ready = launch_events_ready,
                                .drain = launch_events_drain,
                                .drain_ms = options->drain_ms > 0 ? options->drain_ms
                                                                  : LAUNCH_SERVE_DRAIN_MS};
    return BASE_OK;
}

const char *launch_server_url(const launch_server *server)
{
    return server->url;
}

const launch_feed *launch_server_feed(const launch_server *server)
{
    return &server->table;
}

/* Answers all that is open, and waits until that is sent. */
static void flush(launch_server *server, const char *cause)
{
    const int64_t deadline_ns = base_deadline_after_ns(LAUNCH_SERVE_FLUSH_MS * BASE_NS_PER_MS);
    (void)pthread_mutex_lock(&server->lock);
    server->over = true;
    launch_completion *next = NULL;
    for (launch_completion *one = server->completions; one != NULL; one = next) {
        next = one->next;
        if (!launch_completion_is_over(one)) {
            launch_completion_fail(one,
                                   cause[0] != '\0' ? LAUNCH_TROUBLE_FAILED : LAUNCH_TROUBLE_ENDING,
                                   cause[0] != '\0' ? cause : "the server ends");
        }
        launch_completion_wake(one);
        launch_completion_drop(one);
    }
    bool in_time = true;
    while (server->held > 0 && in_time) {
        in_time = base_cond_wait(&server->idle, &server->lock, deadline_ns);
    }
    (void)pthread_mutex_unlock(&server->lock);
}

void launch_server_destroy(launch_server *server, const char *cause)
{
    if (server == NULL) {
        return;
    }
    if (server->url_file[0] != '\0') {
        (void)unlink(server->url_file);
    }
    if (server->daemon != NULL) {
        server->listen_fd = MHD_quiesce_daemon(server->daemon);
        flush(server, cause);
        MHD_stop_daemon(server->daemon);
    }
    launch_completions_free(server);
    base_fd_close(&server->listen_fd);
    base_fd_close(&server->events_fd);
    base_fd_close(&server->wake_fd);
    sodium_memzero(server->key_hash, sizeof server->key_hash);
    (void)pthread_cond_destroy(&server->idle);
    (void)pthread_mutex_destroy(&server->lock);
    free(server);
}
