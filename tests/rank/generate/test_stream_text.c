/* Tokens' bytes as text: every character byte by byte; every short string of interesting bytes, in
 * every cut, against a decoder that knows nothing but the list of all characters' encodings. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generate/stream_text.h"
#include "random.h"
#include "support.h"

enum { LAST_CHARACTER = 0x10ffff, BYTES_MAX = 64, TEXT_MAX = BYTES_MAX * 4 + 8 };

static int encode(uint32_t c, uint8_t *bytes)
{
    if (c < 0x80) {
        bytes[0] = (uint8_t)c;
        return 1;
    }
    const int count = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = count - 1; i > 0; i--, c >>= 6) {
        bytes[i] = (uint8_t)(0x80 | (c & 0x3f));
    }
    bytes[0] = (uint8_t)((0xf00U >> count) | c);
    return count;
}

static bool is_surrogate(uint32_t c)
{
    return c >= 0xd800 && c <= 0xdfff;
}

/* prefixes[n][b0 b1 … as a number]: some character's encoding begins with these n bytes. */
static bool *prefixes[4];
static uint8_t *whole[4]; /* and these n bytes are one; of 4 bytes, a prefix of 3 and one more */

static int make_prefixes(void **state)
{
    (void)state;
    for (int n = 1; n <= 3; n++) {
        prefixes[n] = calloc((size_t)1 << (8 * n), sizeof *prefixes[n]);
        whole[n] = calloc((size_t)1 << (8 * n), 1);
        assert_true(prefixes[n] != NULL && whole[n] != NULL);
    }
    for (uint32_t c = 0; c <= LAST_CHARACTER; c++) {
        uint8_t bytes[4];
        const int count = is_surrogate(c) ? 0 : encode(c, bytes);
        uint32_t key = 0;
        for (int n = 1; n <= count && n <= 3; n++) {
            key = key << 8 | bytes[n - 1];
            prefixes[n][key] = true;
            whole[n][key] = n == count;
        }
    }
    return 0;
}

static int free_prefixes(void **state)
{
    (void)state;
    for (int n = 1; n <= 3; n++) {
        free(prefixes[n]);
        free(whole[n]);
    }
    return 0;
}

static bool is_prefix(const uint8_t *bytes, int n)
{
    uint32_t key = 0;
    for (int i = 0; i < n; i++) {
        key = key << 8 | bytes[i];
    }
    return n < 4 ? prefixes[n][key] : is_prefix(bytes, 3) && (bytes[3] & 0xc0) == 0x80;
}

static bool is_whole(const uint8_t *bytes, int n)
{
    uint32_t key = 0;
    for (int i = 0; i < n; i++) {
        key = key << 8 | bytes[i];
    }
    return n < 4 ? whole[n][key] : is_prefix(bytes, 4);
}

/* The text of all bytes together. */
static size_t reference(const uint8_t *bytes, int count, char *text)
{
    size_t used = 0;
    for (int at = 0; at < count;) {
        int n = 0;
        while (n < 4 && at + n < count && is_prefix(bytes + at, n + 1)) {
            n++;
            if (is_whole(bytes + at, n)) {
                break;
            }
        }
        const uint8_t first = bytes[at];
        if (n == 0 || !is_whole(bytes + at, n)) {
            memcpy(text + used, "\xef\xbf\xbd", 3);
            used += 3;
            n = n == 0 ? 1 : n;
        } else if (n == 1 && (first < 0x20 || first == 0x7f) && first != '\n' && first != '\t') {
            used += (size_t)snprintf(text + used, sizeof "\\x00", "\\x%02x", first);
        } else if (n == 2 && first == 0xc2 && bytes[at + 1] < 0xa0) {
            used += (size_t)snprintf(text + used, sizeof "\\u0000", "\\u%04x", bytes[at + 1]);
        } else {
            memcpy(text + used, bytes + at, (size_t)n);
            used += (size_t)n;
        }
        at += n;
    }
    return used;
}

/* Adds the bytes in pieces: a bit of `cuts` for each place between two of them. The text of every
 * call stays within what was promised. */
static size_t in_pieces(const uint8_t *bytes, int count, uint64_t cuts, char *text)
{
    rank_stream_text stream = {.held_count = 0};
    size_t used = 0;
    for (int at = 0; at < count;) {
        int n = 1;
        while (at + n < count && (cuts >> (at + n - 1) & 1) == 0) {
            n++;
        }
        const size_t more = rank_stream_text_add(&stream, bytes + at, (size_t)n, text + used);
        assert_true(more <= (size_t)n * RANK_STREAM_TEXT_GROWTH + RANK_STREAM_TEXT_HELD_BYTES);
        used += more;
        at += n;
    }
    return used + rank_stream_text_end(&stream, text + used);
}

