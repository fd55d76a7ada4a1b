/* Calls the program's own reductions. They combine in place, and are promised aligned operands, but
 * frames, slots and buffers may lie anywhere. Called where kernels combine. */
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

enum { ALIGN_BYTES_MAX = 16 };

static bool is_aligned(const void *data, size_t element_bytes)
{
    const size_t power = element_bytes & -element_bytes;
    const size_t align = power < ALIGN_BYTES_MAX ? power : ALIGN_BYTES_MAX;
    return (uintptr_t)data % align == 0;
}

void coll_own_combine(const coll_reduction *own, void *out, const void *left, const void *right,
                      size_t count)
{
    _Alignas(ALIGN_BYTES_MAX) uint8_t a[COLL_ELEMENT_BYTES_MAX];
    _Alignas(ALIGN_BYTES_MAX) uint8_t b[COLL_ELEMENT_BYTES_MAX];
    const size_t size = own->element_bytes;
    const size_t block = COLL_ELEMENT_BYTES_MAX / size;
    if (count > 0 && out != right && is_aligned(out, size) && is_aligned(right, size)) {
        if (out != left) {
            memcpy(out, left, count * size);
        }
        own->combine(out, right, count, own->user);
        return;
    }
    for (size_t done = 0; done < count; done += block) {
        const size_t n = count - done < block ? count - done : block;
        memcpy(a, (const uint8_t *)left + done * size, n * size);
        memcpy(b, (const uint8_t *)right + done * size, n * size);
        own->combine(a, b, n, own->user);
        memcpy((uint8_t *)out + done * size, a, n * size);
    }
}
