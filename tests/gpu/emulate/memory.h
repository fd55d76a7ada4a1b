// Device and pinned memory of the emulator. Private to it.
#ifndef EMULATE_MEMORY_H
#define EMULATE_MEMORY_H

#include <cstddef>

// While it is open, device memory can be touched. Opened by streams.cc around what runs on the
// device.
void emulate_memory_open();
void emulate_memory_close();

#endif
