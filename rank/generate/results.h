/* results.json of an inference run: the answers, when each token was there, and what it took. */
#ifndef RANK_GENERATE_RESULTS_H
#define RANK_GENERATE_RESULTS_H

#include "generate/baseline.h"
#include "proto/job.h"
#include "rank/generate.h"

typedef struct rank_results rank_results;

BASE_MUST_CHECK base_status rank_results_create(const proto_job *job,
                                                const rank_model_config *config,
                                                rank_results **results, base_error *reterr);
void rank_results_destroy(rank_results *results); /* NULL is fine */

/* Adds an answer. What there is no memory for fails the write. */
void rank_results_add(rank_results *results, const rank_answer *answer);

/* What --baseline has found; all answers have been added. */
void rank_results_baseline(rank_results *results, const rank_baseline *baseline);

/* Writes DIRECTORY/results.json, making the directory. */
BASE_MUST_CHECK base_status rank_results_write(rank_results *results,
                                               const rank_generate_report *report,
                                               const char *directory, base_error *reterr);

#endif
