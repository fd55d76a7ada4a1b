/* Numbers from a command line, the environment or a file. Thread safe. */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Whether all of the text is one decimal number from least to most, as strtoll takes it. If not, *value
 * stays as it is. */
bool base_parse_int(const char *text, int64_t least, int64_t most, int64_t *value);

#endif
