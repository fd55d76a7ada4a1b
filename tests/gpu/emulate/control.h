/* What the emulator's files share. */
#ifndef EMULATE_CONTROL_H
#define EMULATE_CONTROL_H

#include <cuda_runtime_api.h>
#include <functional>

#include "emulate/emulate.h"

extern emulate_counts emulate_counted;

/* Runs something on the stream in its turn. */
cudaError_t emulate_run_on(cudaStream_t stream, std::function<void()> task);

#endif
