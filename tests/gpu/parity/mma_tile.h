/* Products of tiles (16, 16) on tensor cores: mma_tile.cu, called by mma_tile.c. */
#ifndef GPU_PARITY_MMA_TILE_H
#define GPU_PARITY_MMA_TILE_H

#include <stdint.h>

enum { MMA_TILE = 16 };

/* Device memory. a and b are bfloat16. */
typedef struct mma_tile_args {
    const uint16_t *a;
    const uint16_t *b;
    float *by_columns; /* a · bᵀ */
    float *by_rows;    /* a · b */
    float *again;      /* (a · b) · b, a · b rounded to bfloat16 */
} mma_tile_args;

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues it; returns CUDA's error. */
int launch_mma_tile(const mma_tile_args *args, void *stream);

#ifdef __cplusplus
}
#endif

#endif
