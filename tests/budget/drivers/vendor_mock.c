/* vendor-mock KEY COUNT LOG: a vendor with the APIs of RunPod, Vast.ai and, below /lambda, Lambda Cloud, and COUNT instances of somebody else at
 * each. Prints its address. Before it answers a request, that is a line of the file LOG: METHOD PATH BODY. It ends
 * with its parent, or by a signal.
 *
 * A path that begins with /AT=FAULT gets the fault. AT is `all`, `create` or `attach` (a key to an instance):
 * other requests are as ever. FAULT is an HTTP status, or html404 (of something between), key404 (Vast.ai's for
 * a wrong key), garbage, wrong (JSON of another form), empty, busy (429 twice, then as ever), false ("success":
 * false), drop (does it, and closes the connection) or hang (never answers). POST /mock/VENDOR/ID changes what is
 * shown of an instance. */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "vendor_mock.h"

enum { BODY_BYTES_MAX = 65536 };

typedef struct exchange {
    size_t bytes;
    char body[BODY_BYTES_MAX + 1];
} exchange;

static mock_account runpod;
static mock_account vast;
static mock_account lambda;
static const char *bearer;
static FILE *requests;
static int busy;

int mock_number(const char *text)
{
    return (int)strtol(text, NULL, 10);
}

int mock_after(const char *path, const char *prefix)
{
    return strncmp(path, prefix, strlen(prefix)) == 0 ? mock_number(path + strlen(prefix)) : 0;
}

mock_instance *mock_find(mock_account *account, int id)
{
    for (int i = 0; i < account->count; i++) {
        if (account->instances[i].id == id) {
            return &account->instances[i];
        }
    }
    return NULL;
}

mock_instance *mock_add(mock_account *account, json_t *shown, json_t *when_run)
{
    if (account->count == MOCK_INSTANCES_MAX) {
        return NULL;
    }
    mock_instance *made = &account->instances[account->count++];
    *made = (mock_instance){.id = ++account->last_id, .shown = shown, .when_run = when_run};
    return made;
}

void mock_remove(mock_account *account, mock_instance *instance)
{
    json_decref(instance->shown);
    json_decref(instance->when_run);
    *instance = account->instances[--account->count];
}

json_t *mock_describe(mock_instance *instance)
{
    json_t *shown = json_deep_copy(instance->shown);
    if (!instance->described) {
        instance->described = true;
        (void)json_object_update(instance->shown, instance->when_run);
    }
    return shown;
}

static const char *argument(void *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
}

static bool is_vast(const char *path)
{
    return strncmp(path, "/api/", 5) == 0;
}

static bool is_lambda(const char *path)
{
    return strncmp(path, "/lambda/", 8) == 0;
}

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned status, const char *type,
                             const char *text)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY);
    (void)MHD_add_response_header(response, "Content-Type", type);
    const enum MHD_Result queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result reply_json(struct MHD_Connection *connection, mock_answer answer)
{
    char *text = answer.body == NULL ? strdup("") : json_dumps(answer.body, JSON_COMPACT);
    json_decref(answer.body);
    const enum MHD_Result queued = reply(connection, answer.status, "application/json", text);
    free(text);
    return queued;
}

static mock_answer serve(const mock_request *request)
{
    const char *given =
        MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "Authorization");
    const bool known = given != NULL && strcmp(given, bearer) == 0;
    if (is_lambda(request->path)) {
        mock_request below = *request;
        below.path += strlen("/lambda");
        return known ? mock_lambda(&lambda, &below) : mock_lambda_error(401, "API key is invalid");
    }
    if (!is_vast(request->path)) {
        return known ? mock_runpod(&runpod, request) : mock_runpod_error(401, "invalid token");
    }
    if (!known) { /* the search says it otherwise than the rest */
        return strcmp(request->path, "/api/v0/bundles/") == 0
                   ? mock_vast_error(404, "invalid_request", "Invalid user key")
                   : mock_vast_error(401, "auth_error", "Invalid user key");
    }
    return mock_vast(&vast, request);
}

static enum MHD_Result faulty(const mock_request *request, const char *fault)
{
    struct MHD_Connection *connection = request->connection;
    const int status = mock_number(fault); /* 0: a fault with a name */
    if (strcmp(fault, "busy") == 0 && ++busy % 3 != 0) {
        return reply(connection, 429, "text/plain", "API requests too frequent");
    }
    if (status != 0) {
        return reply_json(connection,
                          is_lambda(request->path)
                              ? mock_lambda_error((unsigned)status, "as it was told")
                          : is_vast(request->path)
                              ? mock_vast_error((unsigned)status, "told_to", "as it was told")
                              : mock_runpod_error((unsigned)status, "as it was told"));
    }
    if (strcmp(fault, "false") == 0) {
        return reply_json(connection, mock_vast_error(200, "told_to", "as it was told"));
    }
    if (strcmp(fault, "key404") == 0) {
        return reply_json(connection, mock_vast_error(404, "invalid_request", "Invalid user key"));
    }
    if (strcmp(fault, "html404") == 0) {
        return reply(connection, 404, "text/html", "<html>no such page</html>");
    }
    if (strcmp(fault, "garbage") == 0) {
        return reply(connection, 200, "application/json",
                     "{\"id\": \"pod1\", \"instances\":\xff[{\"");
    }
    if (strcmp(fault, "wrong") == 0) {
        return reply(
            connection, 200, "application/json",
            "{\"pods\": 7, \"instances\": 7, \"offers\": {}, \"gpus\": 7, \"success\": true}");
    }
    if (strcmp(fault, "empty") == 0) {
        return reply(connection, 200, "application/json", "");
    }
    if (strcmp(fault, "hang") == 0) {
        MHD_suspend_connection(connection);
        return MHD_YES;
    }
    const mock_answer answer = serve(request);
    if (strcmp(fault, "drop") == 0) {
        json_decref(answer.body);
        return MHD_NO;
    }
    return reply_json(connection, answer);
}

