/* Transposes a matrix in square blocks of SIMD registers. Compiled once per instruction set; the
 * CPU backend calls it to keep transposed weights. */
#include "backend/cpu/transpose.h"

#include "kernels_isa.h"

static void transpose_few(const rank_transpose *args, size_t row, size_t rows, size_t column,
                          size_t columns)
{
    for (size_t i = row; i < row + rows; i++) {
        for (size_t j = column; j < column + columns; j++) {
            args->to[j * args->rows + i] = args->from[i * args->columns + j];
        }
    }
}

void KERNEL(transpose)(const rank_transpose *args)
{
    const size_t rows = args->rows / VEC_LANES * VEC_LANES;
    const size_t columns = args->columns / VEC_LANES * VEC_LANES;
    for (size_t j = 0; j < columns; j += VEC_LANES) {
        for (size_t i = 0; i < rows; i += VEC_LANES) {
            vec_transpose(args->from + i * args->columns + j, args->columns,
                          args->to + j * args->rows + i, args->rows);
        }
    }
    transpose_few(args, 0, rows, columns, args->columns - columns);
    transpose_few(args, rows, args->rows - rows, 0, args->columns);
}
