/* coll-bench on GPUs: its rows inside the processes of mode bench-nccl (rank/src/bench_mode.c).
 *
 * Buffers are the device's, and operations have a stream. Inputs are made, and results checked, in
 * host memory. A sample is a run of operations that are enqueued one behind the other, from a
 * barrier of the CPU's to the end of the last, divided by their number. One thread. */
#ifndef COLL_BENCH_ON_DEVICE_H
#define COLL_BENCH_ON_DEVICE_H

#include "base/status.h"
#include "coll/coll.h"

typedef struct bench_device {
    void *stream;
    coll_algorithm algorithm; /* of the context, for operations on streams: in the header */
    /* Between host and device, in the order of the stream. Returns when it is done. */
    coll_status (*copy)(void *user, void *to, const void *from, size_t size_bytes,
                        coll_error *reterr);
    void *user;
} bench_device;

/* Whether coll-bench would take these words as its command line, with --transport nccl among so
 * many ranks. They are separated by single spaces. BASE_ERR_INVALID and BASE_ERR_LIMIT with a
 * message. */
BASE_MUST_CHECK base_status bench_check_words(const char *words, int ranks, base_error *reterr);

/* Collective over the context's world, whose device is open. Rank 0 prints, and writes the files
 * that the words name; *code is then what coll-bench would exit with. */
COLL_MUST_CHECK coll_status bench_run_on_device(const char *words, coll_context *context,
                                                const bench_device *device, int *code,
                                                coll_error *reterr);

#endif
