/* Processes that find each other by a bootstrap, and what they say where they cannot: on one host. */
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "meeting.h"
#include "ringfence/coll_error.h"
#include "small_sockets.h"
#include "support.h"

ssize_t __real_recv(int fd, void *data, size_t size_bytes, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t size_bytes, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t size_bytes, int flags)
{
    if (meeting_stops) {
        (void)raise(SIGSTOP);
    }
    return __real_recv(fd, data, size_bytes, flags);
}

/* Starts all ranks, the last one first, and wants all to end well. */
static void all_meet(const meeting_process *like, int world_size)
{
    meeting m;
    coll_error error;
    meeting_begin(&m, like->options.address);
    for (int rank = world_size - 1; rank >= 0; rank--) {
        meeting_process p = *like;
        p.options.rank = rank;
        p.options.world_size = world_size;
        (void)meeting_start(&m, &p);
    }
    for (int i = 0; i < world_size; i++) {
        assert_ok(meeting_end(&m, i, &error), &error);
    }
    meeting_close(&m);
}

static void ranks_exchange_bytes(void **state)
{
    meeting_process p = meeting_rank(0, 0);
    (void)state;
    all_meet(&p, 1);
    all_meet(&p, 2);
    all_meet(&p, 5);
    p.options.secret = "of 1 letter or more";
    p.options.secret_bytes = strlen(p.options.secret);
    all_meet(&p, 3);
    p.deed = MEETING_CONTEXT;
    all_meet(&p, 3);
    p.options.secret_bytes = 0;
    all_meet(&p, 3);
}

/* What rank 0 gives to each, 64 KiB, does not fit, and leaves in parts. */
static void ranks_exchange_bytes_over_small_sockets(void **state)
{
    const meeting_process p = meeting_rank(0, 0);
    (void)state;
    test_small_sockets = true;
    all_meet(&p, MEETING_RANKS_MAX);
    test_small_sockets = false;
}

static void ranks_exchange_bytes_over_ipv6(void **state)
{
    const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in6 one = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    meeting_process p = meeting_rank(0, 0);
    const bool has_it =
        fd >= 0 && bind(fd, (const struct sockaddr *)&one, sizeof one) == 0 && close(fd) == 0;
    (void)state;
    if (!has_it) {
        skip();
    }
    p.options.address = "::1";
    p.deed = MEETING_CONTEXT;
    all_meet(&p, 2);
}

/* ---- failures that all learn of ---- */

/* The ranks, in this order, end with this status, and each message has the parts. */
static void all_fail(const meeting_process *processes, int count, coll_status status,
                     const char *const parts[2])
{
    meeting m;
    coll_error error;
    meeting_begin(&m, processes[0].options.address);
    for (int i = 0; i < count; i++) {
        (void)meeting_start(&m, &processes[i]);
    }
    for (int i = 0; i < count; i++) {
        const coll_status got = meeting_end(&m, i, &error);
        if (processes[i].deed != MEETING_DIE) {
            assert_has(error.message, parts[0]);
            assert_has(error.message, parts[1]);
            assert_status(got, status);
        }
    }
    meeting_close(&m);
}

static void a_rank_that_does_not_come_is_named(void **state)
{
    meeting_process ps[] = {meeting_rank(2, 4), meeting_rank(0, 4)};
    (void)state;
    ps[1].options.timeout_ns = SHORT_NS;
    all_fail(ps, 2, COLL_ERR_TIMEOUT, (const char *const[]){"ranks 1, 3 of 4", "127.0.0.1 port"});
}

static void rank_0_that_does_not_come_is_named(void **state)
{
    meeting_process p = meeting_rank(1, 2);
    (void)state;
    p.options.timeout_ns = 100 * BASE_NS_PER_MS;
    all_fail(&p, 1, COLL_ERR_TIMEOUT,
             (const char *const[]){"rank 1 did not find rank 0 at 127.0.0.1 port",
                                   "in time: Connection refused (that address is this host"});
}

static void ranks_that_disagree_on_the_world_size_are_named(void **state)
{
    const meeting_process ps[] = {meeting_rank(0, 2), meeting_rank(3, 4)};
    (void)state;
    all_fail(ps, 2, COLL_ERR_MISMATCH,
             (const char *const[]){"rank 3 (host ", "counts 4 ranks, and rank 0 (host "});
}

static void two_processes_with_one_rank_are_named(void **state)
{
    const meeting_process ps[] = {meeting_rank(0, 3), meeting_rank(1, 3), meeting_rank(1, 3)};
    (void)state;
    all_fail(ps, 3, COLL_ERR_MISMATCH,
             (const char *const[]){"two processes take themselves for one rank: rank 1 (host ",
                                   ") and rank 1 (host "});
}

