/* Descriptors from rank to rank: strangers in front of the socket, who may say anything or nothing,
 * keep nobody from connecting, and nobody waiting beyond the deadline; and what comes is just the
 * descriptor that was agreed on. Ranks are threads. */
#include "transport/shm/fdpass.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/rendezvous.h"
#include "ranks.h"
#include "support.h"

enum { TAG = 77, BYTES = 4096, STRANGERS = 100, TIMES = 3000 };

/* ---- connecting ---- */

/* Where rank 0's record has the name of its socket, and how long that is. */
enum { NAME_AT = COLL_RENDEZVOUS_HEAD_BYTES + 16, NAME_BYTES_AT = NAME_AT + 16 };

/* What both ranks of a job believe: they are on one host. */
static void open_context(coll_context *context, coll_identity identities[2], const test_rank *rank)
{
    *context = (coll_context){.rank = rank->rank, .size = rank->size, .identities = identities};
    for (int r = 0; r < COLL_RANKS_MAX; r++) {
        context->socks[r] = -1;
    }
    coll_identity_get(&identities[0]);
    identities[1] = identities[0];
}

typedef enum manner { SILENT, WRONG_HELLO, SHORT_HELLO, GONE, AGAIN, MANNERS } manner;

typedef struct door {
    const coll_context_options *options; /* the rank's own */
    manner manner;
    int strangers[STRANGERS];
} door;

/* A stranger may find the name of a socket, and not its nonce: the record that rank 0 shows says
 * both, the name second. Strangers are there before rank 1 is. */
static coll_status knock_first(void *user, const void *mine, void *all, size_t size_bytes,
                               int64_t deadline_ns, coll_error *reterr)
{
    door *d = user;
    const uint8_t hello[20] = {1};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    uint32_t name_bytes = 0;
    memcpy(address.sun_path, (const uint8_t *)mine + NAME_AT, 16);
    memcpy(&name_bytes, (const uint8_t *)mine + NAME_BYTES_AT, sizeof name_bytes);
    for (int i = 0; d->options->rank == 0 && i < STRANGERS; i++) {
        const int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        d->strangers[i] = sock;
        if (sock < 0 || connect(sock, (const struct sockaddr *)&address,
                                (socklen_t)(sizeof address.sun_family + name_bytes)) != 0) {
            return coll_fail(reterr, COLL_ERR_IO, "a stranger cannot connect");
        }
        if (d->manner == WRONG_HELLO || d->manner == SHORT_HELLO) {
            (void)!send(sock, hello, d->manner == SHORT_HELLO ? 3 : sizeof hello, MSG_NOSIGNAL);
        }
        if (d->manner == GONE) {
            (void)close(sock);
            d->strangers[i] = -1;
        }
    }
    return d->options->exchange(d->options->exchange_user, mine, all, size_bytes, deadline_ns,
                                reterr);
}

/* While rank 0 waits for rank 1, a stranger comes, says nothing, and goes, many times. */
static coll_status knock_again(void *user, const void *mine, void *all, size_t size_bytes,
                               int64_t deadline_ns, coll_error *reterr)
{
    const door *d = user;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    uint32_t name_bytes = 0;
    const coll_status status =
        d->options->exchange(d->options->exchange_user, mine, all, size_bytes, deadline_ns, reterr);
    memcpy(address.sun_path, (const uint8_t *)all + NAME_AT, 16);
    memcpy(&name_bytes, (const uint8_t *)all + NAME_BYTES_AT, sizeof name_bytes);
    for (int i = 0; status == COLL_OK && d->options->rank == 1 && i < TIMES; i++) {
        const int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        const int connected = connect(sock, (const struct sockaddr *)&address,
                                      (socklen_t)(sizeof address.sun_family + name_bytes));
        (void)close(sock);
        if (connected != 0) {
            return coll_fail(reterr, COLL_ERR_IO, "stranger %d cannot connect", i);
        }
    }
    return status;
}

static void connecting_body(test_rank *rank)
{
    coll_context context;
    coll_identity identities[2];
    const coll_context_options options = test_rank_options(rank);
    door d = {.options = &options, .manner = *(const manner *)rank->user};
    coll_context_options guarded = options;
    guarded.exchange = d.manner == AGAIN ? knock_again : knock_first;
    guarded.exchange_user = &d;
    memset(d.strangers, -1, sizeof d.strangers);
    open_context(&context, identities, rank);
    const coll_status status = coll_fdpass_open(
        &context, &guarded, base_deadline_after_ns(5 * BASE_NS_PER_S), COLL_OK, &rank->error);
    const bool met = context.socks[1 - rank->rank] >= 0;
    const char byte = (char)rank->rank;
    char other = -1;
    if (met) {
        (void)!send(context.socks[1 - rank->rank], &byte, 1, MSG_NOSIGNAL);
        (void)!recv(context.socks[1 - rank->rank], &other, 1, 0);
    }
    coll_fdpass_close(&context);
    for (int i = 0; i < STRANGERS; i++) {
        if (d.strangers[i] >= 0) {
            (void)close(d.strangers[i]);
        }
    }
    RANK_OK(rank, status);
    RANK_CHECK(rank, met && other == 1 - rank->rank);
}

