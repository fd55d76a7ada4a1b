/* Operations on streams that fail: a device's error, a device or a rank that does not go on, calls
 * of the backend that do not return. Every rank learns it, says who it was, and ends its device. */
#include "device_rank.h"
#include "support.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"

enum { VICTIM = 1 };

/* Makes an operation, and starts it `times` times; the first failure. */
static coll_status run_often(device_rank *r, int times, coll_op **op)
{
    const coll_op_desc desc = device_all_reduce(r, DEVICE_COUNT);
    coll_error *error = &r->rank->error;
    coll_status status = coll_op_create(r->comm, &desc, op, error);
    for (int i = 0; i < times && status == COLL_OK; i++) {
        status = coll_op_start(*op, error);
        status = status == COLL_OK ? coll_op_wait(*op, error) : status;
    }
    return status;
}

/* After the failure: what every rank has to find. */
static void check_end(device_rank *r, coll_op *op)
{
    test_rank *rank = r->rank;
    coll_error again = {.message = ""};
    RANK_CHECK(rank, coll_device_ended(r->comm, &again) == COLL_OK);
    coll_op_destroy(op);
    RANK_CHECK(rank, coll_barrier(r->comm, &again) != COLL_OK); /* dead, for the CPU too */
    RANK_CHECK(rank, strcmp(again.message, rank->error.message) == 0);
    RANK_CHECK(rank, atomic_load(&r->device->ops) == 0);
}

/* ---- faults of one device ---- */

typedef struct fault_case {
    fake_fault fault;
    coll_status status; /* where it happened */
    const char *own;    /* what that rank says, */
    const char *others; /* and the others */
    bool by_deadline;   /* whoever notices first reports it */
} fault_case;

static const fault_case fault_cases[] = {
    {FAKE_OPEN_FAILS, COLL_ERR_IO, "fake: the device has fallen off the bus", "rank 1 ", false},
    {FAKE_MAKE_FAILS, COLL_ERR_MEMORY, "fake: the device has no memory left", "rank 1 ", false},
    {FAKE_START_FAILS, COLL_ERR_IO, "fake: the device does not take it", "rank 1 ", false},
    {FAKE_ASYNC_ERROR, COLL_ERR_IO, "fake: an asynchronous error", "rank 1 ", false},
    {FAKE_OPEN_HANGS, COLL_ERR_TIMEOUT, "opening a communicator", "device_open", true},
    {FAKE_START_HANGS, COLL_ERR_TIMEOUT, "no end after", "no end after", true},
    {FAKE_RUN_HANGS, COLL_ERR_TIMEOUT, "all_reduce float × 1000 sum direct #2", "#2", true},
};

static const fault_case *now_tried;

static void fault_body(device_rank *r)
{
    test_rank *rank = r->rank;
    coll_op *op = NULL;
    const coll_status status = run_often(r, 3, &op);
    RANK_CHECK(rank, status != COLL_OK);
    if (now_tried->by_deadline) {
        RANK_CHECK(rank, status == COLL_ERR_TIMEOUT);
        RANK_CHECK(rank, device_says(r, now_tried->own) || device_says(r, now_tried->others));
    } else if (rank->rank == VICTIM) {
        RANK_CHECK(rank, status == now_tried->status);
        RANK_CHECK(rank, device_says(r, now_tried->own));
    } else {
        RANK_CHECK(rank, status == COLL_ERR_PEER);
        RANK_CHECK(rank, device_says(r, now_tried->others));
        RANK_CHECK(rank, device_says(r, now_tried->own)); /* the cause goes with it */
    }
    check_end(r, op);
}

/* For a transport a device that hangs later is as one that hangs when it is opened. */
static bool is_for(coll_transport transport, fake_fault fault)
{
    return transport == COLL_TRANSPORT_SHM ||
           (fault != FAKE_START_HANGS && fault != FAKE_RUN_HANGS);
}

