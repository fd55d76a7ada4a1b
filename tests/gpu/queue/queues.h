/* Queues of the CUDA backend on the emulator, for the tests here. */
#ifndef GPU_QUEUE_QUEUES_H
#define GPU_QUEUE_QUEUES_H

#include <stddef.h>

#include "backend/backend.h"
#include "rank/model.h"

enum { COUNT = 1000 }; /* floats of an array */

/* Small models, and the backends that hold them. */
enum { SHAPES = 2, BACKENDS = 2 };
extern const rank_model_config queue_shapes[SHAPES]; /* of no family yet */
extern const rank_backend *const queue_backends[BACKENDS];

rank_device queue_open(void);
rank_device queue_open_as(const rank_backend *backend);
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
