/* The way of requests from the launcher to rank 0, and of events back: a rank_request_source over
 * the control client. mode.c passes it to rank_generate. One thread. */
#ifndef RANK_GENERATE_REQUESTS_LINK_H
#define RANK_GENERATE_REQUESTS_LINK_H

#include "generate/serve.h"
#include "worker/worker.h"

/* The worker outlives the source. */
rank_request_source rank_requests_link(rank_worker *worker);

#endif
