/* How ranks meet over tcp: in spite of strangers who say anything, a part of it or nothing, and who
 * keep coming, word by word where the network brings no more, once more where the listener hung up,
 * and where they cannot, with the address in question. Ranks are threads. */
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "base/clock.h"
#include "core/rendezvous.h"
#include "ranks.h"
#include "support.h"
#include "transport/tcp/record.h"

enum { STRANGERS = 2 * COLL_RANKS_MAX, CRUMB_BYTES = 7 }; /* as many as are kept */

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

/* What comes between a rank and what it receives of the others. */
typedef struct gate {
    coll_context_options options; /* the rank's own */
    const void *user;
    coll_status (*meddle)(struct gate *g, coll_tcp_record *all, coll_error *reterr);
    int strangers[STRANGERS];
} gate;

static coll_status exchange(void *user, const void *mine, void *all, size_t size_bytes,
                            int64_t deadline_ns, coll_error *reterr)
{
    gate *g = user;
    coll_tcp_record records[COLL_RANKS_MAX];
    coll_status status =
        g->options.exchange(g->options.exchange_user, mine, all, size_bytes, deadline_ns, reterr);
    if (status != COLL_OK || size_bytes != COLL_RENDEZVOUS_HEAD_BYTES + sizeof *records) {
        return status;
    }
    uint8_t *first = (uint8_t *)all + COLL_RENDEZVOUS_HEAD_BYTES;
    for (int rank = 0; rank < g->options.world_size; rank++) {
        memcpy(&records[rank], first + (size_t)rank * size_bytes, sizeof *records);
    }
    status = g->meddle(g, records, reterr);
    for (int rank = 0; rank < g->options.world_size; rank++) {
        memcpy(first + (size_t)rank * size_bytes, &records[rank], sizeof *records);
    }
    return status;
}

static coll_status create(test_rank *rank, gate *g)
{
    g->options = test_rank_options(rank);
    g->user = rank->user;
    memset(g->strangers, -1, sizeof g->strangers);
    coll_context_options options = g->options;
    options.exchange = exchange;
    options.exchange_user = g;
    const coll_status status = coll_context_create(&options, &rank->context, &rank->error);
    for (int i = 0; i < STRANGERS; i++) {
        if (g->strangers[i] >= 0) {
            (void)close(g->strangers[i]);
        }
    }
    return status;
}

static void check_works(test_rank *rank)
{
    int32_t sum = 1;
    RANK_OK(rank, coll_all_reduce(coll_context_world(rank->context), &sum, &sum, 1, COLL_INT32,
                                  COLL_SUM, &rank->error));
    RANK_CHECK(rank, sum == rank->size);
    coll_context_destroy(rank->context);
    rank->context = NULL;
}

static void run_for(int64_t timeout_ns, int size, test_rank_body body, void *user)
{
    const test_ranks_options options = {.size = size,
                                        .transport = COLL_TRANSPORT_TCP,
                                        .timeout_ns = timeout_ns,
                                        .user = user,
                                        .bare = true};
    test_ranks_as_threads(&options, body);
}

static void run(int size, test_rank_body body, void *user)
{
    run_for(0, size, body, user);
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

/* The opening of a rank 1 with the job's key. */
static void opening_of(const coll_context_options *options, const coll_tcp_record *all,
                       uint8_t opening[COLL_OPENING_BYTES])
{
    uint8_t key[COLL_JOB_KEY_BYTES];
    coll_hello hello;
    coll_tcp_records_key(options->job_key, all, options->world_size, key);
    coll_hello_make(&hello, 1, 0, options->world_size, options->tcp_auth);
    hello.attempt = 1;
    memcpy(opening, &hello, sizeof hello);
    coll_hello_tag(key, &hello, opening + sizeof hello);
}

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
        opening_of(options, all, text);
    }
    return lengths[how];
}

static int connected_to(const struct sockaddr_in *to)
{
    const int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock >= 0 && connect(sock, (const struct sockaddr *)to, sizeof *to) == 0) {
        return sock;
    }
    (void)close(sock);
    return -1;
}

/* Before rank 1 itself, strangers connect to rank 0. */
static coll_status come_first(gate *g, coll_tcp_record *all, coll_error *reterr)
{
    const manner how = *(const manner *)g->user;
    uint8_t text[TEXT_BYTES];
    const size_t text_bytes = words_of(how, &g->options, all, text);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(all[0].port)};
    if (g->options.rank == 0 || inet_pton(AF_INET, all[0].address, &to.sin_addr) != 1) {
        return COLL_OK;
    }
    for (int i = 0; i < STRANGERS; i++) {
        const int sock = connected_to(&to);
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
    gate g = {.meddle = come_first};
    RANK_OK(rank, create(rank, &g));
    check_works(rank);
}

