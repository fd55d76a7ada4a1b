/* 16-bit floats: to float32 and back, and the kernels over them. Part of body.h. The plain
 * C forms give the very bits of the processor's own conversions (F16C), NaN included. */
#include <string.h>

#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

enum { HALF_BLOCK = 256 }; /* elements widened at a time */

static inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float widen_bfloat16(uint16_t half)
{
    return float_of((uint32_t)half << 16);
}

static inline uint16_t narrow_bfloat16(float value)
{
    const uint32_t bits = bits_of(value);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const uint32_t quiet = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

/* The exponent is rebased by a product, which also makes subnormals normal. */
static inline float widen_float16(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    const uint32_t rest = (uint32_t)(half & 0x7fff) << 13;
    const uint32_t finite = bits_of(float_of(rest) * 0x1p112f);
    const uint32_t special = rest | 0x7f800000 | (rest > 0x0f800000 ? 0x400000u : 0);
    return float_of(sign | (rest >= 0x0f800000 ? special : finite));
}

/* Subnormals are rounded by an addition at whose magnitude a unit in the last place is theirs. */
static inline uint16_t narrow_float16(float value)
{
    const uint32_t bits = bits_of(value);
    const uint32_t size = bits & 0x7fffffff;
    const uint32_t normal = (size + 0xfff + (size >> 13 & 1) - 0x38000000) >> 13;
    const uint32_t tiny = bits_of(float_of(size) + 0.5f) - 0x3f000000;
    const uint32_t quiet = 0x7e00 | (size >> 13 & 0x3ff);
    uint32_t half = size < 0x38800000 ? tiny : normal;
    half = size >= 0x477ff000 ? 0x7c00 : half;
    half = size > 0x7f800000 ? quiet : half;
    return (uint16_t)(bits >> 16 & 0x8000) | (uint16_t)half;
}

static void widen_bfloat16_all(float *out, const void *in, size_t count)
{
    const any_uint16 *from = in;
    for (size_t i = 0; i < count; i++) {
        out[i] = widen_bfloat16(from[i]);
    }
}

static void narrow_bfloat16_all(void *out, const float *in, size_t count)
{
    any_uint16 *to = out;
    for (size_t i = 0; i < count; i++) {
        to[i] = narrow_bfloat16(in[i]);
    }
}

static void widen_float16_all(float *out, const void *in, size_t count)
{
    const any_uint16 *from = in;
    size_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= count; i += 16) {
        const __m256i half = _mm256_loadu_si256((const __m256i *)(const void *)(from + i));
        _mm512_storeu_ps(out + i, _mm512_cvtph_ps(half));
    }
#elif defined(__F16C__)
    for (; i + 8 <= count; i += 8) {
        const __m128i half = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(half));
    }
#endif
    for (; i < count; i++) {
        out[i] = widen_float16(from[i]);
    }
}

static void narrow_float16_all(void *out, const float *in, size_t count)
{
    any_uint16 *to = out;
    size_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= count; i += 16) {
        const __m512 wide = _mm512_loadu_ps(in + i);
        _mm256_storeu_si256((__m256i *)(void *)(to + i),
                            _mm512_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT));
    }
#elif defined(__F16C__)
    for (; i + 8 <= count; i += 8) {
        const __m256 wide = _mm256_loadu_ps(in + i);
        _mm_storeu_si128((__m128i *)(void *)(to + i),
                         _mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT));
    }
#endif
    for (; i < count; i++) {
        to[i] = narrow_float16(in[i]);
    }
}

#define SMALLER_HALF(count, done) ((count) - (done) < HALF_BLOCK ? (count) - (done) : HALF_BLOCK)

/* out = left · right, rounded; a block at a time, so that out may be an operand. */
#define ARITHMETIC_HALF(name, half, operation)                                                     \
    static void name(void *out, const void *left, const void *right, size_t count)                 \
    {                                                                                              \
        float a[HALF_BLOCK];                                                                       \
        float b[HALF_BLOCK];                                                                       \
        for (size_t done = 0; done < count; done += HALF_BLOCK) {                                  \
            const size_t n = SMALLER_HALF(count, done);                                            \
            widen_##half##_all(a, (const any_uint16 *)left + done, n);                             \
            widen_##half##_all(b, (const any_uint16 *)right + done, n);                            \
            operation(a, a, b, n);                                                                 \
            narrow_##half##_all((any_uint16 *)out + done, a, n);                                   \
        }                                                                                          \
    }

/* out = whichever operand; its bits are kept. */
#define CHOICE_HALF(name, half, better)                                                            \
    static void name(void *out, const void *left, const void *right, size_t count)                 \
    {                                                                                              \
        float a[HALF_BLOCK];                                                                       \
        float b[HALF_BLOCK];                                                                       \
        for (size_t done = 0; done < count; done += HALF_BLOCK) {                                  \
            const size_t n = SMALLER_HALF(count, done);                                            \
            const any_uint16 *l = (const any_uint16 *)left + done;                                 \
            const any_uint16 *r = (const any_uint16 *)right + done;                                \
            any_uint16 *o = (any_uint16 *)out + done;                                              \
            widen_##half##_all(a, l, n);                                                           \
            widen_##half##_all(b, r, n);                                                           \
            KERNELS_IVDEP for (size_t i = 0; i < n; i++)                                           \
            {                                                                                      \
                o[i] = b[i] better a[i] ? r[i] : l[i];                                             \
            }                                                                                      \
        }                                                                                          \
    }

#define TWICE_HALF(name)                                                                           \
    static void name##_twice(void *out, void *also, const void *left, const void *right,           \
                             size_t count)                                                         \
    {                                                                                              \
        for (size_t done = 0; done < count; done += HALF_BLOCK) {                                  \
            const size_t n = SMALLER_HALF(count, done);                                            \
            any_uint16 *o = (any_uint16 *)out + done;                                              \
            name(o, (const any_uint16 *)left + done, (const any_uint16 *)right + done, n);         \
            memcpy((any_uint16 *)also + done, o, n * sizeof *o);                                   \
        }                                                                                          \
    }

#define DIVIDE_HALF(half)                                                                          \
    static void divide_##half(void *data, size_t count, int divisor)                               \
    {                                                                                              \
        float a[HALF_BLOCK];                                                                       \
        for (size_t done = 0; done < count; done += HALF_BLOCK) {                                  \
            const size_t n = SMALLER_HALF(count, done);                                            \
            any_uint16 *at = (any_uint16 *)data + done;                                            \
            widen_##half##_all(a, at, n);                                                          \
            for (size_t i = 0; i < n; i++) {                                                       \
                a[i] /= (float)divisor;                                                            \
            }                                                                                      \
            narrow_##half##_all(at, a, n);                                                         \
        }                                                                                          \
    }

#define KERNELS_HALF(half)                                                                         \
    ARITHMETIC_HALF(sum_##half, half, sum_float32)                                                 \
    ARITHMETIC_HALF(product_##half, half, product_float32)                                         \
    CHOICE_HALF(min_##half, half, <)                                                               \
    CHOICE_HALF(max_##half, half, >)                                                               \
    TWICE_HALF(sum_##half)                                                                         \
    TWICE_HALF(product_##half)                                                                     \
    TWICE_HALF(min_##half)                                                                         \
    TWICE_HALF(max_##half)                                                                         \
    DIVIDE_HALF(half)
