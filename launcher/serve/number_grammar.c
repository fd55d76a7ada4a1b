/* Numbers between bounds in steps, compared with the bounds digit by digit. Called by schema.c. */
#include "serve/number_grammar.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DIGITS_MAX = LAUNCH_NUMBER_DIGITS_MAX,
    BOUND_BYTES = 32,
    BOUND_DIGITS = 20,
    NONE = 0, /* no number: step 0 is none of these */
};

/* A bound of a magnitude: 0.d1d2d3... times 10^point. */
typedef struct magnitude {
    bool set;
    bool open; /* the bound itself is out */
    int point;
    int count;
    char digits[BOUND_DIGITS]; /* (count), values 0 ... 9; the last is not 0 */
} magnitude;

/* The numbers of so many digits in front of the point. */
typedef struct magnitudes {
    launch_grammar *grammar;
    bool integer;
    magnitude low;
    magnitude high;
    int whole; /* digits in front of the point */
} magnitudes;

/* What the digits up to here have in common with the bounds. */
typedef struct tightness {
    bool low;
    bool high;
} tightness;

static launch_step either(launch_grammar *grammar, launch_step first, launch_step second)
{
    if (first == NONE || second == NONE) {
        return first == NONE ? second : first;
    }
    return launch_grammar_either(grammar, first, second);
}

/* ---- bounds ---- */

/* The shortest digits that mean the number. */
static magnitude read_magnitude(const json_t *value, bool open)
{
    char text[BOUND_BYTES];
    magnitude made = {.set = true, .open = open};
    const double number = json_real_value(value);
    int digits = DIGITS_MAX;
    do {
        (void)snprintf(text, sizeof text, "%.*e", digits - 1, number);
    } while (strtod(text, NULL) != number && digits++ < 17);
    if (json_is_integer(value)) {
        (void)snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
    }
    const char *power = strchr(text, 'e');
    for (const char *at = text; *at != '\0' && at != power; at++) {
        if (*at >= '0' && *at <= '9' && (made.count > 0 || *at != '0')) {
            made.digits[made.count++] = (char)(*at - '0');
        }
    }
    made.point = power != NULL ? (int)strtol(power + 1, NULL, 10) + 1 : made.count;
    while (made.count > 0 && made.digits[made.count - 1] == 0) {
        made.count--;
    }
    made.point = made.count > 0 ? made.point : 0;
    return made;
}

/* The digit of 10^place. */
static int digit_of(const magnitude *bound, int place)
{
    const int index = bound->point - 1 - place;
    return index >= 0 && index < bound->count ? bound->digits[index] : 0;
}

/* Whether the bound has a digit below 10^place that is not 0. */
static bool goes_on(const magnitude *bound, int place)
{
    return bound->count > 0 && bound->point - bound->count < place;
}

static int whole_digits(const magnitude *bound)
{
    return bound->point > 1 ? bound->point : 1;
}

/* ---- digits that are free ---- */

static launch_step add_digits(launch_grammar *grammar, int low, int high, launch_step next)
{
    const char range[] = {(char)('0' + low), (char)('0' + high), '\0'};
    return launch_grammar_byte(grammar, range, next);
}

/* One digit behind the point, and at most count - 1 more. */
static launch_step add_fraction(launch_grammar *grammar, int count)
{
    launch_step next = LAUNCH_GRAMMAR_RETURN;
    if (grammar->fraction[count] == 0) {
        next = count > 1 ? launch_grammar_either(grammar, add_fraction(grammar, count - 1), next)
                         : next;
        grammar->fraction[count] = add_digits(grammar, 0, 9, next);
    }
    return grammar->fraction[count];
}

/* What may follow so many digits in front of the point. */
static launch_step add_tail(launch_grammar *grammar, bool integer, int whole)
{
    const launch_step end = LAUNCH_GRAMMAR_RETURN;
    if (integer || whole == DIGITS_MAX) {
        return end;
    }
    if (grammar->tail[whole] == 0) {
        const launch_step fraction = add_fraction(grammar, DIGITS_MAX - whole);
        grammar->tail[whole] =
            launch_grammar_either(grammar, launch_grammar_text(grammar, ".", fraction), end);
    }
    return grammar->tail[whole];
}

/* What follows `whole` digits of at most `most`, and of at least `least`. */
static launch_step add_more(const magnitudes *m, int whole, int least, int most)
{
    launch_grammar *grammar = m->grammar;
    launch_step *made = &grammar->more[m->integer ? 1 : 0][whole];
    const bool shared = whole >= least && most == DIGITS_MAX;
    if (shared && *made != 0) {
        return *made;
    }
    launch_step begin =
        whole < most ? add_digits(grammar, 0, 9, add_more(m, whole + 1, least, most)) : NONE;
    if (whole >= least) {
        begin = either(grammar, begin, add_tail(grammar, m->integer, whole));
    }
    *made = shared ? begin : *made;
    return begin;
}

