/* Packs and unpacks Envelopes of control.proto, and checks them.
 *
 * Unpacking takes its memory from a proto_arena that the caller made once. So it is bounded, and no
 * message allocates. A message that was unpacked is checked: its version, one body, sizes of
 * strings and bytes, ranks in range, texts without control characters. The caller says with `from`
 * which bodies the sender may send. Not shared between threads. */
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
    PROTO_SIDE_HEAD = 3,  /* the launcher of node 0, to those of other hosts */
    PROTO_SIDE_AGENT = 4, /* the launcher of another host */
} proto_side;

/* The sender of a message, and the memory to unpack it into. */
typedef struct proto_envelope_source {
    proto_side from;
    int world_size; /* of the job; between head and agents: how many nodes */
    proto_arena *arena;
} proto_envelope_source;

/* Unpacks and checks a message. *envelope lives in the arena until the next call with that arena.
 * BASE_ERR_INVALID says what is wrong. */
BASE_MUST_CHECK base_status proto_envelope_unpack(const void *data, size_t size_bytes,
                                                  const proto_envelope_source *source,
                                                  struct Ringfence__Control__Envelope **envelope,
                                                  base_error *reterr);

/* The name of an envelope's body for messages: "join", "step", …. */
const char *proto_envelope_name(const struct Ringfence__Control__Envelope *envelope);

/* Replaces control characters (except newline and tab) and broken UTF-8 by '?'. So a peer's text
 * cannot control the terminal. */
void proto_text_tame(char *text);

#endif
