/* The all-gather over the control plane: each rank gives a part, and each gets all parts once the
 * last has come. Called by messages.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "job/rendezvous.h"

static void send_exchanged(launch_session *session)
{
    ProtobufCBinaryData *parts = calloc((size_t)session->world_size, sizeof parts[0]);
    if (parts == NULL) {
        launch_blame(session, LAUNCH_BLAME_CAUSE, PROTO_NO_RANK, BASE_EXIT_ERROR,
                     "no memory for an exchange");
        return;
    }
    for (int rank = 0; rank < session->world_size; rank++) {
        parts[rank].data = session->ranks[rank].part;
        parts[rank].len = session->ranks[rank].part_bytes;
        session->ranks[rank].has_part = false;
    }
    Ringfence__Control__Exchanged exchanged = RINGFENCE__CONTROL__EXCHANGED__INIT;
    exchanged.sequence = session->exchange_sequence;
    exchanged.parts = parts;
    exchanged.n_parts = (size_t)session->world_size;
    session->part_count = 0;
    for (int rank = 0; rank < session->world_size; rank++) {
        rendezvous_send(session, rank, &exchanged.base);
    }
    free(parts);
}

void rendezvous_handle_exchange(launch_session *session, int rank,
                                const Ringfence__Control__Exchange *exchange)
{
    launch_rank *giving = &session->ranks[rank];
    if (giving->has_part) {
        BLAME_PROTOCOL(session, rank, "gave two parts to exchange #%" PRIu64,
                       session->exchange_sequence);
        return;
    }
    if (session->part_count == 0) {
        session->exchange_sequence++;
    }
    if (exchange->sequence != session->exchange_sequence) {
        BLAME_PROTOCOL(session, rank, "is at exchange #%" PRIu64 ", the others at #%" PRIu64,
                       exchange->sequence, session->exchange_sequence);
        return;
    }
    for (int other = 0; other < session->world_size; other++) {
        const launch_rank *peer = &session->ranks[other];
        if (peer->has_part && peer->part_bytes != exchange->part.len) {
            BLAME_PROTOCOL(session, rank,
                           "gives %zu bytes to exchange #%" PRIu64 ", rank %d gives %zu",
                           exchange->part.len, session->exchange_sequence, other, peer->part_bytes);
            return;
        }
    }
    giving->has_part = true;
    giving->part_bytes = exchange->part.len;
    memcpy(giving->part, exchange->part.data, exchange->part.len);
    session->part_count++;
    /* in a job that has failed nobody goes on: before it is ready, --out is not its own */
    if (session->part_count == session->world_size && session->cause.blame == 0) {
        send_exchanged(session);
    }
}

void rendezvous_describe_exchange(const launch_session *session, char *text, size_t size_bytes)
{
    text[0] = '\0';
    if (session->part_count == 0) {
        return;
    }
    (void)snprintf(text, size_bytes, " (exchange #%" PRIu64 " waits for rank ",
                   session->exchange_sequence);
    const char *comma = "";
    for (int rank = 0; rank < session->world_size && strlen(text) + 16 < size_bytes; rank++) {
        if (!session->ranks[rank].has_part) {
            base_text_append(text, size_bytes, "%s%d", comma, rank);
            comma = ", ";
        }
    }
    base_text_append(text, size_bytes, ")");
}
