/* base/utf8.h: lengths of characters, validity at every position, and replacement in copies. */
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

#include "support.h"

static void characters_have_lengths(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t length;
    } cases[] = {
        {"a", 1},
        {"\x7f", 1},
        {"é", 2},
        {"→", 3},
        {"\xf0\x9f\x98\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4}, /* U+10FFFF */
        {"", 0},
        {"\x80", 0},     /* no first byte */
        {"\xc0\xaf", 0}, /* overlong */
        {"\xc1\xbf", 0},
        {"\xe0\x9f\xbf", 0},
        {"\xf0\x8f\xbf\xbf", 0},
        {"\xed\xa0\x80", 0},     /* a surrogate */
        {"\xf4\x90\x80\x80", 0}, /* above U+10FFFF */
        {"\xf5\x80\x80\x80", 0},
        {"\xff", 0},
        {"\xe2\x86", 0}, /* cut off */
        {"\xe2z\x92", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const size_t bytes = strlen(cases[i].text);
        if (base_utf8_length(cases[i].text, SIZE_MAX) != cases[i].length ||
            base_utf8_length(cases[i].text, bytes) != cases[i].length ||
            base_utf8_valid(cases[i].text, bytes) != (cases[i].length > 0 || bytes == 0)) {
            fail_msg("case %zu", i);
        }
    }
    assert_int_equal(base_utf8_length("→", 2), 0);
    assert_true(base_utf8_valid("a\0b", 3));
}

/* At every offset, since eight bytes are checked at a time. */
static void validity_does_not_depend_on_the_offset(void **state)
{
    (void)state;
    char text[32];
    for (size_t at = 0; at + 3 <= sizeof text; at++) {
        memset(text, 'a', sizeof text);
        memcpy(text + at, "→", 3);
        assert_true(base_utf8_valid(text, sizeof text));
        assert_false(base_utf8_valid(text, at + 1));
        assert_false(base_utf8_valid(text, at + 2));
        assert_true(base_utf8_valid(text, at + 3));
        text[at + 1] = 'a';
        assert_false(base_utf8_valid(text, sizeof text));
    }
}

static void invalid_bytes_are_replaced_in_a_copy(void **state)
{
    (void)state;
    char copy[64];
    base_utf8_copy(copy, sizeof copy, "a\x80z\xc0\xafz\xed\xa0\x80z\xf4\x90\x80\x80z\xe2\x86");
    assert_string_equal(copy, "a�z��z���z����z��");
    base_utf8_copy(copy, 5, "ab→"); /* cut between characters */
    assert_string_equal(copy, "ab");
    base_utf8_copy(copy, 6, "ab→");
    assert_string_equal(copy, "ab→");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_have_lengths),
        cmocka_unit_test(validity_does_not_depend_on_the_offset),
        cmocka_unit_test(invalid_bytes_are_replaced_in_a_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
