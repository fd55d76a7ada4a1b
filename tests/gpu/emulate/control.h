/* What the emulator's files share. */
#ifndef EMULATE_CONTROL_H
#define EMULATE_CONTROL_H

#include <cuda_runtime_api.h>
#include <functional>

#include "emulate/emulate.h"

extern emulate_counts emulate_counted;

/* Asks something on the stream, when its turn has come, until it is true: what comes from outside,
 * as NCCL's peers. */
cudaError_t emulate_await_on(cudaStream_t stream, std::function<bool()> task);
/* Whether there is a graph that has such a thing. Any thread. */
bool emulate_has_outside_graphs();
/* The device's clock, seen by what runs on a stream. */
uint64_t emulate_clock_ns();
/* Runs something on the stream in its turn. */
cudaError_t emulate_run_on(cudaStream_t stream, std::function<void()> task);

#endif
