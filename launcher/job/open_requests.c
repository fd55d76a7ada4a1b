/* The table of open requests. Called by feed.c for each request that is sent, and each event. */
#include "job/open_requests.h"

#include <stddef.h>
#include <string.h>

#include "base/assert.h"

enum { CREDIT_EVERY = PROTO_EVENTS_AHEAD_MAX / 4 };

void launch_open_requests_init(launch_open_requests *requests, int sequences)
{
    *requests = (launch_open_requests){.count_max = sequences + PROTO_REQUESTS_WAITING_MAX};
    BASE_ASSERT(requests->count_max <= PROTO_REQUESTS_OPEN_MAX);
}

bool launch_open_requests_has_room(const launch_open_requests *requests)
{
    return requests->count < requests->count_max &&
           requests->unjudged < PROTO_REQUESTS_UNJUDGED_MAX;
}

void launch_open_requests_add(launch_open_requests *requests, uint64_t id)
{
    BASE_ASSERT(launch_open_requests_has_room(requests));
    BASE_ASSERT(requests->count == 0 || requests->open[requests->count - 1].id < id);
    requests->open[requests->count++] = (launch_open_request){.id = id};
    requests->unjudged++;
}

/* Its place; -1: it is not open. */
static int find(const launch_open_requests *requests, uint64_t id)
{
    for (int i = 0; i < requests->count; i++) {
        if (requests->open[i].id == id) {
            return i;
        }
    }
    return -1;
}

static void take_out(launch_open_requests *requests, int at)
{
    requests->count--;
    memmove(&requests->open[at], &requests->open[at + 1],
            (size_t)(requests->count - at) * sizeof requests->open[0]);
}

bool launch_open_requests_cancel(launch_open_requests *requests, uint64_t id)
{
    const int at = find(requests, id);
    if (at < 0 || requests->open[at].cancelled) {
        return false;
    }
    requests->open[at].cancelled = true;
    return true;
}

bool launch_open_requests_judge(launch_open_requests *requests, uint64_t id, bool accepted)
{
    const int at = find(requests, id);
    if (at < 0 || requests->open[at].accepted) {
        return false;
    }
    requests->unjudged--;
    requests->open[at].accepted = accepted;
    if (!accepted) {
        take_out(requests, at);
    }
    return true;
}

bool launch_open_requests_continue(const launch_open_requests *requests, uint64_t id)
{
    const int at = find(requests, id);
    return at >= 0 && requests->open[at].accepted;
}

bool launch_open_requests_answer(launch_open_requests *requests, uint64_t id)
{
    const int at = find(requests, id);
    if (at < 0 || !requests->open[at].accepted) {
        return false;
    }
    take_out(requests, at);
    return true;
}

void launch_open_requests_count(launch_open_requests *requests)
{
    requests->events++;
}

bool launch_open_requests_credit(launch_open_requests *requests, uint64_t *events)
{
    *events = requests->events;
    if (requests->events - requests->credited < CREDIT_EVERY) {
        return false;
    }
    requests->credited = requests->events;
    return true;
}
