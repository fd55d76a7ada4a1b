/* budget/wire.h: what a text of a message may hold, in both directions. A terminal must not get
 * control characters from the other side, and no text is cut at a NUL. */
#include "budget/wire.h"

#include <budget.pb-c.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "budget/audit_report.h"
#include "budget/charge.h"
#include "proto/arena.h"
#include "support.h"

enum { ARENA_BYTES = 64 * 1024 };

static base_status take_request(Ringfence__Budget__Request *request, base_error *error)
{
    uint8_t data[2048];
    proto_arena arena = {0};
    Ringfence__Budget__Request *got = NULL;
    request->version = BUDGET_WIRE_VERSION;
    assert_true(ringfence__budget__request__get_packed_size(request) <= sizeof data);
    const size_t bytes = ringfence__budget__request__pack(request, data);
    assert_ok(proto_arena_init(&arena, ARENA_BYTES, error), error);
    const base_status status = budget_request_unpack(data, bytes, &arena, &got, error);
    proto_arena_fini(&arena);
    return status;
}

static base_status take_response(Ringfence__Budget__Response *response, base_error *error)
{
    uint8_t data[4096];
    proto_arena arena = {0};
    Ringfence__Budget__Response *got = NULL;
    response->version = BUDGET_WIRE_VERSION;
    assert_true(ringfence__budget__response__get_packed_size(response) <= sizeof data);
    const size_t bytes = ringfence__budget__response__pack(response, data);
    assert_ok(proto_arena_init(&arena, ARENA_BYTES, error), error);
    const base_status status = budget_response_unpack(data, bytes, &arena, &got, error);
    proto_arena_fini(&arena);
    return status;
}

static base_status void_label(char *label)
{
    base_error error = {0};
    Ringfence__Budget__Request request = RINGFENCE__BUDGET__REQUEST__INIT;
    Ringfence__Budget__Void body = RINGFENCE__BUDGET__VOID__INIT;
    body.label = label;
    request.request_id = (char *)(uintptr_t) "r-1";
    request.body_case = RINGFENCE__BUDGET__REQUEST__BODY_VOID;
    request.void_ = &body;
    return take_request(&request, &error);
}

static base_status audit_finding(char *finding)
{
    base_error error = {0};
    char *findings[] = {(char *)(uintptr_t) "the first", finding};
    Ringfence__Budget__Response response = RINGFENCE__BUDGET__RESPONSE__INIT;
    Ringfence__Budget__Audited body = RINGFENCE__BUDGET__AUDITED__INIT;
    body.findings = findings;
    body.n_findings = 2;
    response.request_id = (char *)(uintptr_t) "r-1";
    response.verdict = RINGFENCE__BUDGET__VERDICT__VERDICT_DONE;
    response.body_case = RINGFENCE__BUDGET__RESPONSE__BODY_AUDITED;
    response.audited = &body;
    return take_response(&response, &error);
}

/* FNV-1a. */
static void mix(uint64_t *digest, const char *text)
{
    for (; *text != '\0'; text++) {
        *digest = (*digest ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    }
}

/* Of all fields of a message, and of those in it. */
static void mix_message(uint64_t *digest, /* NOLINT(misc-no-recursion) */
                        const ProtobufCMessageDescriptor *message)
{
    for (unsigned i = 0; i < message->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->fields[i];
        char row[128];
        (void)snprintf(row, sizeof row, "%s.%s %u %d %d\n", message->short_name, field->name,
                       field->id, (int)field->type, (int)field->label);
        mix(digest, row);
        if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
            mix_message(digest, field->descriptor);
        }
    }
}

/* Either side refuses a field that it does not know: an older client could not read that its evidence was taken. */
static void other_fields_are_another_version(void **state)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    char found[64];
    (void)state;
    mix_message(&digest, &ringfence__budget__request__descriptor);
    mix_message(&digest, &ringfence__budget__response__descriptor);
    (void)snprintf(found, sizeof found, "version %d, fields %016" PRIx64, (int)BUDGET_WIRE_VERSION,
                   digest);
    assert_string_equal(
        found, "version 6, fields 165064a9202630ac"); /* other fields: raise the version, too */
}

/* A newer program may have fields that an older one does not know: the versions come first, and both
 * are named. */
