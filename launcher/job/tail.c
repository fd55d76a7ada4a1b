/* Keeps the last bytes of a rank's output. Called by watch.c. */
#include "job/tail.h"

#include <stdlib.h>
#include <string.h>

void launch_tail_add(launch_tail *tail, const char *data, size_t bytes)
{
    if (tail->data == NULL) {
        tail->data = malloc(LAUNCH_TAIL_BYTES);
        tail->used = 0;
    }
    if (tail->data == NULL) {
        return;
    }
    if (bytes > LAUNCH_TAIL_BYTES) {
        data += bytes - LAUNCH_TAIL_BYTES;
        bytes = LAUNCH_TAIL_BYTES;
    }
    if (tail->used + bytes > LAUNCH_TAIL_BYTES) {
        const size_t kept = LAUNCH_TAIL_BYTES - bytes < LAUNCH_TAIL_BYTES / 2
                                ? LAUNCH_TAIL_BYTES - bytes
                                : LAUNCH_TAIL_BYTES / 2; /* so that not each call moves all */
        const size_t left = kept < tail->used ? kept : tail->used;
        memmove(tail->data, tail->data + tail->used - left, left);
        tail->used = left;
    }
    memcpy(tail->data + tail->used, data, bytes);
    tail->used += bytes;
}

void launch_tail_fini(launch_tail *tail)
{
    free(tail->data);
    *tail = (launch_tail){.data = NULL};
}