static void strangers_keep_nobody_from_connecting(void **state)
{
    const int before = test_open_descriptors();
    (void)state;
    for (manner how = SILENT; how < MANNERS; how++) {
        run(2, stranger_body, &how);
        assert_int_equal(test_open_descriptors(), before); /* none of a stranger's is left */
    }
}

/* The bytes that come until a deadline, or until the end. */
static size_t receive_some(int sock, uint8_t *bytes, size_t size)
{
    const struct timeval patience = {.tv_sec = 5};
    size_t got = 0;
    (void)setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    while (got < size) {
        const ssize_t more = recv(sock, bytes + got, size - got, 0);
        if (more <= 0) {
            return more < 0 && errno == EAGAIN ? SIZE_MAX : got;
        }
        got += (size_t)more;
    }
    return got;
}

/* Strangers take all room. Somebody with the key comes, and says nothing until one more stranger
 * has come: it is the first strangers who were dropped for both. */
static coll_status come_late(gate *g, coll_tcp_record *all, coll_error *reterr)
{
    uint8_t opening[COLL_OPENING_BYTES];
    uint8_t answer[COLL_ANSWER_BYTES];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(all[0].port)};
    if (g->options.rank == 0 || inet_pton(AF_INET, all[0].address, &to.sin_addr) != 1) {
        return COLL_OK;
    }
    for (int i = 0; i < STRANGERS; i++) {
        g->strangers[i] = connected_to(&to);
    }
    const int sock = connected_to(&to);
    const int last = connected_to(&to);
    opening_of(&g->options, all, opening);
    const bool dropped = receive_some(g->strangers[1], answer, 1) == 0;
    (void)!send(sock, opening, sizeof opening, MSG_NOSIGNAL);
    const bool answered = receive_some(sock, answer, sizeof answer) == sizeof answer;
    (void)close(sock);
    (void)close(last);
    return dropped && answered
               ? COLL_OK
               : coll_fail(reterr, COLL_ERR_IO, "dropped %d, answered %d", dropped, answered);
}

static void late_body(test_rank *rank)
{
    gate g = {.meddle = come_late};
    RANK_OK(rank, create(rank, &g));
    check_works(rank);
}

static void the_oldest_stranger_goes_first(void **state)
{
    (void)state;
    run(2, late_body, NULL);
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
    int socks[STRANGERS];
    uint8_t text[TEXT_BYTES];
    memset(socks, -1, sizeof socks);
    for (unsigned i = 0; !atomic_load(&c->over); i++) {
        int *sock = &socks[i % STRANGERS];
        const size_t text_bytes =
            words_of(i % 2 == 0 ? SILENT : GOOD_HELLO, &c->options, NULL, text);
        if (*sock >= 0) {
            (void)close(*sock);
        }
        *sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)!connect(*sock, (const struct sockaddr *)&c->to, sizeof c->to);
        (void)!send(*sock, text, text_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    for (int i = 0; i < STRANGERS; i++) {
        if (socks[i] >= 0) {
            (void)close(socks[i]);
        }
    }
    return NULL;
}

static coll_status start_crowd(gate *g, coll_tcp_record *all, coll_error *reterr)
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
    gate g = {.meddle = start_crowd};
    crowd c = {.over = false};
    rank->user = &c;
    const coll_status status = create(rank, &g);
    atomic_store(&c.over, true);
    if (c.to.sin_port != 0) {
        (void)pthread_join(c.thread, NULL);
    }
    RANK_OK(rank, status);
    check_works(rank);
}

static void strangers_who_keep_coming_keep_nobody_out(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        run(4, crowd_body, NULL);
    }
}

/* Sits between ranks 0 and 1, and keeps the opening of rank 1. */
typedef struct listening_in {
    pthread_t thread;
    struct sockaddr_in to; /* rank 0 */
    int listener;
    int answered; /* of those who have replayed the opening */
} listening_in;

/* Passes bytes on in both directions, until a side ends. */
static void pass_on(const int socks[2])
{
    uint8_t bytes[4096];
    for (;;) {
        struct pollfd items[2] = {{.fd = socks[0], .events = POLLIN},
                                  {.fd = socks[1], .events = POLLIN}};
        (void)poll(items, 2, -1);
        for (int i = 0; i < 2; i++) {
            const ssize_t got = items[i].revents != 0 ? recv(socks[i], bytes, sizeof bytes, 0) : 0;
            if (items[i].revents != 0 && got <= 0) {
                return;
            }
            (void)!send(socks[1 - i], bytes, (size_t)got, MSG_NOSIGNAL);
        }
    }
}

