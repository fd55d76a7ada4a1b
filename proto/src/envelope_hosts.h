/* Checks of the messages between the launchers of several hosts. Private to envelope.c. */
#ifndef PROTO_ENVELOPE_HOSTS_H
#define PROTO_ENVELOPE_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

struct Ringfence__Control__Envelope;

/* Whether an agent, or the head, may send this body, and its fields are in range. Tames texts. */
bool proto_agent_body_fits(const struct Ringfence__Control__Envelope *envelope, int nodes);
bool proto_head_body_fits(const struct Ringfence__Control__Envelope *envelope);

/* Whether a text is short enough. Also tames it. (envelope.c) */
bool proto_text_fits(char *text, size_t bytes_max);

#endif
