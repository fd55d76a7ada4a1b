/* How ranks meet over tcp: in spite of strangers who say anything, a part of it or nothing, and who
 * keep coming, word by word where the network brings no more, once more where the listener hung up,
 * and where they cannot, with the address in question. Ranks are threads. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "base/clock.h"
#include "meeting.h"
#include "support.h"

enum { CRUMB_BYTES = 7 };

static bool crumbs; /* is all that a call reads */

ssize_t __real_recv(int fd, void *bytes, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags);

ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags)
{
    static _Thread_local unsigned calls;
    if (!crumbs) {
        return __real_recv(fd, bytes, size, flags);
    }
    if (calls++ % 3 == 0) {
        errno = calls % 2 == 0 ? EAGAIN : EINTR;
        return -1;
    }
    return __real_recv(fd, bytes, size < CRUMB_BYTES ? size : CRUMB_BYTES, flags);
}

static atomic_int turned_away; /* so many connections are still closed as soon as they come */
static atomic_int accepted_max =
    INT_MAX; /* from then on each second accept finds no descriptor free */

int __real_accept4(int fd, struct sockaddr *address, socklen_t *address_bytes, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *address_bytes, int flags);

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *address_bytes, int flags)
{
    if (atomic_load(&accepted_max) <= 0 && atomic_fetch_sub(&accepted_max, 1) % 2 == 0) {
        errno = EMFILE;
        return -1;
    }
    const int accepted = __real_accept4(fd, address, address_bytes, flags);
    if (accepted >= 0 && atomic_load(&accepted_max) > 0 && atomic_load(&accepted_max) < INT_MAX) {
        (void)atomic_fetch_sub(&accepted_max, 1);
    }
    if (accepted < 0 || atomic_load(&turned_away) == 0) {
        return accepted;
    }
    (void)atomic_fetch_sub(&turned_away, 1);
    (void)close(accepted);
    errno = EAGAIN;
    return -1;
}

/* ---- strangers ---- */

typedef enum manner {
    SILENT,
    PART_OF_A_WORD,
    WRONG_BYTES,
    ALL_AND_MORE,
    GOOD_HELLO, /* all in it is right but its tag: that takes the key */
    REPLAYED,   /* the tag too: it has been seen on the network. There is no proof for it */
    GONE,
    MANNERS
} manner;

enum { TEXT_BYTES = 3 * COLL_OPENING_BYTES };

/* What a stranger says to rank 0. all: for REPLAYED alone. */
static size_t words_of(manner how, const coll_context_options *options, const coll_tcp_record *all,
                       uint8_t text[TEXT_BYTES])
{
    static const size_t lengths[MANNERS] = {0,          COLL_OPENING_BYTES / 2, COLL_OPENING_BYTES,
                                            TEXT_BYTES, COLL_OPENING_BYTES,     COLL_OPENING_BYTES,
                                            0};
    coll_hello hello;
    memset(text, 0, TEXT_BYTES);
    text[0] = 0xff;
    if (how == GOOD_HELLO) {
        coll_hello_make(&hello, 1, 0, options->world_size, options->tcp_auth);
        memcpy(text, &hello, sizeof hello);
    } else if (how == REPLAYED) {
        meeting_opening(options, all, text);
    }
    return lengths[how];
}

/* Before rank 1 itself, strangers connect to rank 0. */
static coll_status come_first(meeting *g, coll_tcp_record *all, coll_error *reterr)
{
    const manner how = *(const manner *)g->user;
    uint8_t text[TEXT_BYTES];
    const size_t text_bytes = words_of(how, &g->options, all, text);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(all[0].port)};
    if (g->options.rank == 0 || inet_pton(AF_INET, all[0].address, &to.sin_addr) != 1) {
        return COLL_OK;
    }
    for (int i = 0; i < MEETING_STRANGERS; i++) {
        const int sock = meeting_connected_to(&to);
        g->strangers[i] = sock;
        if (sock < 0) {
            return coll_fail(reterr, COLL_ERR_IO, "a stranger cannot connect: %s", strerror(errno));
        }
        if (text_bytes > 0) {
            (void)!send(sock, text, text_bytes, MSG_NOSIGNAL);
        }
        if (how == GONE) {
            (void)close(sock);
            g->strangers[i] = -1;
        }
    }
    return COLL_OK;
}

static void stranger_body(test_rank *rank)
{
    meeting g = {.meddle = come_first};
    RANK_OK(rank, meeting_create(rank, &g));
    meeting_check(rank);
}

