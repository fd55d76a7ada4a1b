/* A rank of the job that turns hostile, over zmq: what it breaks ends with the job, and what it
 * sends is held back with the sender. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "forked.h"
#include "support.h"
#include "transport/socket/net.h"

enum {
    MESSAGE_BYTES = 256 * 1024,
    MESSAGES = 600, /* far more than both sockets hold */
    STUCK_MS = 500, /* nothing has moved for so long */
};

/* The socket that was sent to last. */
static void *last_socket;

/* Added to the number of the first frame of each message. */
static uint64_t number_shift;

int __real_zmq_msg_send(zmq_msg_t *message, void *socket, int flags);
int __wrap_zmq_msg_send(zmq_msg_t *message, void *socket, int flags);

int __wrap_zmq_msg_send(zmq_msg_t *message, void *socket, int flags)
{
    last_socket = socket;
    if (number_shift != 0 && zmq_msg_size(message) >= sizeof(coll_frame_head)) {
        coll_frame_head *head = zmq_msg_data(message);
        head->number += number_shift;
    }
    return __real_zmq_msg_send(message, socket, flags);
}

typedef struct job {
    coll_tcp_auth auth;
    bool reads;     /* the victim waits for the hostile rank, instead of doing something else */
    int ready[2];   /* the victim has all of the barrier */
    int flooded[2]; /* ends with the hostile rank */
} job;

typedef struct numbering {
    coll_tcp_auth auth;
    uint64_t shift;
} numbering;

/* ZeroMQ has done with a message: it is on its way. */
static void count_sent(void *data, void *counter)
{
    const uint64_t one = 1;
    (void)data;
    (void)!write(*(int *)counter, &one, sizeof one);
}

/* How many messages leave before nothing goes any more. */
static uint64_t flood(void *socket)
{
    static uint8_t bytes[MESSAGE_BYTES];
    int counter = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    uint64_t sent = 0;
    for (int i = 0; i < MESSAGES; i++) {
        zmq_msg_t message;
        if (zmq_msg_init_data(&message, bytes, sizeof bytes, count_sent, &counter) != 0 ||
            __real_zmq_msg_send(&message, socket, ZMQ_DONTWAIT) < 0) {
            return 0;
        }
    }
    struct pollfd item = {.fd = counter, .events = POLLIN};
    while (sent < MESSAGES && poll(&item, 1, STUCK_MS) > 0) {
        uint64_t more = 0;
        (void)!read(counter, &more, sizeof more);
        sent += more;
    }
    return sent;
}

static int suffer(const job *j, coll_context *context)
{
    static float data[100];
    coll_error error = {.message = ""};
    char byte = 0;
    if (j->reads) {
        const coll_status status = coll_all_reduce(coll_context_world(context), data, data, 100,
                                                   COLL_FLOAT32, COLL_SUM, &error);
        if (status != COLL_ERR_PEER || strstr(error.message, "rank 1 (host") == NULL ||
            strstr(error.message, "broke the protocol") == NULL) {
            (void)fprintf(stderr, "%s: %s\n", coll_status_name(status), error.message);
            return 1;
        }
    }
    struct pollfd flooded = {.fd = j->flooded[0]};
    while (poll(&flooded, 1, j->reads ? 0 : -1) == 0) {
        if (coll_context_progress(context, &error) != COLL_OK) {
            (void)fprintf(stderr, "progress: %s\n", error.message);
            return 1;
        }
    }
    return read(j->flooded[0], &byte, 1) == 0 ? 0 : 1;
}

static int body(forked_rank *rank, void *user)
{
    job *j = user;
    coll_error error = {.message = ""};
    coll_context *context = NULL;
    const coll_context_options options = {FORKED_OPTIONS(rank), .transport = COLL_TRANSPORT_ZMQ,
                                          .tcp_auth = j->auth, .timeout_ns = 20 * BASE_NS_PER_S};
    (void)close(j->flooded[rank->rank == 0 ? 1 : 0]);
    if (coll_context_create(&options, &context, &error) != COLL_OK ||
        coll_barrier(coll_context_world(context), &error) != COLL_OK) {
        (void)fprintf(stderr, "rank %d: %s\n", rank->rank, error.message);
        return 1;
    }
    char byte = 0;
    if (rank->rank == 0) {
        (void)!write(j->ready[1], &byte, 1);
        const int result = suffer(j, context);
        coll_context_destroy(context);
        return result;
    }
    const uint64_t sent = read(j->ready[0], &byte, 1) == 1 ? flood(last_socket) : 0;
    (void)printf("%d of %d messages left\n", (int)sent, MESSAGES);
    (void)fflush(stdout);
    return sent > 0 && sent < MESSAGES ? 0 : 1;
}

/* A barrier in which all is right but the numbers of rank 1's frames. */
static int misnumber_body(forked_rank *rank, void *user)
{
    const numbering *n = user;
    coll_error error = {.message = ""};
    coll_context *context = NULL;
    const coll_context_options options = {FORKED_OPTIONS(rank), .transport = COLL_TRANSPORT_ZMQ,
                                          .tcp_auth = n->auth, .timeout_ns = 20 * BASE_NS_PER_S};
    coll_status status = coll_context_create(&options, &context, &error);
    const bool met = status == COLL_OK;
    for (int i = 0; i < 2 && status == COLL_OK; i++) {
        status = coll_barrier(coll_context_world(context), &error);
        number_shift = rank->rank == 1 ? n->shift : 0; /* for all that comes after the first */
    }
    coll_context_destroy(context);
    if (met && (rank->rank == 1 ||
                (status == COLL_ERR_PEER && strstr(error.message, "rank 1 (host") != NULL &&
                 strstr(error.message, "broke the protocol: a frame out of order") != NULL))) {
        return 0;
    }
    (void)fprintf(stderr, "rank %d: %s: %s\n", rank->rank, coll_status_name(status), error.message);
    return 1;
}

/* One was left out, or comes twice. */
static void a_frame_has_the_next_number(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        numbering n = {.auth = i % 2 == 0 ? COLL_TCP_AUTH_MAC : COLL_TCP_AUTH_OFF,
                       .shift = i / 2 == 0 ? 1 : UINT64_MAX};
        pid_t pids[2];
        coll_error error;
        assert_ok(forked_start(2, misnumber_body, &n, pids, &error), &error);
        for (int r = 0; r < 2; r++) {
            int status = 0;
            assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), 0);
        }
    }
}

static void check(coll_tcp_auth auth, bool reads)
{
    job j = {.auth = auth, .reads = reads};
    pid_t pids[2];
    coll_error error;
    int status = 0;
    assert_int_equal(pipe(j.ready), 0);
    assert_int_equal(pipe(j.flooded), 0);
    assert_ok(forked_start(2, body, &j, pids, &error), &error);
    (void)close(j.flooded[1]);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    (void)close(j.flooded[0]);
    (void)close(j.ready[0]);
    (void)close(j.ready[1]);
}

/* Nothing is read from a rank that broke the protocol. */
static void a_bad_frame_is_the_last(void **state)
{
    (void)state;
    check(COLL_TCP_AUTH_MAC, true);
    check(COLL_TCP_AUTH_OFF, true);
}

/* A rank that does something else is not filled with what a peer had no leave to send. */
static void a_flood_stays_outside(void **state)
{
    (void)state;
    check(COLL_TCP_AUTH_MAC, false);
    check(COLL_TCP_AUTH_OFF, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_frame_is_the_last),
        cmocka_unit_test(a_frame_has_the_next_number),
        cmocka_unit_test(a_flood_stays_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
