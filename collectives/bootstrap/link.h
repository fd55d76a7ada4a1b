/* One connection of a bootstrap after the handshake: sends and receives sealed frames. A frame that
 * the socket does not take waits in the link, and leaves with a flush. Never blocks. One thread. */
#ifndef COLL_SRC_BOOTSTRAP_LINK_H
#define COLL_SRC_BOOTSTRAP_LINK_H

#include "bootstrap/frames.h"

typedef struct coll_bootstrap_link {
    int fd;
    int rank; /* of the process at the other end */
    coll_bootstrap_process process;
    coll_seal in;
    coll_seal out;
    uint64_t received; /* frames */
    uint64_t sent;
    size_t bytes_max; /* of a body that may come */
    size_t input_bytes;
    uint8_t *input; /* a frame as it comes */
    uint8_t *output;
    size_t output_begin;
    size_t output_end;
} coll_bootstrap_link;

/* A frame that has come. Its body stays until the next receive. */
typedef struct coll_bootstrap_frame {
    coll_bootstrap_kind kind;
    uint64_t exchange; /* of GIVE and ALL: its number, from 1 */
    const void *body;
    size_t size_bytes;
} coll_bootstrap_frame;

typedef enum coll_bootstrap_arrival {
    COLL_BOOTSTRAP_WAITS = 0, /* nothing whole is there yet */
    COLL_BOOTSTRAP_CAME,
    COLL_BOOTSTRAP_ENDED,  /* the connection has */
    COLL_BOOTSTRAP_BROKEN, /* that was no frame of the other side's */
} coll_bootstrap_arrival;

/* Takes over a connected, non-blocking socket: closed by the destroy, and where this fails (NULL, for
 * want of memory). The hellos are those of the handshake. */
coll_bootstrap_link *coll_bootstrap_link_create(int fd, int rank,
                                                const uint8_t key[COLL_JOB_KEY_BYTES],
                                                bool listener, const coll_hello *connector_hello,
                                                const coll_hello *listener_hello);
void coll_bootstrap_link_destroy(coll_bootstrap_link *link);

/* Sends a frame, or keeps it. False: there is no memory for it. An end is found by receive. */
bool coll_bootstrap_link_send(coll_bootstrap_link *link, coll_bootstrap_kind kind,
                              uint64_t exchange, const void *body, size_t size_bytes);
void coll_bootstrap_link_flush(coll_bootstrap_link *link);

static inline bool coll_bootstrap_link_owes(const coll_bootstrap_link *link)
{
    return link->output_begin < link->output_end;
}

coll_bootstrap_arrival coll_bootstrap_link_receive(coll_bootstrap_link *link,
                                                   coll_bootstrap_frame *frame);

/* "rank 1 (host h, pid 42)"; "rank 1" where it has not said who it is. */
void coll_bootstrap_link_text(const coll_bootstrap_link *link, char *text, size_t size_bytes);

#endif
