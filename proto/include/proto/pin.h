/* Pins the files that a job reads: JOB.json has the SHA-256 of each, so that it means exactly these
 * files.
 *
 * Data, held-out file, tokenizer and prompts are pinned completely. Of a checkpoint, config.json
 * is, and if they exist generation_config.json and model.safetensors.index.json. Of each
 * safetensors file, its length and its header are pinned: names, types, shapes and offsets. With
 * model.verify full, every byte of it is.
 *
 * Blocks as long as reading takes. Thread safe. */
#ifndef PROTO_PIN_H
#define PROTO_PIN_H

#include "proto/job.h"

typedef enum proto_pin_extent {
    PROTO_PIN_SMALL, /* all except data and held-out file, so it takes milliseconds */
    PROTO_PIN_ALL,
} proto_pin_extent;

/* Writes the digests of the files that the job names. Its paths are absolute. The message begins
 * with the option. */
BASE_MUST_CHECK base_status proto_job_pin(proto_job *job, proto_pin_extent extent,
                                          base_error *reterr);

/* Checks that every pinned file is unchanged. BASE_ERR_INVALID names it, and both digests. */
BASE_MUST_CHECK base_status proto_job_check_files(const proto_job *job, base_error *reterr);

/* The digest of a checkpoint, as above. BASE_ERR_INVALID: one of its files is malformed. */
BASE_MUST_CHECK base_status proto_checkpoint_digest(const char *directory, proto_verify verify,
                                                    uint8_t digest[PROTO_DIGEST_BYTES],
                                                    base_error *reterr);

#endif
