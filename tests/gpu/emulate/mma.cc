// The emulator's tensor cores: mma.m16n8k16 and ldmatrix, as the sections of the PTX ISA say that
// kernels/mma.h names. Written from these tables: which lane has which element. Called by kernels
// through that header.
#include "emulate/device.h"

namespace
{

constexpr unsigned rows = 16;
constexpr unsigned columns = 8;
constexpr unsigned depth = 16;

// What a lane brings to a product.
struct operands {
    uint32_t a[4];
    uint32_t b[2];
};

float half(uint32_t pair, unsigned which)
{
    return __uint_as_float(which == 0 ? pair << 16 : pair & 0xffff0000u);
}

// Element (row, column) of A: of which lane, register and half.
float element_of_a(const operands *lanes, unsigned row, unsigned column)
{
    const unsigned lane = row % 8 * 4 + column % 8 / 2;
    return half(lanes[lane].a[row / 8 + column / 8 * 2], column % 2);
}

float element_of_b(const operands *lanes, unsigned row, unsigned column)
{
    const unsigned lane = column * 4 + row % 8 / 2;
    return half(lanes[lane].b[row / 8], row % 2);
}

} // namespace

// The order of the sums is our own: the ISA leaves it open.
void emulate_mma(float *c, const uint32_t *a, const uint32_t *b)
{
    operands mine;
    memcpy(mine.a, a, sizeof mine.a);
    memcpy(mine.b, b, sizeof mine.b);
    const operands *lanes = static_cast<const operands *>(emulate_collect(&mine, sizeof mine));
    const unsigned lane = threadIdx.x % 32;
    for (unsigned i = 0; i < 4; i++) {
        const unsigned row = lane / 4 + i / 2 * 8;
        const unsigned column = lane % 4 * 2 + i % 2;
        static_assert(rows == 16 && columns == 8, "32 lanes with four elements each");
        for (unsigned k = 0; k < depth; k++) {
            c[i] = c[i] + element_of_a(lanes, row, k) * element_of_b(lanes, k, column);
        }
    }
}

// Each lane reads the row it names before any lane goes on.
void emulate_load_matrices(uint32_t *to, const void *row, bool transposed)
{
    struct matrix_row {
        uint16_t at[8];
    } mine;
    if (reinterpret_cast<uintptr_t>(row) % sizeof mine != 0) {
        abort(); // a row is at a multiple of 16 bytes
    }
    memcpy(&mine, row, sizeof mine);
    const matrix_row *all = static_cast<const matrix_row *>(emulate_collect(&mine, sizeof mine));
    const unsigned group = threadIdx.x % 32 / 4;
    const unsigned pair = threadIdx.x % 4 * 2;
    for (unsigned i = 0; i < 4; i++) {
        const matrix_row *matrix = all + 8 * i;
        const uint32_t low = transposed ? matrix[pair].at[group] : matrix[group].at[pair];
        const uint32_t high = transposed ? matrix[pair + 1].at[group] : matrix[group].at[pair + 1];
        to[i] = low | high << 16;
    }
}
