/* The traces of all ranks, gathered on rank 0, and written to a file. */
#ifndef RANK_TRACE_GATHER_H
#define RANK_TRACE_GATHER_H

#include "coll/coll.h"
#include "trace/trace.h"

typedef struct rank_trace_place {
    const char *path;                        /* rank 0's */
    const char *(*operation_name)(int part); /* NULL: there is no such part */
} rank_trace_place;

/* Collective over comm (NULL: one rank alone), behind the last step: rank 0 writes the last steps that all ranks have whole. Without a trace
 * it does nothing. A file that cannot be written, or spans of a rank that are none, are a warning, and no error.
 * BASE_ERR_PEER, on all ranks: one has announced more than there can be. */
BASE_MUST_CHECK base_status rank_trace_gather(const rank_trace *trace, coll_comm *comm,
                                              const rank_trace_place *place, base_error *reterr);

#endif
