/* Parses regular expressions. Called by pattern_grammar.c. */
#include "serve/pattern.h"

#include <stdlib.h>
#include <string.h>

enum { NESTED_MAX = 50 };

typedef struct parser {
    const char *at;
    const char *why; /* NULL: no error */
    int nested;
    launch_pattern *pattern;
} parser;

static uint16_t parse_either(parser *p);

static uint16_t refuse(parser *p, const char *why)
{
    p->why = p->why == NULL ? why : p->why;
    return 0;
}

static uint16_t add(parser *p, launch_node node)
{
    launch_pattern *pattern = p->pattern;
    if (pattern->node_count == LAUNCH_PATTERN_NODES_MAX) {
        return refuse(p, "too long");
    }
    pattern->nodes[pattern->node_count] = node;
    return pattern->node_count++;
}

static uint16_t add_set(parser *p, const launch_characters *set)
{
    launch_pattern *pattern = p->pattern;
    uint16_t i = 0;
    if (set->count > LAUNCH_RANGES_MAX) {
        return refuse(p, "a class of too many ranges");
    }
    while (i < pattern->set_count &&
           (pattern->sets[i].count != set->count ||
            memcmp(pattern->sets[i].ranges, set->ranges, set->count * sizeof *set->ranges) != 0)) {
        i++;
    }
    if (i == LAUNCH_PATTERN_SETS_MAX) {
        return refuse(p, "too many different characters and classes");
    }
    pattern->sets[i] = *set;
    pattern->set_count = i == pattern->set_count ? (uint16_t)(i + 1) : pattern->set_count;
    return add(p, (launch_node){.kind = LAUNCH_NODE_SET, .set = i});
}

static uint16_t add_two(parser *p, launch_node_kind kind, uint16_t first, uint16_t second)
{
    const launch_node *a = &p->pattern->nodes[first];
    const launch_node *b = &p->pattern->nodes[second];
    return add(p, (launch_node){.kind = kind,
                                .first = first,
                                .second = second,
                                .nullable = kind == LAUNCH_NODE_EITHER ? a->nullable || b->nullable
                                                                       : a->nullable && b->nullable,
                                .anchored = a->anchored || b->anchored});
}

/* ---- characters ---- */

/* A character of the text, which is well-formed. */
static uint32_t take_character(parser *p)
{
    const uint8_t first = (uint8_t)*p->at++;
    uint32_t code = first < 0x80   ? first
                    : first < 0xe0 ? first & 0x1fU
                    : first < 0xf0 ? first & 0xfU
                                   : first & 7U;
    while (((uint8_t)*p->at & 0xc0) == 0x80) {
        code = code << 6 | ((uint8_t)*p->at++ & 0x3fU);
    }
    return code;
}

static uint32_t take_hexadecimal(parser *p, int digits)
{
    char text[5] = "";
    char *end = NULL;
    for (int i = 0; i < digits && p->at[i] != '\0'; i++) {
        text[i] = p->at[i];
    }
    const bool sound = strspn(text, "0123456789abcdefABCDEF") == (size_t)digits;
    const uint32_t code = sound ? (uint32_t)strtoul(text, &end, 16) : 0;
    p->at += sound ? digits : 0;
    (void)(sound ? 0 : refuse(p, "an escape \\x or \\u without its digits"));
    return code;
}

/* Behind \u: four digits, two times four of a surrogate pair, or digits in braces. */
static uint32_t take_unicode(parser *p)
{
    if (*p->at == '{') {
        char *end = NULL;
        const uint64_t code = strtoull(p->at + 1, &end, 16);
        if (strspn(p->at + 1, "0123456789abcdefABCDEF") != (size_t)(end - p->at - 1) ||
            end == p->at + 1 || *end != '}' || code > LAUNCH_CHARACTER_MAX) {
            return refuse(p, "an escape \\x or \\u without its digits");
        }
        p->at = end + 1;
        return (uint32_t)code;
    }
    const uint32_t code = take_hexadecimal(p, 4);
    if (code < 0xd800 || code > 0xdbff || strncmp(p->at, "\\u", 2) != 0) {
        return code;
    }
    const char *before = p->at;
    p->at += 2;
    const uint32_t low = take_hexadecimal(p, 4);
    if (low < 0xdc00 || low > 0xdfff) {
        p->at = before;
        return code;
    }
    return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
}

