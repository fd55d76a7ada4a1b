/* What Envelopes, Requests and Responses have in common: a version, and one of several bodies.
 * Pure. */
#ifndef PROTO_BODY_H
#define PROTO_BODY_H

#include "base/status.h"

struct ProtobufCMessage;

/* BASE_ERR_UNSUPPORTED: `sender` ("the agent") speaks another version than `receiver`, which is this
 * program. The message names both, and the older one is to be updated. It comes before any other
 * check of a message, because a newer one may have fields and sizes that are not known here. */
BASE_MUST_CHECK base_status proto_version_check(const char *sender, unsigned sent,
                                                const char *receiver, unsigned spoken,
                                                base_error *reterr);

/* Sets the member of message's oneof that has the body's type, and the case. The type must be that
 * of one member. The message borrows the body. */
void proto_set_body(struct ProtobufCMessage *message, struct ProtobufCMessage *body);

#endif
