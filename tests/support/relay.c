/* A TCP relay in a thread. With it a test can see, change and delay bytes. Used by test_tcp.c. */
#include "relay.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "support.h"

enum { READ_BYTES = 65536, WAIT_MS = 1000 };

/* Bytes that are not sent yet. */
typedef struct chunk {
    struct chunk *next;
    int64_t due_ns;
    size_t size_bytes;
    size_t sent_bytes;
    uint8_t bytes[];
} chunk;

struct test_relay {
    pthread_t thread;
    struct sockaddr_in to;
    int64_t delay_ns;
    test_relay_tap tap;
    void *user;
    int listener;
    int stop_fd;
    int ends[2];
    chunk *first[2]; /* by the side they come from */
    chunk **last[2];
    bool ended[2];  /* the side sends nothing more, */
    bool passed[2]; /* and the other side knows it */
    bool cut;
    atomic_bool stopping;
};

void test_relay_emit(test_relay *relay, int side, const void *bytes, size_t size_bytes)
{
    if (relay->cut) {
        return;
    }
    chunk *made = malloc(sizeof *made + size_bytes);
    if (made == NULL) {
        abort();
    }
    *made = (chunk){.due_ns = base_now_ns() + relay->delay_ns, .size_bytes = size_bytes};
    memcpy(made->bytes, bytes, size_bytes);
    *relay->last[side] = made;
    relay->last[side] = &made->next;
}

void test_relay_cut(test_relay *relay)
{
    relay->cut = true;
}

static void drop_first(test_relay *relay, int side)
{
    chunk *gone = relay->first[side];
    relay->first[side] = gone->next;
    if (gone->next == NULL) {
        relay->last[side] = &relay->first[side];
    }
    free(gone);
}

/* Sends what is due. Drops everything if the other side has gone. */
static void forward(test_relay *relay, int side)
{
    while (relay->first[side] != NULL && relay->first[side]->due_ns <= base_now_ns()) {
        chunk *c = relay->first[side];
        const ssize_t sent = send(relay->ends[1 - side], c->bytes + c->sent_bytes,
                                  c->size_bytes - c->sent_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EAGAIN) {
            return;
        }
        if (sent < 0) {
            drop_first(relay, side);
            continue;
        }
        c->sent_bytes += (size_t)sent;
        if (c->sent_bytes < c->size_bytes) {
            return;
        }
        drop_first(relay, side);
    }
    if (relay->first[side] == NULL && relay->ended[side] && !relay->passed[side] && !relay->cut) {
        (void)shutdown(relay->ends[1 - side], SHUT_WR);
        relay->passed[side] = true;
    }
}

static void take(test_relay *relay, int side)
{
    static _Thread_local uint8_t bytes[READ_BYTES];
    if (relay->ended[side]) {
        return;
    }
    const ssize_t got = recv(relay->ends[side], bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0) {
        relay->ended[side] = got == 0 || errno != EAGAIN;
        return;
    }
    if (relay->cut) {
        return;
    }
    if (relay->tap != NULL) {
        relay->tap(relay, relay->user, side, bytes, (size_t)got);
    } else {
        test_relay_emit(relay, side, bytes, (size_t)got);
    }
}

static int wait_ms(const test_relay *relay)
{
    int64_t due_ns = base_now_ns() + WAIT_MS * BASE_NS_PER_MS;
    for (int side = 0; side < 2; side++) {
        if (relay->first[side] != NULL && relay->first[side]->due_ns < due_ns) {
            due_ns = relay->first[side]->due_ns;
        }
    }
    return base_deadline_poll_ms(due_ns, WAIT_MS);
}

static bool wants_out(const test_relay *relay, int side)
{
    const chunk *c = relay->first[1 - side];
    return c != NULL && c->due_ns <= base_now_ns();
}

static void *run(void *argument)
{
    test_relay *relay = argument;
    struct pollfd door[2] = {{.fd = relay->listener, .events = POLLIN},
                             {.fd = relay->stop_fd, .events = POLLIN}};
    (void)poll(door, 2, -1);
    relay->ends[0] = accept(relay->listener, NULL, NULL);
    relay->ends[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool open = relay->ends[0] >= 0 &&
                connect(relay->ends[1], (struct sockaddr *)&relay->to, sizeof relay->to) == 0;
    while (open && !atomic_load(&relay->stopping)) {
        struct pollfd items[3] = {{.fd = relay->stop_fd, .events = POLLIN}};
        for (int side = 0; side < 2; side++) {
            items[1 + side] =
                (struct pollfd){.fd = relay->ended[0] && relay->ended[1] ? -1 : relay->ends[side],
                                .events = (short)((relay->ended[side] ? 0 : POLLIN) |
                                                  (wants_out(relay, side) ? POLLOUT : 0))};
        }
        (void)poll(items, 3, wait_ms(relay));
        for (int side = 0; side < 2; side++) {
            take(relay, side);
            forward(relay, side);
        }
        open = relay->cut || !relay->passed[0] || !relay->passed[1];
    }
    for (int side = 0; side < 2; side++) {
        forward(relay, side);
        while (relay->first[side] != NULL) {
            drop_first(relay, side);
        }
    }
    for (int side = 0; side < 2; side++) {
        if (relay->ends[side] >= 0) {
            (void)close(relay->ends[side]);
        }
    }
    return NULL;
}

test_relay *test_relay_start(const struct sockaddr_in *to, struct sockaddr_in *at, int64_t delay_ns,
                             test_relay_tap tap, void *user)
{
    test_relay *relay = calloc(1, sizeof *relay);
    socklen_t at_bytes = sizeof *at;
    if (relay == NULL) {
        abort();
    }
    *relay = (test_relay){.to = *to,
                          .delay_ns = delay_ns,
                          .tap = tap,
                          .user = user,
                          .ends = {-1, -1},
                          .last = {&relay->first[0], &relay->first[1]}};
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    relay->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (relay->stop_fd < 0 || relay->listener < 0 ||
        bind(relay->listener, (struct sockaddr *)at, sizeof *at) != 0 ||
        listen(relay->listener, 1) != 0 ||
        getsockname(relay->listener, (struct sockaddr *)at, &at_bytes) != 0 ||
        pthread_create(&relay->thread, NULL, run, relay) != 0) {
        abort();
    }
    return relay;
}

void test_relay_stop(test_relay *relay)
{
    const uint64_t one = 1;
    atomic_store(&relay->stopping, true);
    (void)!write(relay->stop_fd, &one, sizeof one);
    (void)pthread_join(relay->thread, NULL);
    (void)close(relay->listener);
    (void)close(relay->stop_fd);
    free(relay);
}
