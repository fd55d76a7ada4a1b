/* The all-gather itself: each rank gives its bytes to rank 0, which gives those of all to each. Called by
 * coll_context_create, as the options' exchange. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "bootstrap/bootstrap.h"

/* ---- frames, and what is wrong with them ---- */

coll_status coll_bootstrap_blame(const coll_bootstrap *bootstrap, const coll_bootstrap_link *link,
                                 const char *what, coll_error *reterr)
{
    char name[COLL_BOOTSTRAP_TEXT_BYTES];
    char missing[COLL_BOOTSTRAP_TEXT_BYTES];
    coll_bootstrap_link_text(link, name, sizeof name);
    coll_bootstrap_list(bootstrap->missing, missing, sizeof missing);
    if (bootstrap->exchanges > 0) {
        return coll_fail(reterr, COLL_ERR_PEER, "%s %s in exchange %llu", name, what,
                         (unsigned long long)bootstrap->exchanges);
    }
    return bootstrap->missing == 0
               ? coll_fail(reterr, COLL_ERR_PEER, "%s %s before all ranks had come", name, what)
               : coll_fail(reterr, COLL_ERR_PEER, "%s %s before %s of %d had come to %s port %d%s",
                           name, what, missing, bootstrap->world_size, bootstrap->host,
                           bootstrap->port, bootstrap->refused);
}

/* What rank 0's last frame says. */
static coll_status tell_on(coll_bootstrap_link *link, const coll_bootstrap_note *note,
                           coll_error *reterr)
{
    char name[COLL_BOOTSTRAP_TEXT_BYTES];
    link->process = note->process;
    coll_bootstrap_link_text(link, name, sizeof name);
    return coll_fail(reterr, (coll_status)note->status, "%s says: %.800s", name, note->message);
}

/* The next frame, which must be of this kind. *came: it is there. */
static coll_status take(const coll_bootstrap *bootstrap, coll_bootstrap_link *link,
                        coll_bootstrap_kind kind, coll_bootstrap_frame *frame, bool *came,
                        coll_error *reterr)
{
    coll_bootstrap_note note;
    const coll_bootstrap_arrival arrival = coll_bootstrap_link_receive(link, frame);
    *came = arrival == COLL_BOOTSTRAP_CAME;
    if (arrival == COLL_BOOTSTRAP_ENDED) {
        return coll_bootstrap_blame(bootstrap, link, "has ended", reterr);
    }
    if (*came && link->rank == 0 && frame->kind == COLL_BOOTSTRAP_NOTE &&
        coll_bootstrap_note_read(frame->body, frame->size_bytes, &note) && note.status != COLL_OK) {
        return tell_on(link, &note, reterr);
    }
    if (arrival == COLL_BOOTSTRAP_BROKEN ||
        (*came && (frame->kind != kind || frame->exchange != bootstrap->exchanges))) {
        return coll_bootstrap_blame(bootstrap, link, "broke the protocol", reterr);
    }
    return COLL_OK;
}

coll_status coll_bootstrap_hear(const coll_bootstrap *bootstrap, coll_bootstrap_kind kind,
                                coll_bootstrap_frame *frame, int64_t deadline_ns,
                                coll_error *reterr)
{
    coll_bootstrap_link *link = bootstrap->links[0];
    struct pollfd item = {.fd = link->fd, .events = POLLIN};
    bool came = false;
    coll_status status = take(bootstrap, link, kind, frame, &came, reterr);
    while (status == COLL_OK && !came) {
        if (base_now_ns() >= deadline_ns) {
            char name[COLL_BOOTSTRAP_TEXT_BYTES];
            char missing[COLL_BOOTSTRAP_TEXT_BYTES];
            coll_bootstrap_link_text(link, name, sizeof name);
            coll_bootstrap_list(bootstrap->missing, missing, sizeof missing);
            return bootstrap->missing == 0
                       ? coll_fail(reterr, COLL_ERR_TIMEOUT, "%s has not answered in time", name)
                       : coll_fail(reterr, COLL_ERR_TIMEOUT,
                                   "%s at %s port %d still waits for %s of %d", name,
                                   bootstrap->host, bootstrap->port, missing,
                                   bootstrap->world_size);
        }
        if (coll_bootstrap_link_is_silent(link)) {
            return coll_bootstrap_blame(bootstrap, link, "is on a host that answers no more,",
                                        reterr);
        }
        (void)poll(&item, 1, base_deadline_poll_ms(deadline_ns, COLL_BOOTSTRAP_SLICE_MS));
        status = take(bootstrap, link, kind, frame, &came, reterr);
    }
    return status;
}