static bool is_at(const mock_request *request, const char *at, size_t bytes)
{
    const bool create =
        strcmp(request->method, "PUT") == 0 ||
        (strcmp(request->method, "POST") == 0 &&
         (strcmp(request->path, "/v2/pods") == 0 || strstr(request->path, "/launch") != NULL));
    const bool attach = strstr(request->path, "/ssh/") != NULL;
    return strncmp(at, "all", bytes) == 0 || (create && strncmp(at, "create", bytes) == 0) ||
           (attach && strncmp(at, "attach", bytes) == 0);
}

static mock_answer change(const mock_request *request)
{
    mock_instance *found = mock_find(&runpod, mock_after(request->path, "/mock/runpod/"));
    if (found == NULL) {
        found = mock_find(&vast, mock_after(request->path, "/mock/vast/"));
    }
    if (found == NULL) {
        found = mock_find(&lambda, mock_after(request->path, "/mock/lambda/"));
    }
    if (found == NULL || request->body == NULL) {
        return (mock_answer){404, NULL};
    }
    found->described = true; /* it stays as it is told to be */
    (void)json_object_update(found->shown, (json_t *)request->body);
    return (mock_answer){204, NULL};
}

static enum MHD_Result dispatch(struct MHD_Connection *connection, const char *url,
                                const char *method, const exchange *whole)
{
    json_t *body = json_loads(whole->body, 0, NULL);
    mock_request request = {method, url, body, argument, connection};
    char fault[16] = "";
    char at[16];
    int prefix = 0;
    if (sscanf(url, "/%15[a-z]=%15[a-z0-9]%n", at, fault, &prefix) == 2) {
        request.path = url + prefix;
    }
    (void)fprintf(requests, "%s %s %s\n", method, request.path, whole->body);
    (void)fflush(requests);
    enum MHD_Result result;
    if (strncmp(request.path, "/mock/", 6) == 0) {
        result = reply_json(connection, change(&request));
    } else if (fault[0] != '\0' && is_at(&request, at, strlen(at))) {
        result = faulty(&request, fault);
    } else {
        result = reply_json(connection, serve(&request));
    }
    json_decref(body);
    return result;
}

/* Called once for the headers, then for each piece of the body, then with none. */
static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_bytes, void **state)
{
    (void)user;
    (void)version;
    exchange *whole = *state;
    if (whole == NULL) {
        *state = calloc(1, sizeof *whole);
        return *state == NULL ? MHD_NO : MHD_YES;
    }
    if (*data_bytes == 0) {
        return dispatch(connection, url, method, whole);
    }
    if (*data_bytes > BODY_BYTES_MAX - whole->bytes) {
        return MHD_NO;
    }
    memcpy(whole->body + whole->bytes, data, *data_bytes);
    whole->bytes += *data_bytes;
    *data_bytes = 0;
    return MHD_YES;
}

static void on_end(void *user, struct MHD_Connection *connection, void **state,
                   enum MHD_RequestTerminationCode code)
{
    (void)user;
    (void)connection;
    (void)code;
    free(*state);
    *state = NULL;
}

static void fill(int count)
{
    for (int i = 0; i < count; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "other-%d", i + 1);
        (void)mock_add(&runpod, mock_runpod_pod(i + 1, name, "NVIDIA A40", 1),
                       mock_runpod_running());
        (void)mock_add(&vast, mock_vast_instance(i + 1, name, 0.31), mock_vast_running());
        (void)mock_add(&lambda, mock_lambda_instance(i + 1, name, 75), mock_lambda_running());
    }
}

int main(int argc, char **argv)
{
    static char header[256];
    requests = argc == 4 ? fopen(argv[3], "we") : NULL;
    if (requests == NULL) {
        (void)fprintf(stderr, "usage: vendor-mock KEY COUNT LOG\n");
        return 2;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)snprintf(header, sizeof header, "Bearer %s", argv[1]);
    bearer = header;
    fill(mock_number(argv[2]));
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, NULL,
        MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_NOTIFY_COMPLETED, on_end, NULL, MHD_OPTION_END);
    const union MHD_DaemonInfo *bound =
        daemon == NULL ? NULL : MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT);
    if (bound == NULL) {
        (void)fprintf(stderr, "vendor-mock cannot listen\n");
        return 1;
    }
    (void)printf("http://127.0.0.1:%u\n", (unsigned)bound->port);
    (void)fflush(stdout);
    for (;;) {
        (void)pause();
    }
}
