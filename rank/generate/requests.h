/* The queue of waiting requests, on rank 0. It alone decides which join the schedule and which
 * leave it.
 *
 * First come, first served: the first request waits until a sequence and its blocks are free (those
 * of its prompt and one more for each that may grow; of all its tokens, where sequences do not
 * grow), and no later one overtakes it. It waits, too, while a sequence is preempted. Every running
 * sequence ends in a bounded number of steps, so every request is admitted at some time.
 *
 * Where prompts share what is cached of their beginnings, a request whose prompt is being computed for another one
 * waits until it has been, and shares it: n texts of one prompt compute it once. It waits no longer than
 * computing takes, and others pass it meanwhile.
 *
 * A submitted request is answered once: by the event that ends it (rank_schedule_apply,
 * rank_schedule_accept), or by a cancel while it waits. Caller's storage, no allocation. One thread
 * at a time. */
#ifndef RANK_GENERATE_REQUESTS_H
#define RANK_GENERATE_REQUESTS_H

#include "generate/schedule.h"

typedef struct rank_requests rank_requests;

/* Bytes of storage for waiting_max >= 1 requests, to be aligned for uint64_t. */
size_t rank_requests_bytes(const rank_schedule_options *options, int32_t waiting_max);
rank_requests *rank_requests_init(void *storage, const rank_schedule_options *options,
                                  int32_t waiting_max);

/* Queues a copy of the request with its prompt. request->id is its id: 1, 2, 3 and so on.
 * BASE_ERR_INVALID: it can never run, with the reason; BASE_ERR_LIMIT: waiting_max others wait. */
BASE_MUST_CHECK base_status rank_requests_submit(rank_requests *requests, rank_request *request,
                                                 const int32_t *prompt, base_error *reterr);

/* Cancels a request. True: it was waiting, and is removed. False: it runs, and the event of its end
 * follows; or it has ended before. */
bool rank_requests_cancel(rank_requests *requests, const rank_schedule *schedule, uint64_t id);

/* Decides the next change of the schedule, and writes it as a record of at most
 * rank_schedule_record_bytes_max bytes, aligned for uint64_t. Returns its size; 0 if nothing
 * changes. The record must be applied before the next call. Until then the schedule may accept a
 * step, but not change otherwise. */
size_t rank_requests_decide(rank_requests *requests, const rank_schedule *schedule, void *record);

int32_t rank_requests_waiting(const rank_requests *requests);

#endif
