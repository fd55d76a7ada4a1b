/* Makes and reads the service's directory: its CURVE key, its ledger and the first two clients.
 * Called by the commands `init` and `serve`. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/path.h"
#include "budget/policy.h"
#include "budget/secret_file.h"
#include "budget/service_files.h"
#include "budget/token.h"
#include "service.h"

base_status service_curve_read(const char *dir, proto_keypair **pair, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    base_status status = base_path_join(dir, BUDGET_FILE_CURVE, path, reterr);
    if (status != BASE_OK) {
        return status;
    }
    proto_keypair *made = sodium_malloc(sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no locked memory for the service's key");
    }
    status = budget_keypair_read(path, ": not the service's key", made, reterr);
    if (status != BASE_OK) {
        sodium_free(made);
        return status;
    }
    *pair = made;
    return BASE_OK;
}

static base_status make_directory(const char *path, base_error *reterr)
{
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return base_fail_errno(reterr, errno, "cannot make %s", path);
    }
    if (chmod(path, 0700) != 0) {
        return base_fail_errno(reterr, errno, "cannot restrict %s to its owner", path);
    }
    return BASE_OK;
}

static base_status policy_write(const char *dir, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    const char *text = budget_policy_initial();
    const base_status status = base_path_join(dir, BUDGET_FILE_POLICY, path, reterr);
    if (status != BASE_OK || access(path, F_OK) == 0) { /* a person may have written it */
        return status;
    }
    return base_file_write_as(path, &(base_file_kind){.durable = true}, text, strlen(text), reterr);
}

static base_status make_directories(const char *dir, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    base_status status = base_mkdirs(dir, reterr);
    if (status == BASE_OK) {
        status = make_directory(dir, reterr);
    }
    static const char *const names[] = {"run", "clients"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && status == BASE_OK; i++) {
        status = base_path_join(dir, names[i], path, reterr);
        status = status == BASE_OK ? make_directory(path, reterr) : status;
    }
    return status;
}

/* A fresh pair: into DIR/clients/NAME.key, and the public part into the ledger's open batch. */
static base_status add_client(const char *dir, const uint8_t *service_public_key,
                              budget_ledger *ledger, budget_ledger_client *client,
                              base_error *reterr)
{
    char name[BUDGET_NAME_BYTES + 16];
    char path[BASE_PATH_BYTES];
    budget_answer answer;
    budget_client_key key = {0};
    const budget_caller nobody = {0};
    proto_keypair_make(&key.keys);
    (void)snprintf(name, sizeof name, "clients/%s.key", client->name);
    memcpy(key.name, client->name, sizeof key.name);
    memcpy(key.service_public_key, service_public_key, sizeof key.service_public_key);
    memcpy(client->public_key, key.keys.public_key, sizeof client->public_key);
    base_status status = base_path_join(dir, name, path, reterr);
    if (status == BASE_OK) {
        status = budget_client_key_write(path, &key, reterr);
    }
    if (status == BASE_OK) {
        status = budget_ledger_client_add(ledger, &nobody, client, &answer, reterr);
    }
    if (status == BASE_OK && answer.reason != BUDGET_REASON_NONE) {
        status = base_fail(reterr, BASE_ERR_STATE, "%s", answer.message);
    }
    proto_wipe(&key, sizeof key);
    return status;
}

static const uint8_t *public_half(const unsigned char *secret)
{
    return secret + BUDGET_SECRET_KEY_BYTES - BUDGET_PUBLIC_KEY_BYTES;
}

static base_status sign_first(void *context, const void *message, size_t message_bytes,
                              uint8_t signature[64], char kid[BUDGET_KID_BYTES], base_error *reterr)
{
    (void)reterr;
    (void)crypto_sign_detached(signature, NULL, message, message_bytes, context);
    budget_paserk_pid(public_half(context), kid);
    return BASE_OK;
}

static base_status verify_first(void *context, const void *message, size_t message_bytes,
                                const uint8_t signature[64], const char *kid, base_error *reterr)
{
    (void)kid;
    return crypto_sign_verify_detached(signature, message, message_bytes, public_half(context)) == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_AUTH, "the first checkpoint is not signed");
}

static base_status make_ledger(const char *dir, const uint8_t *service_public_key,
                               const unsigned char *secret, base_error *reterr)
{
    budget_ledger_options options = {
        .dir = dir,
        .signer = {.context = (void *)(uintptr_t)secret,
                   .sign = sign_first,
                   .verify = verify_first},
    };
    budget_ledger *ledger = NULL;
    budget_ledger_client clients[] = {{.name = "admin", .role = BUDGET_ROLE_ADMIN},
                                      {.name = "request", .role = BUDGET_ROLE_REQUEST}};
    base_status status = budget_clock_read(&options.clock, reterr);
    if (status == BASE_OK) {
        status = budget_ledger_create(&options, reterr);
    }
    if (status == BASE_OK) {
        status = budget_ledger_open(&options, &ledger, reterr);
    }
    if (status == BASE_OK) {
        status = budget_ledger_begin(ledger, &options.clock, reterr);
    }
    for (size_t i = 0; i < sizeof clients / sizeof clients[0] && status == BASE_OK; i++) {
        status = add_client(dir, service_public_key, ledger, &clients[i], reterr);
    }
    if (status == BASE_OK) {
        status = budget_ledger_commit(ledger, reterr);
    }
    budget_ledger_close(ledger);
    return status;
}

base_status budget_service_init(const char *dir, const unsigned char *secret, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    proto_keypair pair = {0};
    base_status status = budget_crypto_init(reterr);
    if (status == BASE_OK) {
        status = base_path_join(dir, BUDGET_FILE_CURVE, path, reterr);
    }
    if (status == BASE_OK && access(path, F_OK) == 0) {
        return base_fail(reterr, BASE_ERR_STATE, "%s holds a service already", dir);
    }
    if (status == BASE_OK) {
        status = make_directories(dir, reterr);
    }
    if (status == BASE_OK) {
        status = policy_write(dir, reterr);
    }
    if (status == BASE_OK) {
        proto_keypair_make(&pair);
        status = make_ledger(dir, pair.public_key, secret, reterr);
    }
    if (status == BASE_OK) { /* last: its being there says that the rest is */
        status = budget_keypair_create(path, &pair, reterr);
    }
    proto_wipe(&pair, sizeof pair);
    return status;
}
