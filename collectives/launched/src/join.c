#include "launched/join.h"

#include "base/clock.h"

static void abort_collectives(void *user, const char *reason)
{
    coll_context_abort(user, reason);
}

static void dump_collectives(void *user, int fd, const char *reason)
{
    (void)!coll_context_dump(user, fd, reason, NULL);
}

base_status coll_launched_join(proto_client *client, proto_identity *identity,
                               coll_context **context, base_error *reterr)
{
    const proto_job *job = &identity->job;
    coll_context_options options = {
        .rank = identity->rank,
        .world_size = identity->world_size,
        .exchange = proto_client_exchange,
        .exchange_user = client,
        .timeout_ns = job->timeout_ms * BASE_NS_PER_MS,
        .interface = job->interface,
        .rendezvous_address = identity->launcher_address,
        .job_key = identity->collectives_key,
    };
    base_status status = coll_transport_parse(job->transport, &options.transport, reterr);
    if (status == BASE_OK) {
        status = coll_algorithm_parse(job->algorithm, &options.algorithm, reterr);
    }
    if (status == BASE_OK) {
        status = coll_tcp_auth_parse(job->tcp_auth, &options.tcp_auth, reterr);
    }
    if (status == BASE_OK) {
        status = coll_context_create(&options, context, reterr);
    }
    proto_wipe(identity->collectives_key, PROTO_KEY_BYTES);
    if (status == BASE_OK) {
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
