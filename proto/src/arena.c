/* A fixed block of memory from which protobuf-c unpacks one message at a time. Used by envelope.c,
 * and by the wire code of budget-service. */
#include "proto/arena.h"

#include <stdlib.h>

enum { ARENA_ALIGNMENT = 16 };

base_status proto_arena_init(proto_arena *arena, size_t size_bytes, base_error *reterr)
{
    arena->data = malloc(size_bytes);
    arena->size_bytes = size_bytes;
    arena->used_bytes = 0;
    return arena->data != NULL ? BASE_OK
                               : base_fail(reterr, BASE_ERR_MEMORY,
                                           "no memory for %zu bytes of messages", size_bytes);
}

void proto_arena_fini(proto_arena *arena)
{
    free(arena->data);
    *arena = (proto_arena){0};
}

void *proto_arena_alloc(void *arena, size_t size_bytes)
{
    proto_arena *from = arena;
    if (size_bytes > from->size_bytes - from->used_bytes) {
        return NULL;
    }
    void *block = from->data + from->used_bytes;
    const size_t rounded = (size_bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    const size_t left = from->size_bytes - from->used_bytes;
    from->used_bytes += rounded < left ? rounded : left;
    return block;
}

void proto_arena_free(void *arena, void *block)
{
    (void)arena;
    (void)block;
}
