/* The transport for several hosts with several ranks each, in one context: shared memory inside
 * each host, TCP between them. Called through the table at the end.
 *
 * A communicator whose ranks share one host is shm's altogether, arenas included. In any other,
 * flags and the small operands in them go over sockets to every peer. Streams depend on the peer:
 * frames go through shared memory between ranks of one host, and over the socket between hosts. For
 * the frames in shared memory each rank has an inner communicator of the ranks on its host.
 * Programs do not see it.
 *
 * A rank that sleeps polls its sockets. Shared memory has to wake it too. So the ranks of one host
 * pass each other an eventfd, and ring that as well as the doorbell. */
#include "transport/hybrid/hybrid.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/descriptors.h"
#include "core/failure.h"
#include "transport/shm/fdpass.h"
#include "transport/shm/layout.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"

enum { DOORBELL_TAG = 0x62656c6c };

/* A communicator over several hosts. */
typedef struct hybrid_comm {
    coll_comm inside;                /* the ranks on this host */
    int local_ranks[COLL_RANKS_MAX]; /* ranks of the communicator inside; -1: on another host */
} hybrid_comm;

/* The communicator inside, where the peer is in it. */
static coll_comm *inside(const coll_comm *comm, int peer, int *local_rank)
{
    hybrid_comm *link = comm->hybrid;
    *local_rank = link->local_ranks[peer];
    return *local_rank >= 0 ? &link->inside : NULL;
}

/* A failure inside is the communicator's. */
static void pass_on(coll_comm *comm, const coll_comm *local)
{
    if (local->failed && !comm->failed) {
        (void)coll_comm_fail(comm, local->failure.status, "%s (among the ranks of one host)",
                             local->failure.message);
    }
}

static void *hybrid_send_begin(coll_comm *comm, int peer, int channel, size_t size_bytes)
{
    int local_rank = -1;
    coll_comm *local = inside(comm, peer, &local_rank);
    if (local == NULL) {
        return coll_net_send_begin(comm, peer, channel, size_bytes);
    }
    void *frame = coll_shm_transport.send_begin(local, local_rank, channel, size_bytes);
    pass_on(comm, local);
    return frame;
}

static void hybrid_send_end(coll_comm *comm, int peer, int channel, size_t size_bytes)
{
    int local_rank = -1;
    coll_comm *local = inside(comm, peer, &local_rank);
    if (local == NULL) {
        coll_net_send_end(comm, peer, channel, size_bytes);
    } else {
        coll_shm_transport.send_end(local, local_rank, channel, size_bytes);
    }
}

static const void *hybrid_receive_begin(coll_comm *comm, int peer, int channel, size_t size_bytes)
{
    int local_rank = -1;
    coll_comm *local = inside(comm, peer, &local_rank);
    if (local == NULL) {
        return coll_net_receive_begin(comm, peer, channel, size_bytes);
    }
    const void *frame = coll_shm_transport.receive_begin(local, local_rank, channel, size_bytes);
    pass_on(comm, local);
    return frame;
}

static void hybrid_receive_end(coll_comm *comm, int peer, int channel)
{
    int local_rank = -1;
    coll_comm *local = inside(comm, peer, &local_rank);
    if (local == NULL) {
        coll_net_receive_end(comm, peer, channel);
    } else {
        coll_shm_transport.receive_end(local, local_rank, channel);
    }
}

/* A message to a rank of this host lies where that rank reads it. */
static bool hybrid_has_given(const coll_op *op)
{
    int local_rank = -1;
    return (op->desc.kind == COLL_SEND && inside(op->comm, op->desc.root, &local_rank) != NULL) ||
           coll_net_has_given(op);
}

/* Fills in the communicator inside. */
static void describe_inside(const coll_comm *comm, hybrid_comm *link)
{
    coll_comm *local = &link->inside;
    local->context = comm->context;
    local->table = &coll_shm_transport;
    local->id = comm->id ^ UINT64_MAX << 32; /* the upper half names the list (comm_make.c) */
    for (int rank = 0; rank < comm->size; rank++) {
        link->local_ranks[rank] = -1;
        if (coll_context_is_here(comm->context, comm->ranks[rank])) {
            local->rank = rank == comm->rank ? local->size : local->rank;
            local->ranks[local->size] = comm->ranks[rank];
            link->local_ranks[rank] = local->size++;
        }
    }
}

/* Makes the communicator inside. */
static coll_status open_inside(const coll_comm *comm, hybrid_comm *link, int64_t deadline_ns,
                               coll_error *reterr)
{
    coll_comm *local = &link->inside;
    describe_inside(comm, link);
    const shm_context *context_shm = comm->context->shm;
    if (local->size == 1 && context_shm->doorbells[comm->context->rank] != NULL) {
        return COLL_OK; /* the doorbell is in the segment of the world's */
    }
    return coll_shm_transport.comm_open(local, deadline_ns, reterr);
}

