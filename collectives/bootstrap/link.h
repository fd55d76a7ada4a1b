/* One connection of a bootstrap after the handshake: sends and receives sealed frames. One thread. */
#ifndef COLL_SRC_BOOTSTRAP_LINK_H
#define COLL_SRC_BOOTSTRAP_LINK_H

#include "base/clock.h"
#include "bootstrap/frames.h"
#include "ringfence/coll_error.h"

enum {
    COLL_BOOTSTRAP_SLICE_MS = 500, /* between two looks at hosts that may be silent */
    COLL_BOOTSTRAP_TEXT_BYTES = 160,
};
#define COLL_BOOTSTRAP_HOST_TIMEOUT_NS (COLL_HOST_TIMEOUT_S * BASE_NS_PER_S)

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
    size_t output_bytes;
    size_t output_sent;
    uint8_t *output; /* (output_bytes) frames that the socket had no room for; NULL: none */
    bool is_ready;   /* coll_bootstrap_wait: something has come, or an end */
} coll_bootstrap_link;

/* The body of one that has come stays until the next receive. */
typedef struct coll_bootstrap_frame {
    coll_bootstrap_kind kind;
    uint64_t exchange; /* of BYTES: its number, from 1 */
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
 * want of memory). Where there is memory for the link but none for what comes, it still sends a
 * note that says so. The hellos are those of the handshake. */
coll_bootstrap_link *coll_bootstrap_link_create(int fd, int rank,
                                                const uint8_t key[COLL_JOB_KEY_BYTES],
                                                bool listener, const coll_hello *connector_hello,
                                                const coll_hello *listener_hello);
/* COLL_ERR_MEMORY: it is NULL, or cannot receive. */
coll_status coll_bootstrap_link_check(const coll_bootstrap_link *link, coll_error *reterr);
void coll_bootstrap_link_destroy(coll_bootstrap_link *link);

/* Sends a frame. What the socket has no room for stays in `output`. COLL_ERR_MEMORY; an end is found by
 * receive. Never blocks. */
coll_status coll_bootstrap_link_send(coll_bootstrap_link *link, const coll_bootstrap_frame *frame,
                                     coll_error *reterr);
coll_status coll_bootstrap_link_note(coll_bootstrap_link *link, const coll_bootstrap_note *note,
                                     coll_error *reterr);

/* Sends what it has room for now. */
void coll_bootstrap_link_flush(coll_bootstrap_link *link);

/* Never blocks. */
coll_bootstrap_arrival coll_bootstrap_link_receive(coll_bootstrap_link *link,
                                                   coll_bootstrap_frame *frame);

/* Whether the host at the other end answers no more. */
bool coll_bootstrap_link_is_silent(const coll_bootstrap_link *link);

/* "rank 1 (host h, pid 42)"; "rank 1" where it has not said who it is. */
void coll_bootstrap_link_text(const coll_bootstrap_link *link, char *text, size_t size_bytes);

#endif