static void another_version_is_named_before_an_unknown_field(void **state)
{
    static const uint8_t newer[] = {0x08, BUDGET_WIRE_VERSION + 1, 0x98, 0x06, 0x01};
    static const uint8_t older[] = {0x08, BUDGET_WIRE_VERSION - 1, 0x98, 0x06, 0x01};
    static const uint8_t same[] = {0x08, BUDGET_WIRE_VERSION, 0x12, 3, 'r', '-', '1', 0x98, 0x06,
                                   1};
    base_error error = {0};
    proto_arena arena = {0};
    Ringfence__Budget__Request *request = NULL;
    Ringfence__Budget__Response *response = NULL;
    (void)state;
    assert_ok(proto_arena_init(&arena, ARENA_BYTES, &error), &error);
    assert_status(budget_request_unpack(newer, sizeof newer, &arena, &request, &error),
                  BASE_ERR_UNSUPPORTED);
    assert_string_equal(error.message, "the client speaks version 7 of the protocol, and the "
                                       "service version 6: update the service");
    assert_status(budget_request_unpack(older, sizeof older, &arena, &request, &error),
                  BASE_ERR_UNSUPPORTED);
    assert_string_equal(error.message, "the client speaks version 5 of the protocol, and the "
                                       "service version 6: update the client");
    assert_status(budget_response_unpack(newer, sizeof newer, &arena, &response, &error),
                  BASE_ERR_UNSUPPORTED);
    assert_string_equal(error.message, "the service speaks version 7 of the protocol, and the "
                                       "client version 6: update the client");
    assert_status(budget_response_unpack(older, sizeof older, &arena, &response, &error),
                  BASE_ERR_UNSUPPORTED);
    assert_string_equal(error.message, "the service speaks version 5 of the protocol, and the "
                                       "client version 6: update the service");
    /* of the same version it is refused, under the request's own id */
    assert_status(budget_request_unpack(same, sizeof same, &arena, &request, &error),
                  BASE_ERR_INVALID);
    assert_non_null(request);
    assert_string_equal(request->request_id, "r-1");
    assert_status(budget_response_unpack(same, sizeof same, &arena, &response, &error),
                  BASE_ERR_INVALID);
    proto_arena_fini(&arena);
}

static void control_characters_are_refused(void **state)
{
    (void)state;
    assert_int_equal(void_label((char *)(uintptr_t) "a label"), BASE_OK);
    assert_int_equal(audit_finding((char *)(uintptr_t) "row 7: \xe2\x80\xa6"), BASE_OK);
    for (int byte = 1; byte < 256; byte++) {
        const bool control = byte < 0x20 || byte == 0x7f;
        char text[] = {'a', (char)byte, 'b', '\0'};
        assert_int_equal(void_label(text), control ? BASE_ERR_INVALID : BASE_OK);
        assert_int_equal(audit_finding(text), control ? BASE_ERR_INVALID : BASE_OK);
    }
}

/* What one side writes the other reads; counts and texts that do not go together are refused. */
static void an_audit_comes_back_as_it_went(void **state)
{
    static budget_audit_report report;
    static budget_audit_report back;
    Ringfence__Budget__Audited audited;
    char *findings[BUDGET_AUDIT_FINDINGS_KEPT];
    (void)state;
    report = (budget_audit_report){.rows = 7, .bad_sequence = 3, .finding_count = 20};
    for (int i = 0; i < BUDGET_AUDIT_FINDINGS_KEPT; i++) {
        (void)snprintf(report.findings[i], sizeof report.findings[i], "finding %d", i);
    }
    (void)snprintf(report.digest, sizeof report.digest, "%032d", 5);
    budget_audit_report_write(&report, &audited, findings);
    assert_true(budget_audit_report_read(&audited, &back));
    assert_memory_equal(&report, &back, sizeof report);
    audited.n_findings--;
    assert_false(budget_audit_report_read(&audited, &back));
    budget_audit_report_write(&report, &audited, findings);
    audited.good = true;
    assert_false(budget_audit_report_read(&audited, &back));
    report = (budget_audit_report){.good = true, .rows = 7};
    budget_audit_report_write(&report, &audited, findings);
    assert_true(budget_audit_report_read(&audited, &back));
    assert_memory_equal(&report, &back, sizeof report);
}

static void a_charge_comes_back_as_it_went(void **state)
{
    base_error error = {0};
    budget_charge back;
    char long_name[BUDGET_NAME_BYTES + 1];
    Ringfence__Budget__BillLine line;
    const budget_charge charge = {
        .vendor = "vast",
        .line_id = "7",
        .label = "run",
        .instance_id = "pod",
        .usd_micro = -5,
        .at_s = 1,
        .until_s = 2,
    };
    (void)state;
    budget_shape_write(&budget_charge_shape, &charge, &line.base);
    assert_ok(budget_charge_read(&line, &back, &error), &error);
    assert_memory_equal(&charge, &back, sizeof charge);
    memset(long_name, 'x', BUDGET_NAME_BYTES);
    long_name[BUDGET_NAME_BYTES] = '\0';
    line.vendor = long_name;
    assert_status(budget_charge_read(&line, &back, &error), BASE_ERR_INVALID);
    budget_shape_write(&budget_charge_shape, &charge, &line.base);
    line.until = -1;
    assert_status(budget_charge_read(&line, &back, &error), BASE_ERR_INVALID);
}

typedef union shape_message {
    ProtobufCMessage base;
    Ringfence__Budget__Account account;
    Ringfence__Budget__Entry entry;
    Ringfence__Budget__Difference difference;
    Ringfence__Budget__BillLine line;
    Ringfence__Budget__Authorize authorize;
} shape_message;

typedef union shape_record {
    budget_account account;
    budget_entry entry;
    budget_difference difference;
    budget_charge charge;
    budget_claims claims;
} shape_record;