/* Rank 1 loses its patience before rank 2 has come. */
static void a_rank_that_ends_before_all_have_come_is_named(void **state)
{
    meeting_process ps[] = {meeting_rank(0, 3), meeting_rank(1, 3)};
    meeting m;
    coll_error error;
    (void)state;
    ps[1].options.timeout_ns = SHORT_NS;
    meeting_begin(&m, "127.0.0.1");
    (void)meeting_start(&m, &ps[0]);
    (void)meeting_start(&m, &ps[1]);
    assert_status(meeting_end(&m, 0, &error), COLL_ERR_PEER);
    assert_has(error.message, "rank 1 (host ");
    assert_has(error.message, "has ended before rank 2 of 3 had come to 127.0.0.1 port");
    assert_status(meeting_end(&m, 1, &error), COLL_ERR_TIMEOUT);
    assert_has(error.message, "still waits for rank 2 of 3");
    meeting_close(&m);
}

static size_t most_bytes = SIZE_MAX; /* that this process gets at once */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return size <= most_bytes ? __real_malloc(size) : NULL;
}

static void lack_memory(int rank)
{
    (void)rank;
    most_bytes = 4096;
}

/* Each rank in turn: all learn it at once. */
static void a_rank_without_memory_is_named(void **state)
{
    (void)state;
    for (int lacking = 0; lacking < 2; lacking++) {
        meeting_process ps[] = {meeting_rank(0, 2), meeting_rank(1, 2)};
        meeting m;
        coll_error error;
        char name[32];
        ps[lacking].before = lack_memory;
        (void)snprintf(name, sizeof name, "rank %d (host ", lacking);
        meeting_begin(&m, "127.0.0.1");
        (void)meeting_start(&m, &ps[0]);
        (void)meeting_start(&m, &ps[1]);
        for (int i = 0; i < 2; i++) {
            assert_status(meeting_end(&m, i, &error), COLL_ERR_MEMORY);
            assert_has(error.message, "no memory for a link (");
            assert_true(i == lacking || strstr(error.message, name) != NULL);
        }
        meeting_close(&m);
    }
}

static void a_rank_that_dies_in_an_exchange_is_named(void **state)
{
    meeting_process ps[] = {meeting_rank(0, 3), meeting_rank(1, 3), meeting_rank(2, 3)};
    (void)state;
    ps[2].deed = MEETING_DIE;
    all_fail(ps, 3, COLL_ERR_PEER,
             (const char *const[]){"rank 2 (host ", "has ended in exchange 1"});
    ps[2].deed = MEETING_EXCHANGE;
    ps[0].deed = MEETING_DIE;
    all_fail(ps, 3, COLL_ERR_PEER,
             (const char *const[]){"rank 0 (host ", "has ended in exchange 1"});
}

/* Rank 2 loses its patience first: neither it nor rank 0 takes another for the cause. */
static void a_rank_that_is_stopped_before_an_exchange_is_named(void **state)
{
    meeting_process ps[] = {meeting_rank(0, 3), meeting_rank(1, 3), meeting_rank(2, 3)};
    meeting m;
    coll_error error;
    (void)state;
    ps[1].deed = MEETING_STOP;
    ps[2].exchange_ns = 2 * SHORT_NS;
    meeting_begin(&m, "127.0.0.1");
    for (int i = 0; i < 3; i++) {
        (void)meeting_start(&m, &ps[i]);
    }
    assert_status(meeting_end(&m, 2, &error), COLL_ERR_TIMEOUT);
    assert_has(error.message, "still waits for rank 1 in exchange 1");
    assert_status(meeting_end(&m, 0, &error), COLL_ERR_PEER);
    assert_has(error.message, "rank 2 (host ");
    assert_has(error.message, "has ended in exchange 1 before rank 1 had come to it");
    meeting_kill(&m, 1);
    meeting_close(&m);
}

/* What rank 0 gives to each, 64 KiB, does not fit into the socket of rank 1. */
static void a_rank_that_is_stopped_holds_up_no_other(void **state)
{
    meeting m;
    coll_error error;
    (void)state;
    test_small_sockets = true;
    meeting_begin(&m, "127.0.0.1");
    for (int rank = 0; rank < MEETING_RANKS_MAX; rank++) {
        meeting_process p = meeting_rank(rank, MEETING_RANKS_MAX);
        p.deed = rank == 1 ? MEETING_GIVE : MEETING_LARGE;
        p.exchange_ns = (rank == 0 ? 5 : 3) * SHORT_NS;
        (void)meeting_start(&m, &p);
    }
    for (int rank = 2; rank < MEETING_RANKS_MAX; rank++) {
        assert_ok(meeting_end(&m, rank, &error), &error);
    }
    assert_status(meeting_end(&m, 0, &error), COLL_ERR_TIMEOUT);
    assert_has(error.message, "rank 1 (host ");
    assert_has(error.message, "did not take the bytes of exchange 1 in time");
    meeting_kill(&m, 1);
    meeting_close(&m);
    test_small_sockets = false;
}

