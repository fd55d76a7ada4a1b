// The kernel of mma_tile.cu over the emulator.
#include "mma_tile.cu"
