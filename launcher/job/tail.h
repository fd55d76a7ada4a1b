/* The end of what a rank has written, in bounded memory. One thread. */
#ifndef LAUNCH_TAIL_H
#define LAUNCH_TAIL_H

#include <stddef.h>

enum { LAUNCH_TAIL_BYTES = 64 * 1024 }; /* more is cut at the beginning */

typedef struct launch_tail {
    char *data; /* NULL: nothing came, or there was no memory for it */
    size_t used;
} launch_tail;

/* Zeros are an empty one. */
void launch_tail_add(launch_tail *tail, const char *data, size_t bytes);
void launch_tail_fini(launch_tail *tail);

#endif