static void check(const uint8_t *bytes, int count, uint64_t cuts)
{
    char wanted[TEXT_MAX];
    char got[TEXT_MAX];
    const size_t wanted_bytes = reference(bytes, count, wanted);
    const size_t got_bytes = in_pieces(bytes, count, cuts, got);
    assert_int_equal(got_bytes, wanted_bytes);
    assert_memory_equal(got, wanted, wanted_bytes);
}

static void test_every_character(void **state)
{
    (void)state;
    char text[16];
    rank_stream_text stream = {.held_count = 0};
    for (uint32_t c = 0; c <= LAST_CHARACTER; c++) {
        uint8_t bytes[4];
        if (is_surrogate(c)) {
            continue;
        }
        const int count = encode(c, bytes);
        for (int i = 0; i < count - 1; i++) { /* nothing before the character is whole */
            assert_int_equal(rank_stream_text_add(&stream, bytes + i, 1, text), 0);
        }
        const size_t used = rank_stream_text_add(&stream, bytes + count - 1, 1, text);
        const bool control = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0);
        if (control) {
            char escape[8];
            (void)snprintf(escape, sizeof escape, c < 0x80 ? "\\x%02x" : "\\u%04x", c);
            assert_int_equal(used, strlen(escape));
            assert_memory_equal(text, escape, used);
        } else {
            assert_int_equal(used, count);
            assert_memory_equal(text, bytes, used);
        }
        assert_int_equal(rank_stream_text_end(&stream, text), 0);
    }
}

/* Unicode 15, table 3-8. */
static void test_maximal_subparts(void **state)
{
    (void)state;
    const uint8_t bytes[] = {0x61, 0xf1, 0x80, 0x80, 0xe1, 0x80, 0xc2,
                             0x62, 0x80, 0x63, 0x80, 0xbf, 0x64};
    char text[TEXT_MAX];
    const size_t used = in_pieces(bytes, sizeof bytes, 0, text);
    text[used] = '\0';
    assert_string_equal(text, "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                              "b\xef\xbf\xbd"
                              "c\xef\xbf\xbd\xef\xbf\xbd"
                              "d");
}

static void test_every_short_string(void **state)
{
    (void)state;
    static const uint8_t some[] = {0x00, 0x09, 0x0a, 0x1b, 0x41, 0x7f, 0x80, 0x85,
                                   0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc1, 0xc2, 0xdf,
                                   0xe0, 0xe1, 0xed, 0xf0, 0xf1, 0xf4, 0xf5, 0xff};
    const uint32_t kinds = sizeof some;
    uint32_t strings = 1;
    for (int count = 1; count <= 4; count++) {
        strings *= kinds;
        for (uint32_t i = 0; i < strings; i++) {
            uint8_t bytes[4];
            for (uint32_t left = i, at = 0; at < (uint32_t)count; at++, left /= kinds) {
                bytes[at] = some[left % kinds];
            }
            check(bytes, count, i % (1U << (count - 1)));
            check(bytes, count, 0);
        }
    }
}

static void test_long_strings(void **state)
{
    (void)state;
    uint64_t random = 5;
    for (int i = 0; i < 20000; i++) {
        uint8_t bytes[BYTES_MAX];
        for (int at = 0; at < BYTES_MAX; at++) {
            const uint32_t drawn = test_random(&random);
            /* mostly bytes above 0x7f, or nothing would ever be held */
            bytes[at] = (uint8_t)(drawn >> 24 | (drawn & 7 ? 0x80 : 0));
        }
        check(bytes, BYTES_MAX, random);
    }
}

/* Exact text is the bytes themselves, where they are characters, but NUL. */
static void test_exact_text(void **state)
{
    (void)state;
    static const char bytes[] = "a\r\x1b\0\x7f\xc2\x9b\xc3\xa9\xff\xe2\x82";
    static const char wanted[] = "a\r\x1b\xef\xbf\xbd\x7f\xc2\x9b\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd";
    char text[TEXT_MAX];
    rank_stream_text stream = {.exact = true};
    size_t used = 0;
    for (size_t i = 0; i < sizeof bytes - 1; i++) {
        used += rank_stream_text_add(&stream, bytes + i, 1, text + used);
    }
    used += rank_stream_text_end(&stream, text + used);
    assert_int_equal(used, sizeof wanted - 1);
    assert_memory_equal(text, wanted, used);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_character),    cmocka_unit_test(test_maximal_subparts),
        cmocka_unit_test(test_every_short_string), cmocka_unit_test(test_long_strings),
        cmocka_unit_test(test_exact_text),
    };
    return cmocka_run_group_tests(tests, make_prefixes, free_prefixes);
}
