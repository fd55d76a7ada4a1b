/* Compares versions, and finds a body's place in a message by its type, so that no sender names its
 * case. Called by envelope.c and proto/client, and by the budget service and its clients. */
#include "proto/body.h"

#include <protobuf-c/protobuf-c.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"

base_status proto_version_check(const char *sender, unsigned sent, const char *receiver,
                                unsigned spoken, base_error *reterr)
{
    return sent == spoken
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_UNSUPPORTED,
                           "%s speaks version %u of the protocol, and %s version %u: update %s",
                           sender, sent, receiver, spoken, sent < spoken ? sender : receiver);
}

void proto_set_body(ProtobufCMessage *message, ProtobufCMessage *body)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    unsigned i = 0;
    while (i < type->n_fields && type->fields[i].descriptor != body->descriptor) {
        i++;
    }
    BASE_ASSERT(i < type->n_fields);
    const ProtobufCFieldDescriptor *field = &type->fields[i];
    BASE_ASSERT((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0);
    const uint32_t body_case = field->id;
    memcpy((char *)message + field->offset, &body, sizeof body);
    memcpy((char *)message + field->quantifier_offset, &body_case, sizeof body_case);
}
