/* base/text.h: texts appended to, shortened between characters, and control characters escaped. */
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#include "support.h"

static void short_texts_are_copied(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "a", "naïve – 日本 𝄞", "stray \xff\x80 bytes"};
    char shown[BASE_TEXT_SHOWN_BYTES];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        base_text_shorten(texts[i], shown);
        assert_string_equal(shown, texts[i]);
    }
}

/* A hundred characters of any width and no more. The mark is there only if more follow. */
static void long_texts_are_cut_between_characters(void **state)
{
    (void)state;
    static const char *const characters[] = {"x", "é", "日", "𝄞"};
    for (size_t i = 0; i < sizeof characters / sizeof characters[0]; i++) {
        char text[4 * 5000 + 1] = "";
        char shown[BASE_TEXT_SHOWN_BYTES];
        const size_t width = strlen(characters[i]);
        for (int n = 0; n < 100; n++) {
            memcpy(text + n * width, characters[i], width + 1);
        }
        base_text_shorten(text, shown);
        assert_string_equal(shown, text);
        for (int n = 100; n < 5000; n++) {
            memcpy(text + n * width, characters[i], width + 1);
        }
        base_text_shorten(text, shown);
        assert_memory_equal(shown, text, 100 * width);
        assert_string_equal(shown + 100 * width, "…");
    }
}

static void half_a_character_at_the_end_is_left_out(void **state)
{
    (void)state;
    char shown[BASE_TEXT_SHOWN_BYTES];
    base_text_shorten("ab\xe6\x97", shown);
    assert_string_equal(shown, "ab…");
}

static void control_characters_are_found(void **state)
{
    (void)state;
    static const char *const with[] = {"\x1b[2J",   "a\n",      "a\x7f",
                                       "a\xc2\x80", "\xc2\x9b", "\xc2\x9f"};
    static const char *const without[] = {"", "h.0.ln_1.weight", "naïve – 日本 𝄞", "\xc2\xa0",
                                          "\xc2"};
    for (size_t i = 0; i < sizeof with / sizeof with[0]; i++) {
        assert_true(base_text_has_control(with[i]));
    }
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++) {
        assert_false(base_text_has_control(without[i]));
    }
}

static void control_characters_are_shown(void **state)
{
    (void)state;
    char text[32] = "a\x1b[31m\nb\x7f é";
    char full[8] = "ab\ncd\n";
    base_text_escape(text, sizeof text);
    assert_string_equal(text, "a\\x1b[31m\\x0ab\\x7f é");
    base_text_escape(full, sizeof full); /* no room for four characters */
    assert_string_equal(full, "ab?cd?");
    char edge[10] = "ab\ncd\n";
    base_text_escape(edge, sizeof edge);
    assert_string_equal(edge, "ab\\x0acd?");
}

/* A terminal takes U+009B for ESC [. Neighbours of the ranges stay. */
static void longer_control_characters_are_shown(void **state)
{
    (void)state;
    char text[128] = "\xc2\x9b"
                     "31m\xc2\x80\xc2\xa0|\xe2\x80\xae\xe2\x81\xa6|";
    char stays[] = "\xe2\x80\xa9\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa\xc2\xe2\x80";
    char copy[sizeof stays];
    char full[6] = "a\xe2\x80\xae";
    memcpy(copy, stays, sizeof stays);
    base_text_escape(text, sizeof text);
    assert_string_equal(text, "\\xc2\\x9b31m\\xc2\\x80\xc2\xa0|\\xe2\\x80\\xae\\xe2\\x81\\xa6|");
    base_text_escape(copy, sizeof copy);
    assert_string_equal(copy, stays);
    base_text_escape(full, sizeof full);
    assert_string_equal(full, "a???");
}

/* What has no room is cut off, and nothing beyond it is touched. */
static void texts_are_appended(void **state)
{
    (void)state;
    char text[8] = "";
    base_text_append(text, sizeof text, "%s%d", "a", 12);
    base_text_append(text, sizeof text, ", %s", "b");
    assert_string_equal(text, "a12, b");
    text[7] = '!';
    base_text_append(text, 7, "%s", "more");
    assert_memory_equal(text, "a12, b\0!", 8);
    base_text_append(text, 3, "%s", "full");
    assert_memory_equal(text, "a12, b\0!", 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_texts_are_copied),
        cmocka_unit_test(long_texts_are_cut_between_characters),
        cmocka_unit_test(half_a_character_at_the_end_is_left_out),
        cmocka_unit_test(control_characters_are_found),
        cmocka_unit_test(control_characters_are_shown),
        cmocka_unit_test(longer_control_characters_are_shown),
        cmocka_unit_test(texts_are_appended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
