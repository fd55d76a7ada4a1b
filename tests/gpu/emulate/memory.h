// Device and pinned memory of the emulator. Private to it and to the NCCL between processes.
#ifndef EMULATE_MEMORY_H
#define EMULATE_MEMORY_H

#include <cstddef>

// While it is open, device memory can be touched. Opened by streams.cc for what runs on the device, and by
// what comes from outside only when that touches it: it asks often, and opening takes time. streams.cc closes it.
void emulate_memory_open();
void emulate_memory_close();

#endif
