/* The files that a job reads, pinned: JOB.json has the SHA-256 of each, so that it means these
 * files and no others.
 *
 * Data, held-out file, tokenizer and prompts are pinned whole. A checkpoint is pinned by what says
 * what is in it: config.json, generation_config.json and model.safetensors.index.json (the two last
 * where they are there) whole, and of each safetensors file its length and its header, names,
 * types, shapes and offsets; with model.verify full, every byte of it.
 *
 * Blocks as long as reading takes. Thread safe. */
#ifndef PROTO_PIN_H
#define PROTO_PIN_H

#include "proto/job.h"

typedef enum proto_pin_extent {
    PROTO_PIN_SMALL, /* all but data and held-out file, which take milliseconds */
    PROTO_PIN_ALL,
} proto_pin_extent;

/* Writes the digests of the files that the job names; its paths are absolute. The message begins
 * with the option. */
BASE_MUST_CHECK base_status proto_job_pin(proto_job *job, proto_pin_extent extent,
                                          base_error *reterr);

/* Every pinned file is that file still. BASE_ERR_INVALID names it, and both digests. */
BASE_MUST_CHECK base_status proto_job_check_files(const proto_job *job, base_error *reterr);

/* Of a checkpoint, as above. BASE_ERR_INVALID: a file of it is not what it must be. */
BASE_MUST_CHECK base_status proto_checkpoint_digest(const char *directory, proto_verify verify,
                                                    uint8_t digest[PROTO_DIGEST_BYTES],
                                                    base_error *reterr);

#endif
