/* The configuration of the model that a job trains. */
#ifndef RANK_TRAIN_CONFIG_H
#define RANK_TRAIN_CONFIG_H

#include "data/chat.h"
#include "proto/job.h"
#include "rank/model.h"

/* That of the checkpoint with which the training begins, or the one that the job says. The job's context
 * counts, which may be shorter than the checkpoint's. BASE_ERR_INVALID: the checkpoint's shape is not
 * the job's. BASE_ERR_UNSUPPORTED: its family does not train with the job's precision. *own_context: the checkpoint's context, or 0 without a checkpoint. */
BASE_MUST_CHECK base_status rank_train_config(const proto_job *job, rank_model_config *config,
                                              int *own_context, base_error *reterr);

/* Checks that a training whose checkpoint has the configuration `saved` can go on as `now`. Contexts
 * are not compared. BASE_ERR_INVALID: it would be another model. */
BASE_MUST_CHECK base_status rank_train_config_check(const rank_model_config *saved,
                                                    const rank_model_config *now,
                                                    base_error *reterr);

/* How the checkpoint writes chats, in *chat, for data that are chats. NULL: there is no checkpoint. */
const rank_chat *rank_train_chat(const proto_job *job, rank_tokenizer *tokenizer, rank_chat *chat);

#endif
