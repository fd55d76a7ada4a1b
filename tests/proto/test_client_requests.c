/* proto/client.h: requests on their way through the control thread of rank 0, and events back, over
 * a real bus, and how a rank connects in spite of strangers. The rank is a thread of its own, the
 * test is its launcher. */
#include <arpa/inet.h>
#include <control.pb-c.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "proto/bus.h"
#include "proto/client.h"
#include "support.h"

enum { WAIT_S = 20, EVENTS = 3 * PROTO_EVENTS_AHEAD_MAX };

typedef struct rank_side {
    pthread_t thread;
    base_status status; /* of the rank, once its thread has ended */
    base_error error;
    int requests;
    int cancels;
    int events;      /* sent */
    int events_held; /* when the first one was not taken */
} rank_side;

typedef struct job_side {
    proto_bus *bus;
    proto_keypair keys;
    proto_key_file key;
    int lifeline_fd; /* the end that nobody writes to */
    bool joined;
    int verdicts;
    int tokens;
} job_side;

static proto_work work; /* the rank's; big */

/* As where strangers flood the launcher: the rank's first connections go to a socket whose owner
 * closes them. */
static char full_endpoint[PROTO_ENDPOINT_BYTES];
static int full_times; /* set before the rank starts */
static int64_t join_timeout_ms;

base_status __real_proto_bus_connect(const proto_key_file *key, int world_size, proto_bus **bus,
                                     base_error *reterr);
base_status __wrap_proto_bus_connect(const proto_key_file *key, int world_size, proto_bus **bus,
                                     base_error *reterr);

base_status __wrap_proto_bus_connect(const proto_key_file *key, int world_size, proto_bus **bus,
                                     base_error *reterr)
{
    proto_key_file used = *key;
    if (full_times > 0) {
        full_times--;
        (void)snprintf(used.endpoint, sizeof used.endpoint, "%s", full_endpoint);
    }
    return __real_proto_bus_connect(&used, world_size, bus, reterr);
}

static bool send_verdict(proto_client *client, uint64_t id)
{
    Ringfence__Control__Verdict verdict = RINGFENCE__CONTROL__VERDICT__INIT;
    verdict.id = id;
    return proto_client_event(client, &verdict.base);
}

static bool send_tokens(proto_client *client)
{
    int32_t token = 7;
    uint32_t text_bytes = 0;
    Ringfence__Control__Tokens tokens = RINGFENCE__CONTROL__TOKENS__INIT;
    tokens.id = 1;
    tokens.token_ids = &token;
    tokens.text_bytes = &text_bytes;
    tokens.n_token_ids = tokens.n_text_bytes = 1;
    return proto_client_event(client, &tokens.base);
}

/* Sends a verdict for each request, and as many events as the credit allows, until all is said. */
static base_status serve(proto_client *client, rank_side *rank)
{
    bool drained = false;
    base_status status = BASE_OK;
    while (status == BASE_OK && !(drained && rank->events == EVENTS)) {
        while (proto_client_take_work(client, &work)) {
            rank->requests += work.kind == PROTO_WORK_REQUEST;
            rank->cancels += work.kind == PROTO_WORK_CANCEL;
            drained = drained || work.kind == PROTO_WORK_DRAIN;
            if (work.kind == PROTO_WORK_REQUEST && send_verdict(client, work.request.id)) {
                rank->events++;
            }
        }
        while (rank->requests > 0 && rank->events < EVENTS && send_tokens(client)) {
            rank->events++;
        }
        if (rank->events_held == 0 && rank->requests > 0) {
            rank->events_held = rank->events;
        }
        if (!(drained && rank->events == EVENTS)) {
            status = proto_client_wait_work(client, base_deadline_after_ns(WAIT_S * BASE_NS_PER_S),
                                            &rank->error);
        }
    }
    return status;
}

static void *run_rank(void *user)
{
    rank_side *rank = user;
    proto_identity *identity = calloc(1, sizeof *identity);
    proto_client *client = NULL;
    rank->status =
        identity != NULL ? proto_client_open(identity, &client, &rank->error) : BASE_ERR_MEMORY;
    if (rank->status == BASE_OK) {
        rank->status = proto_client_join(client, "", &rank->error);
    }
    if (rank->status == BASE_OK && identity->job.infer.requests) {
        rank->status = serve(client, rank);
    } else if (rank->status == BASE_OK) { /* waits for what is never answered */
        char mine = 0;
        char all = 0;
        rank->status = proto_client_exchange(
            client, &mine, &all, 1, base_deadline_after_ns(WAIT_S * BASE_NS_PER_S), &rank->error);
    }
    proto_client_close(client);
    free(identity);
    return NULL;
}

