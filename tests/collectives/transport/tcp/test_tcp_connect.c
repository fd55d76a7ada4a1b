/* How ranks meet over tcp: in spite of strangers who say anything, a part of it or nothing, word by
 * word where the network brings no more, and where they cannot, with the address in question. Ranks
 * are threads. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "base/clock.h"
#include "ranks.h"
#include "support.h"
#include "transport/tcp/record.h"

enum { STRANGERS = COLL_RANKS_MAX + 16, CRUMB_BYTES = 7 }; /* as many as are kept */

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
    const coll_status status =
        g->options.exchange(g->options.exchange_user, mine, all, size_bytes, deadline_ns, reterr);
    return status == COLL_OK && size_bytes == sizeof(coll_tcp_record) ? g->meddle(g, all, reterr)
                                                                      : status;
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

/* ---- strangers ---- */

typedef enum manner { SILENT, PART_OF_A_WORD, WRONG_BYTES, ALL_AND_MORE, GONE, MANNERS } manner;

/* Before rank 1 itself, strangers connect to rank 0. */
static coll_status come_first(gate *g, coll_tcp_record *all, coll_error *reterr)
{
    const manner how = *(const manner *)g->user;
    const uint8_t text[3 * COLL_HELLO_BYTES] = {0xff, 1};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(all[0].port)};
    const size_t lengths[MANNERS] = {0, COLL_HELLO_BYTES / 2, COLL_HELLO_BYTES, sizeof text, 0};
    if (g->options.rank == 0 || inet_pton(AF_INET, all[0].address, &to.sin_addr) != 1) {
        return COLL_OK;
    }
    for (int i = 0; i < STRANGERS; i++) {
        const int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        g->strangers[i] = sock;
        if (sock < 0 || connect(sock, (const struct sockaddr *)&to, sizeof to) != 0) {
            return coll_fail(reterr, COLL_ERR_IO, "a stranger cannot connect: %s", strerror(errno));
        }
        if (lengths[how] > 0) {
            (void)!send(sock, text, lengths[how], MSG_NOSIGNAL);
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
        test_ranks_as_threads(
            &(test_ranks_options){
                .size = 2, .transport = COLL_TRANSPORT_TCP, .bare = true, .user = &how},
            stranger_body);
        assert_int_equal(test_open_descriptors(), before); /* none of a stranger's is left */
    }
}

/* ---- crumbs ---- */

static coll_status leave(gate *g, coll_tcp_record *all, coll_error *reterr)
{
    (void)g;
    (void)all;
    (void)reterr;
    return COLL_OK;
}

static void crumb_body(test_rank *rank)
{
    gate g = {.meddle = leave};
    RANK_OK(rank, create(rank, &g));
    check_works(rank);
}

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
            crumb_body);
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
        test_ranks_as_threads(&(test_ranks_options){.size = 2,
                                                    .transport = COLL_TRANSPORT_TCP,
                                                    .timeout_ns = 200 * BASE_NS_PER_MS,
                                                    .bare = true,
                                                    .user = &ways[i]},
                              astray_body);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_keep_nobody_from_connecting),
        cmocka_unit_test(a_handshake_may_come_in_crumbs),
        cmocka_unit_test(a_wrong_address_is_named),
    };
    return cmocka_run_group_tests_name("coll-tcp-connect", tests, NULL, NULL);
}
