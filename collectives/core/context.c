/* Contexts: what all communicators of a process share. connect.c makes them, programs end them. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/grow.h"
#include "core/comm.h"
#include "core/progress.h"

unsigned coll_context_fork_count;

static void count_fork(void)
{
    coll_context_fork_count++;
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, count_fork);
}

void coll_context_say(coll_context *context, coll_algorithm algorithm)
{
    const bool native = algorithm == COLL_ALGORITHM_NATIVE; /* not the CPU's */
    context->said = native ? COLL_ALGORITHM_AUTO : algorithm;
    context->algorithm = context->said;
    context->device_algorithm =
        native || algorithm == COLL_ALGORITHM_DIRECT ? algorithm : COLL_ALGORITHM_AUTO;
}

coll_context *coll_context_alloc(const coll_context_options *options)
{
    coll_context *context = calloc(1, sizeof *context);
    if (context == NULL) {
        return NULL;
    }
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch_forks);
    context->forks = coll_context_fork_count;
    context->rank = options->rank;
    context->size = options->world_size;
    context->unreached = -1;
    context->yield_budget = COLL_YIELDS_MAX;
    context->timeout_ns = options->timeout_ns == 0 ? COLL_DEFAULT_TIMEOUT_NS : options->timeout_ns;
    context->host_timeout_ns = options->host_timeout_ns == 0 ? COLL_HOST_TIMEOUT_S * BASE_NS_PER_S
                                                             : options->host_timeout_ns;
    context->backend = options->backend;
    context->backend_user = options->backend_user;
    coll_context_say(context, options->algorithm);
    for (int rank = 0; rank < COLL_RANKS_MAX; rank++) {
        context->socks[rank] = -1;
    }
    (void)pthread_mutex_init(&context->describe_lock, NULL);
    context->identities = calloc((size_t)context->size, sizeof *context->identities);
    context->flight = aligned_alloc(_Alignof(coll_flight), sizeof *context->flight);
    context->spare = calloc(1, sizeof *context->spare);
    context->made = base_grow(NULL, 0, &context->made_room, COLL_COMM_LISTS, sizeof *context->made);
    if (context->identities == NULL || context->flight == NULL || context->spare == NULL ||
        context->made == NULL) {
        coll_context_destroy(context);
        return NULL;
    }
    memset(context->flight, 0, sizeof *context->flight);
    coll_flight_init(context->flight);
    return context;
}

void coll_context_destroy(coll_context *context)
{
    if (context == NULL) {
        return;
    }
    coll_comm_destroy(context->world);
    if (context->table != NULL) {
        context->table->close(context);
    }
    (void)pthread_mutex_destroy(&context->describe_lock);
    free(context->flight);
    free(context->identities);
    free(context->made);
    free(context->spare);
    free(context);
}

void coll_context_abort(coll_context *context, const char *reason)
{
    int none = 0;
    if (!atomic_compare_exchange_strong(&context->abort_state, &none, 1)) {
        return;
    }
    (void)snprintf(context->abort_reason, sizeof context->abort_reason, "%s",
                   reason != NULL ? reason : "");
    atomic_store(&context->abort_state, 2);
    context->table->sleep->wake(context);
}

coll_transport coll_context_transport(const coll_context *context)
{
    return context->transport;
}

coll_algorithm coll_context_algorithm(const coll_context *context)
{
    return context->algorithm;
}

bool coll_context_has_hung_up(coll_context *context, int rank)
{
    struct pollfd item = {.fd = context->socks[rank], .events = 0};
    const bool hung_up =
        item.fd >= 0 && poll(&item, 1, 0) > 0 && (item.revents & (POLLHUP | POLLERR)) != 0;
    coll_context_note_gone(context, (uint64_t)hung_up << rank);
    return hung_up;
}

bool coll_context_rank_gone(coll_context *context, int rank)
{
    if (rank < 0 || rank >= context->size || rank == context->rank) {
        return false;
    }
    if (!coll_context_is_forked(context)) {
        (void)coll_progress(context);
        (void)coll_context_has_hung_up(context, rank);
    }
    return (context->gone >> rank & 1) != 0;
}

coll_comm *coll_context_world(coll_context *context)
{
    return context->world;
}

uint64_t coll_context_bytes_sent(const coll_context *context)
{
    return context->bytes_sent;
}

const coll_costs *coll_tune_costs(const coll_context *context)
{
    return context->has_costs ? &context->costs : NULL;
}
