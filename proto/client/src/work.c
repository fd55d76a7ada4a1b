/* The queue of requests on rank 0, and the credit for events. thread.c puts work in; client.c takes
 * it out and sends events. */
#include "work.h"

#include <inttypes.h>
#include <stdlib.h>

_Static_assert(sizeof(proto_work) < PROTO_CLIENT_WORK_BYTES / PROTO_REQUESTS_UNJUDGED_MAX,
               "the queue has room for the longest");
/* Of a cancel and a drain there is the id alone. */
enum {
    ID_WORK_BYTES = offsetof(proto_work, request) + offsetof(proto_request, id) + sizeof(uint64_t)
};

_Static_assert((int)ID_WORK_BYTES + 4 <= 256, "as much is set aside for a cancel");

base_status client_work_create(client_work **work, base_error *reterr)
{
    client_work *made = calloc(1, sizeof *made);
    *work = made;
    if (made == NULL || !client_queue_init(&made->queue, PROTO_CLIENT_WORK_BYTES)) {
        free(made);
        *work = NULL;
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for requests");
    }
    return BASE_OK;
}

void client_work_destroy(client_work *work)
{
    if (work != NULL) {
        client_queue_fini(&work->queue);
        free(work);
    }
}

static base_status put(client_work *work, size_t size_bytes, base_error *reterr)
{
    work->woken = true;
    return client_queue_put(&work->queue, &work->incoming, size_bytes)
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_LIMIT,
                           "the launcher sent more requests than may wait for a verdict");
}

base_status client_work_put(client_work *work, base_error *reterr)
{
    return put(work, offsetof(proto_work, request) + proto_request_bytes(&work->incoming.request),
               reterr);
}

base_status client_work_put_id(client_work *work, proto_work_kind kind, uint64_t id,
                               base_error *reterr)
{
    work->incoming.kind = kind;
    work->incoming.request.id = id;
    return put(work, ID_WORK_BYTES, reterr);
}

bool client_work_take(client_work *work, proto_work *taken)
{
    return client_queue_take(&work->queue, taken, sizeof *taken) > 0;
}

base_status client_work_credit(client_work *work, uint64_t events, base_error *reterr)
{
    if (events < work->taken || events > work->sent) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "the launcher says that it has taken %" PRIu64 " events, after %" PRIu64
                         " of %" PRIu64,
                         events, work->taken, work->sent);
    }
    work->taken = events;
    work->woken = true;
    return BASE_OK;
}

bool client_work_may_send(const client_work *work)
{
    return work->sent - work->taken < PROTO_EVENTS_AHEAD_MAX;
}
