/* Moves sealed frames over a bootstrap's connection. Called by admit.c, join.c and exchange.c. */
#include "bootstrap/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/socket/silence.h"

coll_bootstrap_link *coll_bootstrap_link_create(int fd, int rank,
                                                const uint8_t key[COLL_JOB_KEY_BYTES],
                                                bool listener, const coll_hello *connector_hello,
                                                const coll_hello *listener_hello)
{
    coll_bootstrap_link *link =
        aligned_alloc(_Alignof(coll_bootstrap_link), sizeof(coll_bootstrap_link));
    const size_t bytes_max =
        listener ? COLL_BOOTSTRAP_GIVE_BYTES_MAX : COLL_BOOTSTRAP_ALL_BYTES_MAX;
    uint8_t *input = malloc(sizeof(coll_frame_head) + bytes_max + COLL_BOOTSTRAP_TAG_BYTES);
    if (link == NULL || input == NULL) {
        free(link);
        free(input);
        (void)close(fd);
        return NULL;
    }
    memset(link, 0, sizeof *link);
    link->fd = fd;
    link->rank = rank;
    link->bytes_max = bytes_max;
    link->input = input;
    coll_handshake_seals(key, listener, connector_hello, listener_hello, &link->in, &link->out);
    return link;
}

void coll_bootstrap_link_destroy(coll_bootstrap_link *link)
{
    if (link != NULL) {
        (void)close(link->fd);
        coll_seal_wipe(&link->in);
        coll_seal_wipe(&link->out);
        free(link->input);
        free(link);
    }
}

bool coll_bootstrap_link_is_silent(const coll_bootstrap_link *link)
{
    return coll_silence_is_over(link->fd, COLL_BOOTSTRAP_HOST_TIMEOUT_NS);
}

static coll_status send_all(const coll_bootstrap_link *link, const uint8_t *data, size_t size_bytes,
                            int64_t deadline_ns, coll_error *reterr)
{
    struct pollfd item = {.fd = link->fd, .events = POLLOUT};
    size_t gone = 0;
    while (gone < size_bytes) {
        const ssize_t sent =
            send(link->fd, data + gone, size_bytes - gone, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0) {
            gone += (size_t)sent;
        } else if (errno == EAGAIN) {
            char name[COLL_BOOTSTRAP_TEXT_BYTES];
            coll_bootstrap_link_text(link, name, sizeof name);
            if (base_now_ns() >= deadline_ns) {
                return coll_fail(reterr, COLL_ERR_TIMEOUT, "%s did not take its bytes in time",
                                 name);
            }
            if (coll_bootstrap_link_is_silent(link)) {
                return coll_fail(reterr, COLL_ERR_PEER, "%s is on a host that answers no more",
                                 name);
            }
            (void)poll(&item, 1, base_deadline_poll_ms(deadline_ns, COLL_BOOTSTRAP_SLICE_MS));
        } else if (errno != EINTR) {
            return COLL_OK; /* nobody is there to take it */
        }
    }
    return COLL_OK;
}

coll_status coll_bootstrap_link_send(coll_bootstrap_link *link, const coll_bootstrap_frame *frame,
                                     int64_t deadline_ns, coll_error *reterr)
{
    const coll_frame_head head = {.magic = COLL_BOOTSTRAP_MAGIC,
                                  .kind = frame->kind,
                                  .comm_id = frame->exchange,
                                  .number = link->sent++,
                                  .body_bytes = (uint32_t)frame->size_bytes};
    const size_t whole_bytes = sizeof head + frame->size_bytes + COLL_BOOTSTRAP_TAG_BYTES;
    uint8_t *whole = malloc(whole_bytes);
    if (whole == NULL) {
        return coll_fail(reterr, COLL_ERR_MEMORY, "no memory for a frame");
    }
    uint8_t *body = whole + sizeof head;
    memcpy(whole, &head, sizeof head);
    (void)coll_seal_close(&link->out, &head, frame->body, body, body + frame->size_bytes);
    const coll_status status = send_all(link, whole, whole_bytes, deadline_ns, reterr);
    free(whole);
    return status;
}

coll_status coll_bootstrap_link_note(coll_bootstrap_link *link, const coll_bootstrap_note *note,
                                     int64_t deadline_ns, coll_error *reterr)
{
    const coll_bootstrap_frame frame = {
        .kind = COLL_BOOTSTRAP_NOTE, .body = note, .size_bytes = coll_bootstrap_note_bytes(note)};
    return coll_bootstrap_link_send(link, &frame, deadline_ns, reterr);
}

/* Reads until `wanted` bytes are there. */
static coll_bootstrap_arrival read_up_to(coll_bootstrap_link *link, size_t wanted)
{
    while (link->input_bytes < wanted) {
        const ssize_t got = recv(link->fd, link->input + link->input_bytes,
                                 wanted - link->input_bytes, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got < 0 && errno == EAGAIN ? COLL_BOOTSTRAP_WAITS : COLL_BOOTSTRAP_ENDED;
        }
        link->input_bytes += (size_t)got;
    }
    return COLL_BOOTSTRAP_CAME;
}

coll_bootstrap_arrival coll_bootstrap_link_receive(coll_bootstrap_link *link,
                                                   coll_bootstrap_frame *frame)
{
    coll_frame_head head;
    coll_bootstrap_arrival arrival = read_up_to(link, sizeof head);
    if (arrival != COLL_BOOTSTRAP_CAME) {
        return arrival;
    }
    memcpy(&head, link->input, sizeof head);
    if (!coll_bootstrap_head_is_sound(&head, link->received, link->bytes_max)) {
        return COLL_BOOTSTRAP_BROKEN;
    }
    arrival = read_up_to(link, sizeof head + head.body_bytes + COLL_BOOTSTRAP_TAG_BYTES);
    if (arrival != COLL_BOOTSTRAP_CAME) {
        return arrival;
    }
    uint8_t *body = link->input + sizeof head;
    if (!coll_seal_open(&link->in, &head, body, body + head.body_bytes)) {
        return COLL_BOOTSTRAP_BROKEN;
    }
    link->received++;
    link->input_bytes = 0;
    *frame = (coll_bootstrap_frame){.kind = (coll_bootstrap_kind)head.kind,
                                    .exchange = head.comm_id,
                                    .body = body,
                                    .size_bytes = head.body_bytes};
    return COLL_BOOTSTRAP_CAME;
}

void coll_bootstrap_link_text(const coll_bootstrap_link *link, char *text, size_t size_bytes)
{
    if (link->process.host[0] == '\0') {
        (void)snprintf(text, size_bytes, "rank %d", link->rank);
        return;
    }
    (void)snprintf(text, size_bytes, "rank %d (host %s, pid %u)", link->rank, link->process.host,
                   (unsigned)link->process.pid);
}
