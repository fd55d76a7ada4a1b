/* The members of a request by their JSON keys: prompt, prompt_token_ids, messages, max_new_tokens,
 * temperature, top_k, top_p, min_p, seed, the penalties, logit_bias, logprobs, ignore_eos, stop_token_ids.
 * Pure.
 *
 * Each function returns BASE_ERR_INVALID or BASE_ERR_LIMIT with a message that names the key. */
#ifndef LAUNCH_REQUEST_KEY_H
#define LAUNCH_REQUEST_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/job.h"
#include "proto/request.h"

struct json_t;

/* Sets what the job's flags say: all but the id, the prompt's index and the prompt. */
void launch_request_defaults(const proto_job *job, proto_request *request);

/* Sets what one key says. A key that a request does not have is an error. */
BASE_MUST_CHECK base_status launch_request_key(const char *key, const struct json_t *value,
                                               proto_request *request, base_error *reterr);

/* Sets the prompt. At most PROTO_PROMPT_BYTES_MAX. */
BASE_MUST_CHECK base_status launch_request_text(const char *text, size_t text_bytes,
                                                proto_request *request, base_error *reterr);

/* Sets the prompt, given as a list of tokens under this key. */
BASE_MUST_CHECK base_status launch_request_tokens(const char *key, const struct json_t *value,
                                                  proto_request *request, base_error *reterr);

/* An integer from least to most. */
BASE_MUST_CHECK base_status launch_request_integer(const char *key, const struct json_t *value,
                                                   int64_t least, int64_t most, int64_t *integer,
                                                   base_error *reterr);

#endif
