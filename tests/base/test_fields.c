/* base/fields.h: members from texts, their checks, and paths below a root. */
#include "base/fields.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sample_fields.h"
#include "support.h"

static base_status set(sample *record, const char *key, const char *text, base_error *error)
{
    const base_field *field = base_fields_find(&sample_fields, key);
    assert_non_null(field);
    return base_field_set(field, record, text, error);
}

static void a_text_becomes_a_member(void **state)
{
    (void)state;
    base_error error;
    sample record = sample_defaults;
    assert_ok(set(&record, "count", "9", &error), &error);
    assert_ok(set(&record, "deep.rate", "1e-3", &error), &error);
    assert_ok(set(&record, "deep.loud", NULL, &error), &error);
    assert_ok(set(&record, "name", "1234567", &error), &error);
    assert_ok(set(&record, "path", "/a/b/", &error), &error);
    assert_ok(set(&record, "deep.digest", "0123abcd", &error), &error);
    assert_ok(set(&record, "colour", "green", &error), &error);
    assert_ok(set(&record, "hours", "2h", &error), &error);
    assert_ok(set(&record, "turns", "7", &error), &error);
    assert_ok(set(&record, "room", "1024G", &error), &error);
    assert_int_equal(record.turns, 7);
    assert_true(record.room_bytes == (size_t)1 << 40);
    assert_ok(set(&record, "room", "3k", &error), &error);
    assert_int_equal(record.room_bytes, 3072);
    assert_int_equal(record.count, 9);
    assert_true(record.rate == 1e-3);
    assert_false(record.loud);
    assert_string_equal(record.name, "1234567");
    assert_string_equal(record.path, "/a/b");
    assert_string_equal(record.digest, "0123abcd");
    assert_int_equal(record.colour, SAMPLE_GREEN);
    assert_int_equal(record.hours_s, 7200);
    assert_ok(set(&record, "path", "b", &error), &error);
    assert_int_equal(record.path[0], '/');
    assert_string_equal(strrchr(record.path, '/'), "/b");
}

static void seconds_are_rounded_up(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {{"1e-300", 1},   {"0.001", 1},      {"0.0010001", 2},   {"0.5", 500},
                 {"0.5004", 501}, {"59.999", 59999}, {"59.9991", 60000}, {"60", 60000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error;
        sample record = sample_defaults;
        assert_ok(set(&record, "wait_ms", cases[i].text, &error), &error);
        assert_int_equal(record.wait_ms, cases[i].ms); /* never less than was asked for */
    }
}

static void errors_say_what_a_value_must_be(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        const char *text;
        const char *expected;
    } cases[] = {
        {"count", "0", "0: must be a whole number from 1 to 9"},
        {"count", "10", "from 1 to 9"},
        {"count", "", "whole number"},
        {"count", "1x", "'1x'"},
        {"count", "99999999999999999999", "from 1 to 9"},
        {"deep.rate", "0", "above 0 and up to 1"},
        {"deep.rate", "1.5", "up to 1"},
        {"deep.rate", "1.1", "1.1: must be a number above 0 and up to 1"},
        {"deep.rate", "nan", "number"},
        {"deep.rate", "inf", "number"},
        {"deep.rate", "x", "'x'"},
        {"deep.loud", "yes", "true or false"},
        {"name", "12345678", "longer than 7 bytes"},
        {"name", "", "empty"},
        {"path", "", "empty"},
        {"deep.digest", "0123abc", "8 hex digits"},
        {"deep.digest", "0123ABCD", "8 hex digits"},
        {"colour", "blue", "'blue': must be one of: red green"},
        {"wait_ms", "0", "seconds from 0.001 to 60"},
        {"wait_ms", "-0.0005", "seconds"},
        {"wait_ms", "60.0005", "seconds from 0.001 to 60"},
        {"wait_ms", "nan", "seconds"},
        {"wait_ms", "inf", "seconds"},
        {"wait_ms", "9223372036854775.808", "seconds"},
        {"wait_ms", "-1e300", "seconds"},
        {"wait_ms", "1e306", "seconds"},
        {"wait_ms", "1s", "'1s'"},
        {"wait_ms", "", "''"},
        {"hours", "2", "must be hours"},
        {"turns", "8", "8: must be a whole number from 0 to 7"},
        {"turns", "4294967296", "from 0 to 7"},
        {"room", "1025G", "'1025G': must be a number of bytes from 0 to 1024G"},
        {"room", "18014398509481985K", "'18014398509481985K': must be a number of bytes"},
        {"room", "-1", "'-1'"},
        {"room", "", "must be a number of bytes"},
        {"room", "K", "must be a number of bytes"},
        {"room", "4x", "'4x'"},
        {"room", "4KB", "'4KB'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error = {.message = ""};
        sample record = sample_defaults;
        if (set(&record, cases[i].key, cases[i].text, &error) == BASE_OK ||
            strstr(error.message, cases[i].expected) == NULL) {
            fail_msg("%s = '%s': '%s'", cases[i].key, cases[i].text, error.message);
        }
    }
}

static void paths_below_a_root_lead_nowhere_else(void **state)
{
    (void)state;
    static const char *const good[] = {"", "/any/../where", "a", "a/b.c", "..a/b..", ".hidden"};
    static const char *const bad[] = {"..", ".", "../a", "a/../b", "a/./b", "a//b", "a/", "a/.."};
    base_error error;
    sample record = sample_defaults;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        (void)snprintf(record.path, sizeof record.path, "%s", good[i]);
        assert_ok(base_fields_check(&sample_fields, &record, &error), &error);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)snprintf(record.path, sizeof record.path, "%s", bad[i]);
        if (base_fields_check(&sample_fields, &record, &error) != BASE_ERR_INVALID) {
            fail_msg("'%s' was accepted", bad[i]);
        }
        assert_int_equal(strncmp(error.message, "path: ", 6), 0);
    }
}

