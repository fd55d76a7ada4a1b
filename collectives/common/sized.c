/* Reads structs that begin with their size. Called by coll_context_create, and by what makes an
 * operation of a coll_op_desc. */
#include "common/sized.h"

#include <stdint.h>
#include <string.h>

#include "common/limits.h"

coll_status coll_sized_read(void *known, size_t known_bytes, size_t first_bytes, const void *given,
                            const char *name, coll_error *reterr)
{
    const uint8_t *bytes = given;
    size_t size = 0;
    memcpy(&size, given, sizeof size);
    if (size < first_bytes || size > COLL_SIZED_BYTES_MAX) {
        return coll_fail(reterr, COLL_ERR_INVALID, "%s.size is %zu: set it to sizeof(%s)", name,
                         size, name);
    }
    for (size_t i = known_bytes; i < size; i++) {
        if (bytes[i] != 0) {
            return coll_fail(reterr, COLL_ERR_UNSUPPORTED,
                             "%s has a member, at byte %zu, that this version of libcoll does not "
                             "know",
                             name, i);
        }
    }
    const size_t both = size < known_bytes ? size : known_bytes;
    memcpy(known, given, both);
    memset((uint8_t *)known + both, 0, known_bytes - both);
    memcpy(known, &known_bytes, sizeof known_bytes);
    return COLL_OK;
}
