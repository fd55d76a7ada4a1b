/* One SIMD register of floats, as wide as the instruction set this file is compiled for, and the
 * few operations on it that the kernels need.
 *
 * GCC vector extensions: +, -, * and / work element by element. Kernels see rows of any length; the
 * last, partial vector of a row is read with zeros behind it (vec_load) and written in part
 * (vec_store). Included by kernels only, which are compiled once per instruction set. */
#ifndef RANK_BACKEND_CPU_VEC_H
#define RANK_BACKEND_CPU_VEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(VEC_NEON) /* the build's word: arm64 has NEON always, but the baseline does without */
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
#define VEC_LANES 16
#elif defined(__AVX__)
#define VEC_LANES 8
#else
#define VEC_LANES 4
#endif

#define VEC_INLINE static inline __attribute__((always_inline, unused))

typedef float vec __attribute__((vector_size(4 * VEC_LANES)));
typedef int32_t vec_int __attribute__((vector_size(4 * VEC_LANES)));
typedef float vec_unaligned __attribute__((vector_size(4 * VEC_LANES), aligned(4), may_alias));
typedef float vec_half __attribute__((vector_size(2 * VEC_LANES)));
typedef uint32_t vec_bits __attribute__((vector_size(4 * VEC_LANES)));
typedef uint64_t vec_wide __attribute__((vector_size(4 * VEC_LANES)));
typedef int32_t vec_word __attribute__((may_alias));
typedef int16_t vec_halves __attribute__((vector_size(4 * VEC_LANES)));
typedef uint16_t vec_bfloat16 __attribute__((vector_size(2 * VEC_LANES), aligned(2), may_alias));

VEC_INLINE vec vec_set(float x)
{
    return x - (vec){0};
}

/* All of a vector, at any alignment. */
VEC_INLINE vec vec_get(const float *from)
{
    return *(const vec_unaligned *)from;
}

VEC_INLINE void vec_put(float *to, vec x)
{
    *(vec_unaligned *)to = x;
}

/* A vector of bfloat16, each of which is the upper half of a float. */
VEC_INLINE vec vec_get_bfloat16(const uint16_t *from)
{
#if defined(__AVX512F__)
    const __m256i halves = _mm256_loadu_si256((const void *)from);
    return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16);
#elif defined(__AVX2__) /* which GCC 12 does not find by itself */
    const __m128i halves = _mm_loadu_si128((const void *)from);
    return (vec)_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
#else
    return (vec)(__builtin_convertvector(*(const vec_bfloat16 *)from, vec_bits) << 16);
#endif
}

/* Rounds to nearest, ties to even. NaN stays NaN. */
VEC_INLINE void vec_put_bfloat16(uint16_t *to, vec x)
{
    const vec_bits bits = (vec_bits)x;
    const vec_bits nearest = bits + 0x7fff + (bits >> 16 & 1);
    const vec_bits number = (vec_bits)((bits & 0x7fffffff) <= 0x7f800000);
    const vec_bits rounded = (number & nearest) | (~number & (bits | 0x400000));
    *(vec_bfloat16 *)to = __builtin_convertvector(rounded >> 16, vec_bfloat16);
}

/* The lower halves of 32-bit numbers. */
VEC_INLINE void vec_put_low(uint16_t *to, vec_int x)
{
    *(vec_bfloat16 *)to = __builtin_convertvector((vec_bits)x, vec_bfloat16);
}

/* Pairs of 8-bit numbers, each widened to a lane's two halves. */
VEC_INLINE vec_int vec_get_pairs(const uint16_t *from)
{
#if defined(__AVX512BW__)
    return (vec_int)_mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)from));
#elif defined(__AVX2__) /* which GCC 12 does not find by itself */
    return (vec_int)_mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)from));
#elif defined(VEC_NEON)
    return (vec_int)vmovl_s8(vld1_s8((const int8_t *)from));
#else
    const vec_bits pairs = __builtin_convertvector(*(const vec_bfloat16 *)from, vec_bits);
    const vec_int low = (vec_int)(pairs << 24) >> 24;
    return ((vec_int)(pairs << 16) >> 24 << 16) | (low & 0xffff);
#endif
}

/* Of pairs of 16-bit numbers: sum + in each lane the products of the first ones and of the second ones. */
VEC_INLINE vec_int vec_add_pair(vec_int sum, vec_int a, vec_int b)
{
#if defined(__AVX512VNNI__)
    return (vec_int)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
#elif defined(__AVXVNNI__)
    return (vec_int)_mm256_dpwssd_avx_epi32((__m256i)sum, (__m256i)a, (__m256i)b);
#elif defined(__AVX512BW__)
    return sum + (vec_int)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return sum + (vec_int)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
    return sum + (vec_int)_mm_madd_epi16((__m128i)a, (__m128i)b);
#elif defined(VEC_NEON)
    const int16x8_t x = (int16x8_t)a;
    const int16x8_t y = (int16x8_t)b;
    return sum +
           (vec_int)vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
#else
    return sum + (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16);
#endif
}

