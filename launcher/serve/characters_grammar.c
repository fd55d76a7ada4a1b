/* Characters in steps. Called by pattern_grammar.c. */
#include "serve/characters_grammar.h"

#include <string.h>

enum {
    BYTES_MAX = 4,
    CONTROLS = 0x20,
    RANGES_BYTES = 2 * 16 + 1,
    NONE = 0,
};

static launch_step either(launch_grammar *grammar, launch_step first, launch_step second)
{
    if (first == NONE || second == NONE) {
        return first == NONE ? second : first;
    }
    return launch_grammar_either(grammar, first, second);
}

/* ---- UTF-8 ---- */

static int encode(uint32_t code, uint8_t bytes[BYTES_MAX])
{
    const int count = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int i = count - 1; i > 0; i--, code >>= 6) {
        bytes[i] = (uint8_t)(0x80 | (code & 0x3f));
    }
    bytes[0] = (uint8_t)(first[count] | code);
    return count;
}

static launch_step add_byte(launch_grammar *grammar, uint8_t low, uint8_t high, launch_step next)
{
    return launch_grammar_add(
        grammar,
        (proto_grammar_step){.kind = PROTO_GRAMMAR_RANGE, .low = low, .high = high, .next = next});
}

/* Bytes between two sequences of the same length. */
static launch_step add_between(launch_grammar *grammar, const uint8_t *low, const uint8_t *high,
                               int count)
{
    static const uint8_t lowest[] = {0x80, 0x80, 0x80};
    static const uint8_t highest[] = {0xbf, 0xbf, 0xbf};
    const size_t rest = (size_t)count - 1;
    if (count == 0) {
        return LAUNCH_GRAMMAR_RETURN;
    }
    if (low[0] == high[0]) {
        return add_byte(grammar, low[0], low[0],
                        add_between(grammar, low + 1, high + 1, count - 1));
    }
    const bool from_first = memcmp(low + 1, lowest, rest) == 0;
    const bool to_last = memcmp(high + 1, highest, rest) == 0;
    const uint8_t first = (uint8_t)(low[0] + (from_first ? 0 : 1));
    const uint8_t last = (uint8_t)(high[0] - (to_last ? 0 : 1));
    launch_step begin = NONE;
    if (first <= last) {
        begin = add_byte(grammar, first, last, add_between(grammar, lowest, highest, count - 1));
    }
    if (!from_first) {
        begin = either(
            grammar, begin,
            add_byte(grammar, low[0], low[0], add_between(grammar, low + 1, highest, count - 1)));
    }
    if (!to_last) {
        begin = either(
            grammar, begin,
            add_byte(grammar, high[0], high[0], add_between(grammar, lowest, high + 1, count - 1)));
    }
    return begin;
}

/* Those of the set from `low` to `high`, which have as many bytes. */
static launch_step add_within(launch_grammar *grammar, const launch_characters *set, uint32_t low,
                              uint32_t high)
{
    launch_step begin = NONE;
    for (uint32_t i = 0; i < set->count && grammar->status == BASE_OK; i++) {
        uint8_t first[BYTES_MAX] = {0};
        uint8_t last[BYTES_MAX] = {0};
        const uint32_t from = set->ranges[i].low > low ? set->ranges[i].low : low;
        const uint32_t to = set->ranges[i].high < high ? set->ranges[i].high : high;
        if (from <= to) {
            (void)encode(from, first);
            begin = either(grammar, begin, add_between(grammar, first, last, encode(to, last)));
        }
    }
    return begin;
}

/* ---- escapes ---- */

/* The letter of a control's short escape; '\0': it has none. */
static char find_letter(uint32_t code)
{
    static const char codes[] = "\b\t\n\f\r\"\\";
    static const char letters[] = "btnfr\"\\";
    const char *at = code > 0 && code < 0x80 ? strchr(codes, (int)code) : NULL;
    return at != NULL ? letters[at - codes] : '\0';
}

