/* Slots: which sentences each has, and in which order an epoch takes them. Pure arithmetic.
 *
 * Slot s of n owns the sentences with index % n == s. Its i-th sentence in file order has index s +
 * i * n. An epoch's order is a Fisher-Yates shuffle of 0 … count-1, drawn from SplitMix64 (Steele,
 * Lea and Flood 2014) with the state mix(seed + s) + epoch, where mix is one output of SplitMix64
 * started at its argument. Each draw is made uniform by rejection (Lemire 2019). So the order
 * depends only on seed, slot, epoch and the slot's size. */
#ifndef RANK_DATA_SLOT_H
#define RANK_DATA_SLOT_H

#include <stdint.h>

/* Sentences of slot s out of slot_count, in a file of total sentences. */
static inline uint64_t rank_slot_size(uint64_t total, int slot_count, int slot)
{
    return total / (uint64_t)slot_count + ((uint64_t)slot < total % (uint64_t)slot_count);
}

/* Writes the epoch's order of the slot's sentences into order (count). */
void rank_slot_order(uint64_t seed, int slot, uint64_t epoch, uint32_t *order, uint32_t count);

#endif
