/* The prompts of a job that are this rank's, and what becomes of their answers: each is sent to the launcher, which
 * prints it, and rank 0 keeps results of its own. One thread. */
#ifndef RANK_GENERATE_DEALT_H
#define RANK_GENERATE_DEALT_H

#include "generate/results.h"
#include "proto/prompts.h"
#include "worker/worker.h"

/* Each rank gets its share in turn. If the ranks share one model, rank 0 gets all. */
typedef struct rank_dealt {
    proto_prompts all;
    const char **mine; /* (count) */
    size_t count;
    uint64_t first;
    uint64_t stride;
    bool comes_later; /* prompts come while the job runs */
    proto_client *client;
    rank_results *results; /* the caller sets it; NULL: no results are kept */
    bool prints_lines;     /* an answer is printed as a line of JSON */
    base_error trouble;    /* with such a line; "": none */
} rank_dealt;

/* Reads the prompts. rank_dealt_fini also after a failure. */
BASE_MUST_CHECK base_status rank_dealt_open(const rank_worker *worker, rank_dealt *dealt,
                                            base_error *reterr);

/* With the results. */
void rank_dealt_fini(rank_dealt *dealt);

/* A rank_on_answer; user: the rank_dealt. */
void rank_dealt_take(void *user, const rank_answer *answer);

/* Whether all answers could be sent. BASE_ERR_LIMIT: one was too long. */
BASE_MUST_CHECK base_status rank_dealt_check(const rank_dealt *dealt, base_error *reterr);

#endif
