/* A copy by non-temporal stores, for buffers that do not fit the cache. Called by shm's
 * zero_copy.c. */
#include "kernels/copy.h"

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>

enum { LINE_BYTES = 64 };

void coll_copy_past_cache(void *to, const void *from, size_t size_bytes)
{
    uint8_t *out = to;
    const uint8_t *in = from;
    size_t at = (LINE_BYTES - (uintptr_t)out % LINE_BYTES) % LINE_BYTES;
    at = at < size_bytes ? at : size_bytes;
    memcpy(out, in, at);
    for (; size_bytes - at >= LINE_BYTES; at += LINE_BYTES) {
        const __m128i *line = (const __m128i *)(const void *)(in + at);
        const __m128i a = _mm_loadu_si128(line);
        const __m128i b = _mm_loadu_si128(line + 1);
        const __m128i c = _mm_loadu_si128(line + 2);
        const __m128i d = _mm_loadu_si128(line + 3);
        __m128i *stored = (__m128i *)(void *)(out + at);
        _mm_stream_si128(stored, a);
        _mm_stream_si128(stored + 1, b);
        _mm_stream_si128(stored + 2, c);
        _mm_stream_si128(stored + 3, d);
    }
    memcpy(out + at, in + at, size_bytes - at);
    _mm_sfence();
}
#else
void coll_copy_past_cache(void *to, const void *from, size_t size_bytes)
{
    memcpy(to, from, size_bytes);
}
#endif
