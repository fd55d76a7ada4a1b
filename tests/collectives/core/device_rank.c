/* Runs tests of operations on streams. Used by test_device.c and test_device_faults.c. */
#include "device_rank.h"

#include <stdlib.h>

static void run_rank(test_rank *rank)
{
    device_case *c = rank->user;
    device_rank *mine = calloc(1, sizeof *mine);
    RANK_CHECK(rank, mine != NULL);
    mine->rank = rank;
    mine->device = &c->devices[rank->rank];
    coll_context_options options = test_rank_options(rank);
    options.backend = &fake_backend;
    options.backend_user = mine->device;
    const coll_status status = coll_context_create(&options, &mine->context, &rank->error);
    if (status != COLL_OK) {
        test_rank_fail(rank, "no context: %s", rank->error.message);
        free(mine);
        return;
    }
    mine->comm = coll_context_world(mine->context);
    mine->stream = fake_stream_create(mine->device);
    c->body(mine);
    coll_context_destroy(mine->context);
    fake_device_let_go(mine->device);
    fake_stream_destroy(mine->stream);
    free(mine);
}

void device_case_run(device_case *c)
{
    for (int rank = 0; rank < c->ranks; rank++) {
        fake_device_init(&c->devices[rank]);
    }
    test_ranks_as_threads(&(test_ranks_options){.size = c->ranks,
                                                .transport = c->transport,
                                                .algorithm = c->algorithm,
                                                .timeout_ns = c->timeout_ns,
                                                .user = c,
                                                .bare = true},
                          run_rank);
    for (int rank = 0; rank < c->ranks; rank++) {
        fake_device_fini(&c->devices[rank]);
    }
}

/* Values whose sum depends on the order. */
static float value_of(int rank, int i)
{
    return (float)(rank + 1) * 0.1f + (float)i * (rank % 2 == 0 ? 1e6f : 1e-3f);
}

coll_op_desc device_all_reduce(device_rank *rank)
{
    for (int i = 0; i < DEVICE_COUNT; i++) {
        rank->send[i] = value_of(rank->rank->rank, i);
        rank->recv[i] = -1;
    }
    return (coll_op_desc){.size = sizeof(coll_op_desc),
                          .kind = COLL_ALL_REDUCE,
                          .send = rank->send,
                          .recv = rank->recv,
                          .count = DEVICE_COUNT,
                          .type = COLL_FLOAT32,
                          .reduce = COLL_SUM,
                          .stream = rank->stream};
}

bool device_is_sum(const device_rank *rank)
{
    for (int i = 0; i < DEVICE_COUNT; i++) {
        float parts[DEVICE_RANKS_MAX] = {0};
        for (int r = 0; r < rank->rank->size; r++) {
            parts[r] = value_of(r, i);
        }
        for (int step = 1; step < rank->rank->size; step *= 2) {
            for (int r = 0; r + step < rank->rank->size; r += 2 * step) {
                parts[r] += parts[r + step];
            }
        }
        if (rank->recv[i] != parts[0]) {
            return false;
        }
    }
    return true;
}