static void strangers_keep_nobody_from_connecting(void **state)
{
    const int before = test_open_descriptors();
    (void)state;
    for (manner how = SILENT; how < MANNERS; how++) {
        meeting_run(2, stranger_body, &how);
        assert_int_equal(test_open_descriptors(), before); /* none of a stranger's is left */
    }
}

/* Strangers take all room. Somebody with the key comes, and says nothing until one more stranger
 * has come: it is the first strangers who were dropped for both. */
static coll_status come_late(meeting *g, coll_tcp_record *all, coll_error *reterr)
{
    uint8_t opening[COLL_OPENING_BYTES];
    uint8_t answer[COLL_ANSWER_BYTES];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(all[0].port)};
    if (g->options.rank == 0 || inet_pton(AF_INET, all[0].address, &to.sin_addr) != 1) {
        return COLL_OK;
    }
    for (int i = 0; i < MEETING_STRANGERS; i++) {
        g->strangers[i] = meeting_connected_to(&to);
    }
    const int sock = meeting_connected_to(&to);
    const int last = meeting_connected_to(&to);
    meeting_opening(&g->options, all, opening);
    const bool dropped = meeting_receive(g->strangers[1], answer, 1) == 0;
    (void)!send(sock, opening, sizeof opening, MSG_NOSIGNAL);
    const bool answered = meeting_receive(sock, answer, sizeof answer) == sizeof answer;
    (void)close(sock);
    (void)close(last);
    return dropped && answered
               ? COLL_OK
               : coll_fail(reterr, COLL_ERR_IO, "dropped %d, answered %d", dropped, answered);
}

static void late_body(test_rank *rank)
{
    meeting g = {.meddle = come_late};
    RANK_OK(rank, meeting_create(rank, &g));
    meeting_check(rank);
}

static void the_oldest_stranger_goes_first(void **state)
{
    (void)state;
    meeting_run(2, late_body, NULL);
}

/* Strangers who keep coming to rank 0 while ranks meet. */
typedef struct crowd {
    pthread_t thread;
    coll_context_options options;
    struct sockaddr_in to;
    atomic_bool over;
} crowd;

static void *come_and_come(void *user)
{
    crowd *c = user;
    int socks[MEETING_STRANGERS];
    uint8_t text[TEXT_BYTES];
    memset(socks, -1, sizeof socks);
    for (unsigned i = 0; !atomic_load(&c->over); i++) {
        int *sock = &socks[i % MEETING_STRANGERS];
        const size_t text_bytes =
            words_of(i % 2 == 0 ? SILENT : GOOD_HELLO, &c->options, NULL, text);
        if (*sock >= 0) {
            (void)close(*sock);
        }
        *sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)!connect(*sock, (const struct sockaddr *)&c->to, sizeof c->to);
        (void)!send(*sock, text, text_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    for (int i = 0; i < MEETING_STRANGERS; i++) {
        if (socks[i] >= 0) {
            (void)close(socks[i]);
        }
    }
    return NULL;
}

static coll_status start_crowd(meeting *g, coll_tcp_record *all, coll_error *reterr)
{
    crowd *c = (crowd *)(uintptr_t)g->user;
    if (g->options.rank != 1) {
        return COLL_OK;
    }
    c->options = g->options;
    c->to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(all[0].port)};
    if (inet_pton(AF_INET, all[0].address, &c->to.sin_addr) != 1 ||
        pthread_create(&c->thread, NULL, come_and_come, c) != 0) {
        return coll_fail(reterr, COLL_ERR_IO, "no crowd");
    }
    return COLL_OK;
}

static void crowd_body(test_rank *rank)
{
    meeting g = {.meddle = start_crowd};
    crowd c = {.over = false};
    rank->user = &c;
    const coll_status status = meeting_create(rank, &g);
    atomic_store(&c.over, true);
    if (c.to.sin_port != 0) {
        (void)pthread_join(c.thread, NULL);
    }
    RANK_OK(rank, status);
    meeting_check(rank);
}

static void strangers_who_keep_coming_keep_nobody_out(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        meeting_run(4, crowd_body, NULL);
    }
}

static coll_status leave(meeting *g, coll_tcp_record *all, coll_error *reterr)
{
    (void)g;
    (void)all;
    (void)reterr;
    return COLL_OK;
}

static void undisturbed_body(test_rank *rank)
{
    meeting g = {.meddle = leave};
    RANK_OK(rank, meeting_create(rank, &g));
    meeting_check(rank);
}

