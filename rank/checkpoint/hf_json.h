/* The JSON files of a Hugging Face directory. */
#ifndef RANK_CHECKPOINT_HF_JSON_H
#define RANK_CHECKPOINT_HF_JSON_H

#include "base/status.h"

struct json_t;

/* Reads directory/name into *object, which is the caller's. BASE_ERR_NOTFOUND: there is no such file;
 * BASE_ERR_INVALID: it is no JSON object. Errors name the file. */
BASE_MUST_CHECK base_status rank_hf_json_read(const char *directory, const char *name,
                                              struct json_t **object, base_error *reterr);

#endif