static void strangers_keep_nobody_from_connecting(void **state)
{
    (void)state;
    for (manner how = SILENT; how < MANNERS; how++) {
        test_ranks_as_threads(&(test_ranks_options){.size = 2, .bare = true, .user = &how},
                              connecting_body);
    }
}

/* A listener that accepts nobody, and whose backlog is full. */
typedef struct full_door {
    int listener;
    int sock; /* the one in the backlog */
    struct sockaddr_un address;
    uint32_t name_bytes;
} full_door;

static void open_full_door(full_door *d)
{
    socklen_t length = sizeof d->address;
    d->address = (struct sockaddr_un){.sun_family = AF_UNIX};
    d->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    d->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr *address = (struct sockaddr *)&d->address;
    assert_int_equal(bind(d->listener, address, sizeof d->address.sun_family), 0);
    assert_int_equal(listen(d->listener, 0), 0);
    assert_int_equal(getsockname(d->listener, address, &length), 0);
    d->name_bytes = (uint32_t)(length - sizeof d->address.sun_family);
    assert_int_equal(connect(d->sock, address, length), 0);
}

/* As rank 0's record has it. */
static coll_status show_full_door(void *user, const void *mine, void *all, size_t size_bytes,
                                  int64_t deadline_ns, coll_error *reterr)
{
    const full_door *d = user;
    (void)mine;
    (void)deadline_ns;
    (void)reterr;
    memset(all, 0, 2 * size_bytes);
    memcpy((uint8_t *)all + NAME_AT, d->address.sun_path, d->name_bytes);
    memcpy((uint8_t *)all + NAME_BYTES_AT, &d->name_bytes, sizeof d->name_bytes);
    return COLL_OK;
}

static coll_status connect_to_full_door(full_door *d, int abort_state, int64_t deadline_ns,
                                        coll_error *error)
{
    coll_context context;
    coll_identity identities[2];
    const test_rank rank = {.rank = 1, .size = 2};
    const coll_context_options options = {.exchange = show_full_door, .exchange_user = d};
    open_context(&context, identities, &rank);
    (void)snprintf(context.abort_reason, sizeof context.abort_reason, "enough");
    atomic_store(&context.abort_state, abort_state);
    const coll_status status = coll_fdpass_open(&context, &options, deadline_ns, COLL_OK, error);
    coll_fdpass_close(&context);
    return status;
}

static void do_nothing(int number)
{
    (void)number;
}

