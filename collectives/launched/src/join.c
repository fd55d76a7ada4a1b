/* Makes a context from a joined control client, whose exchange and abort it passes on. Called by
 * coll_launched_open and by the rank program. */
#include "launched/join.h"

#include "base/clock.h"
#include "ringfence/coll_error.h"

static void abort_collectives(void *user, const char *reason)
{
    coll_context_abort(user, reason);
}

static void dump_collectives(void *user, int fd, const char *reason)
{
    (void)!coll_context_dump(user, fd, reason, NULL);
}

static coll_status exchange(void *user, const void *mine, void *all, size_t size_bytes,
                            int64_t deadline_ns, coll_error *reterr)
{
    base_error error;
    return coll_from_base(proto_client_exchange(user, mine, all, size_bytes, deadline_ns, &error),
                          &error, reterr);
}

static const coll_algorithm algorithms[] = {
    [PROTO_ALGORITHM_AUTO] = COLL_ALGORITHM_AUTO,
    [PROTO_ALGORITHM_RING] = COLL_ALGORITHM_RING,
    [PROTO_ALGORITHM_TREE] = COLL_ALGORITHM_TREE,
    [PROTO_ALGORITHM_DIRECT] = COLL_ALGORITHM_DIRECT,
    [PROTO_ALGORITHM_RECURSIVE_DOUBLING] = COLL_ALGORITHM_RECURSIVE_DOUBLING,
    [PROTO_ALGORITHM_HALVING_DOUBLING] = COLL_ALGORITHM_HALVING_DOUBLING,
    [PROTO_ALGORITHM_TWO_LEVEL] = COLL_ALGORITHM_TWO_LEVEL,
    [PROTO_ALGORITHM_NATIVE] = COLL_ALGORITHM_NATIVE,
};

static const coll_transport transports[] = {
    [PROTO_TRANSPORT_AUTO] = COLL_TRANSPORT_AUTO,
    [PROTO_TRANSPORT_SHM] = COLL_TRANSPORT_SHM,
    [PROTO_TRANSPORT_TCP] = COLL_TRANSPORT_TCP,
    [PROTO_TRANSPORT_ZMQ] = COLL_TRANSPORT_ZMQ,
};

static const coll_tcp_auth tcp_auths[] = {
    [PROTO_TCP_AUTH_MAC] = COLL_TCP_AUTH_MAC,
    [PROTO_TCP_AUTH_ENCRYPT] = COLL_TCP_AUTH_ENCRYPT,
    [PROTO_TCP_AUTH_OFF] = COLL_TCP_AUTH_OFF,
};

coll_status coll_launched_join(proto_client *client, proto_identity *identity,
                               const coll_launched_device *device, coll_context **context,
                               coll_error *reterr)
{
    const proto_job_parallel *parallel = &identity->job.parallel;
    const coll_context_options options = {
        .size = sizeof(coll_context_options),
        .rank = identity->rank,
        .world_size = identity->world_size,
        .exchange = exchange,
        .exchange_user = client,
        .timeout_ns = parallel->timeout_ms * BASE_NS_PER_MS,
        .host_timeout_ns = identity->host_timeout_ms * BASE_NS_PER_MS,
        .transport = transports[parallel->transport],
        .algorithm = algorithms[parallel->algorithm],
        .tcp_auth = tcp_auths[parallel->tcp_auth],
        .interface = parallel->interface,
        .rendezvous_address = identity->launcher_address,
        .job_key = identity->collectives_key,
        .backend = device != NULL ? device->backend : NULL,
        .backend_user = device != NULL ? device->user : NULL,
    };
    const coll_status status = coll_context_create(&options, context, reterr);
    proto_wipe(identity->collectives_key, PROTO_KEY_BYTES);
    if (status == COLL_OK) {
        proto_client_on_abort(client, abort_collectives, *context);
        proto_client_on_dump(client, dump_collectives, *context);
    }
    return status;
}

void coll_launched_leave(proto_client *client)
{
    proto_client_on_abort(client, NULL, NULL);
    proto_client_on_dump(client, NULL, NULL);
}
