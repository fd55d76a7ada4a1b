/* Envelopes on the edge: packed from and unpacked into checked messages of control.proto.
 *
 * Unpacking takes its memory from a proto_arena the caller made once: bounded, and nothing is
 * allocated per message. What comes out has been checked: version, one body, sizes of strings and
 * bytes, ranks in range, texts without control characters. Who may send which body is the caller's
 * to say (`from`). Not shared between threads. */
#ifndef PROTO_ENVELOPE_H
#define PROTO_ENVELOPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/arena.h"

struct Ringfence__Control__Envelope;

typedef enum proto_side {
    PROTO_SIDE_LAUNCHER = 1,
    PROTO_SIDE_RANK = 2,
} proto_side;

/* Who a message is from, and where it is unpacked to. */
typedef struct proto_envelope_source {
    proto_side from;
    int world_size; /* of the job */
    proto_arena *arena;
} proto_envelope_source;

/* Unpacks and checks a message. *envelope lives in the arena until the next call with it.
 * BASE_ERR_INVALID says what is wrong. */
BASE_MUST_CHECK base_status proto_envelope_unpack(const void *data, size_t size_bytes,
                                                  const proto_envelope_source *source,
                                                  struct Ringfence__Control__Envelope **envelope,
                                                  base_error *reterr);

/* "join", "step", …: the name of a body's case, for messages. */
const char *proto_envelope_name(const struct Ringfence__Control__Envelope *envelope);

/* Replaces control characters (but for newline and tab) and broken UTF-8 by '?', in place: what a
 * peer says must not drive the terminal. */
void proto_text_tame(char *text);

#endif
