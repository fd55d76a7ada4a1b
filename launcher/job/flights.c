/* Collects each rank's flight record piece by piece, and delivers them together. Called by
 * messages.c for each piece, and by job_run.c for SIGUSR1 and at the end. */
#include <control.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
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
    Ringfence__Control__Dump dump = RINGFENCE__CONTROL__DUMP__INIT;
    session->flights_due_ns = base_deadline_after_ns(LAUNCH_FLIGHTS_WAIT_MS * BASE_NS_PER_MS);
    session->sent = true;
    for (int index = 0; index < session->world_size; index++) {
        base_error ignored;
        launch_rank *rank = &session->ranks[index];
        rank->flight_whole = false;
        rank->flight_bytes = 0;
        rank->flight_asked = rank->joined && !rank->link_ended && !rank->finished &&
                             !rank->exited &&
                             proto_bus_send(session->bus, index, &dump.base, &ignored) == BASE_OK;
    }
}

/* Gives the records that have come to whoever wants them. False: none has. */
static bool deliver(launch_session *session)
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
    session->flights_due_ns = 0;
    if (session->options->on_flights == NULL || count == 0) {
        return false;
    }
    launch_screen_clear(&session->screen);
    session->options->on_flights(session->options->user, records, session->world_size,
                                 failed ? session->cause.error.message : "");
    for (int rank = 0; rank < session->world_size; rank++) {
        session->ranks[rank].flight_whole = false; /* an old record must not pass for a new one */
        session->ranks[rank].flight_asked = false;
        session->ranks[rank].flight_bytes = 0;
    }
    return true;
}

/* How many ranks that were asked have not answered. *first: one of them. */
static int count_silent(const launch_session *session, int *first)
{
    int silent = 0;
    *first = PROTO_NO_RANK;
    for (int rank = session->world_size - 1; rank >= 0; rank--) {
        const launch_rank *asked = &session->ranks[rank];
        if (asked->flight_asked && !asked->flight_whole) {
            *first = rank;
            silent++;
        }
    }
    return silent;
}

void launch_flights_deliver(launch_session *session, bool last)
{
    int first = 0;
    const bool asked = session->flights_due_ns != 0;
    if ((last && (asked || session->cause.blame != 0)) ||
        (asked && count_silent(session, &first) == 0)) {
        (void)deliver(session);
    }
}

int64_t launch_flights_deliver_due(launch_session *session, int64_t now_ns)
{
    int first = 0;
    if (session->flights_due_ns == 0 || now_ns < session->flights_due_ns) {
        return session->flights_due_ns == 0 ? BASE_NO_DEADLINE : session->flights_due_ns;
    }
    const int silent = count_silent(session, &first);
    if (silent > 0) {
        launch_screen_say(&session->screen,
                          "SIGUSR1: %d %s, the first of them rank %d: stopped, or too busy", silent,
                          silent == 1 ? "rank has not answered" : "ranks have not answered", first);
    }
    if (!deliver(session) && silent == 0) {
        launch_screen_say(&session->screen, "SIGUSR1: no rank has joined that could answer");
    }
    return BASE_NO_DEADLINE;
}
