/* The backend of the processor itself: kernels compiled per instruction set. Every operation has run
 * when its call returns. */
#ifndef RANK_BACKEND_CPU_CPU_H
#define RANK_BACKEND_CPU_CPU_H

#include "backend/backend.h"

extern const rank_backend rank_cpu_backend;

#endif
