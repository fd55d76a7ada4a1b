/* Ours. Places: "heap", and "arena". */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "coll/coll.h"
#include "peer.h"
#include "peer_shared.h"

static struct {
    coll_context *context;
    coll_comm *comm;
} ours;

static void check(coll_status status, const coll_error *error)
{
    if (status != COLL_OK) {
        peer_die("%s", error->message);
    }
}

static coll_status exchange(void *user, const void *mine, void *all, size_t size_bytes,
                            int64_t deadline_ns, coll_error *reterr)
{
    (void)user;
    (void)deadline_ns;
    (void)reterr;
    peer_exchange(mine, all, size_bytes);
    return COLL_OK;
}

static const char *variants(peer_kind kind)
{
    (void)kind;
    return "default";
}

static void open_ours(peer_options *options)
{
    coll_error error = {.status = COLL_OK};
    coll_context_options context_options = {.size = sizeof(coll_context_options),
                                            .rank = options->rank,
                                            .world_size = options->size,
                                            .exchange = exchange,
                                            .interface = options->address,
                                            .timeout_ns = 60 * BASE_NS_PER_S};
    check(coll_transport_parse(options->transport, &context_options.transport, &error), &error);
    check(coll_algorithm_parse(options->algorithm, &context_options.algorithm, &error), &error);
    check(coll_tcp_auth_parse(options->tcp_auth, &context_options.tcp_auth, &error), &error);
    /* As `launcher` and coll-bench do: what threads a transport has stay with their rank. */
    (void)bench_bind(options->rank, options->size);
    check(coll_context_create(&context_options, &ours.context, &error), &error);
    ours.comm = coll_context_world(ours.context);
}

static void close_ours(void)
{
    coll_context_destroy(ours.context); /* and arenas with the process */
}

static void *allocate(const char *place, size_t size_bytes)
{
    coll_error error = {.status = COLL_OK};
    coll_arena *arena = NULL;
    if (strcmp(place, "arena") != 0) {
        return aligned_alloc(4096, (size_bytes + 4095) / 4096 * 4096);
    }
    check(coll_arena_create(ours.comm, size_bytes, &arena, &error), &error);
    return coll_arena_data(arena);
}

static void run(const peer_task *task, int root)
{
    static const coll_kind kinds[PEER_KINDS] = {
        COLL_ALL_REDUCE, COLL_ALL_GATHER, COLL_REDUCE_SCATTER, COLL_BROADCAST,
        COLL_ALL_TO_ALL, COLL_SCAN,       COLL_EXSCAN};
    coll_error error;
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = kinds[task->kind],
                               .send = task->kind == PEER_BROADCAST ? task->recv : task->send,
                               .recv = task->recv,
                               .count = task->count,
                               .type = COLL_FLOAT32,
                               .reduce = COLL_SUM,
                               .root = root};
    const coll_status status = coll_run(ours.comm, &desc, &error);
    if (status != COLL_OK) {
        peer_die("%s", error.message);
    }
}

int main(int argc, char **argv)
{
    static const peer_library library = {.name = "ringfence",
                                         .variants = variants,
                                         .open = open_ours,
                                         .close = close_ours,
                                         .allocate = allocate,
                                         .run = run};
    return peer_main(argc, argv, &library);
}