static void *field_of(shape_message *message, unsigned i)
{
    return (char *)message + message->base.descriptor->fields[i].offset;
}

/* Gives each field a value of its own. */
static void fill_fields(shape_message *message, char texts[][8], uint8_t bytes[])
{
    const ProtobufCMessageDescriptor *type = message->base.descriptor;
    for (unsigned i = 0; i < type->n_fields; i++) {
        switch (type->fields[i].type) {
        case PROTOBUF_C_TYPE_STRING:
            (void)snprintf(texts[i], 8, "t%u", i);
            if (type->fields[i].label == PROTOBUF_C_LABEL_REPEATED) {
                static char *list[2];
                list[0] = list[1] = texts[i];
                *(char ***)field_of(message, i) = list;
                *(size_t *)(void *)((char *)message + type->fields[i].quantifier_offset) = 2;
                break;
            }
            *(char **)field_of(message, i) = texts[i];
            break;
        case PROTOBUF_C_TYPE_INT64:
            *(int64_t *)field_of(message, i) = i + 1;
            break;
        case PROTOBUF_C_TYPE_BOOL:
            *(protobuf_c_boolean *)field_of(message, i) = 1;
            break;
        default:
            assert_int_equal(type->fields[i].type, PROTOBUF_C_TYPE_BYTES);
            *(ProtobufCBinaryData *)field_of(message, i) =
                (ProtobufCBinaryData){.len = BUDGET_DIGEST_BYTES, .data = bytes};
        }
    }
}

/* Message to record to message: every field of it has its member. */
static void check_shape(const budget_shape *shape, const ProtobufCMessageDescriptor *type)
{
    enum { FIELDS_MAX = 32, PACKED_BYTES = 1024 };
    char texts[FIELDS_MAX][8];
    uint8_t bytes[BUDGET_DIGEST_BYTES];
    uint8_t packed[2][PACKED_BYTES];
    char too_long[BUDGET_ANSWER_MESSAGE_BYTES + 1];
    shape_message message;
    shape_message back;
    shape_record record = {0};
    assert_true(type->n_fields <= FIELDS_MAX && type->sizeof_message <= sizeof message);
    memset(bytes, 0x5a, sizeof bytes);
    protobuf_c_message_init(type, &message);
    fill_fields(&message, texts, bytes);
    assert_true(budget_shape_read(shape, &message.base, &record));
    budget_shape_write(shape, &record, &back.base);
    const size_t packed_bytes = protobuf_c_message_get_packed_size(&message.base);
    assert_true(packed_bytes <= PACKED_BYTES);
    assert_int_equal(protobuf_c_message_pack(&message.base, packed[0]), packed_bytes);
    assert_int_equal(protobuf_c_message_get_packed_size(&back.base), packed_bytes);
    (void)protobuf_c_message_pack(&back.base, packed[1]);
    assert_memory_equal(packed[0], packed[1], packed_bytes);
    memset(too_long, 'x', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = '\0';
    for (unsigned i = 0; i < type->n_fields; i++) {
        if (type->fields[i].type == PROTOBUF_C_TYPE_STRING &&
            type->fields[i].label != PROTOBUF_C_LABEL_REPEATED) {
            char *good = *(char **)field_of(&message, i);
            *(char **)field_of(&message, i) = too_long;
            assert_false(budget_shape_read(shape, &message.base, &record));
            *(char **)field_of(&message, i) = good;
        }
    }
}

static void shared_structs_have_a_member_for_each_field(void **state)
{
    (void)state;
    check_shape(&budget_account_shape, &ringfence__budget__account__descriptor);
    check_shape(&budget_entry_shape, &ringfence__budget__entry__descriptor);
    check_shape(&budget_difference_shape, &ringfence__budget__difference__descriptor);
    check_shape(&budget_charge_shape, &ringfence__budget__bill_line__descriptor);
    check_shape(&budget_ask_shape, &ringfence__budget__authorize__descriptor);
}

static void texts_have_a_limit(void **state)
{
    char text[BUDGET_TEXT_BYTES_MAX + 2];
    (void)state;
    memset(text, 'x', sizeof text);
    text[BUDGET_TEXT_BYTES_MAX] = '\0';
    assert_int_equal(void_label(text), BASE_OK);
    assert_int_equal(audit_finding(text), BASE_OK);
    text[BUDGET_TEXT_BYTES_MAX] = 'x';
    text[BUDGET_TEXT_BYTES_MAX + 1] = '\0';
    assert_int_equal(void_label(text), BASE_ERR_INVALID);
    assert_int_equal(audit_finding(text), BASE_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_version_is_named_before_an_unknown_field),
        cmocka_unit_test(other_fields_are_another_version),
        cmocka_unit_test(control_characters_are_refused),
        cmocka_unit_test(texts_have_a_limit),
        cmocka_unit_test(an_audit_comes_back_as_it_went),
        cmocka_unit_test(a_charge_comes_back_as_it_went),
        cmocka_unit_test(shared_structs_have_a_member_for_each_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
