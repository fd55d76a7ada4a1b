/* proto/bus.h: ranks are recognized by their keys, strangers refused, signals and garbage
 * survived. */
#include "proto/bus.h"

#include <control.pb-c.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "support.h"

enum { RANKS = 2, WAIT_MS = 10000 };

/* While `interrupting`, every other call to ZeroMQ of each thread seems to be interrupted by a
 * signal. */
static _Atomic bool interrupting;
static _Thread_local unsigned calls;

int __real_zmq_send(void *socket, const void *data, size_t size_bytes, int flags);
int __wrap_zmq_send(void *socket, const void *data, size_t size_bytes, int flags);
int __real_zmq_msg_recv(zmq_msg_t *message, void *socket, int flags);
int __wrap_zmq_msg_recv(zmq_msg_t *message, void *socket, int flags);

static bool interrupted(void)
{
    const bool yes = interrupting && calls++ % 2 == 0;
    errno = yes ? EINTR : errno;
    return yes;
}

int __wrap_zmq_send(void *socket, const void *data, size_t size_bytes, int flags)
{
    return interrupted() ? -1 : __real_zmq_send(socket, data, size_bytes, flags);
}

int __wrap_zmq_msg_recv(zmq_msg_t *message, void *socket, int flags)
{
    return interrupted() ? -1 : __real_zmq_msg_recv(message, socket, flags);
}

typedef struct test_job {
    proto_keypair launcher_keys;
    proto_keypair rank_keys[RANKS];
    proto_bus *launcher;
    proto_bus *ranks[RANKS];
} test_job;

static void job_open(test_job *job)
{
    base_error error;
    uint8_t public_keys[RANKS][PROTO_KEY_BYTES];
    *job = (test_job){0};
    proto_keypair_make(&job->launcher_keys);
    for (int i = 0; i < RANKS; i++) {
        proto_keypair_make(&job->rank_keys[i]);
        memcpy(public_keys[i], job->rank_keys[i].public_key, PROTO_KEY_BYTES);
    }
    const proto_bus_listen_options options = {
        .address = "127.0.0.1",
        .keys = &job->launcher_keys,
        .world_size = RANKS,
        .rank_public_keys = (const uint8_t(*)[PROTO_KEY_BYTES])public_keys,
    };
    assert_ok(proto_bus_listen(&options, &job->launcher, &error), &error);
}

static proto_bus *connect_with(const test_job *job, const proto_keypair *keys,
                               const uint8_t *launcher_key)
{
    base_error error;
    proto_bus *bus = NULL;
    proto_key_file key = {.rank = *keys};
    (void)snprintf(key.endpoint, sizeof key.endpoint, "%s", proto_bus_endpoint(job->launcher));
    memcpy(key.launcher_public_key, launcher_key, PROTO_KEY_BYTES);
    assert_ok(proto_bus_connect(&key, RANKS, &bus, &error), &error);
    return bus;
}

static void job_close(test_job *job)
{
    for (int i = 0; i < RANKS; i++) {
        proto_bus_close(job->ranks[i]);
    }
    proto_bus_close(job->launcher);
}

static void wait_readable(proto_bus *bus, int64_t deadline_ns)
{
    struct pollfd polled[PROTO_BUS_FDS];
    proto_bus_polls(bus, polled);
    (void)poll(polled, PROTO_BUS_FDS, base_deadline_poll_ms(deadline_ns, WAIT_MS));
    assert_true(base_now_ns() < deadline_ns);
}

/* Waits for the next message; its status. */
static base_status next_message(proto_bus *bus, int *rank, Ringfence__Control__Envelope **envelope,
                                base_error *error)
{
    const int64_t deadline_ns = base_deadline_after_ns(WAIT_MS * BASE_NS_PER_MS);
    for (;;) {
        const base_status status = proto_bus_recv(bus, rank, envelope, error);
        if (status != BASE_OK || *envelope != NULL) {
            return status;
        }
        wait_readable(bus, deadline_ns);
    }
}

static void next_event(proto_bus *bus, proto_bus_event *event)
{
    const int64_t deadline_ns = base_deadline_after_ns(WAIT_MS * BASE_NS_PER_MS);
    while (!proto_bus_next_event(bus, event)) {
        wait_readable(bus, deadline_ns);
    }
}

static void send_step(proto_bus *bus, uint64_t step)
{
    base_error error;
    Ringfence__Control__Step message = RINGFENCE__CONTROL__STEP__INIT;
    message.step = step;
    assert_ok(proto_bus_send(bus, PROTO_NO_RANK, &message.base, &error), &error);
}

