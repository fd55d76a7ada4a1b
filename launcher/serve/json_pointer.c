/* Follows a JSON pointer. Called by schema.c. */
#include "serve/json_pointer.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/number.h"

enum { NAME_BYTES = 256 }; /* of a part that is named */

/* The byte of two hexadecimal digits. '/', which no name has: they are none. */
static char read_hexadecimal(const char *at)
{
    const char digits[] = {at[0], at[0] != '\0' ? at[1] : '\0', '\0'};
    const bool sound = isxdigit((uint8_t)digits[0]) != 0 && isxdigit((uint8_t)digits[1]) != 0;
    return sound ? (char)strtol(digits, NULL, 16) : '/';
}

/* Undoes the escapes of a name (RFC 6901, sections 3 and 6). Returns what is behind it; NULL: there
 * can be no such name. */
static const char *read_name(const char *at, char name[NAME_BYTES])
{
    size_t used = 0;
    for (; *at != '/' && *at != '\0'; at++) {
        char byte = *at == '%' ? read_hexadecimal(at + 1) : *at;
        if (byte == '/' || byte == '\0' || used + 1 == NAME_BYTES) {
            return NULL;
        }
        at += *at == '%' ? 2 : 0;
        if (byte == '~') {
            at++;
            if (*at != '0' && *at != '1') {
                return NULL;
            }
            byte = *at == '0' ? '~' : '/';
        }
        name[used++] = byte;
    }
    name[used] = '\0';
    return at;
}

const json_t *launch_json_pointer_find(const json_t *root, const char *path)
{
    char name[NAME_BYTES];
    int64_t index = 0;
    const json_t *at = *path == '#' ? root : NULL;
    for (path++; at != NULL && *path == '/';) {
        path = read_name(path + 1, name);
        if (path == NULL) {
            return NULL;
        }
        at = json_is_array(at) && base_parse_int(name, 0, INT32_MAX, &index)
                 ? json_array_get(at, (size_t)index)
                 : json_object_get(at, name);
    }
    return at != NULL && *path == '\0' ? at : NULL;
}