/* All numbers of least ... most digits in front of the point. */
static launch_step add_free(const magnitudes *m, int least, int most)
{
    if (least > most) {
        return NONE;
    }
    const launch_step begin = add_digits(m->grammar, 1, 9, add_more(m, 1, least, most));
    return least > 1 ? begin
                     : either(m->grammar, begin,
                              add_digits(m->grammar, 0, 0, add_tail(m->grammar, m->integer, 1)));
}

/* ---- digits that are compared ---- */

static launch_step add_place(const magnitudes *m, int place, tightness tight);

/* What follows the digit of 10^place. */
static launch_step add_behind(const magnitudes *m, int place, tightness tight)
{
    launch_grammar *grammar = m->grammar;
    const int behind_max = m->integer ? 0 : DIGITS_MAX - m->whole;
    const bool more = goes_on(&m->high, place);
    tight.low = tight.low && (m->low.open || goes_on(&m->low, place));
    if (tight.high && m->high.open && !more) {
        return NONE;
    }
    if (!tight.low && !tight.high && place >= 0) {
        return add_more(m, m->whole - place, m->whole, m->whole);
    }
    if (place > 0) {
        return add_place(m, place - 1, tight);
    }
    launch_step next = NONE;
    if (-place < behind_max) {
        next = !tight.low && !tight.high ? add_fraction(grammar, behind_max + place)
                                         : add_place(m, place - 1, tight);
    }
    if (place == 0 && next != NONE) {
        next = launch_grammar_text(grammar, ".", next);
    }
    return tight.low ? next : either(grammar, next, LAUNCH_GRAMMAR_RETURN);
}

/* The digit of 10^place, and all that follows. */
static launch_step add_place(const magnitudes *m, int place, tightness tight)
{
    launch_grammar *grammar = m->grammar;
    const bool first = place > 0 && place + 1 == m->whole;
    int low = tight.low ? digit_of(&m->low, place) : 0;
    int high = tight.high ? digit_of(&m->high, place) : 9;
    launch_step begin = NONE;
    low = first && low == 0 ? 1 : low;
    if (low > high || grammar->status != BASE_OK) {
        return NONE;
    }
    if (tight.low) {
        const tightness both = {true, tight.high && low == high};
        const launch_step next = add_behind(m, place, both);
        begin = next != NONE ? add_digits(grammar, low, low, next) : NONE;
        low++;
    }
    if (tight.high && low <= high) {
        const launch_step next = add_behind(m, place, (tightness){false, true});
        begin =
            next != NONE ? either(grammar, begin, add_digits(grammar, high, high, next)) : begin;
        high--;
    }
    if (low <= high) {
        const launch_step next = add_behind(m, place, (tightness){false, false});
        begin = either(grammar, begin, add_digits(grammar, low, high, next));
    }
    return begin;
}

/* The numbers between the bounds, without a sign. */
static launch_step add_magnitudes(magnitudes *m)
{
    const bool low = m->low.open || m->low.count > 0;
    int least = whole_digits(&m->low);
    int most = m->high.set ? whole_digits(&m->high) : DIGITS_MAX;
    if (least > most || least > DIGITS_MAX) {
        return NONE;
    }
    const bool high = m->high.set && most <= DIGITS_MAX;
    if (high && least == most) {
        m->whole = least;
        return add_place(m, least - 1, (tightness){low, true});
    }
    launch_step begin = NONE;
    if (low) {
        m->whole = least++;
        begin = add_place(m, m->whole - 1, (tightness){true, false});
    }
    if (high) {
        m->whole = most--;
        begin = either(m->grammar, begin, add_place(m, m->whole - 1, (tightness){false, true}));
    }
    return either(m->grammar, begin, add_free(m, least, most < DIGITS_MAX ? most : DIGITS_MAX));
}

launch_step launch_grammar_bounded(launch_grammar *grammar, const launch_bounds *bounds,
                                   bool integer, launch_step next)
{
    static const magnitude zero = {.set = true};
    const magnitude unset = {.set = false};
    const double low = json_number_value(bounds->low);
    const double high = json_number_value(bounds->high);
    magnitudes above = {.grammar = grammar, .integer = integer, .low = zero, .high = unset};
    magnitudes below = above;
    launch_step begin = NONE;
    if (bounds->low != NULL) {
        const magnitude bound = read_magnitude(bounds->low, bounds->low_open);
        above.low = low >= 0 ? bound : above.low;
        below.high = bound;
    }
    if (bounds->high != NULL) {
        const magnitude bound = read_magnitude(bounds->high, bounds->high_open);
        above.high = bound;
        below.low = high <= 0 ? bound : below.low;
    }
    if (bounds->high == NULL || high >= 0) {
        begin = add_magnitudes(&above);
    }
    if (bounds->low == NULL || low < 0) {
        const launch_step negative = add_magnitudes(&below);
        begin = negative != NONE
                    ? either(grammar, begin, launch_grammar_text(grammar, "-", negative))
                    : begin;
    }
    return begin != NONE ? launch_grammar_call(grammar, begin, next) : NONE;
}