static void ranks_that_give_other_sizes_are_named(void **state)
{
    meeting_process ps[] = {meeting_rank(0, 2), meeting_rank(1, 2)};
    (void)state;
    ps[0].deed = MEETING_UNEVEN;
    ps[1].deed = MEETING_UNEVEN;
    all_fail(ps, 2, COLL_ERR_MISMATCH,
             (const char *const[]){"gives 9 bytes to exchange 1, and rank 0 (host ", ") 8"});
}

/* ---- secrets ---- */

static meeting_process process_with(int rank, const char *secret)
{
    meeting_process p = meeting_rank(rank, 3);
    p.options.secret = secret;
    p.options.secret_bytes = secret != NULL ? strlen(secret) : 0;
    return p;
}

/* Rank 1 is refused, and learns why. Rank 0 waits on, and is 0 in m. */
static void secrets_differ(meeting *m, const char *of_0, const char *of_1, const char *why)
{
    const meeting_process ps[] = {process_with(0, of_0), process_with(1, of_1)};
    coll_error error;
    meeting_begin(m, "127.0.0.1");
    (void)meeting_start(m, &ps[0]);
    (void)meeting_start(m, &ps[1]);
    assert_status(meeting_end(m, 1, &error), COLL_ERR_AUTH);
    assert_has(error.message, why);
}

static void a_rank_with_another_secret_is_refused(void **state)
{
    meeting_process impatient = process_with(2, "one");
    meeting m;
    coll_error error;
    (void)state;
    secrets_differ(&m, "one", NULL, "rank 0 has a secret, and this rank has none");
    meeting_kill(&m, 0);
    meeting_close(&m);
    secrets_differ(&m, NULL, "other", "rank 0 has no secret, and this rank has one");
    meeting_kill(&m, 0);
    meeting_close(&m);
    secrets_differ(&m, "one", "other", "rank 0 has another secret");
    impatient.options.timeout_ns = SHORT_NS;
    (void)meeting_start(&m, &impatient);
    assert_status(meeting_end(&m, 0, &error), COLL_ERR_PEER);
    assert_has(error.message, "has ended before rank 1 of 3 had come");
    assert_has(error.message, "at 127.0.0.1 that calls itself rank 1: it has another secret");
    assert_status(meeting_end(&m, 2, &error), COLL_ERR_TIMEOUT);
    meeting_close(&m);
}

/* ---- options ---- */

static void options_that_cannot_be_are_refused(void **state)
{
    const coll_bootstrap_options cases[] = {
        {.world_size = 0},
        {.world_size = 65, .address = "a"},
        {.rank = 2, .world_size = 2, .address = "a"},
        {.rank = -1, .world_size = 2, .address = "a"},
        {.world_size = 2},
        {.world_size = 2, .address = ""},
        {.world_size = 2, .address = "a", .port = 65536},
        {.world_size = 2, .address = "a", .port = -1},
        {.world_size = 1, .secret_bytes = 3},
        {.world_size = 1, .timeout_ns = -1},
    };
    coll_bootstrap *bootstrap = NULL;
    coll_error error;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        coll_bootstrap_options options = cases[i];
        options.size = sizeof options;
        error.message[0] = '\0';
        assert_status(coll_bootstrap_open(&options, &bootstrap, &error), COLL_ERR_INVALID);
        assert_true(error.message[0] != '\0');
        assert_null(bootstrap);
    }
    assert_status(coll_bootstrap_open(&(coll_bootstrap_options){.world_size = 1}, &bootstrap, NULL),
                  COLL_ERR_INVALID); /* no size */
    coll_bootstrap_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_exchange_bytes),
        cmocka_unit_test(ranks_exchange_bytes_over_small_sockets),
        cmocka_unit_test(ranks_exchange_bytes_over_ipv6),
        cmocka_unit_test(a_rank_that_does_not_come_is_named),
        cmocka_unit_test(rank_0_that_does_not_come_is_named),
        cmocka_unit_test(ranks_that_disagree_on_the_world_size_are_named),
        cmocka_unit_test(two_processes_with_one_rank_are_named),
        cmocka_unit_test(a_rank_that_ends_before_all_have_come_is_named),
        cmocka_unit_test(a_rank_without_memory_is_named),
        cmocka_unit_test(a_rank_that_dies_in_an_exchange_is_named),
        cmocka_unit_test(a_rank_that_is_stopped_before_an_exchange_is_named),
        cmocka_unit_test(a_rank_that_is_stopped_holds_up_no_other),
        cmocka_unit_test(ranks_that_give_other_sizes_are_named),
        cmocka_unit_test(a_rank_with_another_secret_is_refused),
        cmocka_unit_test(options_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
