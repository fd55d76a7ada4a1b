/* Strangers at rank 0's port, and what stands in rank 0's place: none is taken for a rank, and none holds up one. */
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/frames.h"
#include "meeting.h"
#include "ringfence/coll_error.h"
#include "support.h"

#define TWO_ADDRESSES "two.test" /* 127.0.0.2, and then 127.0.0.1 */

int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found)
{
    if (strcmp(node, TWO_ADDRESSES) != 0) {
        return __real_getaddrinfo(node, service, hints, found);
    }
    if ((hints->ai_flags & AI_NUMERICHOST) != 0) {
        return EAI_NONAME;
    }
    const int failed = __real_getaddrinfo("127.0.0.2", service, hints, found);
    return failed != 0 ? failed
                       : __real_getaddrinfo("127.0.0.1", service, hints, &(*found)->ai_next);
}

static int connect_to(int port)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port = htons((uint16_t)port)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (const struct sockaddr *)&to, sizeof to) != 0) {
        assert_int_equal(close(fd), 0);
        return -1;
    }
    return fd;
}

/* For a rank 0 that may have yet to listen. */
static int connect_patiently(int port)
{
    const int64_t deadline_ns = base_deadline_after_ns(LONG_NS);
    int fd = connect_to(port);
    while (fd < 0) {
        assert_true(base_now_ns() < deadline_ns);
        (void)poll(NULL, 0, 1);
        fd = connect_to(port);
    }
    return fd;
}

/* More than rank 0 has places for, all there before the other rank. Those that say nothing stay, those
 * that send rubbish are dropped. */
static void strangers_hold_up_nobody(void **state)
{
    enum { STRANGERS = 150 };
    static const char *const texts[] = {"", "GET / HTTP/1.1\r\n\r\n", "RfB", "\x52\x66\x42\x31"};
    const meeting_process ps[] = {meeting_rank(0, 2), meeting_rank(1, 2)};
    int fds[STRANGERS];
    meeting m;
    coll_error error;
    (void)state;
    meeting_begin(&m, "127.0.0.1");
    (void)meeting_start(&m, &ps[0]);
    for (int i = 0; i < STRANGERS; i++) {
        fds[i] = connect_patiently(m.port);
        const char *text = texts[i % 4];
        (void)send(fds[i], text, strlen(text), MSG_NOSIGNAL); /* it may be dropped by now */
    }
    struct pollfd dropped = {.fd = fds[1], .events = POLLIN};
    assert_int_equal(poll(&dropped, 1, 10000), 1);
    (void)meeting_start(&m, &ps[1]);
    assert_ok(meeting_end(&m, 0, &error), &error);
    assert_ok(meeting_end(&m, 1, &error), &error);
    for (int i = 0; i < STRANGERS; i++) {
        assert_int_equal(close(fds[i]), 0);
    }
    meeting_close(&m);
}

static void allow_few_files(int rank)
{
    const struct rlimit few = {32, 32};
    if (rank == 0 && setrlimit(RLIMIT_NOFILE, &few) != 0) {
        _exit(1);
    }
}

/* Rank 0 may have as many files open as it needs, and strangers have taken some. */
static void strangers_make_room_where_files_are_few(void **state)
{
    enum { STRANGERS = 20 };
    int fds[STRANGERS];
    meeting m;
    coll_error error;
    (void)state;
    meeting_begin(&m, "127.0.0.1");
    for (int rank = 0; rank < MEETING_RANKS_MAX; rank++) {
        meeting_process p = meeting_rank(rank, MEETING_RANKS_MAX);
        p.before = allow_few_files;
        (void)meeting_start(&m, &p);
        for (int i = 0; rank == 0 && i < STRANGERS; i++) {
            fds[i] = connect_patiently(m.port);
        }
    }
    for (int rank = 0; rank < MEETING_RANKS_MAX; rank++) {
        assert_ok(meeting_end(&m, rank, &error), &error);
    }
    for (int i = 0; i < STRANGERS; i++) {
        assert_int_equal(close(fds[i]), 0);
    }
    meeting_close(&m);
}