void coll_bootstrap_tell(const coll_bootstrap *bootstrap, coll_bootstrap_link *link,
                         const coll_error *error)
{
    coll_bootstrap_note note = {.status = error->status, .process = bootstrap->process};
    (void)snprintf(note.message, sizeof note.message, "%s", error->message);
    (void)coll_bootstrap_link_note(link, &note, 0, NULL);
    (void)shutdown(link->fd, SHUT_WR);
}

void coll_bootstrap_fail(coll_bootstrap *bootstrap, const coll_error *error)
{
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

static coll_status take_gift(const turn *t, coll_bootstrap_link *link, uint64_t *missing,
                             coll_error *reterr)
{
    const coll_bootstrap *bootstrap = t->bootstrap;
    coll_bootstrap_frame frame;
    bool came = false;
    const coll_status status = take(bootstrap, link, COLL_BOOTSTRAP_BYTES, &frame, &came, reterr);
    if (status != COLL_OK || !came) {
        return status;
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

/* Rank 0: looks once at each link. A rank that has given may still end, and is watched. */
static coll_status look(const turn *t, uint64_t *missing, coll_error *reterr)
{
    struct pollfd items[COLL_RANKS_MAX] = {{.fd = -1}};
    const coll_bootstrap *bootstrap = t->bootstrap;
    coll_status status = COLL_OK;
    for (int rank = 1; rank < bootstrap->world_size; rank++) {
        items[rank] = (struct pollfd){.fd = bootstrap->links[rank]->fd,
                                      .events = *missing >> rank & 1 ? POLLIN : POLLRDHUP};
    }
    const bool came = poll(items, (nfds_t)bootstrap->world_size,
                           base_deadline_poll_ms(t->deadline_ns, COLL_BOOTSTRAP_SLICE_MS)) > 0;
    for (int rank = 1; status == COLL_OK && rank < bootstrap->world_size; rank++) {
        coll_bootstrap_link *link = bootstrap->links[rank];
        if (came && items[rank].revents != 0) {
            status = (*missing >> rank & 1) != 0
                         ? take_gift(t, link, missing, reterr)
                         : coll_bootstrap_blame(bootstrap, link, "has ended", reterr);
        } else if (coll_bootstrap_link_is_silent(link)) {
            status =
                coll_bootstrap_blame(bootstrap, link, "is on a host that answers no more,", reterr);
        }
    }
    return status;
}

/* Rank 0: until all have given; then gives to all what all have given. Who has it may go. */
static coll_status serve(const turn *t, coll_error *reterr)
{
    const coll_bootstrap *bootstrap = t->bootstrap;
    uint64_t missing = coll_bootstrap_others(bootstrap);
    const coll_bootstrap_frame frame = {COLL_BOOTSTRAP_BYTES, bootstrap->exchanges, t->all,
                                        (size_t)bootstrap->world_size * t->size_bytes};
    coll_status status = COLL_OK;
    while (status == COLL_OK && missing != 0) {
        if (base_now_ns() >= t->deadline_ns) {
            char names[COLL_BOOTSTRAP_TEXT_BYTES];
            coll_bootstrap_list(missing, names, sizeof names);
            return coll_fail(reterr, COLL_ERR_TIMEOUT, "%s did not come to exchange %llu in time",
                             names, (unsigned long long)bootstrap->exchanges);
        }
        status = look(t, &missing, reterr);
    }
    for (int rank = 1; status == COLL_OK && rank < bootstrap->world_size; rank++) {
        status = coll_bootstrap_link_send(bootstrap->links[rank], &frame, t->deadline_ns, reterr);
    }
    return status;
}

/* The others. */
static coll_status give(const turn *t, const void *mine, coll_error *reterr)
{
    const coll_bootstrap *bootstrap = t->bootstrap;
    const size_t bytes = (size_t)bootstrap->world_size * t->size_bytes;
    coll_bootstrap_frame frame = {COLL_BOOTSTRAP_BYTES, bootstrap->exchanges, mine, t->size_bytes};
    coll_status status =
        coll_bootstrap_link_send(bootstrap->links[0], &frame, t->deadline_ns, reterr);
    if (status == COLL_OK) {
        status =
            coll_bootstrap_hear(bootstrap, COLL_BOOTSTRAP_BYTES, &frame, t->deadline_ns, reterr);
    }
    if (status == COLL_OK && frame.size_bytes != bytes) {
        status = coll_bootstrap_blame(bootstrap, bootstrap->links[0], "broke the protocol", reterr);
    }
    if (status == COLL_OK) {
        memcpy(t->all, frame.body, bytes);
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
        status = serve(&t, &error);
    } else {
        status = give(&t, mine, &error);
    }
    if (status != COLL_OK) {
        coll_bootstrap_fail(bootstrap, &error);
        return coll_fail(reterr, status, "%s", error.message);
    }
    return COLL_OK;
}
