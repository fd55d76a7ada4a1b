/* The response_format of a request: a grammar of the answers that it allows. Pure.
 *
 * A JSON schema is taken as far as this goes: type, properties, required, additionalProperties,
 * items, minItems, maxItems, minLength, maxLength, pattern, format, minimum, maximum,
 * exclusiveMinimum, exclusiveMaximum, enum, const, anyOf, $ref, oneOf with a discriminator, and
 * allOf of one. Every other keyword that means something is refused by its name, so that an answer
 * that is whole is valid under the schema. Names come in the order of the properties, and those
 * that are not listed come only where none are. */
#ifndef LAUNCH_SCHEMA_H
#define LAUNCH_SCHEMA_H

#include "base/status.h"
#include "proto/grammar.h"

struct json_t;

/* Of a schema; NULL: any object. steps: (PROTO_GRAMMAR_STEPS_MAX); *count: so many are made. BASE_ERR_INVALID or
 * BASE_ERR_LIMIT says what is wrong or not supported. */
BASE_MUST_CHECK base_status launch_schema_compile(const struct json_t *schema,
                                                  proto_grammar_step *steps, uint32_t *count,
                                                  base_error *reterr);

/* {"type": "text"}, "json_object" or "json_schema". steps: (PROTO_GRAMMAR_STEPS_MAX); *count: so many are made; 0: the
 * answer may be any. BASE_ERR_INVALID or BASE_ERR_LIMIT says what is wrong or not supported. */
BASE_MUST_CHECK base_status launch_schema_read(const struct json_t *value,
                                               proto_grammar_step *steps, uint32_t *count,
                                               base_error *reterr);

#endif