static void set_fd(const char *name, int fd)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%d", fd);
    assert_int_equal(setenv(name, text, 1), 0);
}

/* What a launcher hands to its rank. */
static void hand_over(job_side *job, bool requests)
{
    base_error error;
    char *text = NULL;
    size_t text_bytes = 0;
    int key_fd = -1;
    int lifeline[2];
    static proto_job written; /* big */
    proto_job_defaults(&written);
    written.job.mode = PROTO_MODE_TP_CPU;
    written.job.world_size = 1;
    written.infer.requests = requests;
    written.parallel.join_timeout_ms =
        join_timeout_ms > 0 ? join_timeout_ms : written.parallel.join_timeout_ms;
    assert_ok(proto_job_write(&written, "", &text, &text_bytes, &error), &error);
    const int job_fd = memfd_create("job", MFD_CLOEXEC);
    assert_true(job_fd >= 0);
    assert_ok(base_fd_write(job_fd, "JOB.json", text, text_bytes, &error), &error);
    assert_int_equal(lseek(job_fd, 0, SEEK_SET), 0);
    free(text);
    assert_ok(proto_key_file_write(&job->key, &key_fd, &error), &error);
    assert_int_equal(pipe(lifeline), 0);
    job->lifeline_fd = lifeline[1];
    set_fd("RINGFENCE_JOB_FD", job_fd);
    set_fd("RINGFENCE_KEY_FD", key_fd);
    set_fd("RINGFENCE_LIFELINE_FD", lifeline[0]);
    (void)setenv("RANK", "0", 1);
    (void)setenv("WORLD_SIZE", "1", 1);
    (void)setenv("LOCAL_RANK", "0", 1);
    (void)setenv("LOCAL_WORLD_SIZE", "1", 1);
}

static void send_body(job_side *job, ProtobufCMessage *body)
{
    base_error error;
    assert_ok(proto_bus_send(job->bus, 0, body, &error), &error);
}

static void answer_join(job_side *job)
{
    Ringfence__Control__Roster roster = RINGFENCE__CONTROL__ROSTER__INIT;
    send_body(job, &roster.base);
    job->joined = true;
}

/* Takes messages until there are so many verdicts and tokens. */
static void take_until(job_side *job, int verdicts, int tokens)
{
    const int64_t deadline_ns = base_deadline_after_ns(WAIT_S * BASE_NS_PER_S);
    while (!job->joined || job->verdicts < verdicts || job->tokens < tokens) {
        base_error error;
        Ringfence__Control__Envelope *envelope = NULL;
        int rank = PROTO_NO_RANK;
        struct pollfd links[PROTO_BUS_FDS];
        assert_ok(proto_bus_recv(job->bus, &rank, &envelope, &error), &error);
        if (envelope == NULL) {
            proto_bus_polls(job->bus, links);
            assert_true(base_now_ns() < deadline_ns);
            (void)poll(links, 1, 100);
            continue;
        }
        if (envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_JOIN) {
            answer_join(job);
        }
        job->verdicts += envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_VERDICT;
        job->tokens += envelope->body_case == RINGFENCE__CONTROL__ENVELOPE__BODY_TOKENS;
    }
}

static void job_start(job_side *job, rank_side *rank, bool requests)
{
    base_error error;
    uint8_t public_keys[1][PROTO_KEY_BYTES];
    *job = (job_side){.bus = NULL};
    *rank = (rank_side){.status = BASE_OK};
    proto_keypair_make(&job->keys);
    proto_keypair_make(&job->key.rank);
    memcpy(public_keys[0], job->key.rank.public_key, PROTO_KEY_BYTES);
    memcpy(job->key.launcher_public_key, job->keys.public_key, PROTO_KEY_BYTES);
    assert_ok(proto_bus_listen(&(proto_bus_listen_options){.address = "127.0.0.1",
                                                           .keys = &job->keys,
                                                           .world_size = 1,
                                                           .rank_public_keys = public_keys},
                               &job->bus, &error),
              &error);
    (void)snprintf(job->key.endpoint, sizeof job->key.endpoint, "%s", proto_bus_endpoint(job->bus));
    hand_over(job, requests);
    assert_int_equal(pthread_create(&rank->thread, NULL, run_rank, rank), 0);
}

static void job_begin(job_side *job, rank_side *rank, bool requests)
{
    job_start(job, rank, requests);
    take_until(job, 0, 0);
}

static void job_end(job_side *job, rank_side *rank)
{
    assert_int_equal(pthread_join(rank->thread, NULL), 0);
    proto_bus_close(job->bus);
    (void)close(job->lifeline_fd);
}