static void try_faults(coll_transport transport)
{
    for (size_t i = 0; i < sizeof fault_cases / sizeof fault_cases[0]; i++) {
        now_tried = &fault_cases[i];
        if (!is_for(transport, now_tried->fault)) {
            continue;
        }
        device_case c = {.ranks = 3, .transport = transport, .body = fault_body};
        c.devices[VICTIM].fault = now_tried->fault;
        c.devices[VICTIM].fault_at = 2;
        c.timeout_ns = now_tried->by_deadline ? BASE_NS_PER_S : 0;
        device_case_run(&c);
        for (int rank = 0; rank < c.ranks; rank++) {
            const bool opened = now_tried->fault != FAKE_OPEN_FAILS;
            assert_true(!opened || atomic_load(&c.devices[rank].aborted) == 1);
            assert_int_equal(atomic_load(&c.devices[rank].released),
                             atomic_load(&c.devices[rank].aborted));
            assert_int_equal(atomic_load(&c.devices[rank].closed), 0);
        }
    }
}

static void every_rank_aborts_when_one_fails(void **state)
{
    (void)state;
    try_faults(COLL_TRANSPORT_SHM);
}

static void every_rank_aborts_over_sockets(void **state)
{
    (void)state;
    try_faults(COLL_TRANSPORT_TCP);
}

/* ---- ranks that do not come, or go ---- */

static atomic_int given_up; /* ranks */

static void absent_body(device_rank *r)
{
    test_rank *rank = r->rank;
    coll_op *op = NULL;
    coll_status status = run_often(r, 1, &op);
    RANK_OK(rank, status);
    if (rank->rank == VICTIM) { /* is busy with something else */
        while (atomic_load(&given_up) < rank->size - 1) {
            (void)sched_yield();
        }
        RANK_CHECK(rank, coll_barrier(r->comm, &rank->error) == COLL_ERR_TIMEOUT);
        RANK_CHECK(rank, device_says(r, "all_reduce float × 1000 sum direct #2"));
    } else {
        status = coll_op_start(op, &rank->error);
        status = status == COLL_OK ? coll_op_wait(op, &rank->error) : status;
        (void)atomic_fetch_add(&given_up, 1);
        RANK_CHECK(rank, status == COLL_ERR_TIMEOUT);
        RANK_CHECK(rank, device_says(r, "all_reduce float × 1000 sum direct #2"));
        RANK_CHECK(rank, device_says(r, "begun 2 operations and ended 1"));
        RANK_CHECK(rank, device_says(r, "does not wait: rank 1 (host "));
    }
    check_end(r, op);
}

static void a_rank_that_does_not_come_is_named(void **state)
{
    (void)state;
    device_case c = {.ranks = 3, .timeout_ns = 2 * BASE_NS_PER_S, .body = absent_body};
    device_case_run(&c);
}

static void leaving_body(device_rank *r)
{
    test_rank *rank = r->rank;
    coll_op *op = NULL;
    RANK_OK(rank, run_often(r, 1, &op));
    if (rank->rank != VICTIM) {
        coll_status status = coll_op_start(op, &rank->error);
        status = status == COLL_OK ? coll_op_wait(op, &rank->error) : status;
        RANK_CHECK(rank, status == COLL_ERR_PEER);
        RANK_CHECK(rank, device_says(r, "rank 1 (host "));
        RANK_CHECK(rank, device_says(r, "has gone: all_reduce float × 1000 sum direct #2"));
    }
    coll_op_destroy(op);
}

static void a_rank_that_goes_is_noticed(void **state)
{
    (void)state;
    device_case c = {.ranks = 3, .transport = COLL_TRANSPORT_SHM, .body = leaving_body};
    device_case_run(&c);
}

static bool polls;       /* the others, and do not wait */
static atomic_int begun; /* ranks whose first operation has ended */

static coll_status poll_op(coll_op *op, coll_error *error)
{
    coll_status status = COLL_OK;
    bool done = false;
    const int64_t deadline_ns = base_deadline_after_ns(10 * BASE_NS_PER_S);
    while (status == COLL_OK && !done && base_now_ns() < deadline_ns) {
        (void)sched_yield();
        status = coll_op_test(op, &done, error);
    }
    return status;
}

