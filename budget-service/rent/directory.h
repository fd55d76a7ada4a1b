/* The directory of a rent: what COMMAND reads, and what an end needs after a crash. */
#ifndef RENT_DIRECTORY_H
#define RENT_DIRECTORY_H

#include "end.h"
#include "proto/key.h"

#define RENT_FILE_TOKEN     "token"
#define RENT_FILE_JOB_KEY   "job.key" /* as `redeem --out` keeps it */
#define RENT_FILE_INSTANCES "instances.json"
#define RENT_FILE_EVIDENCE  "evidence.json"
#define RENT_FILE_LOG       "end.log" /* of the watchdog */

/* DIR/rents/JTI, where a rent is kept that has no directory of its own; DIR is the service's, as the client knows
 * it. Makes DIR/rents (0700) if it is missing. BASE_ERR_LIMIT, BASE_ERR_IO. */
BASE_MUST_CHECK base_status rent_directory_default(const char *service_dir, const char *jti,
                                                   char directory[BASE_PATH_BYTES],
                                                   base_error *reterr);

/* Makes the directory (0700), which must be missing or empty, with the token and a fresh key of the job, which the
 * caller wipes. */
BASE_MUST_CHECK base_status rent_directory_make(const char *directory, const char *token,
                                                proto_keypair *job_key, base_error *reterr);

/* Removes what that has made. */
void rent_directory_remove(const char *directory);

/* Whose instances they are, and until when. */
typedef struct rent_whose {
    const char *label;
    const char *jti;
    int64_t until_s; /* since 1970 */
} rent_whose;

/* Writes instances.json: label, jti, until, and the instances. On disk when it returns. */
BASE_MUST_CHECK base_status rent_directory_write(const char *directory, const rent_whose *whose,
                                                 const rent_held *held, base_error *reterr);

/* Reads the instances back. BASE_OK if there is no such file: then nothing was made. BASE_ERR_STATE: it is
 * another label's. Else it cannot be read: the vendor's list has the instances with the jti. */
BASE_MUST_CHECK base_status rent_directory_read(const char *directory, const char *jti,
                                                rent_held *held, base_error *reterr);

#endif
