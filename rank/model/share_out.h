/* Shares out work on the elements of a large array among threads, one for each CPU that this thread
 * may use. For what is done once, as drawing weights: steps share out nothing, since a rank has a
 * CPU of its own. */
#ifndef RANK_MODEL_SHARE_OUT_H
#define RANK_MODEL_SHARE_OUT_H

#include <stddef.h>

/* Elements first … end. Called by several threads at once, with other elements. */
typedef void (*rank_share_work)(void *user, size_t first, size_t end);

/* Returns when all `count` elements are done. A thread has `least` elements at least. */
void rank_share_out(size_t count, size_t least, rank_share_work work, void *user);

#endif
