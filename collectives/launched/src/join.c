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
    return (coll_status)proto_client_exchange(user, mine, all, size_bytes, deadline_ns,
                                              base_error_of(reterr));
}

/* What a job chooses has the same name in the library. */
static coll_status choose(const proto_job_parallel *parallel, coll_context_options *options,
                          coll_error *reterr)
{
    coll_status status = coll_algorithm_parse(proto_algorithm_name((int)parallel->algorithm),
                                              &options->algorithm, reterr);
    if (status == COLL_OK) {
        status = coll_transport_parse(proto_transport_name((int)parallel->transport),
                                      &options->transport, reterr);
    }
    return status == COLL_OK ? coll_tcp_auth_parse(proto_tcp_auth_name((int)parallel->tcp_auth),
                                                   &options->tcp_auth, reterr)
                             : status;
}

coll_status coll_launched_join(proto_client *client, proto_identity *identity,
                               const coll_launched_device *device, coll_context **context,
                               int *unreached, coll_error *reterr)
{
    const proto_job_parallel *parallel = &identity->job.parallel;
    coll_context_options options = {
        .size = sizeof(coll_context_options),
        .rank = identity->rank,
        .world_size = identity->world_size,
        .exchange = exchange,
        .exchange_user = client,
        .timeout_ns = parallel->timeout_ms * BASE_NS_PER_MS,
        .host_timeout_ns = identity->host_timeout_ms * BASE_NS_PER_MS,
        .interface = parallel->interface,
        .rendezvous_address = identity->launcher_address,
        .job_key = identity->collectives_key,
        .backend = device != NULL ? device->backend : NULL,
        .backend_user = device != NULL ? device->user : NULL,
        .unreached = unreached,
    };
    coll_status status = choose(parallel, &options, reterr);
    if (status == COLL_OK) {
        status = coll_context_create(&options, context, reterr);
    }
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
