/* proto/body.h: each body finds its place. */
#include "proto/body.h"

#include <budget.pb-c.h>
#include <control.pb-c.h>
#include <string.h>

#include "support.h"

/* Sets every body that the type has, each alone; returns how many there are. */
static int try_bodies(const ProtobufCMessageDescriptor *type)
{
    int count = 0;
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        union { /* all three fit */
            ProtobufCMessage base;
            Ringfence__Control__Envelope envelope;
            Ringfence__Budget__Request request;
            Ringfence__Budget__Response response;
        } message;
        ProtobufCMessage body = {0};
        const ProtobufCMessage *set = NULL;
        uint32_t body_case = 0;
        if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0) {
            continue;
        }
        protobuf_c_message_init(type, &message);
        body.descriptor = field->descriptor;
        proto_set_body(&message.base, &body);
        memcpy(&set, (char *)&message + field->offset, sizeof set);
        memcpy(&body_case, (char *)&message + field->quantifier_offset, sizeof body_case);
        assert_ptr_equal(set, &body);
        assert_int_equal(body_case, field->id); /* not that of another of the same type */
        count++;
    }
    return count;
}

static void a_body_is_found_by_its_type(void **state)
{
    (void)state;
    assert_true(try_bodies(&ringfence__control__envelope__descriptor) > 10);
    assert_true(try_bodies(&ringfence__budget__request__descriptor) > 10);
    assert_true(try_bodies(&ringfence__budget__response__descriptor) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_is_found_by_its_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