/* The products of the lower halves of lanes of 64 bits. */
VEC_INLINE vec_wide vec_multiply_wide(vec_wide a, vec_wide b)
{
#if defined(__AVX512F__)
    return (vec_wide)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__) /* one instruction, which compilers do not find by themselves */
    return (vec_wide)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
    return (vec_wide)_mm_mul_epu32((__m128i)a, (__m128i)b);
#elif defined(VEC_NEON)
    return (vec_wide)vmull_u32(vmovn_u64((uint64x2_t)a), vmovn_u64((uint64x2_t)b));
#else
    return (a & UINT64_C(0xffffffff)) * (b & UINT64_C(0xffffffff));
#endif
}

/* The same 32 bits in each lane. */
VEC_INLINE vec_int vec_set_bits(const float *from)
{
    return *(const vec_word *)from - (vec_int){0};
}

static __attribute__((noinline, cold, unused)) void vec_copy_part(float *to, const float *from,
                                                                  size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = from[i];
    }
}

/* The next LANES of the `left` floats from `from` on; zeros where there are fewer. */
VEC_INLINE vec vec_load(const float *from, size_t left)
{
    if (__builtin_expect(left >= VEC_LANES, 1)) {
        return vec_get(from);
    }
    float part[VEC_LANES] = {0};
    vec_copy_part(part, from, left);
    return vec_get(part);
}

VEC_INLINE void vec_store(float *to, vec x, size_t left)
{
    if (__builtin_expect(left >= VEC_LANES, 1)) {
        vec_put(to, x);
        return;
    }
    float part[VEC_LANES];
    vec_put(part, x);
    vec_copy_part(to, part, left);
}

/* mask (all ones or all zeros in each lane) ? yes : no */
VEC_INLINE vec vec_select(vec_int mask, vec yes, vec no)
{
    return (vec)((mask & (vec_int)yes) | (~mask & (vec_int)no));
}

/* a·b + c, rounded once wherever the instruction set can (not in the baseline's). */
VEC_INLINE vec vec_fma(vec a, vec b, vec c)
{
#if defined(__AVX512F__)
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(VEC_NEON)
    return (vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

/* a > b ? a : b, so b where one of them is not a number. One instruction on x86, which compilers do
 * not find by themselves. */
VEC_INLINE vec vec_max(vec a, vec b)
{
#if defined(__AVX512F__)
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (vec)_mm_max_ps((__m128)a, (__m128)b);
#else
    return vec_select(a > b, a, b);
#endif
}

/* a < b ? a : b, so b where one of them is not a number. */
VEC_INLINE vec vec_min(vec a, vec b)
{
#if defined(__AVX512F__)
    return (vec)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
    return (vec)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (vec)_mm_min_ps((__m128)a, (__m128)b);
#else
    return vec_select(a < b, a, b);
#endif
}

/* Lane i holds i. */
VEC_INLINE vec_int vec_iota(void)
{
    vec_int iota;
    for (int i = 0; i < VEC_LANES; i++) {
        iota[i] = i;
    }
    return iota;
}

/* All ones in the first `count` lanes. */
VEC_INLINE vec_int vec_first_lanes(size_t count)
{
    const int32_t few = count < VEC_LANES ? (int32_t)count : VEC_LANES;
    return vec_iota() < few;
}

/* Permutes the lanes: each is exchanged with the one half, a quarter, … of the register away. */
#if VEC_LANES == 16
#define VEC_SWAP_8(x)                                                                              \
    __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)
#define VEC_SWAP_4(x)                                                                              \
    __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)
#define VEC_SWAP_2(x)                                                                              \
    __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)
#define VEC_SWAP_1(x)                                                                              \
    __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#elif VEC_LANES == 8
#define VEC_SWAP_4(x) __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3)
#define VEC_SWAP_2(x) __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5)
#define VEC_SWAP_1(x) __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6)
#else
#define VEC_SWAP_2(x) __builtin_shufflevector(x, x, 2, 3, 0, 1)
#define VEC_SWAP_1(x) __builtin_shufflevector(x, x, 1, 0, 3, 2)
#endif

/* The sum of the lanes, by halves. */
VEC_INLINE float vec_sum(vec x)
{
#if VEC_LANES >= 16
    x += VEC_SWAP_8(x);
#endif
#if VEC_LANES >= 8
    x += VEC_SWAP_4(x);
#endif
    x += VEC_SWAP_2(x);
    x += VEC_SWAP_1(x);
    return x[0];
}

/* A sum along a row has VEC_SUM_LANES lanes on every instruction set, so it has the same bits on
 * each: lane i adds the elements at i, i + VEC_SUM_LANES, … in their order, from 0. Then the lanes
 * are added by halves, i and i + 8 first. It takes VEC_SUM_PARTS vectors. */
