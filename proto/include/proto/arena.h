/* Memory for unpacked messages. It is allocated once, has a fixed size, and is given out from front
 * to back. Setting used_bytes to 0 frees all of it. Not shared between threads. */
#ifndef PROTO_ARENA_H
#define PROTO_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct proto_arena {
    uint8_t *data;
    size_t size_bytes;
    size_t used_bytes;
} proto_arena;

BASE_MUST_CHECK base_status proto_arena_init(proto_arena *arena, size_t size_bytes,
                                             base_error *reterr);
void proto_arena_fini(proto_arena *arena);

/* The two functions of a ProtobufCAllocator whose data is the arena. alloc returns NULL if there is
 * no room. */
void *proto_arena_alloc(void *arena, size_t size_bytes);
void proto_arena_free(void *arena, void *block);

#endif