static void aborted_body(device_rank *r)
{
    test_rank *rank = r->rank;
    coll_op *op = NULL;
    RANK_OK(rank, run_often(r, 1, &op));
    atomic_fetch_add(&begun, 1);
    if (rank->rank == VICTIM) {
        const int64_t all_ns = base_deadline_after_ns(10 * BASE_NS_PER_S);
        while (atomic_load(&begun) < rank->size && base_now_ns() < all_ns) {
            (void)sched_yield();
        }
        coll_context_abort(r->context, "the launcher says so");
        RANK_CHECK(rank, coll_op_start(op, &rank->error) == COLL_ERR_ABORTED);
    } else {
        coll_status status = coll_op_start(op, &rank->error);
        if (status == COLL_OK) {
            status = polls ? poll_op(op, &rank->error) : coll_op_wait(op, &rank->error);
        }
        RANK_CHECK(rank, status == COLL_ERR_ABORTED);
        RANK_CHECK(rank, device_says(r, "rank 1 (host "));
    }
    RANK_CHECK(rank, device_says(r, "the launcher says so"));
    const int64_t deadline_ns = base_deadline_after_ns(10 * BASE_NS_PER_S);
    while (!fake_stream_idle(r->stream) && base_now_ns() < deadline_ns) {
        (void)sched_yield(); /* what runs there uses the communicator, which goes next */
    }
    check_end(r, op);
}

static void an_abort_reaches_every_device(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        polls = i == 1;
        atomic_store(&begun, 0);
        device_case c = {.ranks = 3, .body = aborted_body};
        device_case_run(&c);
    }
}

/* ---- calls that do not return ---- */

static void stuck_abort_body(device_rank *r)
{
    test_rank *rank = r->rank;
    coll_error stuck = {.message = ""};
    coll_op *op = NULL;
    RANK_CHECK(rank, run_often(r, 2, &op) == COLL_ERR_TIMEOUT);
    const coll_status ended = coll_device_ended(r->comm, &stuck);
    if (rank->rank == VICTIM) {
        RANK_CHECK(rank, ended == COLL_ERR_TIMEOUT);
        RANK_CHECK(rank, strstr(stuck.message, "fake did not return from aborting") != NULL);
        RANK_CHECK(rank, strstr(stuck.message, "has to be killed") != NULL);
        RANK_CHECK(rank, coll_device_ended(r->comm, &stuck) == COLL_ERR_TIMEOUT); /* at once */
    } else {
        RANK_CHECK(rank, ended == COLL_OK);
    }
    coll_op_destroy(op);
    RANK_CHECK(rank, atomic_load(&r->device->ops) == (rank->rank == VICTIM ? 1 : 0));
}

static void an_abort_that_hangs_is_reported(void **state)
{
    (void)state;
    static device_case c = {.ranks = 2, .timeout_ns = BASE_NS_PER_S / 2, .body = stuck_abort_body};
    c.devices[VICTIM].fault = FAKE_RUN_HANGS;
    c.devices[VICTIM].fault_at = 2;
    c.devices[VICTIM].abort_hangs = true;
    device_case_run(&c);
    assert_int_equal(atomic_load(&c.devices[VICTIM].released), 0); /* it is not to be touched */
    assert_int_equal(atomic_load(&c.devices[0].released), 1);
}

static void close_body(device_rank *r)
{
    test_rank *rank = r->rank;
    coll_op *op = NULL;
    RANK_OK(rank, run_often(r, 1, &op));
    coll_op_destroy(op);
    const coll_status status = coll_comm_finalize(r->comm, &rank->error);
    if (rank->rank != VICTIM) {
        /* It may hear of the victim before it is through itself. */
        RANK_CHECK(rank,
                   status == COLL_OK || (status == COLL_ERR_PEER && device_says(r, "rank 1 ")));
        return;
    }
    RANK_CHECK(rank, status == (r->device->close_hangs ? COLL_ERR_TIMEOUT : COLL_ERR_IO));
    RANK_CHECK(rank, device_says(r, r->device->close_hangs ? "did not return from closing"
                                                           : "the device does not close"));
}

