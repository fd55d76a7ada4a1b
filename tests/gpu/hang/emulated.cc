// The plugin on the emulator, and an operation of a stream that never ends. Called by plugin.c.
#include "emulate/control.h"

extern "C" {
#include "hang.h"

const rank_cuda_plugin *rank_cuda_plugin_get_real(void);

const rank_cuda_plugin *gpu_hang_real(void)
{
    return rank_cuda_plugin_get_real();
}

void gpu_hang_run(void *stream)
{
    (void)emulate_await_on(static_cast<cudaStream_t>(stream), [] { return false; });
}
}
