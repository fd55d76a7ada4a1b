/* Messages of failures: what was under way, which ranks have arrived and which have not. */
#ifndef COLL_SRC_REPORT_H
#define COLL_SRC_REPORT_H

#include "core/op.h"
#include "core/parts.h"

/* "rank 1 (host h, pid 42), rank 2 …"; "none". `ranks` has a bit for each. */
void coll_list_ranks(const coll_comm *comm, uint64_t ranks, char *text, size_t size_bytes);
/* "all_reduce float × 1024 sum direct #17 (4096 bytes over shm)". */
void coll_operation_text(const coll_op *op, char *text, size_t size_bytes);
/* "all_reduce #17 float × 1024 …, waiting for rank 1 (host h, pid 42)". */
void coll_op_text(const coll_op *op, char *text, size_t size_bytes);
/* The ranks, a bit for each, that the communicator's first operation which is not done cannot go on
 * without. */
uint64_t coll_comm_waits(const coll_comm *comm, const coll_op *op);
/* What a timeout has to say: the operation, which ranks were waited for, which have arrived and
 * which have not. */
coll_status coll_report_timeout(coll_op *op, coll_error *reterr);
/* A mismatch: operation `sequence` was `mine` here, and `word` was read from the peer's flag. */
coll_status coll_report_flag(coll_comm *comm, const coll_descriptor *mine, uint64_t sequence,
                             int peer, const coll_flag *flag, uint64_t word);
/* Whether a peer of a pairwise operation, which shows `theirs` of itself and this rank, agrees with
 * this rank's counts. Else the communicator fails. */
bool coll_report_pair(coll_op *op, int peer, const coll_pair *theirs);

#endif
