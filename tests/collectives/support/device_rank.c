/* Runs tests of operations on streams. Used by the tests of libcoll's part, and of NCCL's. */
#include "device_rank.h"

#include <stdlib.h>
#include <string.h>

static void run_rank(test_rank *rank)
{
    device_case *c = rank->user;
    device_rank *mine = calloc(1, sizeof *mine);
    RANK_CHECK(rank, mine != NULL);
    mine->rank = rank;
    mine->job = c;
    mine->device = &c->devices[rank->rank];
    mine->stream = fake_stream_create();
    coll_context_options options = test_rank_options(rank);
    options.backend = &fake_backend;
    options.backend_user = mine->device;
    if (c->prepare != NULL) {
        c->prepare(mine, &options);
    }
    const coll_status status = coll_context_create(&options, &mine->context, &rank->error);
    if (status == COLL_OK) {
        mine->comm = coll_context_world(mine->context);
        c->body(mine);
        coll_context_destroy(mine->context);
    } else {
        test_rank_fail(rank, "no context: %s", rank->error.message);
    }
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

bool device_says(const device_rank *rank, const char *words)
{
    return strstr(rank->rank->error.message, words) != NULL;
}

float device_value(int rank, size_t i)
{
    return (float)(rank + 1) * 0.1f + (float)i * (rank % 2 == 0 ? 1e6f : 1e-3f);
}

void device_fill(device_rank *rank)
{
    for (size_t i = 0; i < DEVICE_FLOATS; i++) {
        rank->send[i] = device_value(rank->rank->rank, i);
        rank->recv[i] = -1;
    }
}

coll_op_desc device_all_reduce(device_rank *rank, size_t count)
{
    device_fill(rank);
    return (coll_op_desc){.size = sizeof(coll_op_desc),
                          .kind = COLL_ALL_REDUCE,
                          .send = rank->send,
                          .recv = rank->recv,
                          .count = count,
                          .type = COLL_FLOAT32,
                          .reduce = COLL_SUM,
                          .stream = rank->stream};
}

bool device_is_sum(const device_rank *rank, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float parts[DEVICE_RANKS_MAX] = {0};
        for (int r = 0; r < rank->rank->size; r++) {
            parts[r] = device_value(r, i);
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

void device_graph_body(device_rank *r)
{
    test_rank *rank = r->rank;
    const coll_op_desc desc = device_all_reduce(r, 103);
    coll_op *op = NULL;
    RANK_OK(rank, coll_op_create(r->comm, &desc, &op, &rank->error));
    fake_capture_begin(r->stream);
    const coll_status status = coll_op_start(op, &rank->error);
    fake_graph *graph = fake_capture_end(r->stream);
    RANK_OK(rank, status);
    RANK_CHECK(rank, coll_op_wait(op, &rank->error) == COLL_ERR_STATE);
    RANK_CHECK(rank, device_says(r, "in a graph"));
    RANK_CHECK(rank, r->recv[0] == -1);
    for (int i = 0; i < 5; i++) {
        fake_graph_launch(graph, r->stream);
    }
    RANK_OK(rank, coll_device_wait(r->comm, r->stream, &rank->error));
    RANK_CHECK(rank, device_is_sum(r, desc.count));
    uint64_t started = 0;
    uint64_t finished = 0;
    coll_device_progress(r->comm, &started, &finished);
    RANK_CHECK(rank, started == 5 && finished == 5);
    fake_graph_destroy(graph);
    coll_op_destroy(op);
}
