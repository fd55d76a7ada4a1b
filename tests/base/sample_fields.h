/* A struct with a member of every kind, and its table. */
#ifndef TESTS_BASE_SAMPLE_FIELDS_H
#define TESTS_BASE_SAMPLE_FIELDS_H

#include "base/fields.h"

typedef enum sample_colour { SAMPLE_RED, SAMPLE_GREEN } sample_colour;

typedef struct sample {
    int64_t count;
    double rate;
    bool loud;
    char name[8];
    char path[64];
    char digest[9];
    sample_colour colour;
    int64_t wait_ms;
    int64_t hours_s; /* coded */
    int turns;
    size_t room_bytes;
    int called;
} sample;

extern const base_fields sample_fields;
extern const sample sample_defaults;

#endif
