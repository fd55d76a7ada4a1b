/* Philox4x32-10, word by word, and what backend/dropout.h says of masks: another evaluation than the kernels'. */
#ifndef TEST_PHILOX_H
#define TEST_PHILOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline void test_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t words[4])
{
    uint32_t k0 = key[0];
    uint32_t k1 = key[1];
    for (int i = 0; i < 4; i++) {
        words[i] = counter[i];
    }
    for (int round = 0; round < 10; round++) {
        const uint64_t product0 = UINT64_C(0xd2511f53) * words[0];
        const uint64_t product1 = UINT64_C(0xcd9e8d57) * words[2];
        const uint32_t next[4] = {(uint32_t)(product1 >> 32) ^ words[1] ^ k0, (uint32_t)product1,
                                  (uint32_t)(product0 >> 32) ^ words[3] ^ k1, (uint32_t)product0};
        for (int i = 0; i < 4; i++) {
            words[i] = next[i];
        }
        k0 += UINT32_C(0x9e3779b9);
        k1 += UINT32_C(0xbb67ae85);
    }
}

/* Of a mask, all but the column. */
typedef struct test_mask {
    uint64_t seed;
    uint64_t step;
    uint32_t site;
    uint32_t token;
} test_mask;

/* The 32 random bits of a column. */
static inline uint32_t test_mask_word(const test_mask *mask, size_t column)
{
    const uint32_t call = (uint32_t)(column / 64 * 16 + column % 16);
    const uint32_t counter[4] = {mask->token * 4096 + call, mask->site, (uint32_t)mask->step,
                                 (uint32_t)(mask->step >> 32)};
    const uint32_t key[2] = {(uint32_t)mask->seed, (uint32_t)(mask->seed >> 32)};
    uint32_t words[4];
    test_philox(counter, key, words);
    return words[column % 64 / 16];
}

#endif
