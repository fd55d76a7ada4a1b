/* results.json of an inference run: the answers, the time of each token, and the costs. And
 * timings.jsonl: the cost of each step. */
#ifndef RANK_GENERATE_RESULTS_H
#define RANK_GENERATE_RESULTS_H

#include "generate/baseline.h"
#include "generate/curve.h"
#include "generate/generate.h"
#include "proto/job.h"

typedef struct rank_results rank_results;

BASE_MUST_CHECK base_status rank_results_create(const proto_job *job,
                                                const rank_model_config *config,
                                                rank_results **results, base_error *reterr);
void rank_results_destroy(rank_results *results); /* NULL is fine */

/* The entry of an answer as one line of JSON, without its times and with its prompt's number in the job: what mode
 * generate prints of it. malloc'ed; NULL: no memory. */
char *rank_results_line(const rank_answer *answer, uint64_t index);

/* Adds an answer. If memory runs out, the write fails. */
void rank_results_add(rank_results *results, const rank_answer *answer);

/* Adds a line of timings.jsonl for each step. A rank_generate_options.on_steps; user: the
 * rank_results. */
void rank_results_steps(void *user, const rank_step_cost *steps, size_t count);

/* Adds the results of --baseline, after all answers. */
void rank_results_baseline(rank_results *results, const rank_baseline *baseline);

/* Adds the results of --curve. */
void rank_results_curve(rank_results *results, const rank_curve *curve);

/* What one rank reports at the end. */
typedef struct rank_results_rank {
    rank_generate_report report;
    uint64_t max_rss_bytes;
} rank_results_rank;

/* Writes DIRECTORY/results.json and timings.jsonl, and makes the directory. ranks: all that share
 * the model, world_size of them. */
BASE_MUST_CHECK base_status rank_results_write(rank_results *results,
                                               const rank_results_rank *ranks,
                                               const char *directory, base_error *reterr);

#endif
