/* serve/stop_texts.h: what ends a text, however it is cut. */
#include "serve/stop_texts.h"

#include <jansson.h>
#include <string.h>

#include "support.h"

enum { TEXT_BYTES = 14 };

static launch_stop_texts read_stops(const char *json)
{
    base_error error;
    launch_stop_texts stops;
    json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
    assert_ok(launch_stop_texts_read(value, &stops, &error), &error);
    json_decref(value);
    return stops;
}

/* What is sent of a text that comes in pieces: a bit of `cuts` for each place between two bytes. */
static void in_pieces(const launch_stop_texts *stops, const char *text, unsigned cuts,
                      char sent[TEXT_BYTES + 1])
{
    char held[TEXT_BYTES + 1] = "";
    const size_t bytes = strlen(text);
    sent[0] = '\0';
    for (size_t at = 0; at < bytes; at++) {
        size_t settled = 0;
        size_t end = 0;
        (void)strncat(held, text + at, 1);
        if ((cuts >> at & 1) == 0 && at + 1 < bytes) {
            continue;
        }
        const bool found = launch_stop_texts_find(stops, held, strlen(held), &settled, &end);
        (void)strncat(sent, held, settled);
        if (found) { /* the stop is the rest */
            bool whole = false;
            for (int i = 0; i < stops->count; i++) {
                whole = whole || (stops->bytes[i] == end - settled &&
                                  memcmp(stops->texts[i], held + settled, end - settled) == 0);
            }
            assert_true(whole);
        }
        memmove(held, held + settled, strlen(held + settled) + 1);
        if (found) {
            return;
        }
    }
    (void)strcat(sent, held);
}

static void a_stop_ends_a_text_wherever_it_is_cut(void **state)
{
    (void)state;
    static const struct {
        const char *stops;
        const char *text;
        const char *sent;
    } cases[] = {
        {"\"\"", "abcabd", "abcabd"},
        {"[]", "abcabd", "abcabd"},
        {"\"abd\"", "abcabd", "abc"},
        {"\"abd\"", "ababdabd", "ab"},
        {"\"aab\"", "aaaaab", "aaa"},
        {"\"abcab\"", "xabcabcab", "x"},
        {"\"a\"", "a", ""},
        {"\"abc\"", "ab", "ab"},
        {"\"\\n\\n\"", "one\n\ntwo", "one"},
        {"[\"abcde\",\"c\"]", "xabcde", "xab"}, /* c is whole first */
        {"[\"cd\",\"abcd\"]", "xabcde", "x"},   /* at the same byte: the longest */
        {"[\"zz\",\"\xc3\xa9\"]", "a\xc3\xa8\xc3\xa9z", "a\xc3\xa8"},
        {"[\"1\",\"2\",\"3\",\"4\"]", "abc4321", "abc"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const launch_stop_texts stops = read_stops(cases[i].stops);
        for (unsigned cuts = 0; cuts < 1U << strlen(cases[i].text); cuts++) {
            char sent[TEXT_BYTES + 1];
            in_pieces(&stops, cases[i].text, cuts, sent);
            assert_string_equal(sent, cases[i].sent);
        }
    }
}

/* Nothing is held that no stop begins with. */
static void no_more_is_held_than_must_be(void **state)
{
    (void)state;
    size_t settled = 0;
    size_t end = 0;
    const launch_stop_texts stops = read_stops("[\"abc\",\"bd\"]");
    assert_false(launch_stop_texts_find(&stops, "xxab", 4, &settled, &end));
    assert_int_equal(settled, 2);
    assert_false(launch_stop_texts_find(&stops, "xxb", 3, &settled, &end));
    assert_int_equal(settled, 2);
    assert_false(launch_stop_texts_find(&stops, "xxc", 3, &settled, &end));
    assert_int_equal(settled, 3);
}

static void an_empty_text_is_no_stop(void **state)
{
    (void)state;
    assert_int_equal(read_stops("\"\"").count, 0);
    assert_int_equal(read_stops("[]").count, 0);
    assert_int_equal(read_stops("[\"\",\"\"]").count, 0);
    assert_int_equal(read_stops("[\"\",\"a\",\"\",\"b\",\"c\",\"d\"]").count, 4);
}

static void what_is_no_stop_is_refused(void **state)
{
    (void)state;
    char longer[LAUNCH_STOP_BYTES_MAX + 4] = "\"";
    memset(longer + 1, 'a', LAUNCH_STOP_BYTES_MAX + 1);
    longer[LAUNCH_STOP_BYTES_MAX + 2] = '"';
    const char *const wrong[] = {
        "1", "{}", "true", "[\"a\",1]", "[\"\",null]", "[\"a\",\"b\",\"c\",\"d\",\"e\"]", longer};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        base_error error = {.message = ""};
        launch_stop_texts stops;
        json_t *value = json_loads(wrong[i], JSON_DECODE_ANY, NULL);
        assert_non_null(value);
        assert_status(launch_stop_texts_read(value, &stops, &error), BASE_ERR_INVALID);
        assert_has(error.message, "stop: ");
        json_decref(value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_ends_a_text_wherever_it_is_cut),
        cmocka_unit_test(no_more_is_held_than_must_be),
        cmocka_unit_test(an_empty_text_is_no_stop),
        cmocka_unit_test(what_is_no_stop_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
