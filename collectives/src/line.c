#include "line.h"

#include <inttypes.h>
#include <stdio.h>

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

uint32_t coll_descriptor_digest(const coll_descriptor *d)
{
    uint64_t hash = mix(UINT64_C(0x52696e6766656e63), d->count);
    hash = mix(hash, (uint64_t)(uint32_t)d->kind << 32 | (uint32_t)d->type);
    hash = mix(hash, (uint64_t)(uint32_t)d->reduce << 32 | (uint32_t)d->root);
    hash = mix(hash, (uint32_t)d->algorithm);
    return (uint32_t)(hash ^ hash >> 32);
}

void coll_descriptor_text(const coll_descriptor *d, char *text, size_t size_bytes)
{
    switch (d->kind) {
    case COLL_ALL_REDUCE:
        (void)snprintf(text, size_bytes, "all_reduce %s × %" PRIu64 " %s %s",
                       coll_type_name((coll_type)d->type), d->count,
                       coll_reduce_name((coll_reduce)d->reduce),
                       coll_algorithm_name((coll_algorithm)d->algorithm));
        return;
    case COLL_BROADCAST:
        (void)snprintf(text, size_bytes, "broadcast %s × %" PRIu64 " root %d %s",
                       coll_type_name((coll_type)d->type), d->count, d->root,
                       coll_algorithm_name((coll_algorithm)d->algorithm));
        return;
    case COLL_ALL_GATHER:
        (void)snprintf(text, size_bytes, "all_gather %s × %" PRIu64 " %s",
                       coll_type_name((coll_type)d->type), d->count,
                       coll_algorithm_name((coll_algorithm)d->algorithm));
        return;
    case COLL_BARRIER:
        (void)snprintf(text, size_bytes, "barrier");
        return;
    case COLL_KIND_ARENA:
        (void)snprintf(text, size_bytes, "arena_create of %" PRIu64 " bytes", d->count);
        return;
    case COLL_KIND_COMM:
        (void)snprintf(text, size_bytes, "comm_create");
        return;
    default:
        (void)snprintf(text, size_bytes, "an unknown operation (kind %d)", d->kind);
        return;
    }
}
