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

static void write_rank(int rank, const coll_identity *identity, char *text, size_t size_bytes)
{
    (void)snprintf(text, size_bytes, "rank %d (host %s, pid %u)", rank, identity->host,
                   (unsigned)identity->pid);
}

void coll_context_rank_text(const coll_context *context, int rank, char *text, size_t size_bytes)
{
    write_rank(rank, &context->identities[rank], text, size_bytes);
}

void coll_rank_text(const coll_comm *comm, int rank, char *text, size_t size_bytes)
{
    write_rank(rank, &comm->context->identities[comm->ranks[rank]], text, size_bytes);
}
