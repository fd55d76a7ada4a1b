/* The all-gather itself: each rank gives its bytes to rank 0, which gives those of all to each. Called by
 * coll_context_create, as the options' exchange. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "bootstrap/bootstrap.h"

/* ---- what is wrong ---- */

coll_status coll_bootstrap_blame(const coll_bootstrap *bootstrap, const coll_bootstrap_link *link,
                                 const char *what, coll_error *reterr)
{
    char name[COLL_BOOTSTRAP_TEXT_BYTES];
    char missing[COLL_BOOTSTRAP_TEXT_BYTES];
    const uint64_t others = bootstrap->missing & ~(UINT64_C(1) << link->rank) & ~UINT64_C(1);
    coll_bootstrap_link_text(link, name, sizeof name);
    coll_bootstrap_list(others, missing, sizeof missing);
    if (bootstrap->exchanges > 0) {
        return coll_fail(reterr, COLL_ERR_PEER, "%s %s in exchange %llu%s%s%s", name, what,
                         (unsigned long long)bootstrap->exchanges, others != 0 ? " before " : "",
                         others != 0 ? missing : "", others != 0 ? " had come to it" : "");
    }
    return others == 0
               ? coll_fail(reterr, COLL_ERR_PEER, "%s %s before all ranks had come", name, what)
               : coll_fail(reterr, COLL_ERR_PEER, "%s %s before %s of %d had come to %s port %d%s",
                           name, what, missing, bootstrap->world_size, bootstrap->host,
                           bootstrap->port, bootstrap->refused);
}

/* Rank 0 has not answered by the deadline. */
static coll_status fail_late(const coll_bootstrap *bootstrap, coll_error *reterr)
{
    char name[COLL_BOOTSTRAP_TEXT_BYTES];
    char missing[COLL_BOOTSTRAP_TEXT_BYTES];
    coll_bootstrap_link_text(bootstrap->links[0], name, sizeof name);
    coll_bootstrap_list(bootstrap->missing, missing, sizeof missing);
    if ((bootstrap->missing & 1) != 0) {
        return coll_fail(reterr, COLL_ERR_TIMEOUT, "%s has not answered in time", name);
    }
    return bootstrap->exchanges > 0
               ? coll_fail(reterr, COLL_ERR_TIMEOUT, "%s still waits for %s in exchange %llu", name,
                           missing, (unsigned long long)bootstrap->exchanges)
               : coll_fail(reterr, COLL_ERR_TIMEOUT, "%s at %s port %d still waits for %s of %d",
                           name, bootstrap->host, bootstrap->port, missing, bootstrap->world_size);
}

/* ---- frames ---- */

coll_status coll_bootstrap_wait(coll_bootstrap *bootstrap, struct pollfd *items, size_t count,
                                bool only_sends, int64_t deadline_ns, coll_error *reterr)
{
    coll_bootstrap_link *links[COLL_RANKS_MAX];
    struct pollfd *of_links = items + count;
    size_t link_count = 0; /* poll refuses more items than the process may have files */
    coll_status status = COLL_OK;
    for (int rank = 0; rank < bootstrap->world_size; rank++) {
        coll_bootstrap_link *link = bootstrap->links[rank];
        const bool sends = link != NULL && link->output != NULL;
        if (link != NULL && (sends || !only_sends)) {
            of_links[link_count] = (struct pollfd){
                .fd = link->fd,
                .events = (short)((only_sends ? 0 : POLLIN) | (sends ? POLLOUT : 0))};
            links[link_count++] = link;
        }
    }
    const int came = poll(items, count + link_count,
                          base_deadline_poll_ms(deadline_ns, COLL_BOOTSTRAP_SLICE_MS));
    for (size_t i = 0; status == COLL_OK && i < link_count; i++) {
        links[i]->is_ready = (of_links[i].revents & ~POLLOUT) != 0;
        coll_bootstrap_link_flush(links[i]);
        if (!links[i]->is_ready && coll_bootstrap_link_is_silent(links[i])) {
            status = coll_bootstrap_blame(bootstrap, links[i], "is on a host that answers no more,",
                                          reterr);
        }
    }
    return status == COLL_OK && came == 0 && bootstrap->rank == 0 && bootstrap->missing != 0
               ? coll_bootstrap_tell_missing(bootstrap, reterr)
               : status;
}

