/* Swaps memory between the ranks of a communicator. Called by shm.c, to open a communicator's
 * segments and each arena.
 *
 * In round k a rank hands its segment to the k-th rank after it, and waits for that of the k-th
 * before it (fdpass.h says why). While it waits it takes whatever comes from the others, too. After a
 * failure it goes on handing out its own, or why there is none. So no peer waits for that in vain.
 *
 * The first cause: a rank that gives up leaves a failure notice in its segment of the communicator,
 * before its process can end. Peers that have the segment look there while they wait. One that finds
 * a rank gone first takes what that rank and others have handed to it, and looks there. Only if
 * nobody says more has the rank died. */
#include "transport/shm/swap.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/failure.h"
#include "core/progress.h"
#include "core/report.h"
#include "core/segment.h"

enum {
    SLICE_MS = 20,     /* between two looks at the abort word and at failure notices */
    SLICE_BUSY_MS = 1, /* the same while operations are under way */
    LIST_BYTES = 400,
};

typedef struct swap {
    coll_comm *comm;
    const coll_fdpass_label *label;
    const coll_shm_store *store;
    int64_t deadline_ns;
    uint64_t missing; /* a bit for each rank whose segment is not mapped */
} swap;

coll_fdpass_label coll_shm_label(const coll_comm *comm, uint32_t arena, size_t size_bytes)
{
    coll_fdpass_label label = {.tag = comm->id,
                               .size_bytes = size_bytes,
                               .arena = arena,
                               .rank_count = (uint32_t)comm->size};
    for (int rank = 0; rank < comm->size; rank++) {
        label.ranks[rank] = (uint8_t)comm->ranks[rank];
    }
    return label;
}

static void keep(swap *s, int rank, void *data)
{
    s->missing &= ~(UINT64_C(1) << rank);
    s->store->keep(s->store->user, rank, data);
}

static bool is_missing(const swap *s, int rank)
{
    return (s->missing >> rank & 1) != 0;
}

/* Makes this rank's segment, unless the label says why there is none. */
static coll_status make_segment(swap *s, coll_fdpass_label *label, int *fd, coll_error *reterr)
{
    coll_error error;
    void *data = NULL;
    if (label->lack[0] != '\0') {
        return coll_fail(reterr, COLL_ERR_MEMORY, "%s", label->lack);
    }
    const coll_status status = coll_segment_create(label->size_bytes, fd, &data, &error);
    if (status != COLL_OK) {
        (void)snprintf(label->lack, sizeof label->lack, "%s", error.message);
        return coll_fail(reterr, status, "%s", error.message);
    }
    keep(s, s->comm->rank, data);
    return COLL_OK;
}

/* Takes and maps a peer's segment, if it is here. */
static coll_status take(swap *s, int peer, bool *is_gone, coll_error *reterr)
{
    coll_comm *comm = s->comm;
    coll_fdpass_answer answer;
    void *data = NULL;
    coll_status status =
        coll_fdpass_take(comm->context, comm->ranks[peer], s->label, &answer, reterr);
    *is_gone = answer.is_gone;
    if (answer.lack[0] != '\0') {
        coll_comm_fail_as(comm, peer, 0, COLL_ERR_MEMORY, answer.lack);
        return coll_comm_check(comm, reterr);
    }
    if (status != COLL_OK || answer.fd < 0) {
        return status;
    }
    status = coll_segment_map(answer.fd, s->label->size_bytes, &data, reterr);
    (void)close(answer.fd);
    if (status == COLL_OK) {
        keep(s, peer, data);
    }
    return status;
}

/* Fails if a peer has failed, which has said why. */
static coll_status check_peers(const swap *s, coll_error *reterr)
{
    coll_shm_receive_failure(s->comm);
    coll_shm_propagate_failure(s->comm);
    return s->comm->failed ? coll_comm_check(s->comm, reterr) : COLL_OK;
}

/* A peer is gone, as *reterr says. What it and others have said before is the cause. */
static coll_status find_cause(swap *s, coll_status status, coll_error *reterr)
{
    coll_error said;
    for (int peer = 0; peer < s->comm->size && !s->comm->failed; peer++) {
        bool is_gone = false;
        if (is_missing(s, peer) && take(s, peer, &is_gone, &said) != COLL_OK && !is_gone) {
            if (reterr != NULL) {
                *reterr = said;
            }
            return said.status;
        }
    }
    const coll_status cause = check_peers(s, reterr);
    return cause != COLL_OK ? cause : status;
}

/* Waits a moment for segments, and takes those that come. */
static coll_status take_next(swap *s, coll_error *reterr)
{
    coll_context *context = s->comm->context;
    struct pollfd items[COLL_RANKS_MAX];
    int peers[COLL_RANKS_MAX];
    nfds_t count = 0;
    for (int peer = 0; peer < s->comm->size; peer++) {
        if (is_missing(s, peer)) {
            const int sock = context->socks[s->comm->ranks[peer]];
            peers[count] = peer;
            items[count++] = (struct pollfd){.fd = sock, .events = POLLIN};
        }
    }
    const bool busy = coll_is_under_way(context);
    const bool moved = busy && coll_progress(context);
    const int slice_ms = base_deadline_poll_ms(s->deadline_ns, busy ? SLICE_BUSY_MS : SLICE_MS);
    const int ready = poll(items, count, moved ? 0 : slice_ms);
    if (ready < 0 && errno != EINTR) {
        return coll_fail_errno(reterr, errno, "cannot poll a local socket");
    }
    for (nfds_t i = 0; ready > 0 && i < count; i++) {
        bool is_gone = false;
        const coll_status status =
            items[i].revents != 0 ? take(s, peers[i], &is_gone, reterr) : COLL_OK;
        if (status != COLL_OK) {
            return is_gone ? find_cause(s, status, reterr) : status;
        }
    }
    return check_peers(s, reterr);
}

/* Until the segment of this peer is mapped. */
static coll_status await(swap *s, int peer, coll_error *reterr)
{
    coll_status status = COLL_OK;
    while (status == COLL_OK && is_missing(s, peer)) {
        status = take_next(s, reterr);
        if (status == COLL_OK) {
            status = coll_abort_check(s->comm->context, reterr);
        }
        if (status == COLL_OK && is_missing(s, peer) && base_now_ns() >= s->deadline_ns) {
            char names[LIST_BYTES];
            coll_list_ranks(s->comm, s->missing, names, sizeof names);
            status = coll_fail(reterr, COLL_ERR_TIMEOUT,
                               "waiting for memory of %s: no answer in time", names);
        }
    }
    return status;
}

coll_status coll_shm_swap(coll_comm *comm, coll_fdpass_label *label, const coll_shm_store *store,
                          int64_t deadline_ns, coll_error *reterr)
{
    swap s = {.comm = comm,
              .label = label,
              .store = store,
              .deadline_ns = deadline_ns,
              .missing = UINT64_MAX >> (COLL_RANKS_MAX - comm->size)};
    int fd = -1;
    coll_status status = make_segment(&s, label, &fd, reterr);
    for (int k = 1; k < comm->size; k++) {
        const int to = (comm->rank + k) % comm->size;
        const int from = (comm->rank + comm->size - k) % comm->size;
        const coll_status sent = coll_fdpass_send(comm->context, comm->ranks[to], fd, label,
                                                  status == COLL_OK ? reterr : NULL);
        if (status == COLL_OK && sent != COLL_OK) {
            status = sent == COLL_ERR_PEER ? find_cause(&s, sent, reterr) : sent;
        }
        if (status == COLL_OK) {
            status = await(&s, from, reterr);
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}
