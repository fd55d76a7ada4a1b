/* Normal form C: bytes that are no UTF-8, clusters, many marks. What it makes of characters is
 * compared with another implementation's in test_hub.c. */
#include <stdlib.h>
#include <string.h>

#include "nfc.h"
#include "support.h"

static void expect(rank_nfc *nfc, const char *text, const char *expected)
{
    base_error error;
    const uint8_t *normal = NULL;
    size_t normal_bytes = 0;
    assert_ok(rank_nfc_of(nfc, (const uint8_t *)text, strlen(text), &normal, &normal_bytes, &error),
              &error);
    assert_int_equal(normal_bytes, strlen(expected));
    assert_memory_equal(normal, expected, normal_bytes);
}

static void letters_and_marks_become_one(void **state)
{
    (void)state;
    rank_nfc nfc = {.points = NULL};
    expect(&nfc, "", "");
    expect(&nfc, "plain, and \xc3\xa9", "plain, and \xc3\xa9");
    expect(&nfc, "e\xcc\x81", "\xc3\xa9");
    expect(&nfc, "\xcc\x81", "\xcc\x81");
    expect(&nfc, "e\xcc\x81\xcc\xa3", "\xe1\xba\xb9\xcc\x81");  /* a mark below goes first */
    expect(&nfc, "\xc3\xa9\xcc\xa3x", "\xe1\xba\xb9\xcc\x81x"); /* also before a whole one */
    expect(&nfc, "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "\xea\xb0\x81"); /* Hangul */
    expect(&nfc, "\xea\xb0\x80\xe1\x86\xa7", "\xea\xb0\x80\xe1\x86\xa7"); /* not in it */
    expect(&nfc, "\xe2\x84\xab", "\xc3\x85");
    expect(&nfc, "\xf0\x9d\x85\xa0", "\xf0\x9d\x85\x98\xf0\x9d\x85\xa5\xf0\x9d\x85\xae");
    rank_nfc_fini(&nfc);
}

static void other_bytes_stay(void **state)
{
    (void)state;
    rank_nfc nfc = {.points = NULL};
    expect(&nfc, "e\xff\xcc\x81", "e\xff\xcc\x81");
    expect(&nfc, "e\xcc", "e\xcc");
    expect(&nfc, "\x81\xcc\x65\xcc\x81", "\x81\xcc\xc3\xa9");
    expect(&nfc,
           "\xed\xa0\x80 \xc0\xaf \xf4\x90\x80\x80 o\xcc\x88", /* surrogate, long, too large */
           "\xed\xa0\x80 \xc0\xaf \xf4\x90\x80\x80 \xc3\xb6");
    rank_nfc_fini(&nfc);
}

/* Marks of falling classes, which neighbours' exchanges would order in quadratic time. */
static void many_marks_take_linear_time(void **state)
{
    (void)state;
    enum { MARKS = 1 << 20 };
    rank_nfc nfc = {.points = NULL};
    char *text = malloc(2 * MARKS + 2);
    char *expected = malloc(2 * MARKS + 2);
    assert_non_null(text);
    assert_non_null(expected);
    text[0] = expected[0] = 'x';
    for (size_t i = 0; i < MARKS; i++) {
        memcpy(text + 1 + 2 * i, i % 2 == 0 ? "\xcc\x81" : "\xcc\xa3", 2);
        memcpy(expected + 1 + 2 * i, i < MARKS / 2 ? "\xcc\xa3" : "\xcc\x81", 2);
    }
    text[2 * MARKS + 1] = expected[2 * MARKS + 1] = '\0';
    expect(&nfc, text, expected);
    free(text);
    free(expected);
    rank_nfc_fini(&nfc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_and_marks_become_one),
        cmocka_unit_test(other_bytes_stay),
        cmocka_unit_test(many_marks_take_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
