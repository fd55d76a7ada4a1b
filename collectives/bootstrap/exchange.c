/* The all-gather itself: each rank gives its bytes to rank 0, which gives those of all to each. Called by
 * coll_context_create, as the options' exchange. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "bootstrap/bootstrap.h"
#include "transport/socket/silence.h"

void coll_bootstrap_tell(const coll_bootstrap *bootstrap, coll_bootstrap_link *link,
                         const coll_error *error)
{
    coll_bootstrap_failure failure = {.status = error->status, .process = bootstrap->process};
    (void)snprintf(failure.message, sizeof failure.message, "%s", error->message);
    (void)coll_bootstrap_link_send(link, COLL_BOOTSTRAP_FAILED, 0, &failure, sizeof failure);
    (void)shutdown(link->fd, SHUT_WR);
}

coll_status coll_bootstrap_told(coll_bootstrap_link *link, const coll_bootstrap_frame *frame,
                                coll_error *reterr)
{
    char name[COLL_BOOTSTRAP_TEXT_BYTES];
    coll_bootstrap_failure failure;
    const bool is_good = coll_bootstrap_failure_read(frame->body, frame->size_bytes, &failure);
    if (is_good) {
        link->process = failure.process;
    }
    coll_bootstrap_link_text(link, name, sizeof name);
    if (!is_good) {
        return coll_fail(reterr, COLL_ERR_PEER, "%s broke the protocol", name);
    }
    return coll_fail(reterr, (coll_status)failure.status, "%s says: %.800s", name, failure.message);
}

void coll_bootstrap_fail(coll_bootstrap *bootstrap, const coll_error *error)
{
    if (bootstrap->failed.status != COLL_OK) {
        return;
    }
    bootstrap->failed = *error;
    for (int rank = 0; rank < bootstrap->world_size; rank++) {
        coll_bootstrap_link *link = bootstrap->links[rank];
        if (link != NULL && bootstrap->rank == 0) {
            coll_bootstrap_tell(bootstrap, link, error);
        } else if (link != NULL) {
            (void)shutdown(link->fd, SHUT_RDWR); /* rank 0 sees that this rank is no more */
        }
    }
}

/* ---- one exchange ---- */

typedef struct turn {
    coll_bootstrap *bootstrap;
    uint8_t *all;
    size_t size_bytes; /* of each rank */
    int64_t deadline_ns;
} turn;

static coll_status fail_of(const turn *t, const coll_bootstrap_link *link, const char *what,
                           coll_error *reterr)
{
    char name[COLL_BOOTSTRAP_TEXT_BYTES];
    coll_bootstrap_link_text(link, name, sizeof name);
    return coll_fail(reterr, COLL_ERR_PEER, "%s %s in exchange %llu", name, what,
                     (unsigned long long)t->bootstrap->exchanges);
}

static coll_status take_gift(const turn *t, coll_bootstrap_link *link, uint64_t *missing,
                             coll_error *reterr)
{
    const coll_bootstrap *bootstrap = t->bootstrap;
    coll_bootstrap_frame frame;
    switch (coll_bootstrap_link_receive(link, &frame)) {
    case COLL_BOOTSTRAP_WAITS:
        return COLL_OK;
    case COLL_BOOTSTRAP_ENDED:
        return fail_of(t, link, "has ended", reterr);
    case COLL_BOOTSTRAP_BROKEN:
        return fail_of(t, link, "broke the protocol", reterr);
    case COLL_BOOTSTRAP_CAME:
        break;
    }
    if (frame.kind != COLL_BOOTSTRAP_GIVE || frame.exchange != bootstrap->exchanges) {
        return fail_of(t, link, "broke the protocol", reterr);
    }
    if (frame.size_bytes != t->size_bytes) {
        char name[COLL_BOOTSTRAP_TEXT_BYTES];
        coll_bootstrap_link_text(link, name, sizeof name);
        return coll_fail(reterr, COLL_ERR_MISMATCH,
                         "%s gives %zu bytes to exchange %llu, and rank 0 (host %s, pid %u) %zu",
                         name, frame.size_bytes, (unsigned long long)bootstrap->exchanges,
                         bootstrap->process.host, (unsigned)bootstrap->process.pid, t->size_bytes);
    }
    memcpy(t->all + (size_t)link->rank * t->size_bytes, frame.body, frame.size_bytes);
    *missing &= ~(UINT64_C(1) << link->rank);
    return COLL_OK;
}

