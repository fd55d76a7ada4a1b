/* Sets of characters, as ranges of code points. Pure. */
#ifndef LAUNCH_CHARACTERS_H
#define LAUNCH_CHARACTERS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LAUNCH_CHARACTER_MAX = 0x10ffff,
    LAUNCH_RANGES_MAX = 128,
};

typedef struct launch_range {
    uint32_t low;
    uint32_t high;
} launch_range;

typedef struct launch_characters {
    uint32_t count; /* of ranges, in rising order; more than LAUNCH_RANGES_MAX: they have no room */
    launch_range ranges[LAUNCH_RANGES_MAX];
} launch_characters;

void launch_characters_add(launch_characters *set, uint32_t low, uint32_t high);

/* Makes it the set of all others. */
void launch_characters_invert(launch_characters *set);

/* What \d, \w, \s and their opposites mean (ECMA-262, without flags); false: the letter is none of
 * these. */
bool launch_characters_add_class(launch_characters *set, char letter);

/* Whether all of a range are in the set. */
bool launch_characters_have(const launch_characters *set, uint32_t low, uint32_t high);

#endif
