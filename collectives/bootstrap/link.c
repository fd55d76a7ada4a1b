/* Moves sealed frames over a bootstrap's connection. Called by admit.c, join.c and exchange.c. */
#include "bootstrap/link.h"

#include <errno.h>
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
    if (link == NULL) {
        (void)close(fd);
        return NULL;
    }
    memset(link, 0, sizeof *link);
    link->fd = fd;
    link->rank = rank;
    link->bytes_max = bytes_max;
    link->input = malloc(sizeof(coll_frame_head) + bytes_max + COLL_BOOTSTRAP_TAG_BYTES);
    coll_handshake_seals(key, listener, connector_hello, listener_hello, &link->in, &link->out);
    return link;
}

coll_status coll_bootstrap_link_check(const coll_bootstrap_link *link, coll_error *reterr)
{
    return link != NULL && link->input != NULL
               ? COLL_OK
               : coll_fail(reterr, COLL_ERR_MEMORY, "no memory for a link (%zu bytes)",
                           link != NULL ? link->bytes_max : sizeof *link);
}

void coll_bootstrap_link_destroy(coll_bootstrap_link *link)
{
    if (link != NULL) {
        (void)close(link->fd);
        coll_seal_wipe(&link->in);
        coll_seal_wipe(&link->out);
        free(link->input);
        free(link->output);
        free(link);
    }
}

bool coll_bootstrap_link_is_silent(const coll_bootstrap_link *link)
{
    return coll_silence_is_over(link->fd, COLL_BOOTSTRAP_HOST_TIMEOUT_NS);
}

void coll_bootstrap_link_flush(coll_bootstrap_link *link)
{
    while (link->output_sent < link->output_bytes) {
        const ssize_t sent =
            send(link->fd, link->output + link->output_sent, link->output_bytes - link->output_sent,
                 MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            return;
        }
        if (sent < 0 && errno != EINTR) {
            break; /* nobody is there to take it */
        }
        link->output_sent += sent > 0 ? (size_t)sent : 0;
    }
    free(link->output);
    link->output = NULL;
    link->output_bytes = 0;
    link->output_sent = 0;
}

coll_status coll_bootstrap_link_send(coll_bootstrap_link *link, const coll_bootstrap_frame *frame,
                                     coll_error *reterr)
{
    const coll_frame_head head = {.magic = COLL_BOOTSTRAP_MAGIC,
                                  .kind = frame->kind,
                                  .comm_id = frame->exchange,
                                  .number = link->sent,
                                  .body_bytes = (uint32_t)frame->size_bytes};
    const size_t whole_bytes = sizeof head + frame->size_bytes + COLL_BOOTSTRAP_TAG_BYTES;
    uint8_t *output = realloc(link->output, link->output_bytes + whole_bytes);
    if (output == NULL) {
        return coll_fail(reterr, COLL_ERR_MEMORY, "no memory for a frame (%zu bytes)", whole_bytes);
    }
    uint8_t *whole = output + link->output_bytes;
    uint8_t *body = whole + sizeof head;
    memcpy(whole, &head, sizeof head);
    (void)coll_seal_close(&link->out, &head, frame->body, body, body + frame->size_bytes);
    link->output = output;
    link->output_bytes += whole_bytes;
    link->sent++;
    coll_bootstrap_link_flush(link);
    return COLL_OK;
}

coll_status coll_bootstrap_link_note(coll_bootstrap_link *link, const coll_bootstrap_note *note,
                                     coll_error *reterr)
{
    const coll_bootstrap_frame frame = {
        .kind = COLL_BOOTSTRAP_NOTE, .body = note, .size_bytes = coll_bootstrap_note_bytes(note)};
    return coll_bootstrap_link_send(link, &frame, reterr);
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
