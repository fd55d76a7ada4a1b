/* Puts a body into a message that has one of several: an Envelope, a Request, a Response. Pure. */
#ifndef PROTO_BODY_H
#define PROTO_BODY_H

struct ProtobufCMessage;

/* Sets the member of message's oneof that has the body's type, and the case. The type must be that
 * of one member. The message borrows the body. */
void proto_set_body(struct ProtobufCMessage *message, struct ProtobufCMessage *body);

#endif
