/* Queues of the CUDA backend on the emulator, for the tests here. */
#ifndef GPU_QUEUE_QUEUES_H
#define GPU_QUEUE_QUEUES_H

#include <stddef.h>

#include "backend/backend.h"

enum { COUNT = 1000 }; /* floats of an array */

rank_device queue_open(void);
/* Nothing is held any more. */
void queue_close(rank_device *device);

void *queue_get(const rank_device *device, rank_memory kind, size_t size_bytes);
/* COUNT times the value. */
void queue_put(const rank_device *device, float *at, float value);
/* The first. */
float queue_look(const rank_device *device, float *at);
/* Enqueues the sum of the squares of COUNT values. */
void queue_sum(const rank_device *device, const float *values, double *to);

#endif
