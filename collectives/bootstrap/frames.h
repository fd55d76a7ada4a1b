/* What the ranks of a bootstrap say to each other. docs/WIRE.md has it as a table.
 *
 * A connection begins with the handshake of tcp (transport/tcp/handshake.h), under a key of its own
 * that is derived from the secret: so its hellos have another magic. Instead of its answer, rank 0 may
 * send a refusal of the same length. Then come frames, sealed as those of tcp are, always encrypted.
 *
 * Pure; any thread. */
#ifndef COLL_SRC_BOOTSTRAP_FRAMES_H
#define COLL_SRC_BOOTSTRAP_FRAMES_H

#include "common/limits.h"
#include "transport/socket/interface.h"
#include "transport/socket/net.h"
#include "transport/tcp/handshake.h"

enum {
    COLL_BOOTSTRAP_MAGIC = 0x31426652,   /* "RfB1": hellos, and heads of frames */
    COLL_BOOTSTRAP_REFUSAL = 0x58426652, /* "RfBX" */
    COLL_BOOTSTRAP_VERSION = 2,
    COLL_BOOTSTRAP_TAG_BYTES = 16, /* behind each frame's body */
};

typedef enum coll_bootstrap_kind {
    COLL_BOOTSTRAP_NOTE = 1,  /* a coll_bootstrap_note */
    COLL_BOOTSTRAP_BYTES = 2, /* of an exchange: to rank 0 its sender's, from it those of all */
} coll_bootstrap_kind;

/* Bytes of a body, at most: to rank 0, and from it. */
enum {
    COLL_BOOTSTRAP_GIVE_BYTES_MAX = COLL_EXCHANGE_BYTES_MAX,
    COLL_BOOTSTRAP_ALL_BYTES_MAX = COLL_RANKS_MAX * COLL_EXCHANGE_BYTES_MAX,
};

typedef struct coll_bootstrap_process {
    uint32_t pid;
    char host[COLL_HOST_BYTES];
} coll_bootstrap_process;

/* To rank 0 the first frame, which says who the sender is. From rank 0 whenever a rank has come, where an
 * exchange stands still, and the last frame if it fails. To rank 0 also the last frame of a rank
 * that has no memory. */
typedef struct coll_bootstrap_note {
    uint64_t missing; /* a bit for each rank that has not come, or not to the exchange */
    int32_t status;   /* COLL_OK, or how the sender has failed */
    coll_bootstrap_process process;
    char address[COLL_ADDRESS_BYTES]; /* by which other hosts have reached rank 0, or 127.0.0.1 */
    char message[COLL_ERROR_MESSAGE_BYTES]; /* of a failure; the body ends behind its '\0' */
} coll_bootstrap_note;

_Static_assert(sizeof(coll_bootstrap_note) == 8 + 4 + sizeof(coll_bootstrap_process) +
                                                  COLL_ADDRESS_BYTES + COLL_ERROR_MESSAGE_BYTES,
               "a note has no padding");
_Static_assert(sizeof(coll_bootstrap_note) <= COLL_BOOTSTRAP_GIVE_BYTES_MAX, "a note fits");
_Static_assert((int)COLL_BOOTSTRAP_ALL_BYTES_MAX <= (int)COLL_FRAME_BODY_BYTES_MAX,
               "a seal's most");

/* The keys: of connections, and for coll_context_options.job_key. */
void coll_bootstrap_derive(const void *secret, size_t secret_bytes, const char *label,
                           uint8_t key[COLL_JOB_KEY_BYTES]);
#define COLL_BOOTSTRAP_LINK_LABEL "ringfence bootstrap 1: exchange"
#define COLL_BOOTSTRAP_JOB_LABEL  "ringfence bootstrap 1: job"

/* A hello of this bootstrap's, with a fresh nonce. */
void coll_bootstrap_hello_make(coll_hello *hello, int rank, int peer, int world_size);

/* What rank 0 does with the first bytes of a connection. */
typedef enum coll_bootstrap_verdict {
    COLL_BOOTSTRAP_ADMIT = 0,
    COLL_BOOTSTRAP_DROP,   /* a stranger's */
    COLL_BOOTSTRAP_REFUSE, /* of another version or secret: a refusal has rank 0's version, and in
                            * `auth` whether it has a secret */
} coll_bootstrap_verdict;
coll_bootstrap_verdict coll_bootstrap_judge(const uint8_t key[COLL_JOB_KEY_BYTES],
                                            const uint8_t opening[COLL_OPENING_BYTES],
                                            coll_hello *theirs);

/* Whether a head can be one of a frame with this number, of at most bytes_max. */
bool coll_bootstrap_head_is_sound(const coll_frame_head *head, uint64_t number, size_t bytes_max);

size_t coll_bootstrap_note_bytes(const coll_bootstrap_note *note);

/* False: the body is none. Texts are ended, and clean. */
bool coll_bootstrap_note_read(const void *body, size_t size_bytes, coll_bootstrap_note *note);

#endif
