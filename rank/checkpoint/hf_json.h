/* The JSON files of a Hugging Face directory. */
#ifndef RANK_CHECKPOINT_HF_JSON_H
#define RANK_CHECKPOINT_HF_JSON_H

#include "rank/checkpoint.h"

struct json_t;

/* Reads directory/name into *object, which is the caller's. BASE_ERR_NOTFOUND: there is no such file;
 * BASE_ERR_INVALID: it is no JSON object. Errors name the file. */
BASE_MUST_CHECK base_status rank_hf_json_read(const char *directory, const char *name,
                                              struct json_t **object, base_error *reterr);

/* The same of a file whose integers may be too large for one: they become reals. */
BASE_MUST_CHECK base_status rank_hf_json_read_reals(const char *directory, const char *name,
                                                    struct json_t **object, base_error *reterr);

/* Writes the object, indented, each number so that it reads back as it is; takes the reference. NULL: no memory for it. */
BASE_MUST_CHECK base_status rank_hf_json_write(const char *directory, const char *name,
                                               struct json_t *object, base_error *reterr);

/* hf_directory.c: writes generation_config.json, as rank_checkpoint_write does. */
BASE_MUST_CHECK base_status rank_checkpoint_write_generation(const char *directory,
                                                             const rank_checkpoint_about *about,
                                                             base_error *reterr);

#endif