coll_status coll_bootstrap_pass_on(const coll_bootstrap_link *link, const coll_bootstrap_note *note,
                                   coll_error *reterr)
{
    char name[COLL_BOOTSTRAP_TEXT_BYTES];
    coll_bootstrap_link_text(link, name, sizeof name);
    return coll_fail(reterr, (coll_status)note->status, "%s says: %.800s", name, note->message);
}

static coll_status take_note(coll_bootstrap *bootstrap, coll_bootstrap_link *link,
                             const coll_bootstrap_frame *frame, coll_error *reterr)
{
    coll_bootstrap_note note;
    if (!coll_bootstrap_note_read(frame->body, frame->size_bytes, &note)) {
        return coll_bootstrap_blame(bootstrap, link, "broke the protocol", reterr);
    }
    link->process = note.process;
    if (note.status != COLL_OK) {
        return coll_bootstrap_pass_on(link, &note, reterr);
    }
    if (link->rank != 0) {
        return coll_bootstrap_blame(bootstrap, link, "broke the protocol", reterr);
    }
    bootstrap->missing = note.missing;
    if (coll_address_is_loopback(bootstrap->address)) { /* other hosts reach it by another */
        (void)snprintf(bootstrap->address, sizeof bootstrap->address, "%s", note.address);
    }
    return COLL_OK;
}

coll_status coll_bootstrap_take(coll_bootstrap *bootstrap, coll_bootstrap_link *link,
                                coll_bootstrap_frame *frame, bool *came, coll_error *reterr)
{
    const coll_bootstrap_arrival arrival = coll_bootstrap_link_receive(link, frame);
    *came = arrival == COLL_BOOTSTRAP_CAME && frame->kind == COLL_BOOTSTRAP_BYTES &&
            frame->exchange == bootstrap->exchanges;
    if (*came || arrival == COLL_BOOTSTRAP_WAITS) {
        return COLL_OK;
    }
    if (arrival == COLL_BOOTSTRAP_CAME && frame->kind == COLL_BOOTSTRAP_NOTE) {
        return take_note(bootstrap, link, frame, reterr);
    }
    return coll_bootstrap_blame(
        bootstrap, link, arrival == COLL_BOOTSTRAP_ENDED ? "has ended" : "broke the protocol",
        reterr);
}

coll_status coll_bootstrap_hear(coll_bootstrap *bootstrap, coll_bootstrap_frame *frame,
                                int64_t deadline_ns, coll_error *reterr)
{
    struct pollfd items[COLL_RANKS_MAX];
    coll_bootstrap_frame none;
    bool came = false;
    for (;;) {
        coll_status status = coll_bootstrap_take(bootstrap, bootstrap->links[0],
                                                 frame != NULL ? frame : &none, &came, reterr);
        if (status != COLL_OK || came || (frame == NULL && bootstrap->missing == 0)) {
            return status;
        }
        if (base_now_ns() >= deadline_ns) {
            return fail_late(bootstrap, reterr);
        }
        status = coll_bootstrap_wait(bootstrap, items, 0, false, deadline_ns, reterr);
        if (status != COLL_OK) {
            return status;
        }
    }
}

coll_status coll_bootstrap_tell_missing(coll_bootstrap *bootstrap, coll_error *reterr)
{
    coll_bootstrap_note note = {.missing = bootstrap->missing, .process = bootstrap->process};
    coll_status status = COLL_OK;
    (void)snprintf(note.address, sizeof note.address, "%s", bootstrap->address);
    for (int rank = 1;
         bootstrap->told != note.missing && status == COLL_OK && rank < bootstrap->world_size;
         rank++) {
        status = (note.missing >> rank & 1) == 0
                     ? coll_bootstrap_link_note(bootstrap->links[rank], &note, reterr)
                     : COLL_OK;
    }
    bootstrap->told = note.missing;
    return status;
}

void coll_bootstrap_tell(const coll_bootstrap *bootstrap, coll_bootstrap_link *link,
                         const coll_error *error)
{
    coll_bootstrap_note note = {.status = error->status, .process = bootstrap->process};
    (void)snprintf(note.message, sizeof note.message, "%s", error->message);
    (void)coll_bootstrap_link_note(link, &note, NULL);
    (void)shutdown(link->fd, SHUT_WR);
}

