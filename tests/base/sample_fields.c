/* The table that the tests of fields, fields_json and options share. */
#include "sample_fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *colour_name(int value)
{
    static const char *const names[] = {"red", "green"};
    return value >= 0 && value < 2 ? names[value] : NULL;
}

static base_status parse_hours(const base_field *field, const char *text, void *member,
                               base_error *reterr)
{
    char *end = NULL;
    (void)field;
    *(int64_t *)member = strtoll(text, &end, 10) * 3600;
    return strcmp(end, "h") == 0 ? BASE_OK
                                 : base_fail(reterr, BASE_ERR_INVALID, "'%s': must be hours", text);
}

static void format_hours(const base_field *field, const void *member, char text[BASE_CODED_BYTES])
{
    (void)field;
    (void)snprintf(text, BASE_CODED_BYTES, "%" PRId64 "h", *(const int64_t *)member / 3600);
}

static const base_coding hours = {.parse = parse_hours, .format = format_hours};

static base_status call_it(const base_field *field, void *record, const char *text,
                           base_error *reterr)
{
    (void)field;
    ((sample *)record)->called++;
    return text == NULL ? BASE_OK : base_fail(reterr, BASE_ERR_INVALID, "takes no %s", text);
}

static const base_field rows[] = {
    {.key = "count",
     BASE_INT(sample, count),
     .least = 1,
     .most = 9,
     .option = "count",
     .value = "N",
     .help = "how many",
     .letter = 'n',
     .group = "First"},
    {.key = "deep.rate",
     BASE_REAL(sample, rate),
     .min = 0,
     .max = 1,
     .above = true,
     .option = "rate",
     .value = "X",
     .help = ""},
    {.key = "deep.loud",
     BASE_BOOL(sample, loud),
     .option = "quiet",
     .off = true,
     .help = "say less",
     .group = "Second"},
    {.key = "name",
     BASE_TEXT(sample, name),
     .filled = true,
     .option = "name",
     .value = "TEXT",
     .help = "of it (any)",
     .group = "First"},
    {.key = "path", BASE_PATH(sample, path), .option = "path", .value = "FILE", .help = "read"},
    {.key = "deep.digest", BASE_DIGEST(sample, digest)},
    {.key = "colour",
     BASE_ENUM(sample, colour),
     .name_of = colour_name,
     .option = "colour",
     .value = "NAME",
     .help = "red or green"},
    {.key = "wait_ms",
     BASE_SECONDS(sample, wait_ms),
     .least = 1,
     .most = 60000,
     .option = "wait",
     .value = "SECONDS",
     .help = ""},
    {.key = "turns",
     BASE_INT(sample, turns),
     .least = 0,
     .most = 7,
     .optional = true,
     .option = "turns",
     .value = "N",
     .help = ""},
    {.key = "room",
     BASE_BYTES(sample, room_bytes),
     .least = 0,
     .most = (int64_t)1 << 40,
     .optional = true,
     .option = "room",
     .value = "BYTES",
     .help = ""},
    {.key = "hours",
     BASE_CODED(sample, hours_s),
     .coding = &hours,
     .optional = true,
     .option = "hours",
     .value = "HOURS",
     .help = ""},
    {.kind = BASE_FIELD_CALL,
     .call = call_it,
     .option = "help",
     .letter = 'h',
     .help = "this",
     .group = "Second"},
};

const base_fields sample_fields = {
    .rows = rows, .count = sizeof rows / sizeof rows[0], .what = "sample"};

const sample sample_defaults = {
    .count = 2, .rate = 0.5, .loud = true, .name = "a", .wait_ms = 1500};
