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
    if (identity->host[0] == '\0') { /* not known yet */
        (void)snprintf(text, size_bytes, "rank %d", rank);
        return;
    }
    (void)snprintf(text, size_bytes, "rank %d (host %s, pid %u)", rank, identity->host,
                   (unsigned)identity->pid);
}

void coll_context_list_ranks(const coll_context *context, uint64_t ranks,
                             const coll_rank_addresses *addresses, char *text, size_t size_bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (; ranks != 0 && used + 1 < size_bytes; ranks &= ranks - 1) {
        const int rank = __builtin_ctzll(ranks);
        char name[160];
        coll_context_rank_text(context, rank, name, sizeof name);
        const int added = snprintf(
            text + used, size_bytes - used, "%s%s%s%s", used == 0 ? "" : ", ", name,
            addresses != NULL ? " at " : "",
            addresses != NULL ? addresses->first + (size_t)rank * addresses->step_bytes : "");
        used += added > 0 ? (size_t)added : 0;
    }
}

int coll_comm_number(uint64_t id)
{
    return (int)(id & INT32_MAX);
}

void coll_list_text(const int *ranks, int count, int number, char *text, size_t size_bytes)
{
    int used = snprintf(text, size_bytes, "communicator %d of ranks", number);
    for (int i = 0; i < count;) {
        int last = i;
        while (last + 1 < count && ranks[last + 1] == ranks[last] + 1) {
            last++;
        }
        char part[32];
        const int length = last == i ? snprintf(part, sizeof part, " %d", ranks[i])
                                     : snprintf(part, sizeof part, " %d-%d", ranks[i], ranks[last]);
        const bool fits = (size_t)(used + length) + sizeof " ..." <= size_bytes;
        used += snprintf(text + used, size_bytes - (size_t)used, "%s", fits ? part : " ...");
        i = fits ? last + 1 : count;
    }
}

void coll_of_comm_text(const coll_comm *comm, char *text, size_t size_bytes)
{
    static const char prefix[] = " of ";
    const coll_context *context = comm->context;
    text[0] = '\0';
    if (context->world != NULL && comm != context->world) {
        (void)snprintf(text, size_bytes, "%s", prefix);
        coll_list_text(comm->ranks, comm->size, coll_comm_number(comm->id),
                       text + sizeof prefix - 1, size_bytes - (sizeof prefix - 1));
    }
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
