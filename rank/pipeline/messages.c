/* Messages between stages. Called by run.c, norm.c and params.c. */
#include "base/clock.h"
#include "pipeline/parts.h"
#include "ringfence/coll_error.h"

static coll_op_desc describe(coll_kind kind, int peer, size_t count)
{
    return (coll_op_desc){.size = sizeof(coll_op_desc),
                          .kind = kind,
                          .count = count,
                          .type = COLL_FLOAT32,
                          .root = peer};
}

base_status pipeline_start(coll_comm *comm, int peer, const float *values, size_t count,
                           coll_op **sent, base_error *reterr)
{
    coll_op_desc desc = describe(COLL_SEND, peer, count);
    desc.send = values;
    if (count == 0) {
        return BASE_OK;
    }
    coll_status status = coll_op_create(comm, &desc, sent, coll_error_of(reterr));
    if (status == COLL_OK) {
        status = coll_op_start(*sent, coll_error_of(reterr));
    }
    return (base_status)status;
}

base_status pipeline_wait(coll_op **sent, base_error *reterr)
{
    if (*sent == NULL) {
        return BASE_OK;
    }
    const coll_status status = coll_op_wait(*sent, coll_error_of(reterr));
    coll_op_destroy(*sent);
    *sent = NULL;
    return (base_status)status;
}

static bool is_under_way(coll_op *sent)
{
    bool done = true; /* also after an error, which the next wait reports */
    return sent != NULL && coll_op_test(sent, &done, NULL) == COLL_OK && !done;
}

void pipeline_progress(const rank_pipeline *pipeline, coll_op *sent)
{
    enum { PATIENCE_NS = 50000 };
    int64_t moved_ns = base_now_ns();
    uint64_t bytes = coll_context_bytes_sent(pipeline->context);
    coll_status status = coll_context_progress(pipeline->context, NULL);
    while (status == COLL_OK && is_under_way(sent) && base_now_ns() - moved_ns < PATIENCE_NS) {
        const uint64_t now_bytes = coll_context_bytes_sent(pipeline->context);
        moved_ns = now_bytes != bytes ? base_now_ns() : moved_ns;
        bytes = now_bytes;
    }
}

base_status pipeline_send(coll_comm *comm, int peer, const float *values, size_t count,
                          base_error *reterr)
{
    coll_op *sent = NULL;
    const base_status status = pipeline_start(comm, peer, values, count, &sent, reterr);
    if (status != BASE_OK) {
        coll_op_destroy(sent);
        return status;
    }
    return pipeline_wait(&sent, reterr);
}

base_status pipeline_receive(coll_comm *comm, int peer, float *values, size_t count,
                             base_error *reterr)
{
    coll_op_desc desc = describe(COLL_RECEIVE, peer, count);
    desc.recv = values;
    if (count == 0) {
        return BASE_OK;
    }
    return (base_status)coll_run(comm, &desc, coll_error_of(reterr));
}