/* The character behind a backslash. */
static uint32_t take_escape(parser *p)
{
    static const char letters[] = "tnrfv";
    static const char codes[] = "\t\n\r\f\v";
    const char letter = *p->at;
    const char *known = letter != '\0' ? strchr(letters, letter) : NULL;
    if (known != NULL) {
        p->at++;
        return (uint32_t)codes[known - letters];
    }
    if (letter == 'x' || letter == 'u') {
        p->at++;
        return letter == 'x' ? take_hexadecimal(p, 2) : take_unicode(p);
    }
    if ((letter >= '0' && letter <= '9') || letter == 'k') {
        return refuse(p, "back-references are not supported");
    }
    if (letter == 'b' || letter == 'B') {
        return refuse(p, "word boundaries (\\b) are not supported");
    }
    if (letter == 'p' || letter == 'P') {
        return refuse(p, "classes of Unicode (\\p) are not supported");
    }
    if (letter == '\0' || (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')) {
        return refuse(p, "there is no such escape");
    }
    return take_character(p);
}

/* A character, or a class of characters, which is added. False: it is the latter. */
static bool take_member(parser *p, bool in_brackets, launch_characters *set, uint32_t *code)
{
    if (*p->at != '\\') {
        *code = take_character(p);
        return true;
    }
    p->at++;
    if (launch_characters_add_class(set, *p->at)) {
        p->at++;
        return false;
    }
    if (in_brackets && *p->at == 'b') {
        p->at++;
        *code = '\b';
        return true;
    }
    *code = take_escape(p);
    return true;
}

/* Behind the bracket. */
static uint16_t parse_class(parser *p)
{
    launch_characters set = {.count = 0};
    const bool inverted = *p->at == '^';
    p->at += inverted ? 1 : 0;
    while (*p->at != ']' && *p->at != '\0' && p->why == NULL) {
        uint32_t low = 0;
        uint32_t high = 0;
        if (!take_member(p, true, &set, &low)) {
            if (*p->at == '-' && p->at[1] != ']') {
                return refuse(p, "a class of characters is no end of a range");
            }
            continue;
        }
        high = low;
        if (*p->at == '-' && p->at[1] != ']' && p->at[1] != '\0') {
            p->at++;
            if (!take_member(p, true, &set, &high)) {
                return refuse(p, "a class of characters is no end of a range");
            }
        }
        if (low > high) {
            return refuse(p, "a range whose end is below its beginning");
        }
        launch_characters_add(&set, low, high);
    }
    if (*p->at != ']') {
        return refuse(p, "a [ without its ]");
    }
    p->at++;
    if (inverted) {
        launch_characters_invert(&set);
    }
    return add_set(p, &set);
}

/* ---- parts ---- */

/* Behind the parenthesis. */
static uint16_t parse_group(parser *p)
{
    if (*p->at == '?') {
        const bool named = p->at[1] == '<' && p->at[2] != '=' && p->at[2] != '!';
        if (p->at[1] == '=' || p->at[1] == '!' || (p->at[1] == '<' && !named)) {
            return refuse(p, "look-arounds are not supported");
        }
        const char *end = named ? strchr(p->at, '>') : p->at + 1;
        if (end == NULL || (!named && *end != ':')) {
            return refuse(p, "a group with flags is not supported");
        }
        p->at = end + 1;
    }
    if (p->nested == NESTED_MAX) {
        return refuse(p, "groups that are nested too deep");
    }
    p->nested++;
    const uint16_t node = parse_either(p);
    p->nested--;
    if (*p->at != ')') {
        return refuse(p, "a ( without its )");
    }
    p->at++;
    return node;
}

static uint16_t parse_atom(parser *p)
{
    launch_characters set = {.count = 0};
    const char byte = *p->at;
    if (strchr("^$([", byte) != NULL) {
        p->at++;
    }
    switch (byte) {
    case '^':
        return add(p, (launch_node){.kind = LAUNCH_NODE_BEGIN, .anchored = true});
    case '$':
        return add(p, (launch_node){.kind = LAUNCH_NODE_END, .anchored = true});
    case '(':
        return parse_group(p);
    case '[':
        return parse_class(p);
    case '.':
        p->at++;
        launch_characters_add(&set, '\n', '\n');
        launch_characters_add(&set, '\r', '\r');
        launch_characters_add(&set, 0x2028, 0x2029);
        launch_characters_invert(&set);
        return add_set(p, &set);
    case '*':
    case '+':
    case '?':
    case '{':
    case '}':
    case ']':
        return refuse(p, "a quantifier or a bracket with nothing in front of it");
    default:
        break;
    }
    uint32_t code = 0;
    if (take_member(p, false, &set, &code)) {
        launch_characters_add(&set, code, code);
    }
    return add_set(p, &set);
}

static int32_t take_count(parser *p)
{
    int32_t count = 0;
    while (*p->at >= '0' && *p->at <= '9') {
        count = count * 10 + (*p->at++ - '0');
        count = count < LAUNCH_PATTERN_COUNT_MAX ? count : LAUNCH_PATTERN_COUNT_MAX;
    }
    return count;
}

/* Reads a quantifier, if there is one. */
static bool take_quantifier(parser *p, int32_t *least, int32_t *most)
{
    const char byte = *p->at;
    if (byte == '\0' || strchr("*+?{", byte) == NULL) {
        return false;
    }
    p->at++;
    *least = byte == '+' ? 1 : 0;
    *most = byte == '?' ? 1 : -1;
    if (byte == '{') {
        const char *begin = p->at;
        *least = take_count(p);
        *most = *least;
        if (p->at != begin && *p->at == ',') {
            p->at++;
            *most = *p->at == '}' ? -1 : take_count(p);
        }
        if (p->at == begin || *p->at != '}' || (*most >= 0 && *most < *least)) {
            (void)refuse(p, "a { that begins no quantifier, or one that is out of order");
            return false;
        }
        p->at++;
    }
    p->at += *p->at == '?' ? 1 : 0; /* lazy: it matches the same texts */
    return true;
}

static uint16_t parse_sequence(parser *p)
{
    uint16_t node = 0;
    while (*p->at != '\0' && *p->at != '|' && *p->at != ')' && p->why == NULL) {
        int32_t least = 0;
        int32_t most = 0;
        uint16_t one = parse_atom(p);
        if (p->why == NULL && take_quantifier(p, &least, &most)) {
            const launch_node *of = &p->pattern->nodes[one];
            if (of->anchored) {
                return refuse(p, "^ and $ cannot be repeated");
            }
            one = add(p, (launch_node){.kind = LAUNCH_NODE_REPEAT,
                                       .nullable = of->nullable || least == 0,
                                       .first = one,
                                       .least = least,
                                       .most = most});
        }
        node = node == 0 ? one : add_two(p, LAUNCH_NODE_SEQUENCE, node, one);
    }
    return node;
}

/* The first of the ways, or all others: so a walk has one branch left at each of them. */
static uint16_t parse_either(parser *p)
{
    const uint16_t first = parse_sequence(p);
    if (*p->at != '|' || p->why != NULL) {
        return first;
    }
    p->at++;
    return add_two(p, LAUNCH_NODE_EITHER, first, parse_either(p));
}

const char *launch_pattern_read(const char *text, launch_pattern *pattern)
{
    parser p = {.at = text, .pattern = pattern};
    pattern->node_count = 0;
    pattern->set_count = 0;
    (void)add(&p, (launch_node){.kind = LAUNCH_NODE_EMPTY, .nullable = true}); /* node 0 */
    pattern->root = parse_either(&p);
    return p.why == NULL && *p.at != '\0' ? "a ) without its (" : p.why;
}
