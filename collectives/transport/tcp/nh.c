/* The NH hash, plain and with SIMD. Called by seal.c for the tag of each frame. */
#include "transport/tcp/nh.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { PIECE_BYTES = 64, PIECE_WORDS = PIECE_BYTES / 4 };

_Static_assert(COLL_NH_PASSES == 3 && (int)COLL_NH_SHIFT_WORDS == (int)PIECE_WORDS,
               "what is written out below");

/* Adds pieces of 64 bytes to the sums; `key` stands at the first piece's words. */
typedef void (*nh_sum)(const uint32_t *key, const uint8_t *data, size_t pieces,
                       uint64_t sums[COLL_NH_PASSES]);

static void sum_plain(const uint32_t *key, const uint8_t *data, size_t pieces,
                      uint64_t sums[COLL_NH_PASSES])
{
    for (size_t i = 0; i < pieces * PIECE_WORDS; i += 2) {
        uint32_t m[2];
        memcpy(m, data + 4 * i, sizeof m);
        for (size_t pass = 0; pass < COLL_NH_PASSES; pass++) {
            const uint32_t left = m[0] + key[i + COLL_NH_SHIFT_WORDS * pass];
            const uint32_t right = m[1] + key[i + 1 + COLL_NH_SHIFT_WORDS * pass];
            sums[pass] += (uint64_t)left * right;
        }
    }
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) static inline __m256i add_avx2(__m256i sum, __m256i data,
                                                               const uint32_t *key)
{
    const __m256i x =
        _mm256_add_epi32(data, _mm256_loadu_si256((const __m256i *)(const void *)key));
    return _mm256_add_epi64(sum, _mm256_mul_epu32(x, _mm256_srli_epi64(x, 32)));
}

__attribute__((target("avx2"))) static uint64_t total_avx2(__m256i sum)
{
    uint64_t parts[4];
    _mm256_storeu_si256((__m256i *)(void *)parts, sum);
    return parts[0] + parts[1] + parts[2] + parts[3];
}

__attribute__((target("avx2"))) static void sum_avx2(const uint32_t *key, const uint8_t *data,
                                                     size_t pieces, uint64_t sums[COLL_NH_PASSES])
{
    __m256i a = _mm256_setzero_si256();
    __m256i b = a;
    __m256i c = a;
    for (size_t i = 0; i < 2 * pieces; i++, key += PIECE_WORDS / 2) {
        const __m256i m = _mm256_loadu_si256((const __m256i *)(const void *)(data + 32 * i));
        a = add_avx2(a, m, key);
        b = add_avx2(b, m, key + COLL_NH_SHIFT_WORDS);
        c = add_avx2(c, m, key + 2 * COLL_NH_SHIFT_WORDS);
    }
    sums[0] += total_avx2(a);
    sums[1] += total_avx2(b);
    sums[2] += total_avx2(c);
}

__attribute__((target("avx512f"))) static inline __m512i add_avx512(__m512i sum, __m512i data,
                                                                    __m512i key)
{
    const __m512i x = _mm512_add_epi32(data, key);
    return _mm512_add_epi64(sum, _mm512_mul_epu32(x, _mm512_srli_epi64(x, 32)));
}

/* In registers; not _mm512_reduce_add_epi64, whose addition is a signed one. */
__attribute__((target("avx512f"))) static inline uint64_t total_avx512(__m512i sum)
{
    const __m256i four =
        _mm256_add_epi64(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64(sum, 1));
    const __m128i two =
        _mm_add_epi64(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    return (uint64_t)_mm_cvtsi128_si64(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two)));
}

/* A piece, loaded once: compilers would rather load it for every pass. */
__attribute__((target("avx512f"))) static inline __m512i load_avx512(const void *data)
{
    __m512i piece = _mm512_loadu_si512(data);
    __asm__("" : "+v"(piece));
    return piece;
}

__attribute__((target("avx512f"))) static void
sum_avx512(const uint32_t *key, const uint8_t *data, size_t pieces, uint64_t sums[COLL_NH_PASSES])
{
    __m512i a = _mm512_setzero_si512();
    __m512i b = a;
    __m512i c = a;
    __m512i first = load_avx512(key);
    __m512i second = load_avx512(key + PIECE_WORDS);
    size_t i = 0;
    for (; i + 1 < pieces; i += 2) {
        const uint32_t *next = key + (i + 2) * PIECE_WORDS;
        const __m512i third = load_avx512(next);
        const __m512i fourth = load_avx512(next + PIECE_WORDS);
        const __m512i m = load_avx512(data + PIECE_BYTES * i);
        const __m512i n = load_avx512(data + PIECE_BYTES * (i + 1));
        a = add_avx512(a, m, first);
        b = add_avx512(b, m, second);
        c = add_avx512(c, m, third);
        a = add_avx512(a, n, second);
        b = add_avx512(b, n, third);
        c = add_avx512(c, n, fourth);
        first = third;
        second = fourth;
    }
    if (i < pieces) {
        const __m512i m = load_avx512(data + PIECE_BYTES * i);
        a = add_avx512(a, m, first);
        b = add_avx512(b, m, second);
        c = add_avx512(c, m, load_avx512(key + (i + 2) * PIECE_WORDS));
    }
    sums[0] += total_avx512(a);
    sums[1] += total_avx512(b);
    sums[2] += total_avx512(c);
}

#endif

static nh_sum best(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        return sum_avx512;
    }
    if (__builtin_cpu_supports("avx2")) {
        return sum_avx2;
    }
#endif
    return sum_plain;
}

size_t coll_nh_digest_bytes(size_t size_bytes)
{
    return (size_bytes + COLL_NH_UNIT_BYTES - 1) / COLL_NH_UNIT_BYTES * COLL_NH_DIGEST_BYTES;
}

static void hash(nh_sum sum, const uint32_t *key, const uint8_t *data, size_t size_bytes,
                 uint8_t *digest)
{
    for (size_t at = 0; at < size_bytes; at += COLL_NH_UNIT_BYTES) {
        uint64_t sums[COLL_NH_PASSES] = {0};
        const size_t left = size_bytes - at;
        const size_t unit = left < COLL_NH_UNIT_BYTES ? left : COLL_NH_UNIT_BYTES;
        const size_t pieces = unit / PIECE_BYTES;
        const size_t rest = unit % PIECE_BYTES;
        sum(key, data + at, pieces, sums);
        if (rest > 0) {
            uint8_t last[PIECE_BYTES] = {0};
            memcpy(last, data + at + pieces * PIECE_BYTES, rest);
            sum(key + pieces * PIECE_WORDS, last, 1, sums);
        }
        memcpy(digest, sums, sizeof sums);
        digest += sizeof sums;
    }
}

void coll_nh(const uint32_t key[COLL_NH_KEY_WORDS], const void *data, size_t size_bytes,
             uint8_t *digest)
{
    hash(best(), key, data, size_bytes, digest);
}

void coll_nh_plain(const uint32_t key[COLL_NH_KEY_WORDS], const void *data, size_t size_bytes,
                   uint8_t *digest)
{
    hash(sum_plain, key, data, size_bytes, digest);
}
