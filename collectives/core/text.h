/* Names a rank in messages. */
#ifndef COLL_SRC_TEXT_H
#define COLL_SRC_TEXT_H

#include "coll/coll.h"

/* Makes what a peer has said fit for a message: control characters become question marks. */
void coll_text_clean(char *text);
/* "communicator 2 of ranks 0-2 5": the second one that was made of this list of the context's ranks. Cut with "..."
 * where text is too short; it has room for 64 bytes at least. */
void coll_list_text(const int *ranks, int count, int number, char *text, size_t size_bytes);
/* " of communicator 2 of ranks 0-2 5", to stand behind an operation; empty for the world. */
enum { COLL_COMM_TEXT_BYTES = 96 };
void coll_of_comm_text(const coll_comm *comm, char *text, size_t size_bytes);
/* That number, from a communicator's id. */
int coll_comm_number(uint64_t id);
/* "rank 1 (host h, pid 42)" for a rank of the context; "rank 1" before the identities are known. */
void coll_context_rank_text(const coll_context *context, int rank, char *text, size_t size_bytes);
/* "rank 1 (host h, pid 42) at 10.0.0.1, rank 2 …", of the ranks whose bits are set. Rank r's address is
 * r × step_bytes behind the first; NULL: they are left out. */
typedef struct coll_rank_addresses {
    const char *first;
    size_t step_bytes;
} coll_rank_addresses;
void coll_context_list_ranks(const coll_context *context, uint64_t ranks,
                             const coll_rank_addresses *addresses, char *text, size_t size_bytes);
/* coll_context_rank_text for a rank of the communicator. Where the world has another number for it: "rank 1 (host h, pid 42, rank
 * 5 of the world)". */
void coll_rank_text(const coll_comm *comm, int rank, char *text, size_t size_bytes);

#endif
