/* The body of a POST while it comes, and the room that all bodies share. One thread: the HTTP server's. */
#ifndef LAUNCH_BODY_H
#define LAUNCH_BODY_H

#include <stdbool.h>
#include <stddef.h>

#include "serve/limits.h"

typedef enum launch_body_state {
    LAUNCH_BODY_TAKEN,
    LAUNCH_BODY_TOO_LONG, /* more than LAUNCH_SERVE_BODY_BYTES_MAX */
    LAUNCH_BODY_NO_ROOM,  /* others have it */
} launch_body_state;

typedef struct launch_body {
    char *bytes; /* (capacity); NULL: nothing is kept */
    size_t capacity;
    size_t size_bytes; /* what has come */
    launch_body_state state;
} launch_body;

/* Takes what has come. `keeps`: somebody will read it; else it is only counted. large_bytes: the room
 * that bodies above LAUNCH_SERVE_SMALL_BYTES_MAX take together. What is too long, or has no room, is
 * dropped. */
void launch_body_take(launch_body *body, size_t *large_bytes, const char *data, size_t data_bytes,
                      bool keeps);

/* Gives its room back. Its state stays. */
void launch_body_drop(launch_body *body, size_t *large_bytes);

#endif
