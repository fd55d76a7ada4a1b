/* Modes generate and tp-cpu, and evaluation for other modes. */
#ifndef RANK_GENERATE_MODE_H
#define RANK_GENERATE_MODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "data/chat.h"
#include "generate/generate.h"
#include "proto/job.h"
#include "rank/checkpoint.h"
#include "worker/worker.h"

/* What the mode would refuse before it computes anything: the checkpoint's files, a world size that
 * cannot share the model, prompts that do not fit. BASE_ERR_INVALID and the like; no rank needed. */
BASE_MUST_CHECK base_status rank_mode_generate_check(const proto_job *job, base_error *reterr);

/* Whether path is a file of tokens that the job's tokenizer has made. */
BASE_MUST_CHECK base_status rank_mode_check_tokens(const proto_job *job, const char *path,
                                                   base_error *reterr);

/* Whether the held-out file of a job that evaluates has pairs: ranks read it when they have trained. */
BASE_MUST_CHECK base_status rank_mode_check_heldout(const proto_job *job, base_error *reterr);

/* What is put behind each prompt that does not end with it. */
const char *rank_mode_prompt_suffix(const rank_generation_config *generation, const proto_job *job);

/* Tokens of a text: what the job says, if the model can take so many. */
int rank_mode_context(const proto_job *job, const rank_model_config *config);

/* Loads the job's tokenizer, and finds out how the checkpoint writes chats. One that does not say it is an error
 * only where the job's prompts are messages. `warns`: a template that cannot be used is logged. The tokenizer and
 * the chat are the caller's, also after a failure; chat: all zero before. */
BASE_MUST_CHECK base_status rank_mode_load_tokenizer(const proto_job *job, bool warns,
                                                     rank_tokenizer **tokenizer, rank_chat *chat,
                                                     base_error *reterr);

/* Finds out how the job's checkpoint writes chats. What is wrong stands in chat->why. unread: says more if its template
 * cannot be read, whose status this returns. *has_one: whether there is a template. */
BASE_MUST_CHECK base_status rank_mode_find_chat(const proto_job *job, rank_tokenizer *tokenizer,
                                                rank_chat *chat, bool *has_one, base_error *unread);

/* The error of a job that says a day for which its chat template does not ask. */
BASE_MUST_CHECK base_status rank_mode_check_chat_date(const proto_job *job, const rank_chat *chat,
                                                      base_error *reterr);

/* The error of a job on GPUs whose model has experts, or a family that runs on CPUs alone. */
BASE_MUST_CHECK base_status rank_mode_check_gpus(const proto_job *job,
                                                 const rank_model_config *config,
                                                 base_error *reterr);

/* Answers this rank's share of the prompts; sends Finished itself. */
BASE_MUST_CHECK base_status rank_mode_generate(rank_worker *worker, base_error *reterr);

/* Accuracy on this rank's share of the job's held-out file, with parameters that are in memory. */
BASE_MUST_CHECK base_status rank_worker_evaluate(const rank_worker *worker,
                                                 const rank_generate_options *options,
                                                 uint64_t *total, uint64_t *correct,
                                                 base_error *reterr);

/* What the job's checkpoint says of its model, of prompts and of stops; and the adapters that the job puts on top
 * of it, which config then has. *adapters is the caller's to free; NULL: there are none. What their directory
 * says of prompts and stops counts. */
BASE_MUST_CHECK base_status rank_mode_read_checkpoint(const proto_job *job,
                                                      rank_model_config *config,
                                                      rank_generation_config *generation,
                                                      float **adapters, base_error *reterr);

#endif
