/* Reads a job's key pair from a file: two lines of hex, the public half first. Called by the
 * launcher's lease and by the command `redeem`. */
#include <sodium.h>

#include "budget/client.h"
#include "budget/secret_file.h"
#include "proto/key.h"

enum { HEX_BYTES = 2 * BUDGET_CURVE_KEY_BYTES, FILE_BYTES = 2 * (HEX_BYTES + 1) };

static bool take_hex(const char *text, uint8_t key[BUDGET_CURVE_KEY_BYTES])
{
    const char *end = NULL;
    size_t decoded = 0;
    return sodium_hex2bin(key, BUDGET_CURVE_KEY_BYTES, text, HEX_BYTES, NULL, &decoded, &end) ==
               0 &&
           decoded == BUDGET_CURVE_KEY_BYTES && end == text + HEX_BYTES;
}

base_status budget_job_key_read(const char *path, budget_job_key *key, base_error *reterr)
{
    char text[FILE_BYTES + 1] = "";
    size_t size_bytes = 0;
    base_status status = budget_secret_file_read(path, text, FILE_BYTES, &size_bytes, reterr);
    if (status == BASE_OK &&
        (size_bytes != FILE_BYTES || text[HEX_BYTES] != '\n' || !take_hex(text, key->public_key) ||
         !take_hex(text + HEX_BYTES + 1, key->secret_key))) {
        status = base_fail(reterr, BASE_ERR_AUTH, "%s is no job's key", path);
    }
    proto_wipe(text, sizeof text);
    return status;
}
