/* What schema.c makes of a schema, and the parts of it that have no parts themselves: texts,
 * numbers and given values. */
#ifndef LAUNCH_SCHEMA_SCALARS_H
#define LAUNCH_SCHEMA_SCALARS_H

#include "serve/json_grammar.h"

enum { LAUNCH_REFERENCES_MAX = 256 }; /* different ones */

/* A schema that a $ref names, and the step with which its values begin. */
typedef struct launch_reference {
    const struct json_t *to;
    launch_step begin;
} launch_reference;

typedef struct launch_compiler {
    launch_grammar grammar;
    const struct json_t *root;
    const char *name; /* of the property that is compiled; "": of none */
    int nested;
    int reference_count;
    launch_reference references[LAUNCH_REFERENCES_MAX];
} launch_compiler;

/* Notes the first error. The step means nothing. */
launch_step launch_schema_refuse(launch_compiler *c, const char *what, const char *why);

/* Reads how many there are at least and at most, or refuses it; -1: any number. */
bool launch_schema_counts(launch_compiler *c, const struct json_t *schema,
                          const char *const keys[2], int64_t counts[2]);

/* An enum, or a const, which is one value. */
launch_step launch_schema_values(launch_compiler *c, const struct json_t *schema, const char *key,
                                 launch_step next);
/* The pattern of a format; NULL: it is not supported. */
const char *launch_schema_format(const struct json_t *format);
launch_step launch_schema_string(launch_compiler *c, const struct json_t *schema, launch_step next);
launch_step launch_schema_number(launch_compiler *c, const struct json_t *schema, bool integer,
                                 launch_step next);

#endif
