/* The calls of coll.h for one operation each: coll_all_reduce and so on, which block, and those
 * that give a request. Called by programs; made of coll_op. */
#include "base/clock.h"
#include "core/op.h"
#include "core/wait.h"
#include "ringfence/coll_error.h"

/* A request is an operation of its own. */
static coll_op *op_of(coll_request *request)
{
    return (coll_op *)(void *)request;
}

static coll_status refuse_null(coll_error *reterr)
{
    return coll_fail(reterr, COLL_ERR_INVALID, "the address of a request is NULL");
}

coll_status coll_start(coll_comm *comm, const coll_op_desc *desc, coll_request **request,
                       coll_error *reterr)
{
    coll_op *op = NULL;
    if (request == NULL) {
        return refuse_null(reterr);
    }
    coll_status status = coll_op_create(comm, desc, &op, reterr);
    if (status == COLL_OK) {
        status = coll_op_start(op, reterr);
    }
    if (status != COLL_OK) {
        coll_op_destroy(op);
        return status;
    }
    *request = (coll_request *)(void *)op;
    return COLL_OK;
}

static void release(coll_request **request)
{
    coll_op_destroy(op_of(*request));
    *request = NULL;
}

coll_status coll_request_test(coll_request **request, bool *done, coll_error *reterr)
{
    if (request == NULL) {
        return refuse_null(reterr);
    }
    if (*request == NULL) {
        *done = true;
        return COLL_OK;
    }
    const coll_status status = coll_op_test(op_of(*request), done, reterr);
    if (*done || status != COLL_OK) {
        release(request);
    }
    return status;
}

coll_status coll_request_wait(coll_request **request, coll_error *reterr)
{
    if (request == NULL) {
        return refuse_null(reterr);
    }
    if (*request == NULL) {
        return COLL_OK;
    }
    const coll_status status = coll_op_wait(op_of(*request), reterr);
    release(request);
    return status;
}

coll_status coll_request_wait_all(coll_request **requests, size_t count, coll_error *reterr)
{
    coll_status first = COLL_OK;
    int64_t deadline_ns = 0; /* of the call; 0: nothing had to be waited for yet */
    if (requests == NULL && count > 0) {
        return refuse_null(reterr);
    }
    for (size_t i = 0; i < count; i++) {
        coll_op *op = op_of(requests[i]);
        if (op != NULL && op->comm != NULL && op->stage != COLL_STAGE_DONE) {
            if (deadline_ns == 0) {
                deadline_ns = base_deadline_after_ns(op->comm->context->timeout_ns);
            }
            op->deadline_ns = deadline_ns;
        }
        const coll_status status =
            coll_request_wait(&requests[i], first == COLL_OK ? reterr : NULL);
        first = first == COLL_OK ? status : first;
    }
    return first;
}

coll_status coll_request_wait_any(coll_request **requests, size_t count, size_t *index,
                                  coll_error *reterr)
{
    if (requests == NULL && count > 0) {
        return refuse_null(reterr);
    }
    for (size_t i = 0; i < count; i++) {
        if (requests[i] != NULL && op_of(requests[i])->device != NULL) {
            return coll_fail(reterr, COLL_ERR_UNSUPPORTED,
                             "an operation on a stream is waited for alone, or with all");
        }
    }
    *index = coll_wait_any(requests, count);
    return *index < count ? coll_request_wait(&requests[*index], reterr) : COLL_OK;
}

/* A blocking call: an operation of these members of its descriptor. */
#define RUN(...)                                                                                   \
    coll_run(comm, &(const coll_op_desc){.size = sizeof(coll_op_desc), __VA_ARGS__}, reterr)

coll_status coll_all_reduce(coll_comm *comm, const void *send, void *recv, size_t count,
                            coll_type type, coll_reduce_op reduce, coll_error *reterr)
{
    return RUN(.kind = COLL_ALL_REDUCE, .send = send, .recv = recv, .count = count, .type = type,
               .reduce = reduce);
}

coll_status coll_broadcast(coll_comm *comm, void *data, size_t count, coll_type type, int root,
                           coll_error *reterr)
{
    return RUN(.kind = COLL_BROADCAST, .send = data, .recv = data, .count = count, .type = type,
               .root = root);
}

coll_status coll_all_gather(coll_comm *comm, const void *send, void *recv, size_t count,
                            coll_type type, coll_error *reterr)
{
    return RUN(.kind = COLL_ALL_GATHER, .send = send, .recv = recv, .count = count, .type = type);
}

coll_status coll_barrier(coll_comm *comm, coll_error *reterr)
{
    return RUN(.kind = COLL_BARRIER);
}

coll_status coll_reduce_scatter(coll_comm *comm, const void *send, void *recv, size_t count,
                                coll_type type, coll_reduce_op reduce, coll_error *reterr)
{
    return RUN(.kind = COLL_REDUCE_SCATTER, .send = send, .recv = recv, .count = count,
               .type = type, .reduce = reduce);
}

