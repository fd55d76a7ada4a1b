/* The requests that were sent to rank 0 and not answered yet, and what rank 0 may say about them.
 *
 *     sent → accepted → answered
 *          → refused
 *
 * Pure; one thread. */
#ifndef LAUNCH_OPEN_REQUESTS_H
#define LAUNCH_OPEN_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"

typedef struct launch_open_request {
    uint64_t id;
    bool accepted;
    bool cancelled; /* a Cancel was sent */
} launch_open_request;

typedef struct launch_open_requests {
    launch_open_request open[PROTO_REQUESTS_OPEN_MAX]; /* (count), by rising id */
    int count;
    int count_max;   /* 1 … PROTO_REQUESTS_OPEN_MAX */
    int unjudged;    /* without a verdict */
    uint64_t events; /* that rank 0 has sent */
    uint64_t credited;
} launch_open_requests;

/* sequences: as many as run at a time. */
void launch_open_requests_init(launch_open_requests *requests, int sequences);

/* Whether another request may be sent now. */
bool launch_open_requests_has_room(const launch_open_requests *requests);
void launch_open_requests_add(launch_open_requests *requests, uint64_t id); /* there is room */

/* Whether a Cancel should be sent: the request is open, and none was sent. */
bool launch_open_requests_cancel(launch_open_requests *requests, uint64_t id);

/* What rank 0 says. False: it cannot say that. */
bool launch_open_requests_judge(launch_open_requests *requests, uint64_t id, bool accepted);
bool launch_open_requests_continue(const launch_open_requests *requests, uint64_t id);
bool launch_open_requests_answer(launch_open_requests *requests, uint64_t id);

/* Counts an event that was taken. */
void launch_open_requests_count(launch_open_requests *requests);

/* Whether a Credit of so many events is due; it is then sent. */
bool launch_open_requests_credit(launch_open_requests *requests, uint64_t *events);

#endif