void coll_bootstrap_fail(coll_bootstrap *bootstrap, const coll_error *error)
{
    bootstrap->failed = *error;
    for (int rank = 0; rank < bootstrap->world_size; rank++) {
        coll_bootstrap_link *link = bootstrap->links[rank];
        if (link != NULL && (bootstrap->rank == 0 || error->status == COLL_ERR_MEMORY)) {
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

static coll_status take_gift(const turn *t, coll_bootstrap_link *link, coll_error *reterr)
{
    coll_bootstrap *bootstrap = t->bootstrap;
    const uint64_t bit = UINT64_C(1) << link->rank;
    coll_bootstrap_frame frame;
    bool came = false;
    const coll_status status = coll_bootstrap_take(bootstrap, link, &frame, &came, reterr);
    if (status != COLL_OK || !came) {
        return status;
    }
    if ((bootstrap->missing & bit) == 0) {
        return coll_bootstrap_blame(bootstrap, link, "broke the protocol", reterr);
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
    bootstrap->missing &= ~bit;
    return COLL_OK;
}

/* Rank 0: until all have given. A rank that has may still end, and is watched. */
static coll_status gather(const turn *t, coll_error *reterr)
{
    struct pollfd items[COLL_RANKS_MAX];
    coll_bootstrap *bootstrap = t->bootstrap;
    coll_status status = COLL_OK;
    bootstrap->missing = coll_bootstrap_others(bootstrap);
    bootstrap->told = bootstrap->missing; /* nobody waits yet */
    while (status == COLL_OK && bootstrap->missing != 0) {
        if (base_now_ns() >= t->deadline_ns) {
            char names[COLL_BOOTSTRAP_TEXT_BYTES];
            coll_bootstrap_list(bootstrap->missing, names, sizeof names);
            return coll_fail(reterr, COLL_ERR_TIMEOUT, "%s did not come to exchange %llu in time",
                             names, (unsigned long long)bootstrap->exchanges);
        }
        status = coll_bootstrap_wait(bootstrap, items, 0, false, t->deadline_ns, reterr);
        for (int rank = 1; status == COLL_OK && rank < bootstrap->world_size; rank++) {
            coll_bootstrap_link *link = bootstrap->links[rank];
            status = link->is_ready ? take_gift(t, link, reterr) : COLL_OK;
        }
    }
    return status;
}

/* Rank 0: gives to all what all have given. Who has it may go. */
static coll_status scatter(const turn *t, coll_error *reterr)
{
    struct pollfd items[COLL_RANKS_MAX];
    coll_bootstrap *bootstrap = t->bootstrap;
    const coll_bootstrap_frame frame = {COLL_BOOTSTRAP_BYTES, bootstrap->exchanges, t->all,
                                        (size_t)bootstrap->world_size * t->size_bytes};
    coll_status status = COLL_OK;
    for (int rank = 1; status == COLL_OK && rank < bootstrap->world_size; rank++) {
        status = coll_bootstrap_link_send(bootstrap->links[rank], &frame, reterr);
    }
    for (int rank = 1; status == COLL_OK && rank < bootstrap->world_size;) {
        const coll_bootstrap_link *link = bootstrap->links[rank];
        if (link->output == NULL) {
            rank++;
        } else if (base_now_ns() >= t->deadline_ns) {
            char name[COLL_BOOTSTRAP_TEXT_BYTES];
            coll_bootstrap_link_text(link, name, sizeof name);
            status = coll_fail(reterr, COLL_ERR_TIMEOUT,
                               "%s did not take the bytes of exchange %llu in time", name,
                               (unsigned long long)bootstrap->exchanges);
        } else {
            status = coll_bootstrap_wait(bootstrap, items, 0, true, t->deadline_ns, reterr);
        }
    }
    return status;
}

/* The others. */
static coll_status give(const turn *t, const void *mine, coll_error *reterr)
{
    coll_bootstrap *bootstrap = t->bootstrap;
    const size_t bytes = (size_t)bootstrap->world_size * t->size_bytes;
    coll_bootstrap_frame frame = {COLL_BOOTSTRAP_BYTES, bootstrap->exchanges, mine, t->size_bytes};
    bootstrap->missing = 1;
    coll_status status = coll_bootstrap_link_send(bootstrap->links[0], &frame, reterr);
    if (status == COLL_OK) {
        status = coll_bootstrap_hear(bootstrap, &frame, t->deadline_ns, reterr);
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
        status = gather(&t, &error);
        status = status == COLL_OK ? scatter(&t, &error) : status;
    } else {
        status = give(&t, mine, &error);
    }
    if (status != COLL_OK) {
        coll_bootstrap_fail(bootstrap, &error);
        return coll_fail(reterr, status, "%s", error.message);
    }
    return COLL_OK;
}
