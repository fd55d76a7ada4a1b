/* Collects each rank's flight record piece by piece, and delivers them together. Called by
 * messages.c for each piece, and by job_run.c for SIGUSR1 and at the end. */
#include <control.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "job/session.h"

bool launch_flights_add(launch_session *session, int index,
                        const Ringfence__Control__Flight *flight)
{
    launch_rank *rank = &session->ranks[index];
    const size_t piece_bytes = flight->piece.len;
    if (rank->flight_whole) { /* this piece begins a new record */
        rank->flight_whole = false;
        rank->flight_bytes = 0;
    }
    if (piece_bytes > PROTO_FLIGHT_BYTES_MAX - rank->flight_bytes) {
        return false;
    }
    char *grown = realloc(rank->flight, rank->flight_bytes + piece_bytes + 1);
    if (grown == NULL) {
        return true; /* without memory the record is lost, but the job goes on */
    }
    if (piece_bytes > 0) {
        memcpy(grown + rank->flight_bytes, flight->piece.data, piece_bytes);
    }
    rank->flight = grown;
    rank->flight_bytes += piece_bytes;
    rank->flight[rank->flight_bytes] = '\0';
    rank->flight_whole = flight->last;
    launch_flights_deliver(session, false);
    return true;
}

void launch_flights_request(launch_session *session)
{
    Ringfence__Control__Envelope envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
    Ringfence__Control__Dump dump = RINGFENCE__CONTROL__DUMP__INIT;
    envelope.body_case = RINGFENCE__CONTROL__ENVELOPE__BODY_DUMP;
    envelope.dump = &dump;
    session->flights_requested = true;
    session->sent = true;
    for (int rank = 0; rank < session->world_size; rank++) {
        base_error ignored;
        session->ranks[rank].flight_whole = false;
        session->ranks[rank].flight_bytes = 0;
        if (session->ranks[rank].joined && !session->ranks[rank].exited) {
            (void)!proto_bus_send(session->bus, rank, &envelope, &ignored);
        }
    }
}

void launch_flights_deliver(launch_session *session, bool last)
{
    const char *records[BASE_RANKS_MAX] = {NULL};
    const bool failed = session->cause.blame != 0;
    int count = 0;
    for (int rank = 0; rank < session->world_size; rank++) {
        if (session->ranks[rank].flight_whole) {
            records[rank] = session->ranks[rank].flight;
            count++;
        }
    }
    const bool answered = session->flights_requested && count == session->world_size;
    if (session->options->on_flights == NULL || count == 0 || !(answered || (last && failed))) {
        return;
    }
    session->flights_requested = false;
    launch_screen_clear(&session->screen);
    session->options->on_flights(session->options->user, records, session->world_size,
                                 failed ? session->cause.error.message : "");
    for (int rank = 0; rank < session->world_size; rank++) {
        session->ranks[rank].flight_whole = false; /* an old record must not pass for a new one */
        session->ranks[rank].flight_bytes = 0;
    }
}
