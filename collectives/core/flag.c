/* Descriptor digests and texts of operations for flags. Called when an operation is
 * initialized, and for the message of a mismatch. */
#include "core/flag.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/kinds.h"

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

uint32_t coll_descriptor_digest(const coll_descriptor *d)
{
    uint64_t hash =
        mix(UINT64_C(0x52696e6766656e63), d->counts == COLL_COUNTS_PAIRWISE ? 0 : d->count);
    hash = mix(hash, (uint64_t)(uint32_t)d->kind << 32 | (uint32_t)d->type);
    hash = mix(hash, (uint64_t)(uint32_t)d->reduce << 32 | (uint32_t)d->root);
    hash = mix(hash, (uint64_t)d->counts << 32 | (uint32_t)d->algorithm);
    if (d->element_bytes != 0) {
        uint64_t name[sizeof d->name / sizeof(uint64_t)];
        memcpy(name, d->name, sizeof name);
        hash = mix(mix(mix(hash, d->element_bytes), name[0]), name[1]);
    }
    return ((uint32_t)(hash ^ hash >> 32) & ~UINT32_C(1)) | (d->chosen != 0);
}

/* The library's own operations, and what is none. */
static void other_text(const coll_descriptor *d, char *text, size_t size_bytes)
{
    switch (d->kind) {
    case COLL_KIND_ARENA:
        (void)snprintf(text, size_bytes, "arena_create of %" PRIu64 " bytes", d->count);
        return;
    case COLL_KIND_COMM:
        (void)snprintf(text, size_bytes, "comm_create");
        return;
    case COLL_KIND_SPLIT:
        (void)snprintf(text, size_bytes, "comm_split");
        return;
    case COLL_KIND_DEVICE_OPEN:
        (void)snprintf(text, size_bytes, "device_open%s", d->count == 0 ? "" : " (its end)");
        return;
    case COLL_KIND_DEVICE_MADE:
        (void)snprintf(text, size_bytes, "op_create on a stream (%" PRIu64 " made)", d->count);
        return;
    case COLL_KIND_DEVICE_CAPTURED:
        (void)snprintf(text, size_bytes, "capture of operation %" PRIu64 " on a stream", d->count);
        return;
    default:
        (void)snprintf(text, size_bytes, "an unknown operation (kind %d)", d->kind);
        return;
    }
}

/* A space and the name, as far as it is one: a peer may have posted anything. */
static void own_name(const coll_descriptor *d, char text[COLL_REDUCTION_NAME_BYTES + 1])
{
    size_t used = 0;
    text[used++] = ' ';
    for (size_t i = 0; i + 1 < sizeof d->name && d->name[i] != '\0'; i++) {
        text[used++] = coll_reduction_char(d->name[i]) ? d->name[i] : '?';
    }
    text[used] = '\0';
}

static bool is_of_device(const coll_descriptor *d)
{
    return d->kind > COLL_KIND_DEVICE && d->kind <= COLL_KIND_DEVICE + COLL_KIND_LAST;
}

static void write_text(const coll_descriptor *given, bool as_called, char *text, size_t size_bytes)
{
    static const char prefix[] = "op_create on a stream of ";
    coll_descriptor own = *given;
    const coll_descriptor *d = &own;
    if (is_of_device(given) && size_bytes > sizeof prefix) {
        (void)snprintf(text, size_bytes, "%s", prefix);
        text += sizeof prefix - 1;
        size_bytes -= sizeof prefix - 1;
        own.kind -= COLL_KIND_DEVICE;
    }
    const bool is_auto = as_called && d->chosen != 0;
    char counts[32] = "";
    char type[32] = "";
    char reduce[COLL_REDUCTION_NAME_BYTES + 1] = "";
    char root[24] = "";
    if (d->kind < COLL_ALL_REDUCE || d->kind > COLL_KIND_LAST) {
        other_text(d, text, size_bytes);
        return;
    }
    if (d->kind == COLL_BARRIER) {
        (void)snprintf(text, size_bytes, "barrier");
        return;
    }
    if (d->counts == COLL_COUNTS_PAIRWISE) {
        (void)snprintf(counts, sizeof counts, " with counts");
    } else if (d->counts != 0) {
        (void)snprintf(counts, sizeof counts, " in parts %08x", d->counts);
    }
    (void)snprintf(type, sizeof type, "%s", coll_type_name((coll_type)d->type));
    if (d->element_bytes != 0) {
        (void)snprintf(type, sizeof type, "%" PRIu32 "-byte", d->element_bytes);
        own_name(d, reduce);
    } else if (d->reduce != 0) {
        (void)snprintf(reduce, sizeof reduce, " %s",
                       coll_reduce_op_name((coll_reduce_op)d->reduce));
    }
    if (coll_kind_has_root((coll_kind)d->kind)) {
        (void)snprintf(root, sizeof root, " root %d", d->root);
    }
    (void)snprintf(text, size_bytes, "%s %s × %" PRIu64 "%s%s%s %s%s%s",
                   coll_kind_name((coll_kind)d->kind), type, d->count, counts, reduce, root,
                   is_auto ? "auto (" : "", coll_algorithm_name((coll_algorithm)d->algorithm),
                   is_auto ? ")" : "");
}

void coll_descriptor_text(const coll_descriptor *d, char *text, size_t size_bytes)
{
    write_text(d, false, text, size_bytes);
}

void coll_call_text(const coll_descriptor *d, char *text, size_t size_bytes)
{
    write_text(d, true, text, size_bytes);
}
