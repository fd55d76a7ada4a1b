// What the emulator's files know of its runtime: errors and waiting. Private to it.
#ifndef EMULATE_RUNTIME_H
#define EMULATE_RUNTIME_H

#include <cuda_runtime_api.h>

// What every call of the runtime begins with: the error that a kernel has left, or the driver's.
cudaError_t emulate_enter();
// An error that cudaGetLastError gives too. Returns it.
cudaError_t emulate_keep(cudaError_t error);
// Whether a kernel has failed. The device does nothing more then.
bool emulate_is_broken();
// Whether the kernel that begins now fails.
bool emulate_breaks_now();
// Runs everything on all streams.
cudaError_t emulate_wait_for_all();

#endif