/* Waits until a link can be read, or is at its end: a bit for each of `reading`. Those of `writing` are
 * flushed. A host that is silent counts as an end. */
static coll_status await(const turn *t, uint64_t reading, uint64_t watching, uint64_t *ready,
                         coll_error *reterr)
{
    struct pollfd items[COLL_RANKS_MAX];
    const coll_bootstrap *bootstrap = t->bootstrap;
    for (int rank = 0; rank < bootstrap->world_size; rank++) {
        const coll_bootstrap_link *link = bootstrap->links[rank];
        const bool is_in = link != NULL && ((reading | watching) >> rank & 1) != 0;
        const bool owes = link != NULL && coll_bootstrap_link_owes(link);
        items[rank] =
            (struct pollfd){.fd = is_in || owes ? link->fd : -1,
                            .events = (short)((reading >> rank & 1 ? POLLIN : 0) |
                                              (is_in ? POLLRDHUP : 0) | (owes ? POLLOUT : 0))};
    }
    *ready = 0;
    const int count = poll(items, (nfds_t)bootstrap->world_size,
                           base_deadline_poll_ms(t->deadline_ns, COLL_BOOTSTRAP_SLICE_MS));
    for (int rank = 0; rank < bootstrap->world_size; rank++) {
        coll_bootstrap_link *link = bootstrap->links[rank];
        if (items[rank].fd < 0 || link == NULL) {
            continue;
        }
        if (count > 0 && items[rank].revents != 0) {
            coll_bootstrap_link_flush(link);
            *ready |= (uint64_t)((items[rank].revents & ~POLLOUT) != 0) << rank;
        } else if (coll_silence_is_over(link->fd, bootstrap->host_timeout_ns)) {
            return fail_of(t, link, "is on a host that answers no more,", reterr);
        }
    }
    return COLL_OK;
}

static coll_status fail_late(const turn *t, uint64_t missing, const char *what, coll_error *reterr)
{
    char names[COLL_BOOTSTRAP_TEXT_BYTES];
    coll_bootstrap_list(missing, names, sizeof names);
    return coll_fail(reterr, COLL_ERR_TIMEOUT, "%s did not %s exchange %llu in time", names, what,
                     (unsigned long long)t->bootstrap->exchanges);
}

/* Rank 0: until all have given. One that has given may still end, and is watched. */
static coll_status gather(const turn *t, coll_error *reterr)
{
    const coll_bootstrap *bootstrap = t->bootstrap;
    uint64_t missing = 0;
    coll_status status = COLL_OK;
    for (int rank = 1; rank < bootstrap->world_size; rank++) {
        missing |= UINT64_C(1) << rank;
    }
    const uint64_t all = missing;
    while (status == COLL_OK && missing != 0) {
        uint64_t ready = 0;
        if (base_now_ns() >= t->deadline_ns) {
            return fail_late(t, missing, "come to", reterr);
        }
        status = await(t, missing, all, &ready, reterr);
        for (int rank = 1; status == COLL_OK && rank < bootstrap->world_size; rank++) {
            if ((ready >> rank & 1) == 0) {
                continue;
            }
            status = (missing >> rank & 1) != 0
                         ? take_gift(t, bootstrap->links[rank], &missing, reterr)
                         : fail_of(t, bootstrap->links[rank], "has ended", reterr);
        }
    }
    return status;
}

static uint64_t owing(const coll_bootstrap *bootstrap)
{
    uint64_t ranks = 0;
    for (int rank = 0; rank < bootstrap->world_size; rank++) {
        const coll_bootstrap_link *link = bootstrap->links[rank];
        ranks |= (uint64_t)(link != NULL && coll_bootstrap_link_owes(link)) << rank;
    }
    return ranks;
}

