/* A rank of a test of operations on streams: its context has a backend, a device of its own and a
 * stream. The backend is the fake one where the test names no other. */
#ifndef TEST_COLL_DEVICE_RANK_H
#define TEST_COLL_DEVICE_RANK_H

#include "fake_device.h"
#include "ranks.h"

enum { DEVICE_RANKS_MAX = 4, DEVICE_COUNT = 1000, DEVICE_FLOATS = 1024 };

typedef struct device_case device_case;

typedef struct device_rank {
    test_rank *rank;
    device_case *job;
    coll_context *context;
    coll_comm *comm; /* the world */
    fake_device *device;
    fake_stream *stream;
    float send[DEVICE_FLOATS];
    float recv[DEVICE_FLOATS];
} device_rank;

struct device_case {
    int ranks;
    coll_transport transport;
    coll_algorithm algorithm;
    int64_t timeout_ns; /* 0: 20 s */
    void (*body)(device_rank *rank);
    /* Another backend: names it in the context's options. NULL: the fake one, over devices[rank]. */
    void (*prepare)(device_rank *rank, coll_context_options *options);
    fake_device devices[DEVICE_RANKS_MAX]; /* their faults are set by the caller */
};

/* Runs the body on all ranks, and fails the test as test_ranks_as_threads does. The devices are
 * initialized here, and ended. */
void device_case_run(device_case *c);

/* Whether the rank's last error has these words. */
bool device_says(const device_rank *rank, const char *words);

/* What rank has at i in its send. Sums of all ranks depend on the order. */
float device_value(int rank, size_t i);
/* Writes these to send, and -1 to recv. */
void device_fill(device_rank *rank);
/* An all-reduce of send into recv on the stream. Fills them. */
coll_op_desc device_all_reduce(device_rank *rank, size_t count);
/* Whether recv is the sum over all ranks, in the canonical order. */
bool device_is_sum(const device_rank *rank, size_t count);

/* A body for every backend: an operation in a graph that is launched a few times. */
void device_graph_body(device_rank *rank);

#endif