/* Signals interrupt the wait, and do not end it. */
static void a_full_backlog_is_waited_for_until_the_deadline(void **state)
{
    const struct sigaction ignore = {.sa_handler = do_nothing};
    const struct itimerval often = {.it_interval = {.tv_usec = 5000},
                                    .it_value = {.tv_usec = 5000}};
    const struct itimerval never = {.it_value = {.tv_usec = 0}};
    coll_error error = {.message = ""};
    full_door d;
    (void)state;
    open_full_door(&d);
    assert_int_equal(sigaction(SIGALRM, &ignore, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    const int64_t deadline_ns = base_deadline_after_ns(100 * BASE_NS_PER_MS);
    assert_status(connect_to_full_door(&d, 0, deadline_ns, &error), COLL_ERR_TIMEOUT);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_true(base_now_ns() >= deadline_ns);
    assert_non_null(strstr(error.message, "cannot connect to rank 0"));
    assert_status(connect_to_full_door(&d, 2, base_deadline_after_ns(BASE_NS_PER_S * 3600), &error),
                  COLL_ERR_ABORTED);
    (void)close(d.sock);
    (void)close(d.listener);
}

/* ---- handing over ---- */

typedef struct pair {
    coll_context contexts[2];
    coll_identity identities[2];
} pair;

static void open_pair(pair *p)
{
    int ends[2];
    memset(p, 0, sizeof *p);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    (void)snprintf(p->identities[0].host, sizeof p->identities[0].host, "here");
    (void)snprintf(p->identities[1].host, sizeof p->identities[1].host, "there");
    for (int rank = 0; rank < 2; rank++) {
        coll_context *context = &p->contexts[rank];
        context->rank = rank;
        context->size = 2;
        context->identities = p->identities;
        for (int r = 0; r < COLL_RANKS_MAX; r++) {
            context->socks[r] = r == 1 - rank ? ends[rank] : -1;
        }
    }
}

static void close_pair(pair *p)
{
    coll_fdpass_close(&p->contexts[0]);
    coll_fdpass_close(&p->contexts[1]);
}

static const coll_fdpass_label agreed = {.tag = TAG, .size_bytes = BYTES};

static coll_status take(pair *p, int64_t deadline_ns, int *fd, coll_error *error)
{
    return coll_fdpass_receive(&p->contexts[0], 1, &agreed, deadline_ns, fd, error);
}

static void what_is_agreed_on_arrives(void **state)
{
    pair p;
    coll_error error;
    int pipes[2];
    int fd = -1;
    char byte = 0;
    (void)state;
    open_pair(&p);
    assert_int_equal(pipe(pipes), 0);
    assert_ok(coll_fdpass_send(&p.contexts[1], 0, pipes[1], &agreed, &error), &error);
    assert_ok(take(&p, base_deadline_after_ns(BASE_NS_PER_S), &fd, &error), &error);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(write(fd, "x", 1), 1);
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    (void)close(fd);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
    close_pair(&p);
}

static void another_label_is_a_mismatch(void **state)
{
    static const coll_fdpass_label labels[] = {{.tag = TAG + 1, .size_bytes = BYTES},
                                               {.tag = TAG, .size_bytes = BYTES + 1},
                                               {.tag = TAG, .size_bytes = BYTES, .arena = 1}};
    pair p;
    coll_error error = {.message = ""};
    (void)state;
    open_pair(&p);
    const int before = test_open_descriptors();
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        int fd = 0;
        assert_ok(coll_fdpass_send(&p.contexts[1], 0, STDIN_FILENO, &labels[i], &error), &error);
        assert_status(take(&p, base_deadline_after_ns(BASE_NS_PER_S), &fd, &error),
                      COLL_ERR_MISMATCH);
        assert_int_equal(fd, -1);
        assert_non_null(strstr(error.message, "rank 1 (host there"));
    }
    assert_int_equal(test_open_descriptors(), before);
    close_pair(&p);
}

/* A message with so many descriptors and bytes. */
static void say(const pair *p, int count, const coll_fdpass_label *label, size_t size_bytes)
{
    int fds[8] = {0};
    struct iovec body = {.iov_base = (void *)(uintptr_t)label, .iov_len = size_bytes};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof fds)];
    } control;
    memset(&control, 0, sizeof control);
    struct msghdr message = {.msg_iov = &body, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
        memcpy(CMSG_DATA(head), fds, sizeof(int) * (size_t)count);
    }
    assert_int_equal(sendmsg(p->contexts[1].socks[0], &message, 0), (ssize_t)size_bytes);
}

/* One is wanted: none of any others stays open, however many came. */
static void more_or_fewer_are_not_kept(void **state)
{
    static const struct {
        int count;
        size_t size_bytes;
        coll_status status;
    } cases[] = {{1, sizeof agreed, COLL_OK},
                 {2, sizeof agreed, COLL_OK},
                 {4, sizeof agreed, COLL_OK},
                 {8, sizeof agreed, COLL_OK},
                 {0, sizeof agreed, COLL_ERR_PEER},
                 {1, sizeof agreed - 1, COLL_ERR_PEER},
                 {4, 1, COLL_ERR_PEER}};
    coll_error error = {.message = ""};
    pair p;
    (void)state;
    open_pair(&p);
    const int before = test_open_descriptors();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int fd = -1;
        say(&p, cases[i].count, &agreed, cases[i].size_bytes);
        assert_status(take(&p, base_deadline_after_ns(BASE_NS_PER_S), &fd, &error),
                      cases[i].status);
        assert_int_equal(fd >= 0, cases[i].status == COLL_OK);
        if (fd >= 0) {
            (void)close(fd);
        }
        assert_int_equal(test_open_descriptors(), before);
    }
    close_pair(&p);
}