static void who_is_turned_away_comes_again(void **state)
{
    (void)state;
    atomic_store(&turned_away, 5);
    meeting_run(3, undisturbed_body, NULL);
    assert_int_equal(atomic_load(&turned_away), 0);
}

/* ---- descriptors ---- */

/* Strangers have them, and lose them to those who come later. */
static void strangers_descriptors_are_taken(void **state)
{
    manner how = SILENT;
    (void)state;
    atomic_store(&accepted_max, 5);
    meeting_run(2, stranger_body, &how);
    assert_true(atomic_exchange(&accepted_max, INT_MAX) <= 0);
}

static void poor_body(test_rank *rank)
{
    meeting g = {.meddle = leave};
    const int64_t began_ns = base_now_ns();
    const coll_status status = meeting_create(rank, &g);
    RANK_CHECK(rank, status != COLL_OK);
    if (rank->rank == 0) {
        RANK_CHECK(rank, status == COLL_ERR_IO);
        RANK_CHECK(rank, strstr(rank->error.message,
                                "cannot accept a connection: Too many open files") != NULL);
        RANK_CHECK(rank, base_now_ns() - began_ns < 10 * BASE_NS_PER_S); /* of 20 */
    }
}

static void a_rank_without_descriptors_says_so(void **state)
{
    (void)state;
    atomic_store(&accepted_max, 0);
    meeting_run(2, poor_body, NULL);
    atomic_store(&accepted_max, INT_MAX);
}

/* ---- crumbs ---- */

static void a_handshake_may_come_in_crumbs(void **state)
{
    static const coll_tcp_auth auths[] = {COLL_TCP_AUTH_MAC, COLL_TCP_AUTH_ENCRYPT,
                                          COLL_TCP_AUTH_OFF};
    (void)state;
    crumbs = true;
    for (int i = 0; i < 3; i++) {
        test_ranks_as_threads(
            &(test_ranks_options){
                .size = 3, .transport = COLL_TRANSPORT_TCP, .tcp_auth = auths[i], .bare = true},
            undisturbed_body);
    }
    crumbs = false;
}

/* ---- addresses ---- */

typedef struct wrong_way {
    const char *address; /* that rank 1 gets for rank 0; NULL: its own */
    uint16_t port;       /* the same; 0: its own */
    const char *text;
} wrong_way;

static coll_status lead_astray(meeting *g, coll_tcp_record *all, coll_error *reterr)
{
    const wrong_way *way = g->user;
    (void)reterr;
    if (g->options.rank == 1 && way->address != NULL) {
        (void)snprintf(all[0].address, sizeof all[0].address, "%s", way->address);
    }
    if (g->options.rank == 1 && way->port != 0) {
        all[0].port = way->port;
    }
    return COLL_OK;
}

static void astray_body(test_rank *rank)
{
    const wrong_way *way = rank->user;
    meeting g = {.meddle = lead_astray};
    const coll_status status = meeting_create(rank, &g);
    RANK_CHECK(rank, status == (rank->rank == 0 ? COLL_ERR_TIMEOUT : COLL_ERR_PEER));
    RANK_CHECK(rank, rank->rank == 0 || strstr(rank->error.message, way->text) != NULL);
    RANK_CHECK(rank, rank->rank == 1 ||
                         strstr(rank->error.message, "no connection in time to rank 1") != NULL);
}

static void a_wrong_address_is_named(void **state)
{
    wrong_way ways[] = {
        {"0.0.0.0", 0, "at 0.0.0.0 port"},
        {"::", 0, "that is no address to connect to"},
        {"rank-zero", 0, "'rank-zero' is no numeric address"},
        {NULL, 1, "at 127.0.0.1 port 1: Connection refused"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        meeting_run_for(BASE_NS_PER_S, 2, astray_body, &ways[i]);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_keep_nobody_from_connecting),
        cmocka_unit_test(the_oldest_stranger_goes_first),
        cmocka_unit_test(strangers_who_keep_coming_keep_nobody_out),
        cmocka_unit_test(who_is_turned_away_comes_again),
        cmocka_unit_test(strangers_descriptors_are_taken),
        cmocka_unit_test(a_rank_without_descriptors_says_so),
        cmocka_unit_test(a_handshake_may_come_in_crumbs),
        cmocka_unit_test(a_wrong_address_is_named),
    };
    return cmocka_run_group_tests_name("coll-tcp-connect", tests, NULL, NULL);
}
