/* What an authorization takes from JOB.json: its digest, its mode, its number of ranks. */
#ifndef BUDGET_CLI_JOB_FILE_H
#define BUDGET_CLI_JOB_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "budget/claims.h"

typedef struct job_file {
    uint8_t blake2b256[BUDGET_DIGEST_BYTES];
    char mode[BUDGET_NAME_BYTES];
    int64_t world_size;
    char *text; /* only of job_file_open; the caller frees it */
    size_t text_bytes;
} job_file;

/* Only these two keys are looked at: whether the job can run is for the rank to say, which reads
 * the very bytes of this digest. */
BASE_MUST_CHECK base_status job_file_read(const char *path, job_file *job, base_error *reterr);

/* The same, keeping the bytes. */
BASE_MUST_CHECK base_status job_file_open(const char *path, job_file *job, base_error *reterr);

#endif
