/* Keeps the body of a POST while it comes. Called by routes.c. */
#include "serve/body.h"

#include <stdlib.h>
#include <string.h>

static size_t large_part(size_t capacity)
{
    return capacity > LAUNCH_SERVE_SMALL_BYTES_MAX ? capacity : 0;
}

/* Makes room for so many bytes, and for twice as many as before at least. */
static bool grow(launch_body *body, size_t *large_bytes, size_t size_bytes)
{
    size_t capacity = 2 * body->capacity;
    capacity = capacity < size_bytes ? size_bytes : capacity;
    capacity = capacity < LAUNCH_SERVE_BODY_BYTES_MAX ? capacity : LAUNCH_SERVE_BODY_BYTES_MAX;
    const size_t others = *large_bytes - large_part(body->capacity);
    if (large_part(capacity) > LAUNCH_SERVE_LARGE_BYTES_MAX - others) {
        return false;
    }
    char *bytes = realloc(body->bytes, capacity);
    if (bytes == NULL) {
        return false;
    }
    body->bytes = bytes;
    body->capacity = capacity;
    *large_bytes = others + large_part(capacity);
    return true;
}

void launch_body_take(launch_body *body, size_t *large_bytes, const char *data, size_t data_bytes,
                      bool keeps)
{
    if (body->state != LAUNCH_BODY_TAKEN) {
        return;
    }
    if (data_bytes > LAUNCH_SERVE_BODY_BYTES_MAX - body->size_bytes) {
        body->state = LAUNCH_BODY_TOO_LONG;
    } else if (keeps && body->size_bytes + data_bytes > body->capacity &&
               !grow(body, large_bytes, body->size_bytes + data_bytes)) {
        body->state = LAUNCH_BODY_NO_ROOM;
    }
    if (body->state != LAUNCH_BODY_TAKEN) {
        launch_body_drop(body, large_bytes);
        return;
    }
    if (keeps && data_bytes > 0) {
        memcpy(body->bytes + body->size_bytes, data, data_bytes);
    }
    body->size_bytes += data_bytes;
}

void launch_body_drop(launch_body *body, size_t *large_bytes)
{
    *large_bytes -= large_part(body->capacity);
    free(body->bytes);
    body->bytes = NULL;
    body->capacity = 0;
}