/* A rank over a long path, whose proof comes after more strangers than rank 0 has places for. */
static void strangers_take_no_place_of_a_rank(void **state)
{
    enum { STRANGERS = 300 };
    const meeting_process p = meeting_rank(0, 2);
    uint8_t key[COLL_JOB_KEY_BYTES];
    uint8_t opening[COLL_OPENING_BYTES];
    uint8_t answer[COLL_ANSWER_BYTES];
    coll_hello hello;
    int fds[STRANGERS];
    meeting m;
    (void)state;
    assert_true(sodium_init() >= 0);
    coll_bootstrap_derive(NULL, 0, COLL_BOOTSTRAP_LINK_LABEL, key);
    coll_bootstrap_hello_make(&hello, 1, 0, 2);
    memcpy(opening, &hello, sizeof hello);
    coll_hello_tag(key, &hello, opening + sizeof hello);
    meeting_begin(&m, "127.0.0.1");
    (void)meeting_start(&m, &p);
    const int rank_1 = connect_patiently(m.port);
    assert_int_equal(send(rank_1, opening, sizeof opening, MSG_NOSIGNAL), sizeof opening);
    assert_int_equal(recv(rank_1, answer, sizeof answer, MSG_WAITALL), sizeof answer);
    for (int i = 0; i < STRANGERS; i++) {
        fds[i] = connect_patiently(m.port);
    }
    assert_int_equal(send(fds[STRANGERS - 1], "rubbish", 7, MSG_NOSIGNAL), 7);
    struct pollfd dropped = {.fd = fds[STRANGERS - 1], .events = POLLIN};
    assert_int_equal(poll(&dropped, 1, 10000), 1); /* rank 0 has seen them all */
    struct pollfd waits = {.fd = rank_1, .events = POLLIN};
    assert_int_equal(poll(&waits, 1, 0), 0);
    for (int i = 0; i < STRANGERS; i++) {
        assert_int_equal(close(fds[i]), 0);
    }
    assert_int_equal(close(rank_1), 0);
    meeting_kill(&m, 0);
    meeting_close(&m);
}

/* What stands in rank 0's place: one that hangs up, one that sends back what comes, as a socket does that
 * is connected to itself, and another program. */
static void what_is_no_rank_0_is_told_from_it(void **state)
{
    static const char banner[] = "SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n";
    meeting_process p = meeting_rank(1, 2);
    uint8_t opening[COLL_OPENING_BYTES];
    meeting m;
    coll_error error;
    (void)state;
    meeting_begin(&m, "127.0.0.1");
    assert_int_equal(listen(m.held, 8), 0);
    (void)meeting_start(&m, &p);
    int fd = accept(m.held, NULL, NULL);
    assert_int_equal(close(fd), 0); /* it comes again */
    fd = accept(m.held, NULL, NULL);
    assert_int_equal(recv(fd, opening, sizeof opening, MSG_WAITALL), sizeof opening);
    assert_int_equal(send(fd, opening, sizeof opening, MSG_NOSIGNAL), sizeof opening);
    const int echo = fd;
    fd = accept(m.held, NULL, NULL);
    assert_int_equal(send(fd, banner, strlen(banner), MSG_NOSIGNAL), strlen(banner));
    assert_status(meeting_end(&m, 0, &error), COLL_ERR_PEER);
    assert_has(error.message, "what listens there is no rank 0 of libcoll");
    assert_int_equal(close(fd), 0);
    assert_int_equal(close(echo), 0);
    p = meeting_rank(0, 2);
    (void)meeting_start(&m, &p);
    assert_status(meeting_end(&m, 1, &error), COLL_ERR_IO);
    assert_has(error.message, "rank 0 cannot listen at 127.0.0.1 port");
    assert_has(error.message, "choose another MASTER_PORT");
    meeting_close(&m);
}

/* At the first of the two addresses there is another program, which says this; NULL: nothing. */
static void the_second_address_is_tried(const char *says)
{
    meeting_process ps[] = {meeting_rank(0, 2), meeting_rank(1, 2)};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
    const int on = 1;
    const int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    meeting m;
    coll_error error;
    ps[1].options.address = TWO_ADDRESSES;
    ps[1].options.timeout_ns = 2 * SHORT_NS;
    meeting_begin(&m, "127.0.0.1");
    at.sin_port = htons((uint16_t)m.port);
    assert_int_equal(setsockopt(other, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(other, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(other, 8), 0);
    (void)meeting_start(&m, &ps[0]);
    (void)meeting_start(&m, &ps[1]);
    const int fd = accept(other, NULL, NULL);
    if (says != NULL) {
        assert_int_equal(send(fd, says, strlen(says), MSG_NOSIGNAL), strlen(says));
    }
    assert_ok(meeting_end(&m, 1, &error), &error);
    assert_ok(meeting_end(&m, 0, &error), &error);
    assert_int_equal(close(fd), 0);
    assert_int_equal(close(other), 0);
    meeting_close(&m);
}

static void another_program_at_one_address_stops_nobody(void **state)
{
    (void)state;
    the_second_address_is_tried("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n");
    the_second_address_is_tried(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_hold_up_nobody),
        cmocka_unit_test(strangers_make_room_where_files_are_few),
        cmocka_unit_test(strangers_take_no_place_of_a_rank),
        cmocka_unit_test(what_is_no_rank_0_is_told_from_it),
        cmocka_unit_test(another_program_at_one_address_stops_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
