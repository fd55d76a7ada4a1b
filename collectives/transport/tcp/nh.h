/* NH: the fast hash that the MAC of frames is made of.
 *
 * For every unit of COLL_NH_UNIT_BYTES, three 64-bit sums of products
 *
 *     sum over i of (m[2i] + k[2i + 16p] mod 2^32) × (m[2i+1] + k[2i+1 + 16p] mod 2^32) mod 2^64
 *
 * for p = 0..2, over 32-bit little-endian words m and a key k (the Toeplitz construction; any even
 * shift will do, and by 16 words a piece of key serves the three passes in turn). Whatever the
 * differences asked for, the sums of two different messages of one length differ by just them with
 * a probability of at most 2^-96 over the key; of different lengths, which end in a product of
 * their own, 2^-93. The sums are no MAC: they must be hidden, each time by numbers of their own.
 * Units are as long as the nearest cache has room for their key.
 *
 * Source: J. Black, S. Halevi, H. Krawczyk, T. Krovetz, P. Rogaway, "UMAC: Fast and Secure Message
 * Authentication", CRYPTO '99, sections 4 and 5. Pure; any thread. */
#ifndef COLL_SRC_TCP_NH_H
#define COLL_SRC_TCP_NH_H

#include <stddef.h>
#include <stdint.h>

enum {
    COLL_NH_UNIT_BYTES = 8192,
    COLL_NH_PASSES = 3,
    COLL_NH_SHIFT_WORDS = 16, /* of the key, from pass to pass */
    COLL_NH_DIGEST_BYTES = 8 * COLL_NH_PASSES,
    COLL_NH_KEY_WORDS = COLL_NH_UNIT_BYTES / 4 + COLL_NH_SHIFT_WORDS * (COLL_NH_PASSES - 1),
};

/* How many bytes of digest size_bytes give: one of COLL_NH_DIGEST_BYTES per unit begun. */
size_t coll_nh_digest_bytes(size_t size_bytes);

/* Writes the digests of `data`, the last unit filled up with zeroes to a multiple of 64 bytes. */
void coll_nh(const uint32_t key[COLL_NH_KEY_WORDS], const void *data, size_t size_bytes,
             uint8_t *digest);

/* The same without the processor's wide instructions, for tests. */
void coll_nh_plain(const uint32_t key[COLL_NH_KEY_WORDS], const void *data, size_t size_bytes,
                   uint8_t *digest);

#endif