static void members_are_checked_as_they_are(void **state)
{
    (void)state;
    base_error error;
    sample record = sample_defaults;
    assert_ok(base_fields_check(&sample_fields, &record, &error), &error);
    record.rate = NAN;
    assert_status(base_fields_check(&sample_fields, &record, &error), BASE_ERR_INVALID);
    record = sample_defaults;
    record.colour = (sample_colour)2;
    assert_status(base_fields_check(&sample_fields, &record, &error), BASE_ERR_INVALID);
    record = sample_defaults;
    memset(record.name, 'x', sizeof record.name);
    assert_status(base_fields_check(&sample_fields, &record, &error), BASE_ERR_LIMIT);
}

static void members_are_shown_as_they_are_set(void **state)
{
    (void)state;
    base_error error;
    sample record = sample_defaults;
    sample again = {.count = 0};
    record.hours_s = 7200;
    record.turns = 7;
    record.room_bytes = 3 << 20;
    (void)snprintf(record.path, sizeof record.path, "/a");
    (void)snprintf(record.digest, sizeof record.digest, "01234567");
    for (int i = 0; i < sample_fields.count; i++) {
        char text[64];
        const base_field *field = &sample_fields.rows[i];
        if (field->kind != BASE_FIELD_CALL) {
            base_field_format(field, &record, text, sizeof text);
            assert_ok(base_field_set(field, &again, text, &error), &error);
        }
    }
    assert_memory_equal(&again.count, &record.count, sizeof record.count);
    assert_true(again.rate == record.rate);
    assert_true(again.loud);
    assert_string_equal(again.path, "/a");
    assert_int_equal(again.wait_ms, 1500);
    assert_int_equal(again.hours_s, 7200);
    assert_int_equal(again.turns, 7);
    assert_int_equal(again.room_bytes, 3 << 20);
    assert_int_equal(again.colour, SAMPLE_RED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_becomes_a_member),
        cmocka_unit_test(seconds_are_rounded_up),
        cmocka_unit_test(errors_say_what_a_value_must_be),
        cmocka_unit_test(paths_below_a_root_lead_nowhere_else),
        cmocka_unit_test(members_are_checked_as_they_are),
        cmocka_unit_test(members_are_shown_as_they_are_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