static void send_request(job_side *job, uint64_t id, double top_p)
{
    Ringfence__Control__Request request = RINGFENCE__CONTROL__REQUEST__INIT;
    char prompt[] = "he goed to school";
    request.id = id;
    request.prompt = prompt;
    request.max_new_tokens = 4;
    request.top_p = top_p;
    request.repetition_penalty = 1;
    send_body(job, &request.base);
}

static void send_credit(job_side *job, uint64_t events)
{
    Ringfence__Control__Credit credit = RINGFENCE__CONTROL__CREDIT__INIT;
    credit.events = events;
    send_body(job, &credit.base);
}

/* The rank says as much as it has credit for, and the rest when it gets more. */
static void events_follow_the_credit(void **state)
{
    (void)state;
    job_side job;
    rank_side rank;
    Ringfence__Control__Cancel cancel = RINGFENCE__CONTROL__CANCEL__INIT;
    Ringfence__Control__Drain drain = RINGFENCE__CONTROL__DRAIN__INIT;
    job_begin(&job, &rank, true);
    send_request(&job, 1, 1);
    take_until(&job, 1, PROTO_EVENTS_AHEAD_MAX - 1);
    for (uint64_t events = PROTO_EVENTS_AHEAD_MAX; events < EVENTS;
         events += PROTO_EVENTS_AHEAD_MAX) {
        send_credit(&job, events);
        take_until(&job, 1, (int)events + PROTO_EVENTS_AHEAD_MAX - 1);
    }
    cancel.id = 1;
    send_body(&job, &cancel.base);
    send_body(&job, &drain.base);
    job_end(&job, &rank);
    assert_ok(rank.status, &rank.error);
    assert_int_equal(rank.requests, 1);
    assert_int_equal(rank.cancels, 1);
    assert_int_equal(rank.events_held, PROTO_EVENTS_AHEAD_MAX);
    assert_int_equal(rank.events, EVENTS);
}

/* What breaks the protocol ends the link, and the rank hears why. */
static void a_wrong_launcher_is_named(void **state)
{
    (void)state;
    job_side job;
    rank_side rank;
    job_begin(&job, &rank, true);
    send_request(&job, 1, 0); /* top_p 0 */
    job_end(&job, &rank);
    assert_int_not_equal(rank.status, BASE_OK);
    assert_non_null(strstr(rank.error.message, "top_p"));

    job_begin(&job, &rank, true);
    send_credit(&job, 1); /* nothing was sent */
    job_end(&job, &rank);
    assert_int_not_equal(rank.status, BASE_OK);
    assert_non_null(strstr(rank.error.message, "has taken 1 events"));

    job_begin(&job, &rank, false);
    send_request(&job, 1, 1); /* to a rank that takes none */
    job_end(&job, &rank);
    assert_int_not_equal(rank.status, BASE_OK);
    assert_non_null(strstr(rank.error.message, "takes none"));
}

static int listen_full(int times)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t at_bytes = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, times), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &at_bytes), 0);
    (void)snprintf(full_endpoint, sizeof full_endpoint, "tcp://127.0.0.1:%u",
                   (unsigned)ntohs(at.sin_port));
    full_times = times;
    return fd;
}

static void close_next(int listener)
{
    struct pollfd item = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&item, 1, WAIT_S * 1000), 1);
    const int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    (void)close(fd);
}

/* The rank connects again, and says then what it has to say first. */
static void a_full_launcher_is_tried_again(void **state)
{
    (void)state;
    job_side job;
    rank_side rank;
    const int listener = listen_full(2);
    job_start(&job, &rank, false);
    close_next(listener);
    close_next(listener);
    take_until(&job, 0, 0);
    assert_true(job.joined);
    (void)close(listener);
    send_request(&job, 1, 1); /* to a rank that takes none */
    job_end(&job, &rank);
    assert_non_null(strstr(rank.error.message, "takes none"));
}

static void not_for_ever(void **state)
{
    (void)state;
    job_side job;
    rank_side rank;
    const int listener = listen_full(1);
    join_timeout_ms = 1;
    job_start(&job, &rank, false);
    close_next(listener);
    job_end(&job, &rank);
    (void)close(listener);
    join_timeout_ms = 0;
    assert_int_equal(rank.status, BASE_ERR_AUTH);
    assert_non_null(strstr(rank.error.message, "closed the connection before the handshake's end"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_follow_the_credit),
        cmocka_unit_test(a_wrong_launcher_is_named),
        cmocka_unit_test(a_full_launcher_is_tried_again),
        cmocka_unit_test(not_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
