/* Makes, stores and wipes the CURVE key pair under which `redeem` redeems a job. Called
 * by token.c. */
#include "job_key.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "budget/secret_file.h"
#include "proto/key.h"

enum { HEX_BYTES = 2 * BUDGET_CURVE_KEY_BYTES, FILE_BYTES = 2 * (HEX_BYTES + 1) };

base_status job_key_replace(const char *path, const void *data, size_t size_bytes,
                            base_error *reterr)
{
    if (unlink(path) != 0 && errno != ENOENT) {
        return base_fail_errno(reterr, errno, "cannot replace %s", path);
    }
    return budget_secret_file_create(path, data, size_bytes, reterr);
}

static void make(budget_job_key *key)
{
    proto_keypair pair;
    proto_keypair_make(&pair);
    memcpy(key->public_key, pair.public_key, sizeof key->public_key);
    memcpy(key->secret_key, pair.secret_key, sizeof key->secret_key);
    proto_wipe(&pair, sizeof pair);
}

static base_status store(const char *path, const budget_job_key *key, base_error *reterr)
{
    char public_hex[HEX_BYTES + 1];
    char secret_hex[HEX_BYTES + 1];
    char text[FILE_BYTES + 1];
    (void)sodium_bin2hex(public_hex, sizeof public_hex, key->public_key, sizeof key->public_key);
    (void)sodium_bin2hex(secret_hex, sizeof secret_hex, key->secret_key, sizeof key->secret_key);
    (void)snprintf(text, sizeof text, "%s\n%s\n", public_hex, secret_hex);
    const base_status status = budget_secret_file_create(path, text, FILE_BYTES, reterr);
    proto_wipe(text, sizeof text);
    proto_wipe(secret_hex, sizeof secret_hex);
    return status;
}

base_status job_key_open(const char *directory, budget_job_key *key, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    if (directory == NULL) {
        make(key);
        return BASE_OK;
    }
    if (snprintf(path, sizeof path, "%s/job.key", directory) >= (int)sizeof path) {
        return base_fail(reterr, BASE_ERR_LIMIT, "the directory's name is too long");
    }
    if (mkdir(directory, 0700) != 0 && errno != EEXIST) {
        return base_fail_errno(reterr, errno, "cannot make %s", directory);
    }
    const base_status status = budget_job_key_read(path, key, reterr);
    if (status != BASE_ERR_NOTFOUND) {
        return status;
    }
    make(key);
    return store(path, key, reterr);
}

void job_key_wipe(budget_job_key *key)
{
    proto_wipe(key, sizeof *key);
}
