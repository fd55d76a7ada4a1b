/* Another evaluation of collectives of integers than libcoll's. Called by tests that start many operations of all
 * kinds. */
#include "integers.h"

#include <stdint.h>

static uint32_t value(unsigned salt, int rank, size_t i)
{
    return salt * 2654435761u + (unsigned)rank * 40503u + (unsigned)i * 97u;
}

size_t integers_sent(const coll_op_desc *desc, int rank, int size)
{
    const size_t whole = desc->count * (size_t)size;
    switch (desc->kind) {
    case COLL_BARRIER:
    case COLL_RECEIVE:
        return 0;
    case COLL_BROADCAST:
        return rank == desc->root ? desc->count : 0;
    case COLL_SCATTER:
        return rank == desc->root ? whole : 0;
    case COLL_REDUCE_SCATTER:
    case COLL_ALL_TO_ALL:
        return whole;
    default:
        return desc->count;
    }
}

size_t integers_received(const coll_op_desc *desc, int rank, int size)
{
    const size_t whole = desc->count * (size_t)size;
    switch (desc->kind) {
    case COLL_BARRIER:
    case COLL_SEND:
        return 0;
    case COLL_GATHER:
        return rank == desc->root ? whole : 0;
    case COLL_REDUCE:
        return rank == desc->root ? desc->count : 0;
    case COLL_ALL_GATHER:
    case COLL_ALL_TO_ALL:
        return whole;
    default:
        return desc->count;
    }
}

static uint32_t combined(coll_reduce_op reduce, unsigned salt, int size, size_t i)
{
    uint32_t all = value(salt, 0, i);
    for (int rank = 1; rank < size; rank++) {
        const uint32_t next = value(salt, rank, i);
        all = reduce == COLL_SUM ? all + next : (int32_t)next > (int32_t)all ? next : all;
    }
    return all;
}

static uint32_t expected(const coll_op_desc *desc, unsigned salt, int rank, int size, size_t i)
{
    const size_t first = (size_t)rank * desc->count;
    switch (desc->kind) {
    case COLL_ALL_REDUCE:
    case COLL_REDUCE:
        return combined(desc->reduce, salt, size, i);
    case COLL_REDUCE_SCATTER:
        return combined(desc->reduce, salt, size, first + i);
    case COLL_BROADCAST:
    case COLL_RECEIVE:
        return value(salt, desc->root, i);
    case COLL_SCATTER:
        return value(salt, desc->root, first + i);
    case COLL_ALL_TO_ALL:
        return value(salt, (int)(i / desc->count), first + i % desc->count);
    default:
        return value(salt, (int)(i / desc->count), i % desc->count);
    }
}

void integers_give(const coll_op_desc *desc, unsigned salt, int rank, int size)
{
    uint32_t *send = (uint32_t *)(uintptr_t)desc->send;
    for (size_t i = 0; i < integers_sent(desc, rank, size); i++) {
        send[i] = value(salt, rank, i);
    }
}

ptrdiff_t integers_wrong(const coll_op_desc *desc, unsigned salt, int rank, int size)
{
    const uint32_t *recv = desc->recv;
    for (size_t i = 0; i < integers_received(desc, rank, size); i++) {
        if (recv[i] != expected(desc, salt, rank, size, i)) {
            return (ptrdiff_t)i;
        }
    }
    return -1;
}
