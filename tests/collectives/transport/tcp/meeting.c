/* Ranks as threads that meet over tcp, with something between them; meeting.h says what. */
#include "meeting.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/rendezvous.h"

static coll_status exchange(void *user, const void *mine, void *all, size_t size_bytes,
                            int64_t deadline_ns, coll_error *reterr)
{
    meeting *g = user;
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

coll_status meeting_create(test_rank *rank, meeting *g)
{
    g->options = test_rank_options(rank);
    g->user = rank->user;
    memset(g->strangers, -1, sizeof g->strangers);
    coll_context_options options = g->options;
    options.exchange = exchange;
    options.exchange_user = g;
    const coll_status status = coll_context_create(&options, &rank->context, &rank->error);
    for (int i = 0; i < MEETING_STRANGERS; i++) {
        if (g->strangers[i] >= 0) {
            (void)close(g->strangers[i]);
        }
    }
    return status;
}

void meeting_check(test_rank *rank)
{
    int32_t sum = 1;
    RANK_OK(rank, coll_all_reduce(coll_context_world(rank->context), &sum, &sum, 1, COLL_INT32,
                                  COLL_SUM, &rank->error));
    RANK_CHECK(rank, sum == rank->size);
    coll_context_destroy(rank->context);
    rank->context = NULL;
}

void meeting_run_for(int64_t timeout_ns, int size, test_rank_body body, void *user)
{
    const test_ranks_options options = {.size = size,
                                        .transport = COLL_TRANSPORT_TCP,
                                        .timeout_ns = timeout_ns,
                                        .user = user,
                                        .bare = true};
    test_ranks_as_threads(&options, body);
}

void meeting_run(int size, test_rank_body body, void *user)
{
    meeting_run_for(0, size, body, user);
}

void meeting_opening(const coll_context_options *options, const coll_tcp_record *all,
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

int meeting_connected_to(const struct sockaddr_in *to)
{
    const int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock >= 0 && connect(sock, (const struct sockaddr *)to, sizeof *to) == 0) {
        return sock;
    }
    (void)close(sock);
    return -1;
}

size_t meeting_receive(int sock, uint8_t *bytes, size_t size)
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
