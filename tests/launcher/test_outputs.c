/* job/outputs.h: texts come in parts and in any order, and are whole one after the other. */
#include "job/outputs.h"

#include <stdlib.h>
#include <string.h>

#include "support.h"

static base_error error;

static base_status add(launch_outputs *outputs, int rank, uint64_t index, const char *text,
                       bool more)
{
    return launch_outputs_add(outputs, rank, &(launch_output_part){index, text, more}, &error);
}

static void parts_make_texts_in_their_order(void **state)
{
    (void)state;
    launch_outputs outputs = {0};
    assert_ok(add(&outputs, 1, 1, "she ", true), &error);
    assert_ok(add(&outputs, 0, 0, "", true), &error);
    assert_ok(add(&outputs, 1, 1, "goes", false), &error);
    assert_int_equal(outputs.next, 0);
    assert_ok(add(&outputs, 0, 0, "he", true), &error);
    assert_ok(add(&outputs, 0, 0, " went", true), &error);
    assert_ok(add(&outputs, 0, 0, "", false), &error);
    assert_int_equal(outputs.next, 2);
    assert_string_equal(outputs.texts[0].text, "he went");
    assert_string_equal(outputs.texts[1].text, "she goes");
    launch_outputs_release(&outputs, 0);
    assert_int_equal(add(&outputs, 0, 0, "a", false), BASE_ERR_INVALID);
    assert_has(error.message, "has one already");
    assert_ok(add(&outputs, 0, LAUNCH_OUTPUTS_MAX - 1, "a", true), &error);
    assert_int_equal(add(&outputs, 0, LAUNCH_OUTPUTS_MAX, "a", false), BASE_ERR_INVALID);
    assert_has(error.message, "does not exist");
    assert_int_equal(add(&outputs, 1, LAUNCH_OUTPUTS_MAX - 1, "a", false), BASE_ERR_INVALID);
    assert_has(error.message, "of rank 0");
    launch_outputs_fini(&outputs);
}

static void a_text_has_a_limit(void **state)
{
    (void)state;
    enum { PART = 1 << 20, PARTS = PROTO_OUTPUT_BYTES_MAX / PART };
    launch_outputs outputs = {0};
    char *part = malloc(PART + 1);
    assert_non_null(part);
    memset(part, 'a', PART);
    part[PART] = '\0';
    for (int i = 0; i < PARTS; i++) {
        assert_ok(add(&outputs, 0, 0, part, true), &error);
    }
    assert_int_equal(add(&outputs, 0, 0, "b", true), BASE_ERR_LIMIT);
    assert_has(error.message, "more than 67108864 bytes");
    assert_ok(add(&outputs, 0, 0, "", false), &error);
    assert_int_equal(strlen(outputs.texts[0].text), PROTO_OUTPUT_BYTES_MAX);
    free(part);
    launch_outputs_fini(&outputs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_make_texts_in_their_order),
        cmocka_unit_test(a_text_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
