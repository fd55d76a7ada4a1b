/* What a rank computes on, and the links between ranks. */
#ifndef LAUNCH_PLAN_DEVICE_H
#define LAUNCH_PLAN_DEVICE_H

#include "coll/tensor_parallel.h"
#include "proto/job.h"

enum { LAUNCH_PRECISIONS = PROTO_PRECISION_BFLOAT16 + 1 };

typedef struct launch_device {
    double flops[LAUNCH_PRECISIONS]; /* per second at the peak, without sparsity; by precision */
    double memory_bytes;
    double memory_bytes_per_s;
    coll_tp_link inside;  /* between the ranks of a host */
    coll_tp_link between; /* between hosts, for each rank */
    int64_t host_ranks;   /* ranks of a host */
} launch_device;

/* "h200" …; NULL behind the last one. */
const char *launch_device_name(int index);
const launch_device *launch_device_get(int index);

#endif
