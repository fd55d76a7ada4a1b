/* NH: the fast first pass of the MAC over long frames.
 *
 * For every unit of COLL_NH_UNIT_BYTES, three 64-bit sums of products
 *
 *     sum over i of (m[2i] + k[2i + 4p] mod 2^32) × (m[2i+1] + k[2i+1 + 4p] mod 2^32) mod 2^64
 *
 * for p = 0..2, over 32-bit little-endian words m and a key k (the Toeplitz construction). Two
 * different messages of one length agree in all three with a probability of 2^-96 over the key. The
 * sums are no MAC: they must be hidden, here by Poly1305 under a key used once. Its own bound for a
 * long frame's sums is about that, so a fourth pass would buy nothing. Units are as long as the
 * nearest cache has room for their key: Poly1305 costs ten times as much per byte of sums.
 *
 * Source: J. Black, S. Halevi, H. Krawczyk, T. Krovetz, P. Rogaway, "UMAC: Fast and Secure Message
 * Authentication", CRYPTO '99, sections 4 and 5. Pure; any thread. */
#ifndef COLL_SRC_TCP_NH_H
#define COLL_SRC_TCP_NH_H

#include <stddef.h>
#include <stdint.h>

enum {
    COLL_NH_UNIT_BYTES = 4096,
    COLL_NH_PASSES = 3,
    COLL_NH_DIGEST_BYTES = 8 * COLL_NH_PASSES,
    COLL_NH_KEY_WORDS = COLL_NH_UNIT_BYTES / 4 + 4 * (COLL_NH_PASSES - 1),
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