/* Rank 0: gives to all what all have given. Who has it may go. */
static coll_status spread(const turn *t, coll_error *reterr)
{
    const coll_bootstrap *bootstrap = t->bootstrap;
    for (int rank = 1; rank < bootstrap->world_size; rank++) {
        if (!coll_bootstrap_link_send(bootstrap->links[rank], COLL_BOOTSTRAP_ALL,
                                      bootstrap->exchanges, t->all,
                                      (size_t)bootstrap->world_size * t->size_bytes)) {
            return coll_fail(reterr, COLL_ERR_MEMORY, "no memory for a frame");
        }
    }
    for (uint64_t left = owing(bootstrap); left != 0; left = owing(bootstrap)) {
        uint64_t ended = 0;
        if (base_now_ns() >= t->deadline_ns) {
            return fail_late(t, left, "take the bytes of", reterr);
        }
        const coll_status status = await(t, 0, left, &ended, reterr);
        if (status != COLL_OK) {
            return status;
        }
        if (ended != 0) {
            return fail_of(t, bootstrap->links[__builtin_ctzll(ended)], "has ended", reterr);
        }
    }
    return COLL_OK;
}

static coll_status take_all(const turn *t, coll_bootstrap_link *link, bool *done,
                            coll_error *reterr)
{
    const coll_bootstrap *bootstrap = t->bootstrap;
    const size_t bytes = (size_t)bootstrap->world_size * t->size_bytes;
    coll_bootstrap_frame frame;
    switch (coll_bootstrap_link_receive(link, &frame)) {
    case COLL_BOOTSTRAP_WAITS:
        return COLL_OK;
    case COLL_BOOTSTRAP_ENDED:
        return fail_of(t, link, "has ended", reterr);
    case COLL_BOOTSTRAP_BROKEN:
        return fail_of(t, link, "broke the protocol", reterr);
    case COLL_BOOTSTRAP_CAME:
        break;
    }
    if (frame.kind == COLL_BOOTSTRAP_FAILED) {
        return coll_bootstrap_told(link, &frame, reterr);
    }
    if (frame.kind != COLL_BOOTSTRAP_ALL || frame.exchange != bootstrap->exchanges ||
        frame.size_bytes != bytes) {
        return fail_of(t, link, "broke the protocol", reterr);
    }
    memcpy(t->all, frame.body, bytes);
    *done = true;
    return COLL_OK;
}

/* The others. */
static coll_status give(const turn *t, const void *mine, coll_error *reterr)
{
    coll_bootstrap_link *link = t->bootstrap->links[0];
    coll_status status = COLL_OK;
    bool done = false;
    if (!coll_bootstrap_link_send(link, COLL_BOOTSTRAP_GIVE, t->bootstrap->exchanges, mine,
                                  t->size_bytes)) {
        return coll_fail(reterr, COLL_ERR_MEMORY, "no memory for a frame");
    }
    while (status == COLL_OK && !done) {
        uint64_t ready = 0;
        if (base_now_ns() >= t->deadline_ns) {
            return fail_late(t, 1, "answer in", reterr);
        }
        status = await(t, 1, 1, &ready, reterr);
        if (status == COLL_OK && ready != 0) {
            status = take_all(t, link, &done, reterr);
        }
    }
    return status;
}

coll_status coll_bootstrap_exchange(void *user, const void *mine, void *all, size_t size_bytes,
                                    int64_t deadline_ns, coll_error *reterr)
{
    coll_bootstrap *bootstrap = user;
    coll_error error = {.status = COLL_OK};
    const turn t = {bootstrap, all, size_bytes, deadline_ns};
    if (size_bytes > COLL_EXCHANGE_BYTES_MAX) {
        return coll_fail(reterr, COLL_ERR_LIMIT, "an exchange of %zu bytes (at most %d)",
                         size_bytes, COLL_EXCHANGE_BYTES_MAX);
    }
    coll_status status = bootstrap->failed.status;
    if (status != COLL_OK) {
        return coll_fail(reterr, status, "%s", bootstrap->failed.message);
    }
    bootstrap->exchanges++;
    if (bootstrap->rank == 0) {
        memcpy(all, mine, size_bytes);
        status = gather(&t, &error);
        status = status == COLL_OK ? spread(&t, &error) : status;
    } else {
        status = give(&t, mine, &error);
    }
    if (status != COLL_OK) {
        coll_bootstrap_fail(bootstrap, &error);
        return coll_fail(reterr, status, "%s", error.message);
    }
    return COLL_OK;
}