/* Behind \u00: the controls that have no short escape. */
static launch_step add_controls(launch_grammar *grammar, const launch_characters *set)
{
    static const char hexadecimal[] = "0123456789abcdef";
    launch_step begin = NONE;
    for (uint32_t first = 0; first < CONTROLS; first += 16) {
        char ranges[RANGES_BYTES];
        const char digit[] = {hexadecimal[first / 16], '\0'};
        size_t used = 0;
        for (uint32_t i = 0; i < 16; i++) {
            const uint32_t code = first + i;
            if (code == 0 || !launch_characters_have(set, code, code) ||
                find_letter(code) != '\0') {
                continue;
            }
            if (used > 0 && ranges[used - 1] + 1 == hexadecimal[i]) {
                ranges[used - 1]++;
            } else {
                ranges[used++] = hexadecimal[i];
                ranges[used++] = hexadecimal[i];
            }
        }
        ranges[used] = '\0';
        if (used > 0) {
            const launch_step last = launch_grammar_byte(grammar, ranges, LAUNCH_GRAMMAR_RETURN);
            begin = either(grammar, begin, launch_grammar_text(grammar, digit, last));
        }
    }
    return begin != NONE ? launch_grammar_text(grammar, "00", begin) : NONE;
}

static launch_step add_escapes(launch_grammar *grammar, const launch_characters *set)
{
    const launch_step end = LAUNCH_GRAMMAR_RETURN;
    launch_step begin = NONE;
    launch_step code = add_controls(grammar, set);
    for (uint32_t i = 0; i < 0x80; i++) {
        const char letter[] = {find_letter(i), '\0'};
        if (letter[0] != '\0' && launch_characters_have(set, i, i)) {
            begin = either(grammar, begin, launch_grammar_text(grammar, letter, end));
        }
    }
    for (uint32_t i = 0; i < 2; i++) { /* proto/grammar.h: they do not stand for themselves */
        if (launch_characters_have(set, 0x2028 + i, 0x2028 + i)) {
            code =
                either(grammar, code, launch_grammar_text(grammar, i == 0 ? "2028" : "2029", end));
        }
    }
    code = code != NONE ? launch_grammar_text(grammar, "u", code) : NONE;
    begin = either(grammar, begin, code);
    return begin != NONE ? launch_grammar_text(grammar, "\\", begin) : NONE;
}

/* ---- sets ---- */

launch_step launch_grammar_characters(launch_grammar *grammar, const launch_characters *set)
{
    static const launch_range ascii[] = {{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x7f}};
    static const launch_range wide[] = {{0x80, 0x7ff},
                                        {0x800, 0x2027},
                                        {0x202a, 0xd7ff},
                                        {0xe000, 0xffff},
                                        {0x10000, LAUNCH_CHARACTER_MAX}};
    enum { ASCII = sizeof ascii / sizeof ascii[0], WIDE = sizeof wide / sizeof wide[0] };
    bool all_ascii = true;
    bool all_wide = true;
    for (int i = 0; i < ASCII; i++) {
        all_ascii = all_ascii && launch_characters_have(set, ascii[i].low, ascii[i].high);
    }
    for (int i = 0; i < WIDE; i++) {
        all_wide = all_wide && launch_characters_have(set, wide[i].low, wide[i].high);
    }
    launch_step begin = NONE;
    if (all_wide) {
        begin = launch_grammar_add(grammar, (proto_grammar_step){.kind = PROTO_GRAMMAR_PLAIN,
                                                                 .low = all_ascii ? 0 : 0x80,
                                                                 .next = LAUNCH_GRAMMAR_RETURN});
    }
    for (int i = 0; i < WIDE && !all_wide; i++) {
        begin = either(grammar, begin, add_within(grammar, set, wide[i].low, wide[i].high));
    }
    for (int i = 0; i < ASCII && !(all_wide && all_ascii); i++) {
        begin = either(grammar, begin, add_within(grammar, set, ascii[i].low, ascii[i].high));
    }
    return either(grammar, begin, add_escapes(grammar, set));
}
