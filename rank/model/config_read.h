/* Reads members of config.json. For families' configure; not for the public API. */
#ifndef RANK_MODEL_CONFIG_READ_H
#define RANK_MODEL_CONFIG_READ_H

#include <jansson.h>
#include <stdbool.h>

#include "base/status.h"

/* Whether a member stands there, and is not null. */
static inline bool rank_config_given(const json_t *value)
{
    return value != NULL && !json_is_null(value);
}

/* A positive integer. */
BASE_MUST_CHECK base_status rank_config_int(const json_t *object, const char *key, int *value,
                                            base_error *reterr);

/* An integer that is `otherwise` if it is missing or null. */
BASE_MUST_CHECK base_status rank_config_optional(const json_t *object, const char *key,
                                                 int otherwise, double *value, base_error *reterr);

/* A positive number that may be missing if `value` has one. */
BASE_MUST_CHECK base_status rank_config_number(const json_t *object, const char *key, double *value,
                                               base_error *reterr);

/* A string that must be this one. It may be missing. */
BASE_MUST_CHECK base_status rank_config_want(const json_t *object, const char *key,
                                             const char *wanted, base_error *reterr);

/* A string that must be one of the two. Where it is missing, the first is meant. */
BASE_MUST_CHECK base_status rank_config_either(const json_t *object, const char *key,
                                               const char *first, const char *second,
                                               base_error *reterr);

/* That a size, called `what`, is 1 … max. */
BASE_MUST_CHECK base_status rank_config_range(const char *what, int value, int max,
                                              base_error *reterr);

/* What no model may exceed. */
enum {
    RANK_VOCAB_MAX = 1 << 20,
    RANK_WIDTH_MAX = 1 << 14,
    RANK_LAYERS_MAX = 512,
};

#endif