static coll_status hybrid_comm_open(coll_comm *comm, int64_t deadline_ns, coll_error *reterr)
{
    bool one_host = true;
    for (int rank = 0; rank < comm->size; rank++) {
        one_host = one_host && coll_context_is_here(comm->context, comm->ranks[rank]);
    }
    if (one_host) {
        comm->table = &coll_shm_transport;
        comm->shares_memory = true;
        return coll_shm_transport.comm_open(comm, deadline_ns, reterr);
    }
    hybrid_comm *link = calloc(1, sizeof *link);
    if (link == NULL) {
        hybrid_comm unmade = {.local_ranks = {0}};
        describe_inside(comm, &unmade);
        return coll_shm_tell_lack(&unmade.inside, sizeof *link, deadline_ns, reterr);
    }
    comm->hybrid = link;
    const coll_status status = open_inside(comm, link, deadline_ns, reterr);
    return status == COLL_OK ? coll_net_comm_open(comm, deadline_ns, reterr) : status;
}

static void hybrid_comm_close(coll_comm *comm)
{
    hybrid_comm *link = comm->hybrid;
    if (link != NULL && link->inside.shm != NULL) {
        coll_shm_transport.comm_close(&link->inside);
    }
    coll_net_comm_close(comm);
    free(link);
    comm->hybrid = NULL;
}

/* Hands this rank's eventfd to its neighbours and takes theirs, in rounds as segments are. After a
 * failure it only hands out its own, which they wait for. */
static coll_status swap_doorbells(coll_context *context, int64_t deadline_ns, coll_error *reterr)
{
    const coll_tcp *tcp = context->net;
    shm_context *context_shm = context->shm;
    const coll_fdpass_label label = {.tag = DOORBELL_TAG};
    int here[COLL_RANKS_MAX];
    int count = 0;
    int own = 0;
    for (int rank = 0; rank < context->size; rank++) {
        if (coll_context_is_here(context, rank)) {
            own = rank == context->rank ? count : own;
            here[count++] = rank;
        }
    }
    coll_status status = COLL_OK;
    for (int k = 1; k < count; k++) {
        const int from = here[(own + count - k) % count];
        const coll_status sent =
            coll_fdpass_send(context, here[(own + k) % count], tcp->net.wake_fd, &label,
                             status == COLL_OK ? reterr : NULL);
        status = status == COLL_OK ? sent : status;
        if (status == COLL_OK) {
            status = coll_fdpass_receive(context, from, &label, deadline_ns,
                                         &context_shm->doorbell_fds[from], reterr);
        }
    }
    return status;
}

/* The doorbells of its neighbours; its own one, a listener, and a connection to every other rank. */
static int needed_descriptors(const coll_context *context)
{
    return coll_context_neighbours(context) + 2 + context->size - 1;
}

/* A rank that fails between the two exchanges still comes to the second: there the others wait. */
static coll_status hybrid_open(coll_context *context, const coll_context_options *options,
                               int64_t deadline_ns, coll_error *reterr)
{
    coll_status status = coll_shm_transport.open(context, options, deadline_ns, reterr);
    if (status != COLL_OK && !context->has_met) {
        return status; /* all others know, or this rank has lost them */
    }
    if (status == COLL_OK) {
        status = coll_descriptors_check("shm with tcp", needed_descriptors(context), reterr);
    }
    status = coll_tcp_open(context, options, deadline_ns, status, reterr);
    return status == COLL_OK ? swap_doorbells(context, deadline_ns, reterr) : status;
}

static void hybrid_close(coll_context *context)
{
    const shm_context *context_shm = context->shm;
    for (int rank = 0; context_shm != NULL && rank < context->size; rank++) {
        if (context_shm->doorbell_fds[rank] >= 0) {
            (void)close(context_shm->doorbell_fds[rank]);
        }
    }
    coll_tcp_close(context);
    coll_shm_transport.close(context);
}

static void hybrid_sleep(coll_context *context, bool (*changed)(coll_context *context),
                         int64_t until_ns)
{
    coll_shm_slumber(context, SHM_POLLING);
    coll_tcp_sleep(context, changed, until_ns);
    coll_shm_slumber(context, SHM_AWAKE);
}

static const coll_socket_table hybrid_sockets = {.poll = coll_tcp_poll, .push = coll_net_push};

static const coll_sleep_table hybrid_sleep_table = {.sleep = hybrid_sleep, .wake = coll_net_wake};

const coll_transport_table coll_hybrid_transport = {
    .sockets = &hybrid_sockets,
    .sleep = &hybrid_sleep_table,
    .open = hybrid_open,
    .close = hybrid_close,
    .comm_open = hybrid_comm_open,
    .comm_close = hybrid_comm_close,
    .has_given = hybrid_has_given,
    COLL_NET_COMMON,
    .send_begin = hybrid_send_begin,
    .send_end = hybrid_send_end,
    .receive_begin = hybrid_receive_begin,
    .receive_end = hybrid_receive_end,
};