enum { VEC_SUM_LANES = 16, VEC_SUM_PARTS = VEC_SUM_LANES / VEC_LANES };

#define VEC_EACH_PART _Pragma("GCC unroll 4") for (int v = 0; v < VEC_SUM_PARTS; v++)

/* How many of `count` elements there are from part v of those at j on. */
VEC_INLINE size_t vec_left(size_t count, size_t j, int v)
{
    const size_t first = j + (size_t)v * VEC_LANES;
    return first < count ? count - first : 0;
}

VEC_INLINE void vec_sum_begin(vec part[VEC_SUM_PARTS])
{
    for (int v = 0; v < VEC_SUM_PARTS; v++) {
        part[v] = vec_set(0.0f);
    }
}

VEC_INLINE float vec_sum_end(vec part[VEC_SUM_PARTS])
{
    for (int half = VEC_SUM_PARTS / 2; half > 0; half /= 2) {
        for (int v = 0; v < half; v++) {
            part[v] += part[v + half];
        }
    }
    return vec_sum(part[0]);
}

/* The sum of the elements' products. */
VEC_INLINE float vec_dot(const float *a, const float *b, size_t count)
{
    vec sum[VEC_SUM_PARTS];
    vec_sum_begin(sum);
    for (size_t j = 0; j < count; j += VEC_SUM_LANES) {
        VEC_EACH_PART
        {
            const size_t at = j + (size_t)v * VEC_LANES;
            const size_t left = vec_left(count, j, v);
            sum[v] += vec_load(a + at, left) * vec_load(b + at, left);
        }
    }
    return vec_sum_end(sum);
}

VEC_INLINE float vec_largest(vec x)
{
#if VEC_LANES >= 16
    x = vec_max(x, VEC_SWAP_8(x));
#endif
#if VEC_LANES >= 8
    x = vec_max(x, VEC_SWAP_4(x));
#endif
    x = vec_max(x, VEC_SWAP_2(x));
    x = vec_max(x, VEC_SWAP_1(x));
    return x[0];
}

/* largest and |x|, as numbers without a sign: the larger ones of their bits, which is a NaN before it is
 * infinite. */
VEC_INLINE vec_int vec_larger_bits(vec_int largest, vec x)
{
    const vec_int bits = (vec_int)x & INT32_MAX;
    return (vec_int)vec_select(bits > largest, (vec)bits, (vec)largest);
}

VEC_INLINE float vec_largest_bits(vec_int largest)
{
    vec_int most = largest;
#if VEC_LANES >= 16
    most = vec_larger_bits(most, (vec)VEC_SWAP_8(most));
#endif
#if VEC_LANES >= 8
    most = vec_larger_bits(most, (vec)VEC_SWAP_4(most));
#endif
    most = vec_larger_bits(most, (vec)VEC_SWAP_2(most));
    most = vec_larger_bits(most, (vec)VEC_SWAP_1(most));
    return ((vec)most)[0];
}

/* The nearest integers, ties to even, least … most; most if it is not a number. Both: below 2^22. */
VEC_INLINE vec_int vec_round(vec x, float least, float most)
{
    const vec magic = vec_set(0x1.8p23f); /* adding it rounds to an integer in the low bits */
    const vec bounded = vec_max(vec_set(least), vec_min(x, vec_set(most)));
    return (vec_int)(bounded + magic) - (vec_int)magic;
}

/* exp(x) for x in [-87, 88], beyond that the value at the end of the range; NaN stays.
 * x = n·ln 2 + r with |r| ≤ ln 2 / 2, then 1 + r + r²·p(r) with p of degree 4 fitted to a relative
 * error of 3.1e-9; with rounding the result is within 1.5 units in the last place
 * (tests/rank/backend/cpu/test_kernels.c). */
VEC_INLINE vec vec_exp(vec x)
{
    const float round_magic = 0x1.8p23f; /* adding it rounds to an integer in the low bits */
    x = vec_min(vec_set(88.0f), vec_max(vec_set(-87.0f), x)); /* in this order NaN stays */
    const vec shifted = x * 0x1.715476p0f + round_magic;
    const vec n = shifted - round_magic;
    const vec r = (x - n * 0x1.62ep-1f) - n * 0x1.0bfbe8p-15f;
    const vec r2 = r * r;
    const vec p01 = 1.6666520104e-1f * r + 4.9999993412e-1f; /* by pairs: a shorter chain */
    const vec p23 = 8.3687808189e-3f * r + 4.1668394248e-2f;
    const vec p = (1.3814466541e-3f * r2 + p23) * r2 + p01;
    const vec y = (p * r2 + r) + 1.0f;
    const vec_int exponent = (vec_int)shifted << 23; /* n, without the magic number's own bits */
    return (vec)((vec_int)y + exponent);
}

#endif
