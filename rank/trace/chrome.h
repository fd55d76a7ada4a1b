/* A trace of all ranks as a file in the Chrome Trace Event Format, which https://ui.perfetto.dev and
 * chrome://tracing open: an object with `traceEvents`, one of them in each line. Complete events ("ph": "X") have
 * `ts` and `dur` in microseconds. A rank is a process, number rank + 1. Its first thread is the rank's own. The others
 * are lanes for exchanges under way: events of one thread must be nested, so two that overlap are in different lanes.
 *
 * docs/RECORD.md describes the file. */
#ifndef RANK_TRACE_CHROME_H
#define RANK_TRACE_CHROME_H

#include "trace/clocks.h"

enum {
    RANK_TRACE_HOST_BYTES = 64,
    RANK_TRACE_LANES_MAX = 64, /* of exchanges; one more at the same time is left out */
};

/* The spans of one rank; borrowed, and sorted by chrome.c. */
typedef struct rank_trace_of_rank {
    const char *host; /* letters, digits, dots and lines */
    int clock;        /* the first rank of its host */
    rank_trace_span *spans;
    size_t count;
} rank_trace_of_rank;

typedef struct rank_trace_all {
    const rank_trace_of_rank *ranks; /* (rank_count) */
    int rank_count;
    int steps;           /* whole ones; 0: a part of the last one */
    int operation_steps; /* the last ones of them, with all operations; 0: a part of the last one's */
    rank_trace_clock *clocks; /* (rank_count): of a host's first rank, against rank 0's */
    const char *(*operation_name)(int part); /* NULL: there is no such part */
    const char *(*algorithm_name)(int algorithm);
} rank_trace_all;

/* Whether it is a span that can be written: of a peer that is to be seen first. */
bool rank_trace_is_span(const rank_trace_span *span, const char *(*operation_name)(int part));

/* Writes the file, completely or not at all. Ranks whose clock is not known are left out, and the file says so. */
BASE_MUST_CHECK base_status rank_trace_write(const rank_trace_all *all, const char *path,
                                             base_error *reterr);

#endif
