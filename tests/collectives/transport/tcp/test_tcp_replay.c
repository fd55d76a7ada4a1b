/* Somebody listens in on ranks that meet over tcp, and says what they have said. Ranks are threads. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "meeting.h"
#include "support.h"

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
    int strangers[MEETING_STRANGERS];
    const int socks[2] = {accept(l->listener, NULL, NULL), meeting_connected_to(&l->to)};
    (void)meeting_receive(socks[0], opening, sizeof opening);
    (void)!send(socks[1], opening, sizeof opening, MSG_NOSIGNAL);
    (void)meeting_receive(socks[1], answer, sizeof answer);
    for (int i = 0; i < MEETING_STRANGERS; i++) {
        uint8_t byte = 0;
        strangers[i] = meeting_connected_to(&l->to);
        (void)!send(strangers[i], opening, sizeof opening, MSG_NOSIGNAL);
        l->answered += meeting_receive(strangers[i], &byte, 1) == 0 ? 0 : 1;
    }
    (void)!send(socks[0], answer, sizeof answer, MSG_NOSIGNAL);
    pass_on(socks);
    for (int i = 0; i < MEETING_STRANGERS; i++) {
        (void)close(strangers[i]);
    }
    (void)close(socks[0]);
    (void)close(socks[1]);
    return NULL;
}

static coll_status listen_in(meeting *g, coll_tcp_record *all, coll_error *reterr)
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
    meeting g = {.meddle = listen_in};
    listening_in l = {.answered = 0};
    rank->user = &l;
    const coll_status status = meeting_create(rank, &g);
    if (status == COLL_OK) {
        meeting_check(rank);
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
    meeting_run(2, overheard_body, NULL);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_replays_a_hello_breaks_no_connection),
    };
    return cmocka_run_group_tests_name("coll-tcp-replay", tests, NULL, NULL);
}