static void a_close_that_fails_is_reported(void **state)
{
    (void)state;
    device_case c = {.ranks = 2, .body = close_body};
    c.devices[VICTIM].fault = FAKE_CLOSE_FAILS;
    device_case_run(&c);
    assert_int_equal(atomic_load(&c.devices[VICTIM].released), 1);
}

static void a_close_that_hangs_is_reported(void **state)
{
    (void)state;
    static device_case c = {.ranks = 2, .timeout_ns = BASE_NS_PER_S, .body = close_body};
    c.devices[VICTIM].close_hangs = true;
    device_case_run(&c);
    assert_int_equal(atomic_load(&c.devices[VICTIM].released), 0);
}

/* ---- what is late, and the flight record ---- */

static void read_dump(device_rank *r, char *text, size_t size_bytes)
{
    const int fd = memfd_create("dump", 0);
    RANK_OK(r->rank, coll_context_dump(r->context, fd, "a test", &r->rank->error));
    const ssize_t got = pread(fd, text, size_bytes - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    (void)close(fd);
}

static void late_body(device_rank *r)
{
    test_rank *rank = r->rank;
    const coll_op_desc desc = device_all_reduce(r, DEVICE_COUNT);
    coll_op *op = NULL;
    char text[8192];
    bool done = false;
    RANK_OK(rank, coll_op_create(r->comm, &desc, &op, &rank->error));
    RANK_OK(rank, coll_op_start(op, &rank->error));
    RANK_OK(rank, coll_op_wait(op, &rank->error));
    RANK_OK(rank, coll_op_start(op, &rank->error));
    uint64_t started = 0;
    uint64_t finished = 0;
    while (rank->rank != VICTIM && started < 2) { /* the device has begun it */
        coll_device_progress(r->comm, &started, &finished);
    }
    RANK_OK(rank, coll_op_test(op, &done, &rank->error));
    RANK_CHECK(rank, !done);
    read_dump(r, text, sizeof text);
    const char *pending = strstr(text, "\"pending\":[");
    const char *completed = strstr(text, "\"completed\":[");
    RANK_CHECK(rank, pending != NULL && completed != NULL);
    RANK_CHECK(rank, strstr(pending, "\"sequence\":2,\"operation\":\"all_reduce\"") < completed);
    RANK_CHECK(rank, strstr(completed, "\"sequence\":1,\"operation\":\"all_reduce\"") != NULL);
    RANK_CHECK(rank, strstr(text, "\"backend\":\"fake\"") != NULL);
    RANK_CHECK(rank, strstr(text, rank->rank == VICTIM ? "\"started\":1,\"finished\":1"
                                                       : "\"started\":2,\"finished\":1") != NULL);
    RANK_OK(rank, coll_barrier(r->comm, &rank->error));
    fake_device_let_go(r->device);
    RANK_OK(rank, coll_op_wait(op, &rank->error));
    RANK_CHECK(rank, device_is_sum(r, DEVICE_COUNT));
    read_dump(r, text, sizeof text);
    RANK_CHECK(rank, strstr(text, "\"started\":2,\"finished\":2") != NULL);
    coll_op_destroy(op);
}

static void the_flight_record_tells_how_far_the_device_is(void **state)
{
    (void)state;
    device_case c = {.ranks = 2, .body = late_body};
    c.devices[VICTIM].fault = FAKE_RUN_LATE;
    c.devices[VICTIM].fault_at = 2;
    device_case_run(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_aborts_when_one_fails),
        cmocka_unit_test(every_rank_aborts_over_sockets),
        cmocka_unit_test(a_rank_that_does_not_come_is_named),
        cmocka_unit_test(a_rank_that_goes_is_noticed),
        cmocka_unit_test(an_abort_reaches_every_device),
        cmocka_unit_test(an_abort_that_hangs_is_reported),
        cmocka_unit_test(a_close_that_fails_is_reported),
        cmocka_unit_test(a_close_that_hangs_is_reported),
        cmocka_unit_test(the_flight_record_tells_how_far_the_device_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