static void a_message_has_the_rank_of_its_key(void **state)
{
    (void)state;
    base_error error;
    test_job job;
    job_open(&job);
    for (int i = RANKS - 1; i >= 0; i--) {
        int rank = PROTO_NO_RANK;
        Ringfence__Control__Envelope *got = NULL;
        job.ranks[i] = connect_with(&job, &job.rank_keys[i], job.launcher_keys.public_key);
        send_step(job.ranks[i], (uint64_t)i + 7);
        assert_ok(next_message(job.launcher, &rank, &got, &error), &error);
        assert_int_equal(rank, i);
        assert_int_equal(got->step->step, i + 7);
    }
    /* and in the other direction, only to the rank that is meant */
    for (int i = 0; i < RANKS; i++) {
        int rank = 0;
        Ringfence__Control__Envelope *got = NULL;
        Ringfence__Control__Abort abort_message = RINGFENCE__CONTROL__ABORT__INIT;
        char reason[] = "rank 0";
        reason[5] = (char)('0' + i);
        abort_message.reason = reason;
        assert_ok(proto_bus_send(job.launcher, i, &abort_message.base, &error), &error);
        assert_ok(next_message(job.ranks[i], &rank, &got, &error), &error);
        assert_string_equal(got->abort->reason, reason);
    }
    job_close(&job);
}

static void signals_lose_nothing(void **state)
{
    interrupting = true; /* access check, join, both directions */
    a_message_has_the_rank_of_its_key(state);
    interrupting = false;
}

static void strangers_do_not_get_in(void **state)
{
    (void)state;
    base_error error;
    proto_bus_event event;
    proto_keypair stranger;
    test_job job;
    job_open(&job);
    proto_keypair_make(&stranger);

    /* a key that is on no list */
    proto_bus *bus = connect_with(&job, &stranger, job.launcher_keys.public_key);
    send_step(bus, 1);
    next_event(bus, &event);
    assert_int_equal(event.kind, PROTO_BUS_REFUSED);
    proto_bus_close(bus);

    /* a rank's key, but another job's launcher */
    bus = connect_with(&job, &job.rank_keys[0], stranger.public_key);
    send_step(bus, 2);
    do {
        next_event(bus, &event);
        assert_int_not_equal(event.kind, PROTO_BUS_CONNECTED);
    } while (event.kind == PROTO_BUS_UNREACHABLE);
    proto_bus_close(bus);

    /* the launcher has received neither, and still receives its own */
    int rank = PROTO_NO_RANK;
    Ringfence__Control__Envelope *got = NULL;
    job.ranks[1] = connect_with(&job, &job.rank_keys[1], job.launcher_keys.public_key);
    send_step(job.ranks[1], 3);
    assert_ok(next_message(job.launcher, &rank, &got, &error), &error);
    assert_int_equal(rank, 1);
    assert_int_equal(got->step->step, 3);
    job_close(&job);
}

static void garbage_is_refused_by_name(void **state)
{
    (void)state;
    static const uint8_t garbage[64] = {0xff, 0xff, 0xff};
    static uint8_t big[PROTO_RANK_MESSAGE_BYTES_MAX + 1];
    base_error error;
    proto_bus_event event;
    int rank = PROTO_NO_RANK;
    Ringfence__Control__Envelope *got = NULL;
    test_job job;
    job_open(&job);
    job.ranks[1] = connect_with(&job, &job.rank_keys[1], job.launcher_keys.public_key);
    assert_ok(proto_bus_send_packed(job.ranks[1], PROTO_NO_RANK, garbage, sizeof garbage, &error),
              &error);
    assert_status(next_message(job.launcher, &rank, &got, &error), BASE_ERR_INVALID);
    assert_int_equal(rank, 1);

    /* too large: the connection ends, and both sides see that */
    assert_ok(proto_bus_send_packed(job.ranks[1], PROTO_NO_RANK, big, sizeof big, &error), &error);
    do {
        next_event(job.launcher, &event);
    } while (event.kind != PROTO_BUS_DISCONNECTED);
    assert_int_equal(event.rank, 1);
    do {
        next_event(job.ranks[1], &event);
    } while (event.kind != PROTO_BUS_DISCONNECTED);
    job_close(&job);
}

