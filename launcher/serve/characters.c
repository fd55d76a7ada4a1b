/* Sets of characters. Called by pattern.c and pattern_grammar.c. */
#include "serve/characters.h"

#include <string.h>

void launch_characters_add(launch_characters *set, uint32_t low, uint32_t high)
{
    uint32_t from = 0;
    if (set->count > LAUNCH_RANGES_MAX) {
        return;
    }
    while (from < set->count && set->ranges[from].high + 1 < low) {
        from++;
    }
    uint32_t to = from; /* behind those that it touches */
    while (to < set->count && set->ranges[to].low <= high + 1) {
        low = set->ranges[to].low < low ? set->ranges[to].low : low;
        high = set->ranges[to].high > high ? set->ranges[to].high : high;
        to++;
    }
    if (from == to && set->count == LAUNCH_RANGES_MAX) {
        set->count++;
        return;
    }
    memmove(&set->ranges[from + 1], &set->ranges[to], (set->count - to) * sizeof *set->ranges);
    set->ranges[from] = (launch_range){low, high};
    set->count += from + 1 - to;
}

void launch_characters_invert(launch_characters *set)
{
    const launch_characters given = *set;
    uint32_t low = 0;
    if (given.count > LAUNCH_RANGES_MAX) {
        return;
    }
    set->count = 0;
    for (uint32_t i = 0; i < given.count; i++) {
        if (given.ranges[i].low > low) {
            launch_characters_add(set, low, given.ranges[i].low - 1);
        }
        low = given.ranges[i].high + 1;
    }
    if (low <= LAUNCH_CHARACTER_MAX) {
        launch_characters_add(set, low, LAUNCH_CHARACTER_MAX);
    }
}

bool launch_characters_add_class(launch_characters *set, char letter)
{
    static const struct {
        char letter;
        uint8_t count;
        launch_range ranges[10];
    } classes[] = {
        {'d', 1, {{'0', '9'}}},
        {'w', 4, {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
        {'s',
         10,
         {{9, 13},
          {' ', ' '},
          {0xa0, 0xa0},
          {0x1680, 0x1680},
          {0x2000, 0x200a},
          {0x2028, 0x2029},
          {0x202f, 0x202f},
          {0x205f, 0x205f},
          {0x3000, 0x3000},
          {0xfeff, 0xfeff}}},
    };
    launch_characters opposite = {.count = 0};
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        const bool inverted = letter == classes[i].letter - 'a' + 'A';
        if (letter != classes[i].letter && !inverted) {
            continue;
        }
        launch_characters *to = inverted ? &opposite : set;
        for (uint32_t k = 0; k < classes[i].count; k++) {
            launch_characters_add(to, classes[i].ranges[k].low, classes[i].ranges[k].high);
        }
        if (inverted) {
            launch_characters_invert(&opposite);
        }
        for (uint32_t k = 0; k < opposite.count; k++) {
            launch_characters_add(set, opposite.ranges[k].low, opposite.ranges[k].high);
        }
        return true;
    }
    return false;
}

bool launch_characters_have(const launch_characters *set, uint32_t low, uint32_t high)
{
    for (uint32_t i = 0; i < set->count && i < LAUNCH_RANGES_MAX; i++) {
        if (set->ranges[i].low <= low && high <= set->ranges[i].high) {
            return true;
        }
    }
    return false;
}
