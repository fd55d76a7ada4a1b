/* Ranks that meet over ZeroMQ in the order that is hardest: who listens cannot send until it has
 * received the other's hello. */
#include <errno.h>
#include <stdbool.h>
#include <zmq.h>

#include "base/clock.h"
#include "ranks.h"
#include "support.h"

enum { FRAME_HEAD_BYTES = 64 };

/* Of the thread that is rank 0: sending to a peer fails until a hello has come. */
static _Thread_local bool holding;

int __real_zmq_send(void *socket, const void *data, size_t size_bytes, int flags);
int __wrap_zmq_send(void *socket, const void *data, size_t size_bytes, int flags);
int __real_zmq_recv(void *socket, void *data, size_t size_bytes, int flags);
int __wrap_zmq_recv(void *socket, void *data, size_t size_bytes, int flags);

int __wrap_zmq_send(void *socket, const void *data, size_t size_bytes, int flags)
{
    if (holding && size_bytes == FRAME_HEAD_BYTES) {
        errno = EAGAIN;
        return -1;
    }
    return __real_zmq_send(socket, data, size_bytes, flags);
}

int __wrap_zmq_recv(void *socket, void *data, size_t size_bytes, int flags)
{
    const int got = __real_zmq_recv(socket, data, size_bytes, flags);
    holding = holding && got != FRAME_HEAD_BYTES;
    return got;
}

static void meet(test_rank *rank)
{
    const coll_context_options options = test_rank_options(rank);
    holding = rank->rank == 0;
    RANK_OK(rank, coll_context_create(&options, &rank->context, &rank->error));
    RANK_OK(rank, coll_barrier(coll_context_world(rank->context), &rank->error));
    coll_context_destroy(rank->context);
    rank->context = NULL;
}

static void a_hello_that_comes_first_is_answered(void **state)
{
    (void)state;
    for (int size = 2; size <= 3; size++) {
        test_ranks_as_threads(&(test_ranks_options){.size = size,
                                                    .transport = COLL_TRANSPORT_ZMQ,
                                                    .timeout_ns = 5 * BASE_NS_PER_S,
                                                    .bare = true},
                              meet);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hello_that_comes_first_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