static void a_key_used_twice_is_refused(void **state)
{
    (void)state;
    base_error error;
    int rank = PROTO_NO_RANK;
    Ringfence__Control__Envelope *got = NULL;
    test_job job;
    job_open(&job);
    job.ranks[0] = connect_with(&job, &job.rank_keys[0], job.launcher_keys.public_key);
    send_step(job.ranks[0], 1);
    assert_ok(next_message(job.launcher, &rank, &got, &error), &error);
    job.ranks[1] = connect_with(&job, &job.rank_keys[0], job.launcher_keys.public_key);
    send_step(job.ranks[1], 2);
    assert_status(next_message(job.launcher, &rank, &got, &error), BASE_ERR_BUSY);
    assert_int_equal(rank, 0);

    /* it can be answered, and the first connection is still the rank's */
    Ringfence__Control__Abort refusal = RINGFENCE__CONTROL__ABORT__INIT;
    char reason[] = "twice";
    refusal.reason = reason;
    assert_ok(proto_bus_answer_second(job.launcher, &refusal.base, &error), &error);
    assert_ok(next_message(job.ranks[1], &rank, &got, &error), &error);
    assert_string_equal(got->abort->reason, "twice");
    send_step(job.ranks[0], 3);
    assert_ok(next_message(job.launcher, &rank, &got, &error), &error);
    assert_int_equal(got->step->step, 3);

    /* until the launcher forgets it */
    proto_bus_forget(job.launcher, 0);
    send_step(job.ranks[1], 4);
    assert_ok(next_message(job.launcher, &rank, &got, &error), &error);
    assert_int_equal(got->step->step, 4);
    job_close(&job);
}

static void nobody_listening_is_an_event(void **state)
{
    (void)state;
    proto_bus_event event;
    test_job job;
    job_open(&job);
    proto_bus *launcher = job.launcher;
    char endpoint[PROTO_ENDPOINT_BYTES];
    (void)snprintf(endpoint, sizeof endpoint, "%s", proto_bus_endpoint(launcher));
    proto_bus_close(launcher);
    job.launcher = NULL;

    base_error error;
    proto_key_file key = {.rank = job.rank_keys[0]};
    memcpy(key.endpoint, endpoint, sizeof key.endpoint);
    memcpy(key.launcher_public_key, job.launcher_keys.public_key, PROTO_KEY_BYTES);
    assert_ok(proto_bus_connect(&key, RANKS, &job.ranks[0], &error), &error);
    next_event(job.ranks[0], &event);
    assert_int_equal(event.kind, PROTO_BUS_UNREACHABLE);
    job_close(&job);
}

/* However late the receiver looks. */
static void a_last_message_outlives_its_connection(void **state)
{
    (void)state;
    base_error error;
    proto_bus_event event;
    int rank = PROTO_NO_RANK;
    char reason[] = "the last word";
    Ringfence__Control__Envelope *got = NULL;
    Ringfence__Control__Abort last = RINGFENCE__CONTROL__ABORT__INIT;
    test_job job;
    job_open(&job);
    job.ranks[0] = connect_with(&job, &job.rank_keys[0], job.launcher_keys.public_key);
    send_step(job.ranks[0], 1);
    assert_ok(next_message(job.launcher, &rank, &got, &error), &error);
    assert_ok(proto_bus_recv(job.ranks[0], &rank, &got, &error), &error);
    assert_null(got); /* from now on, the message has to wake it */
    last.reason = reason;
    assert_ok(proto_bus_send(job.launcher, 0, &last.base, &error), &error);
    proto_bus_close(job.launcher);
    job.launcher = NULL;
    do {
        next_event(job.ranks[0], &event);
    } while (event.kind != PROTO_BUS_DISCONNECTED);
    (void)poll(NULL, 0, 50); /* whatever ZeroMQ's thread still does: it shows no end of that */
    assert_ok(next_message(job.ranks[0], &rank, &got, &error), &error);
    assert_string_equal(got->abort->reason, reason);
    job_close(&job);
}

static void a_key_file_is_read_once(void **state)
{
    (void)state;
    base_error error;
    proto_key_file key = {.endpoint = "tcp://127.0.0.1:1"};
    proto_key_file got;
    int fd = -1;
    proto_keypair_make(&key.rank);
    assert_ok(proto_key_file_write(&key, &fd, &error), &error);
    assert_ok(proto_key_file_read(fd, &got, &error), &error);
    assert_string_equal(got.endpoint, key.endpoint);
    assert_memory_equal(&got.rank, &key.rank, sizeof key.rank);
    assert_status(proto_key_file_read(fd, &got, &error), BASE_ERR_AUTH); /* wiped */
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_has_the_rank_of_its_key),
        cmocka_unit_test(signals_lose_nothing),
        cmocka_unit_test(strangers_do_not_get_in),
        cmocka_unit_test(garbage_is_refused_by_name),
        cmocka_unit_test(a_key_used_twice_is_refused),
        cmocka_unit_test(nobody_listening_is_an_event),
        cmocka_unit_test(a_last_message_outlives_its_connection),
        cmocka_unit_test(a_key_file_is_read_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