/* Between rank 0's answer and rank 1's proof, as many as find room show what rank 1 has said. */
static void *replay_between(void *user)
{
    listening_in *l = user;
    uint8_t opening[COLL_OPENING_BYTES];
    uint8_t answer[COLL_ANSWER_BYTES];
    int strangers[STRANGERS];
    const int socks[2] = {accept(l->listener, NULL, NULL), connected_to(&l->to)};
    (void)receive_some(socks[0], opening, sizeof opening);
    (void)!send(socks[1], opening, sizeof opening, MSG_NOSIGNAL);
    (void)receive_some(socks[1], answer, sizeof answer);
    for (int i = 0; i < STRANGERS; i++) {
        uint8_t byte = 0;
        strangers[i] = connected_to(&l->to);
        (void)!send(strangers[i], opening, sizeof opening, MSG_NOSIGNAL);
        l->answered += receive_some(strangers[i], &byte, 1) == 0 ? 0 : 1;
    }
    (void)!send(socks[0], answer, sizeof answer, MSG_NOSIGNAL);
    pass_on(socks);
    for (int i = 0; i < STRANGERS; i++) {
        (void)close(strangers[i]);
    }
    (void)close(socks[0]);
    (void)close(socks[1]);
    return NULL;
}

static coll_status listen_in(gate *g, coll_tcp_record *all, coll_error *reterr)
{
    listening_in *l = (listening_in *)(uintptr_t)g->user;
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t own_bytes = sizeof own;
    if (g->options.rank == 0) {
        return COLL_OK;
    }
    l->to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(all[0].port)};
    l->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (inet_pton(AF_INET, all[0].address, &l->to.sin_addr) != 1 ||
        bind(l->listener, (struct sockaddr *)&own, sizeof own) != 0 ||
        listen(l->listener, 1) != 0 ||
        getsockname(l->listener, (struct sockaddr *)&own, &own_bytes) != 0 ||
        pthread_create(&l->thread, NULL, replay_between, l) != 0) {
        return coll_fail(reterr, COLL_ERR_IO, "nobody listens in: %s", strerror(errno));
    }
    all[0].port = ntohs(own.sin_port);
    return COLL_OK;
}

static void overheard_body(test_rank *rank)
{
    gate g = {.meddle = listen_in};
    listening_in l = {.answered = 0};
    rank->user = &l;
    const coll_status status = create(rank, &g);
    if (status == COLL_OK) {
        check_works(rank);
    }
    if (rank->rank == 1) {
        (void)pthread_join(l.thread, NULL);
        (void)close(l.listener);
        RANK_CHECK(rank, l.answered == 0);
    }
    RANK_OK(rank, status);
}

static void who_replays_a_hello_breaks_no_connection(void **state)
{
    (void)state;
    run(2, overheard_body, NULL);
}

static coll_status leave(gate *g, coll_tcp_record *all, coll_error *reterr)
{
    (void)g;
    (void)all;
    (void)reterr;
    return COLL_OK;
}

static void undisturbed_body(test_rank *rank)
{
    gate g = {.meddle = leave};
    RANK_OK(rank, create(rank, &g));
    check_works(rank);
}

static void who_is_turned_away_comes_again(void **state)
{
    (void)state;
    atomic_store(&turned_away, 5);
    run(3, undisturbed_body, NULL);
    assert_int_equal(atomic_load(&turned_away), 0);
}

/* ---- descriptors ---- */

/* Strangers have them, and lose them to those who come later. */
static void strangers_descriptors_are_taken(void **state)
{
    manner how = SILENT;
    (void)state;
    atomic_store(&accepted_max, 5);
    run(2, stranger_body, &how);
    assert_true(atomic_exchange(&accepted_max, INT_MAX) <= 0);
}

static void poor_body(test_rank *rank)
{
    gate g = {.meddle = leave};
    const int64_t began_ns = base_now_ns();
    const coll_status status = create(rank, &g);
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
    run(2, poor_body, NULL);
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

static coll_status lead_astray(gate *g, coll_tcp_record *all, coll_error *reterr)
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
    gate g = {.meddle = lead_astray};
    const coll_status status = create(rank, &g);
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
        run_for(BASE_NS_PER_S, 2, astray_body, &ways[i]);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_keep_nobody_from_connecting),
        cmocka_unit_test(the_oldest_stranger_goes_first),
        cmocka_unit_test(strangers_who_keep_coming_keep_nobody_out),
        cmocka_unit_test(who_replays_a_hello_breaks_no_connection),
        cmocka_unit_test(who_is_turned_away_comes_again),
        cmocka_unit_test(strangers_descriptors_are_taken),
        cmocka_unit_test(a_rank_without_descriptors_says_so),
        cmocka_unit_test(a_handshake_may_come_in_crumbs),
        cmocka_unit_test(a_wrong_address_is_named),
    };
    return cmocka_run_group_tests_name("coll-tcp-connect", tests, NULL, NULL);
}
