// A kernel that never ends. Called by plugin.c.
#include <cuda_runtime.h>

__device__ volatile int ends; // nobody sets it

static __global__ void spin()
{
    while (ends == 0) {
    }
}

extern "C" void gpu_hang_run(void *stream)
{
    spin<<<1, 1, 0, (cudaStream_t)stream>>>();
}
