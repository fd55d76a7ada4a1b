/* Names a rank in messages. Called wherever something fails. */
#include "core/text.h"

#include <stdio.h>

#include "core/comm.h"

void coll_text_clean(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at != '\0'; at++) {
        *at = *at < ' ' || *at == 0x7f ? '?' : *at;
    }
}

void coll_context_rank_text(const coll_context *context, int rank, char *text, size_t size_bytes)
{
    const coll_identity *identity = &context->identities[rank];
    (void)snprintf(text, size_bytes, "rank %d (host %s, pid %u)", rank, identity->host,
                   (unsigned)identity->pid);
}

void coll_rank_text(const coll_comm *comm, int rank, char *text, size_t size_bytes)
{
    const int world_rank = comm->ranks[rank];
    const coll_identity *identity = &comm->context->identities[world_rank];
    if (world_rank == rank) {
        coll_context_rank_text(comm->context, rank, text, size_bytes);
        return;
    }
    (void)snprintf(text, size_bytes, "rank %d (host %s, pid %u, rank %d of the world)", rank,
                   identity->host, (unsigned)identity->pid, world_rank);
}
