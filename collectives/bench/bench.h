/* The options of coll-bench, and what its parts hand each other.
 *
 * How it measures: every rank dirties its buffers before each iteration (a benchmark that reuses an
 * unmodified buffer measures its own cache), then all pass a gate of the bench's own, and the
 * operation alone is timed: from the last rank's entering to the last rank's leaving. Up to
 * BENCH_LOOP_BYTES_MAX, where that would time the clock, operations without a root run in
 * back-to-back loops in which each makes its input from the last one's result. (A launcher's ranks
 * have neither memory nor a clock in common: team.h.) Inputs are such that
 * results are exact in every type, whatever the order; results are compared bit for bit. */
#ifndef COLL_BENCH_BENCH_H
#define COLL_BENCH_BENCH_H

#include "base/limits.h"
#include "coll/coll.h"
#include "coll/tune.h"
#include "forked.h"
#include "gate.h"

enum {
    BENCH_LOOP_BYTES_MAX = 64,
    BENCH_ROWS_MAX = 4096,
    BENCH_ITERATIONS_MAX = 100000,
    BENCH_SAMPLES_AUTO_MAX = 2000, /* where no number of iterations is given */
    BENCH_INTERFACE_BYTES = 256,
    BENCH_ROOT_ALL = -1,                            /* each rank in turn */
    BENCH_TRANSPORT_NCCL = COLL_TRANSPORT_LAST + 1, /* on GPUs: on_device.h */
};

typedef struct bench_options {
    coll_kind kind; /* COLL_SEND: sendrecv */
    int ranks;
    size_t begin_bytes;
    size_t end_bytes;
    size_t step_bytes; /* 0: by factor */
    size_t factor;
    int iterations; /* 0: as many as a fixed time holds */
    int warm_up;
    int checks;            /* iterations whose result is checked; 0: none */
    coll_type type;        /* 0: all */
    coll_reduce_op reduce; /* 0: all */
    int root;              /* or BENCH_ROOT_ALL */
    coll_transport transport;
    coll_algorithm algorithm;
    coll_tcp_auth tcp_auth;
    char interface[BENCH_INTERFACE_BYTES];
    bool arena;
    bool by_counts; /* the variable forms, with equal counts */
    bool tune;
    bool help;
    bool version;
    char json_path[BASE_PATH_BYTES]; /* empty: none */
    char plot_path[BASE_PATH_BYTES]; /* the same */
} bench_options;

/* One row's figures, out of place or in place. */
typedef struct bench_column {
    double time_us; /* mean */
    double time_us_p50;
    double algbw; /* 10^9 bytes per second */
    double busbw;
    int64_t wrong; /* elements, over all ranks; -1: not checked */
} bench_column;

typedef struct bench_row {
    size_t size_bytes;
    size_t count;
    coll_type type;
    coll_reduce_op reduce;   /* 0: none */
    int root;                /* -1: none */
    bench_column columns[2]; /* out of place, in place */
} bench_row;

/* With --tune: one algorithm at one size. */
typedef struct bench_tune_row {
    size_t size_bytes;
    coll_algorithm algorithm;
    coll_tune_row compared;
} bench_tune_row;

/* Measured on this host; a figure of 0 could not be. */
typedef struct bench_roofline {
    int processors;  /* that took part in the second figures */
    double read_one; /* 10^9 bytes per second, one processor */
    double read_all; /* all of them together */
    double copy_one; /* bytes copied, so each of them read and written once */
    double copy_all;
    double core_to_core_ns; /* a cache line's way from one processor to another */
} bench_roofline;

typedef struct bench_sample {
    uint64_t begin;
    uint64_t end;
} bench_sample;

/* In memory that forked ranks and their parent share; of a launcher's ranks, each has its own. */
typedef struct bench_shared {
    bool apart; /* each rank has its own: team.h */
    bench_gate gate;
    int samples;     /* of the column at hand, as rank 0 has chosen */
    int batch;       /* operations in each of them */
    int samples_max; /* room for each rank's */
    pid_t pids[FORKED_RANKS_MAX];
    int processors[FORKED_RANKS_MAX];
    char hosts[FORKED_RANKS_MAX][BASE_HOSTNAME_BYTES];
    int64_t wrong[FORKED_RANKS_MAX];
    coll_transport transport; /* in use */
    coll_algorithm algorithm; /* the same; AUTO: it depends on the operation */
    bool unwritten;           /* not all that rank 0 printed could be */
    int row_count;
    bench_row rows[BENCH_ROWS_MAX];
    int tune_row_count;
    bench_tune_row tune_rows[BENCH_ROWS_MAX];
    bench_sample sample[]; /* rank × samples_max + index */
} bench_shared;

#endif