coll_status coll_reduce(coll_comm *comm, const void *send, void *recv, size_t count, coll_type type,
                        coll_reduce_op reduce, int root, coll_error *reterr)
{
    return RUN(.kind = COLL_REDUCE, .send = send, .recv = recv, .count = count, .type = type,
               .reduce = reduce, .root = root);
}

coll_status coll_gather(coll_comm *comm, const void *send, void *recv, size_t count, coll_type type,
                        int root, coll_error *reterr)
{
    return RUN(.kind = COLL_GATHER, .send = send, .recv = recv, .count = count, .type = type,
               .root = root);
}

coll_status coll_scatter(coll_comm *comm, const void *send, void *recv, size_t count,
                         coll_type type, int root, coll_error *reterr)
{
    return RUN(.kind = COLL_SCATTER, .send = send, .recv = recv, .count = count, .type = type,
               .root = root);
}

coll_status coll_scan(coll_comm *comm, const void *send, void *recv, size_t count, coll_type type,
                      coll_reduce_op reduce, coll_error *reterr)
{
    return RUN(.kind = COLL_SCAN, .send = send, .recv = recv, .count = count, .type = type,
               .reduce = reduce);
}

coll_status coll_exscan(coll_comm *comm, const void *send, void *recv, size_t count, coll_type type,
                        coll_reduce_op reduce, coll_error *reterr)
{
    return RUN(.kind = COLL_EXSCAN, .send = send, .recv = recv, .count = count, .type = type,
               .reduce = reduce);
}

coll_status coll_all_to_all(coll_comm *comm, const void *send, void *recv, size_t count,
                            coll_type type, coll_error *reterr)
{
    return RUN(.kind = COLL_ALL_TO_ALL, .send = send, .recv = recv, .count = count, .type = type);
}

/* With NULL it would be the form without counts, of no elements. */
static coll_status check_counts(coll_kind kind, const char *name, const size_t *counts,
                                coll_error *reterr)
{
    return counts != NULL ? COLL_OK
                          : coll_fail(reterr, COLL_ERR_INVALID, "%s with counts has no %s",
                                      coll_kind_name(kind), name);
}

/* The same of a kind whose counts are one list. */
#define RUN_V(kind_, ...)                                                                          \
    check_counts(kind_, "counts", counts, reterr) != COLL_OK                                       \
        ? COLL_ERR_INVALID                                                                         \
        : RUN(.kind = kind_, .counts = counts, __VA_ARGS__)

coll_status coll_all_gather_v(coll_comm *comm, const void *send, void *recv, const size_t *counts,
                              coll_type type, coll_error *reterr)
{
    return RUN_V(COLL_ALL_GATHER, .send = send, .recv = recv, .type = type);
}

coll_status coll_reduce_scatter_v(coll_comm *comm, const void *send, void *recv,
                                  const size_t *counts, coll_type type, coll_reduce_op reduce,
                                  coll_error *reterr)
{
    return RUN_V(COLL_REDUCE_SCATTER, .send = send, .recv = recv, .type = type, .reduce = reduce);
}

coll_status coll_gather_v(coll_comm *comm, const void *send, void *recv, const size_t *counts,
                          coll_type type, int root, coll_error *reterr)
{
    return RUN_V(COLL_GATHER, .send = send, .recv = recv, .type = type, .root = root);
}

coll_status coll_scatter_v(coll_comm *comm, const void *send, void *recv, const size_t *counts,
                           coll_type type, int root, coll_error *reterr)
{
    return RUN_V(COLL_SCATTER, .send = send, .recv = recv, .type = type, .root = root);
}

coll_status coll_all_to_all_v(coll_comm *comm, const void *send, const size_t *send_counts,
                              void *recv, const size_t *recv_counts, coll_type type,
                              coll_error *reterr)
{
    coll_status status = check_counts(COLL_ALL_TO_ALL, "send_counts", send_counts, reterr);
    if (status == COLL_OK) {
        status = check_counts(COLL_ALL_TO_ALL, "recv_counts", recv_counts, reterr);
    }
    if (status != COLL_OK) {
        return status;
    }
    return RUN(.kind = COLL_ALL_TO_ALL, .send = send, .counts = send_counts, .recv = recv,
               .recv_counts = recv_counts, .type = type);
}

coll_status coll_send(coll_comm *comm, const void *data, size_t count, coll_type type, int peer,
                      coll_error *reterr)
{
    return RUN(.kind = COLL_SEND, .send = data, .count = count, .type = type, .root = peer);
}

coll_status coll_receive(coll_comm *comm, void *data, size_t count, coll_type type, int peer,
                         coll_error *reterr)
{
    return RUN(.kind = COLL_RECEIVE, .recv = data, .count = count, .type = type, .root = peer);
}
