/* What is unpacked is checked, on both sides: called by the service and by its clients. */
#include "budget/wire.h"

#include <budget.pb-c.h>
#include <string.h>

#include "budget/claims.h"
#include "proto/body.h"

typedef Ringfence__Budget__Request request_type;
typedef Ringfence__Budget__Response response_type;

/* One value of a field. */
static bool value_fits(const ProtobufCFieldDescriptor *field, const void *value);

static bool text_fits(const char *text, size_t bytes_max)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t length = 0;
    for (; at[length] != '\0'; length++) {
        if (length >= bytes_max || at[length] < 0x20 || at[length] == 0x7f) {
            return false;
        }
    }
    return true;
}

static bool is_long_text(const char *name)
{
    return strcmp(name, "token") == 0 || strcmp(name, "receipts") == 0 || strcmp(name, "line") == 0;
}

/* Bytes are digests and keys of 32, or evidence. */
static bool bytes_fit(const ProtobufCFieldDescriptor *field, const ProtobufCBinaryData *bytes)
{
    if (strcmp(field->name, "evidence") == 0) {
        return bytes->len <= BUDGET_EVIDENCE_BYTES_MAX;
    }
    return bytes->len == 0 || bytes->len == BUDGET_DIGEST_BYTES;
}

static const void *at_offset(const ProtobufCMessage *message, unsigned offset_bytes)
{
    return (const uint8_t *)message + offset_bytes;
}

static size_t value_bytes(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_BYTES ? sizeof(ProtobufCBinaryData) : sizeof(void *);
}

static bool list_fits(const ProtobufCFieldDescriptor *field, const ProtobufCMessage *message)
{
    const size_t count = *(const size_t *)at_offset(message, field->quantifier_offset);
    const uint8_t *values = *(uint8_t *const *)at_offset(message, field->offset);
    if (count > BUDGET_LIST_MAX) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!value_fits(field, values + i * value_bytes(field))) {
            return false;
        }
    }
    return true;
}

/* Every field of a message and of those inside it; the depth is that of budget.proto. */
static bool message_fits(const ProtobufCMessage *message) /* NOLINT(misc-no-recursion) */
{
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        const bool oneof = (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
        if (field->type != PROTOBUF_C_TYPE_STRING && field->type != PROTOBUF_C_TYPE_BYTES &&
            field->type != PROTOBUF_C_TYPE_MESSAGE) {
            continue;
        }
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            if (!list_fits(field, message)) {
                return false;
            }
            continue;
        }
        if (oneof && *(const uint32_t *)at_offset(message, field->quantifier_offset) != field->id) {
            continue;
        }
        if (!value_fits(field, at_offset(message, field->offset))) {
            return false;
        }
    }
    return message->n_unknown_fields == 0;
}

static bool value_fits(const ProtobufCFieldDescriptor *field, const void *value)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return text_fits(*(const char *const *)value, is_long_text(field->name)
                                                          ? BUDGET_LONG_TEXT_BYTES_MAX
                                                          : BUDGET_TEXT_BYTES_MAX);
    case PROTOBUF_C_TYPE_BYTES:
        return bytes_fit(field, value);
    default: {
        const ProtobufCMessage *inner = *(const ProtobufCMessage *const *)value;
        return inner == NULL || message_fits(inner);
    }
    }
}

bool budget_request_id_ok(const char *request_id)
{
    const size_t length = strlen(request_id);
    return length > 0 && length < BUDGET_REQUEST_ID_BYTES &&
           strspn(request_id, "0123456789abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ._-") == length;
}

static base_status unpack(const ProtobufCMessageDescriptor *descriptor, const void *data,
                          size_t size_bytes, proto_arena *arena, ProtobufCMessage **message,
                          base_error *reterr)
{
    ProtobufCAllocator allocator = {proto_arena_alloc, proto_arena_free, arena};
    arena->used_bytes = 0;
    if (size_bytes > BUDGET_MESSAGE_BYTES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "a message of %zu bytes", size_bytes);
    }
    *message = protobuf_c_message_unpack(descriptor, &allocator, size_bytes, data);
    if (*message == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "a message of %zu bytes that is not a %s of budget.proto", size_bytes,
                         descriptor->short_name);
    }
    return BASE_OK;
}

static base_status check_fields(const ProtobufCMessage *message, base_error *reterr)
{
    return message_fits(message)
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "a %s with a field that is too long, of a wrong size, unknown, or holds "
                           "control characters",
                           message->descriptor->short_name);
}

base_status budget_request_unpack(const void *data, size_t size_bytes, proto_arena *arena,
                                  request_type **request, base_error *reterr)
{
    *request = NULL;
    ProtobufCMessage *message = NULL;
    base_status status =
        unpack(&ringfence__budget__request__descriptor, data, size_bytes, arena, &message, reterr);
    if (status != BASE_OK) {
        return status;
    }
    request_type *got = (request_type *)message;
    status =
        proto_version_check("the client", got->version, "the service", BUDGET_WIRE_VERSION, reterr);
    if (status == BASE_OK && !budget_request_id_ok(got->request_id)) {
        status = base_fail(reterr, BASE_ERR_INVALID, "a request without a proper id");
    }
    if (status != BASE_OK) {
        return status;
    }
    *request = got;
    status = check_fields(message, reterr);
    /* A NUL ends a text for C and not for protobuf: what is left of it packs to fewer bytes. */
    if (status == BASE_OK && protobuf_c_message_get_packed_size(message) != size_bytes) {
        status = base_fail(reterr, BASE_ERR_INVALID,
                           "a request with a NUL in a text, or not packed in the usual form");
    }
    if (status == BASE_OK && got->body_case == RINGFENCE__BUDGET__REQUEST__BODY__NOT_SET) {
        status = base_fail(reterr, BASE_ERR_INVALID, "a request that asks nothing");
    }
    if (status == BASE_OK && (got->known_sequence == 0) != (got->known_head.len == 0)) {
        status = base_fail(reterr, BASE_ERR_INVALID, "a sequence without its head");
    }
    return status;
}

base_status budget_response_unpack(const void *data, size_t size_bytes, proto_arena *arena,
                                   response_type **response, base_error *reterr)
{
    ProtobufCMessage *message = NULL;
    base_status status =
        unpack(&ringfence__budget__response__descriptor, data, size_bytes, arena, &message, reterr);
    if (status != BASE_OK) {
        return status;
    }
    response_type *got = (response_type *)message;
    status =
        proto_version_check("the service", got->version, "the client", BUDGET_WIRE_VERSION, reterr);
    if (status == BASE_OK) {
        status = check_fields(message, reterr);
    }
    if (status == BASE_OK && (got->verdict <= RINGFENCE__BUDGET__VERDICT__VERDICT_NONE ||
                              got->verdict > RINGFENCE__BUDGET__VERDICT__VERDICT_TRANSIENT)) {
        status = base_fail(reterr, BASE_ERR_INVALID, "an answer without a verdict");
    }
    if (status == BASE_OK) {
        *response = got;
    }
    return status;
}

const char *budget_request_name(const request_type *request)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(
        &ringfence__budget__request__descriptor, (unsigned)request->body_case);
    return field != NULL && request->body_case != 0 ? field->name : "empty";
}
