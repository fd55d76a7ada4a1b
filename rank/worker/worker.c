/* Functions that modes call for the process they run in. */
#include "worker/worker.h"

#include <sys/resource.h>

bool rank_worker_should_stop(void *user)
{
    const rank_worker *worker = user;
    return proto_client_stop_requested(worker->client);
}

uint64_t rank_worker_max_rss_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}
