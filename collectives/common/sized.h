/* Structs of the public headers that begin with their size: coll.h tells callers how they work.
 * Pure. */
#ifndef COLL_COMMON_SIZED_H
#define COLL_COMMON_SIZED_H

#include <stddef.h>

#include "ringfence/coll_error.h"

/* The size of a struct that ends with `member`: of its first version, for coll_sized_read. */
#define COLL_SIZED_BYTES(type, member) (offsetof(type, member) + sizeof(((type *)NULL)->member))

/* Copies the caller's struct, whose first member is a size_t with its size, into `known`, this
 * library's struct of known_bytes. Members that the caller's struct lacks are 0. first_bytes is the
 * size that the struct had in the first version. COLL_ERR_INVALID: no size that a version has had or
 * may have. COLL_ERR_UNSUPPORTED: the caller's struct is longer, and what follows is not 0. `name`
 * is the type's, for the message. */
COLL_MUST_CHECK coll_status coll_sized_read(void *known, size_t known_bytes, size_t first_bytes,
                                            const void *given, const char *name,
                                            coll_error *reterr);

#endif
