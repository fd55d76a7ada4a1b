/* Shared memory that is passed by its descriptor: a memfd, sealed against any change of its size,
 * and mapped once per process.
 *
 * If ranks are threads of one process, they share one mapping of a segment (known by device and
 * inode). So a race detector sees races between them.
 *
 * A segment has no name. When no process has it open or mapped any more, the kernel frees it.
 * Thread safe. */
#ifndef COLL_SRC_SEGMENT_H
#define COLL_SRC_SEGMENT_H

#include <stddef.h>

#include "ringfence/coll_error.h"

/* Makes and seals a zero-filled segment of size_bytes (rounded up by the caller to whole pages) and
 * maps it. The caller closes *fd and unmaps *data. */
COLL_MUST_CHECK coll_status coll_segment_create(size_t size_bytes, int *fd, void **data,
                                                coll_error *reterr);

/* Maps a peer's segment after checking that it is sealed and has exactly size_bytes.
 * fd stays open. */
COLL_MUST_CHECK coll_status coll_segment_map(int fd, size_t size_bytes, void **data,
                                             coll_error *reterr);

/* Undoes one create or map; NULL is fine. */
void coll_segment_unmap(void *data);

/* Zero-filled whole pages of this process alone, for transports that share nothing. */
COLL_MUST_CHECK coll_status coll_segment_create_private(size_t size_bytes, void **data,
                                                        coll_error *reterr);
void coll_segment_free_private(void *data, size_t size_bytes);

/* Gives the whole pages inside a range of either kind of memory back to the system. What they hold
 * afterwards is undefined: a system that cannot take them leaves them as they are. */
void coll_segment_discard(void *data, size_t size_bytes);

/* size_bytes rounded up to whole pages, at least one; 0 if that overflows. */
size_t coll_segment_round(size_t size_bytes);

#endif
