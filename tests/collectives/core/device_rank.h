/* A rank of a test of operations on streams: its context has the fake backend, a device of its own
 * and a stream. */
#ifndef TEST_COLL_DEVICE_RANK_H
#define TEST_COLL_DEVICE_RANK_H

#include "fake_device.h"
#include "ranks.h"

enum { DEVICE_RANKS_MAX = 4, DEVICE_COUNT = 1000 };

typedef struct device_rank {
    test_rank *rank;
    coll_context *context;
    coll_comm *comm; /* the world */
    fake_device *device;
    fake_stream *stream;
    float send[DEVICE_COUNT];
    float recv[DEVICE_COUNT];
} device_rank;

typedef struct device_case {
    int ranks;
    coll_transport transport;
    coll_algorithm algorithm;
    int64_t timeout_ns; /* 0: 20 s */
    void (*body)(device_rank *rank);
    fake_device devices[DEVICE_RANKS_MAX]; /* their faults are set by the caller */
} device_case;

/* Runs the body on all ranks, and fails the test as test_ranks_as_threads does. The devices are
 * initialized here, and ended. */
void device_case_run(device_case *c);

/* An all-reduce of send into recv on the stream; send is filled, each rank's otherwise. */
coll_op_desc device_all_reduce(device_rank *rank);
/* Whether recv is the sum over all ranks, in canonical order. */
bool device_is_sum(const device_rank *rank);

#endif