/* A rank that has none says why, in any bytes; with one all the same it makes no sense. */
static void why_there_is_none_arrives(void **state)
{
    coll_fdpass_label label = {.tag = TAG, .size_bytes = BYTES, .lack = "no memory\n"};
    coll_error error = {.message = ""};
    pair p;
    int fd = 0;
    (void)state;
    open_pair(&p);
    const int before = test_open_descriptors();
    const int64_t deadline_ns = base_deadline_after_ns(5 * BASE_NS_PER_S);
    assert_ok(coll_fdpass_send(&p.contexts[1], 0, -1, &label, &error), &error);
    assert_status(take(&p, deadline_ns, &fd, &error), COLL_ERR_PEER);
    assert_string_equal(error.message, "rank 1 (host there, pid 0) failed: no memory?");
    say(&p, 1, &label, sizeof label);
    assert_status(take(&p, deadline_ns, &fd, &error), COLL_ERR_PEER);
    memset(label.lack, 'x', sizeof label.lack);
    say(&p, 0, &label, sizeof label);
    assert_status(take(&p, deadline_ns, &fd, &error), COLL_ERR_PEER);
    assert_non_null(strstr(error.message, "failed: xxx"));
    label.tag = TAG + 1;
    assert_ok(coll_fdpass_send(&p.contexts[1], 0, -1, &label, &error), &error);
    assert_status(take(&p, deadline_ns, &fd, &error), COLL_ERR_MISMATCH);
    assert_int_equal(fd, -1);
    assert_int_equal(test_open_descriptors(), before);
    close_pair(&p);
}

/* At the limit of open files the kernel drops the descriptor, and delivers the rest. */
static void a_lack_of_descriptors_is_named(void **state)
{
    struct rlimit limit;
    pair p;
    coll_error error = {.message = ""};
    int fd = 0;
    (void)state;
    open_pair(&p);
    assert_ok(coll_fdpass_send(&p.contexts[1], 0, STDIN_FILENO, &agreed, &error), &error);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const int lowest_free = dup(STDIN_FILENO);
    (void)close(lowest_free);
    const struct rlimit used_up = {.rlim_cur = (rlim_t)lowest_free, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &used_up), 0);
    const coll_status status = take(&p, base_deadline_after_ns(BASE_NS_PER_S), &fd, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_status(status, COLL_ERR_IO);
    assert_int_equal(fd, -1);
    assert_non_null(strstr(error.message, "memory of rank 1 (host there"));
    assert_non_null(strstr(error.message, "ulimit -n"));
    close_pair(&p);
}

/* The kernel tells first that a rank has ended without having read all, and then what it has sent. */
static void what_was_sent_before_the_end_arrives(void **state)
{
    pair p;
    coll_error error = {.message = ""};
    int fd = -1;
    (void)state;
    open_pair(&p);
    assert_ok(coll_fdpass_send(&p.contexts[0], 1, STDIN_FILENO, &agreed, &error), &error);
    assert_ok(coll_fdpass_send(&p.contexts[1], 0, STDIN_FILENO, &agreed, &error), &error);
    coll_fdpass_close(&p.contexts[1]);
    assert_ok(take(&p, base_deadline_after_ns(BASE_NS_PER_S), &fd, &error), &error);
    (void)close(fd);
    assert_status(take(&p, base_deadline_after_ns(BASE_NS_PER_S), &fd, &error), COLL_ERR_PEER);
    close_pair(&p);
}

static void an_absent_rank_is_named(void **state)
{
    pair p;
    coll_error error = {.message = ""};
    int fd = 0;
    (void)state;
    open_pair(&p);
    assert_status(take(&p, base_now_ns(), &fd, &error), COLL_ERR_TIMEOUT);
    assert_non_null(strstr(error.message, "waiting for memory of rank 1 (host there"));
    coll_fdpass_close(&p.contexts[1]);
    assert_status(take(&p, base_deadline_after_ns(BASE_NS_PER_S), &fd, &error), COLL_ERR_PEER);
    assert_non_null(strstr(error.message, "rank 1 (host there, pid 0) is gone"));
    assert_status(coll_fdpass_send(&p.contexts[0], 1, STDIN_FILENO, &agreed, &error),
                  COLL_ERR_PEER);
    assert_non_null(strstr(error.message, "cannot hand memory to rank 1 (host there"));
    close_pair(&p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_keep_nobody_from_connecting),
        cmocka_unit_test(a_full_backlog_is_waited_for_until_the_deadline),
        cmocka_unit_test(what_is_agreed_on_arrives),
        cmocka_unit_test(another_label_is_a_mismatch),
        cmocka_unit_test(more_or_fewer_are_not_kept),
        cmocka_unit_test(why_there_is_none_arrives),
        cmocka_unit_test(a_lack_of_descriptors_is_named),
        cmocka_unit_test(what_was_sent_before_the_end_arrives),
        cmocka_unit_test(an_absent_rank_is_named),
    };
    return cmocka_run_group_tests_name("coll-fdpass", tests, NULL, NULL);
}
