/* base/fields_json.h: a record survives JSON, and what is wrong in JSON is named. */
#include "base/fields_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample_fields.h"
#include "support.h"

enum { TEXT_BYTES_MAX = 1024 };

static const char whole[] = "{\"colour\":\"green\",\"count\":2,"
                            "\"deep\":{\"digest\":\"\",\"loud\":true,\"rate\":0.10000000000000001},"
                            "\"name\":\"a\",\"path\":\"a/b\",\"wait_ms\":1500}";

static base_status parse(const char *text, sample *record, base_error *error)
{
    return base_fields_parse_json(&sample_fields, text, strlen(text), TEXT_BYTES_MAX, record,
                                  error);
}

static base_status parse_alone(const char *text, base_error *error)
{
    sample record = {.count = 0};
    return parse(text, &record, error);
}

static void a_record_comes_back(void **state)
{
    (void)state;
    base_error error;
    char *text = NULL;
    size_t text_bytes = 0;
    sample record = sample_defaults;
    sample again = {.count = 0};
    record.rate = 0.1; /* not exact in binary */
    record.colour = SAMPLE_GREEN;
    (void)snprintf(record.path, sizeof record.path, "a/b");
    assert_ok(
        base_fields_write_json(&sample_fields, &record, TEXT_BYTES_MAX, &text, &text_bytes, &error),
        &error);
    assert_string_equal(text, whole);
    assert_int_equal(text_bytes, strlen(text));
    assert_ok(parse(text, &again, &error), &error);
    assert_true(again.rate == 0.1);
    assert_true(again.loud);
    assert_int_equal(again.colour, SAMPLE_GREEN);
    assert_string_equal(again.path, "a/b");
    assert_int_equal(again.wait_ms, 1500);
    free(text);
}

static void an_optional_key_is_written_unless_it_is_zero(void **state)
{
    (void)state;
    base_error error;
    char *text = NULL;
    size_t text_bytes = 0;
    sample record = sample_defaults;
    sample again = {.count = 0};
    record.hours_s = 7200;
    record.turns = 7;
    record.room_bytes = (size_t)3 << 30;
    assert_ok(
        base_fields_write_json(&sample_fields, &record, TEXT_BYTES_MAX, &text, &text_bytes, &error),
        &error);
    assert_non_null(strstr(text, "\"hours\":\"2h\""));
    assert_non_null(strstr(text, "\"room\":3221225472"));
    assert_non_null(strstr(text, "\"turns\":7"));
    assert_ok(parse(text, &again, &error), &error);
    assert_int_equal(again.hours_s, 7200);
    assert_int_equal(again.turns, 7);
    assert_true(again.room_bytes == (size_t)3 << 30);
    free(text);
}

static void errors_name_what_is_wrong(void **state)
{
    (void)state;
    static const test_change changes[] = {
        {"\"count\":2,", "", "key \"count\" is missing"},
        {"\"count\":2", "\"count\":0", "count: 0: must be a whole number from 1 to 9"},
        {"\"count\":2", "\"count\":\"2\"", "count must be a whole number"},
        {"\"count\":2", "\"count\":2.0", "count must be a whole number"},
        {"\"count\":2", "\"count\":2,\"count\":2", "count"},
        {"\"count\":2", "\"count\":2,\"counts\":2", "unknown key \"counts\""},
        {"\"count\":2", "\"count\":2,\"deep.loud\":true", "unknown key \"deep.loud\""},
        {"\"deep\":{", "\"deep\":{\"x\":1,", "unknown key \"deep.x\""},
        {"\"deep\":{", "\"deep\":{\"deep\":{},", "unknown key \"deep.deep\""},
        {"\"deep\":{\"digest\":\"\",", "\"deep\":{", "key \"deep.digest\" is missing"},
        {"\"deep\":{\"digest\":\"\",\"loud\":true,\"rate\":0.10000000000000001}", "\"deep\":7",
         "deep must be an object"},
        {"\"loud\":true", "\"loud\":1", "deep.loud must be true or false"},
        {"\"loud\":true", "\"loud\":true,\"loud\":true", "loud"},
        {"0.10000000000000001", "1", "deep.rate must be a number with a decimal point"},
        {"0.10000000000000001", "0.0", "deep.rate: 0: must be a number above 0"},
        {"\"green\"", "\"blue\"", "colour: 'blue': must be one of: red green"},
        {"\"green\"", "1", "colour must be a string"},
        {"\"name\":\"a\"", "\"name\":\"12345678\"", "name is longer than 7 bytes"},
        {"\"name\":\"a\"", "\"name\":\"\"", "name: is empty"},
        {"\"name\":\"a\"", "\"name\":\"a\\u0000b\"", "sample"},
        {"\"a/b\"", "\"../b\"", "path: '../b'"},
        {"\"count\":2", "\"count\":2,\"turns\":4294967296", "turns: 4294967296: must be"},
        {"}", "", "sample: line 1"},
    };
    test_changes_are_refused(whole, changes, sizeof changes / sizeof changes[0], parse_alone);
}

static void limits_are_enforced(void **state)
{
    (void)state;
    base_error error;
    char *text = NULL;
    size_t text_bytes = 0;
    sample record = sample_defaults;
    assert_status(base_fields_parse_json(&sample_fields, whole, strlen(whole), strlen(whole) - 1,
                                         &record, &error),
                  BASE_ERR_LIMIT);
    record = sample_defaults;
    assert_status(base_fields_write_json(&sample_fields, &record, 10, &text, &text_bytes, &error),
                  BASE_ERR_LIMIT);
    memcpy(record.name, "\xff", 2);
    assert_status(
        base_fields_write_json(&sample_fields, &record, TEXT_BYTES_MAX, &text, &text_bytes, &error),
        BASE_ERR_INVALID);
    assert_string_equal(error.message, "name is not UTF-8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_comes_back),
        cmocka_unit_test(an_optional_key_is_written_unless_it_is_zero),
        cmocka_unit_test(errors_name_what_is_wrong),
        cmocka_unit_test(limits_are_enforced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
