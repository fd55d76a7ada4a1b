/* Pins the files that a job reads: JOB.json has the SHA-256 of each, so that it means exactly these
 * files.
 *
 * Data, held-out file, tokenizer and prompts are pinned completely. Of a checkpoint, config.json
 * is, and if they exist generation_config.json, tokenizer_config.json, chat_template.jinja and
 * model.safetensors.index.json. Of each
 * safetensors file, its length and its header are pinned: names, types, shapes and offsets. With
 * model.verify full, every byte of it is. Of adapters adapter_config.json and adapter_model.safetensors are
 * pinned, and generation_config.json if it exists.
 *
 * Blocks as long as reading takes. Thread safe. */
#ifndef PROTO_PIN_H
#define PROTO_PIN_H

#include <stdbool.h>

#include "base/limits.h"
#include "proto/job.h"
#include "proto/limits.h"

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

/* The digest of a checkpoint, as above. BASE_ERR_INVALID: one of its files is malformed;
 * BASE_ERR_LIMIT: too large. */
BASE_MUST_CHECK base_status proto_checkpoint_digest(const char *directory, proto_verify verify,
                                                    uint8_t digest[PROTO_DIGEST_BYTES],
                                                    base_error *reterr);

/* That of a directory of adapters: of every byte. */
BASE_MUST_CHECK base_status proto_adapter_digest(const char *directory,
                                                 uint8_t digest[PROTO_DIGEST_BYTES],
                                                 base_error *reterr);

/* A file that a job reads. */
typedef struct proto_file {
    char key[PROTO_FILE_KEY_BYTES_MAX + 1]; /* that names it: "data.train" */
    char name[PROTO_NAME_BYTES_MAX];        /* of a checkpoint's file; else empty */
    char path[BASE_PATH_BYTES];             /* on this host */
    uint64_t size_bytes;
    uint8_t sha256[PROTO_DIGEST_BYTES]; /* of every byte */
} proto_file;

/* All files that the job reads. Its paths are absolute. The pinned digests of single files are taken
 * as they are; whatever else is read whole. *files is malloc'ed and the caller's. BASE_ERR_LIMIT:
 * more than PROTO_FILES_MAX. */
BASE_MUST_CHECK base_status proto_job_files(const proto_job *job, proto_file **files, int *count,
                                            base_error *reterr);

/* Whether the job reads a file, or a directory of files, that this key names. */
bool proto_job_reads(const proto_job *job, const char *key);

/* Calls visit for each file of a checkpoint, in the order of its digest. visit returns
 * BASE_ERR_NOTFOUND if there is no such file. */
typedef base_status (*proto_checkpoint_visit)(void *user, const char *name, bool tensors,
                                              base_error *reterr);
BASE_MUST_CHECK base_status proto_checkpoint_walk(const char *directory,
                                                  proto_checkpoint_visit visit, void *user,
                                                  base_error *reterr);
/* The same of any directory of adapters: the names are always these. */
BASE_MUST_CHECK base_status proto_adapter_walk(proto_checkpoint_visit visit, void *user,
                                               base_error *reterr);

#endif
