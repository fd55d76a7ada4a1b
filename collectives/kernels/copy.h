/* Copies that do not fit the cache. */
#ifndef COLL_SRC_COPY_H
#define COLL_SRC_COPY_H

#include <stddef.h>

/* memcpy by stores past the cache: what they overwrite is not read before, which is a third of the
 * traffic. Ordered before whatever the caller publishes next. Any alignment. */
void coll_copy_past_cache(void *to, const void *from, size_t size_bytes);

#endif
