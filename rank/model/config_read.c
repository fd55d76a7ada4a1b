/* Reads and checks members of config.json. Called by families. */
#include "model/config_read.h"

#include <stdint.h>
#include <string.h>

base_status rank_config_int(const json_t *object, const char *key, int *value, base_error *reterr)
{
    const json_t *entry = json_object_get(object, key);
    const json_int_t number = json_integer_value(entry);
    if (!json_is_integer(entry) || number < 1 || number > INT32_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s is missing or no positive integer", key);
    }
    *value = (int)number;
    return BASE_OK;
}

base_status rank_config_optional(const json_t *object, const char *key, int otherwise,
                                 double *value, base_error *reterr)
{
    const json_t *entry = json_object_get(object, key);
    int number = otherwise;
    const base_status status =
        rank_config_given(entry) ? rank_config_int(object, key, &number, reterr) : BASE_OK;
    *value = number;
    return status;
}

base_status rank_config_number(const json_t *object, const char *key, double *value,
                               base_error *reterr)
{
    const json_t *entry = json_object_get(object, key);
    const double number = entry == NULL ? *value : json_number_value(entry);
    if (!(number > 0.0) || (entry != NULL && !json_is_number(entry))) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s is missing or no positive number", key);
    }
    *value = number;
    return BASE_OK;
}

base_status rank_config_want(const json_t *object, const char *key, const char *wanted,
                             base_error *reterr)
{
    const json_t *entry = json_object_get(object, key);
    const char *value = json_string_value(entry);
    return entry == NULL || (value != NULL && strcmp(value, wanted) == 0)
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_UNSUPPORTED, "%s must be \"%s\"", key, wanted);
}

base_status rank_config_either(const json_t *object, const char *key, const char *first,
                               const char *second, base_error *reterr)
{
    const json_t *entry = json_object_get(object, key);
    const char *value = entry == NULL ? first : json_string_value(entry);
    return value != NULL && (strcmp(value, first) == 0 || strcmp(value, second) == 0)
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_UNSUPPORTED, "%s must be \"%s\" or \"%s\"", key, first,
                           second);
}

base_status rank_config_range(const char *what, int value, int max, base_error *reterr)
{
    if (value < 1 || value > max) {
        return base_fail(reterr, BASE_ERR_INVALID, "model: %s is %d, it must be 1 … %d", what,
                         value, max);
    }
    return BASE_OK;
}
