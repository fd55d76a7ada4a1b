/* What the plugin that hangs is made of: the plugin itself, and a kernel that never ends. There are
 * two of each: real.c and hang.cu for GPUs, emulated.cc for the emulator. */
#ifndef GPU_HANG_HANG_H
#define GPU_HANG_HANG_H

#include "backend/cuda/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The table of ringfence-cuda.so. NULL: it is not there. */
const rank_cuda_plugin *gpu_hang_real(void);

/* Enqueues on the stream what never ends. */
void gpu_hang_run(void *stream);

#ifdef __cplusplus
}
#endif

#endif
