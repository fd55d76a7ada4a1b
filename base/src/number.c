/* Reads numbers. Called for options and for what the environment says. */
#include "base/number.h"

#include <errno.h>
#include <stdlib.h>

bool base_parse_int(const char *text, int64_t least, int64_t most, int64_t *value)
{
    char *end = NULL;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || number < least || number > most) {
        return false;
    }
    *value = number;
    return true;
}
