/* One side of the comparison: a library's collectives behind a table, timed in the same way for
 * all.
 *
 * bench_collectives.py starts a library's ranks once and leaves them asleep; a line on rank 0's
 * command pipe ("all_reduce 4096 0 heap 50") makes them measure one cell and answer with one line
 * of JSON. So libraries take turns from size to size, and none costs the others processor time.
 *
 * What is timed does not depend on the library: ranks meet in a barrier of this file's own, in
 * shared memory. Up to LOOP_BYTES_MAX: the mean of a back-to-back loop in which every iteration's
 * input is made from the last one's result (broadcasts change their root). Above: operations one by
 * one, each after all ranks have dirtied their buffers and met; an operation lasts from the last
 * rank's entering to the last rank's leaving, less what reading the clock takes. The result of the
 * last iteration is checked whole.
 *
 * Thread rule: one thread. Failures end the process: nobody's data is at stake. */
#ifndef PEER_H
#define PEER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PEER_RANKS_MAX = 16,
    PEER_LOOP_BYTES_MAX = 64,
    PEER_EXCHANGE_BYTES_MAX = 65536,
};

typedef enum peer_kind {
    PEER_ALL_REDUCE, /* in place */
    PEER_ALL_GATHER, /* all but the broadcast: from send to recv */
    PEER_REDUCE_SCATTER,
    PEER_BROADCAST, /* in recv */
    PEER_ALL_TO_ALL,
    PEER_SCAN,
    PEER_EXSCAN,
    PEER_KINDS,
} peer_kind;

typedef struct peer_task {
    peer_kind kind;
    int variant;
    size_t
        count; /* float32 elements: of one rank's block, or (all-reduce, broadcast, scans) of all */
    const float *send;
    float *recv;
} peer_task;

typedef struct peer_options {
    int rank; /* -1: the library knows */
    int size;
    const char *transport;
    const char *algorithm;
    const char *tcp_auth;
    const char *address;   /* numeric, that this rank listens on; NULL: 127.0.0.1 */
    const char *directory; /* files that the ranks share */
} peer_options;

/* One library. prepare and release stand around the runs of one cell; NULL: nothing to do. */
typedef struct peer_library {
    const char *name;
    /* Comma-separated names of the ways to do `kind`; NULL where the library has none. */
    const char *(*variants)(peer_kind kind);
    void (*open)(peer_options *options); /* fills rank and size if it knows them */
    void (*close)(void);
    /* Collective; NULL: out of memory. place: "heap", or another that this library knows. */
    void *(*allocate)(const char *place, size_t size_bytes);
    void (*prepare)(const peer_task *task);
    void (*run)(const peer_task *task, int root);
    void (*release)(void);
} peer_library;

int peer_main(int argc, char **argv, const peer_library *library);

/* An all-gather of small byte strings through the shared file, for libraries that need one. */
void peer_exchange(const void *mine, void *all, size_t size_bytes);

/* Says what is wrong and ends the process. */
void peer_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif

#endif
