/* Makes, opens and lists the signing keys of a service's directory. Called by init and serve
 * (service.c), the key commands (keys.c) and the offline audit. */
#include "key_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/lock.h"
#include "base/path.h"
#include "budget/service_files.h"

base_status key_store_read(key_store *store, const char *dir, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    *store = (key_store){0};
    (void)snprintf(store->dir, sizeof store->dir, "%s", dir);
    const base_status status = base_path_join(store->dir, BUDGET_FILE_KEYRING, path, reterr);
    return status == BASE_OK ? budget_keyring_read(path, &store->keyring, reterr) : status;
}

base_status key_store_write(const key_store *store, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    const base_status status = base_path_join(store->dir, BUDGET_FILE_KEYRING, path, reterr);
    return status == BASE_OK ? budget_keyring_write(path, &store->keyring, reterr) : status;
}

base_status key_store_lock(const char *dir, int *lock, base_error *reterr)
{
    *lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *lock >= 0 ? base_lock_wait(*lock, dir, reterr)
                      : base_fail_errno(reterr, errno, "cannot open %s", dir);
}

void key_store_unlock(int lock)
{
    base_fd_close(&lock);
}

base_status key_store_begin(key_store *store, int *lock, base_error *reterr)
{
    char dir[BASE_PATH_BYTES];
    (void)snprintf(dir, sizeof dir, "%s", store->dir);
    const base_status status = key_store_lock(dir, lock, reterr);
    return status == BASE_OK ? key_store_read(store, dir, reterr) : status;
}

budget_public_key *key_store_active(key_store *store)
{
    for (int i = store->keyring.count - 1; i >= 0; i--) {
        budget_public_key *key = &store->keyring.keys[i];
        if (key->retired_at == 0 && key->revoked_at == 0) {
            return key;
        }
    }
    return NULL;
}

static base_status key_path(const key_store *store, const char *kid, char path[BASE_PATH_BYTES],
                            base_error *reterr)
{
    char name[BUDGET_KID_BYTES + sizeof "keys/.key"];
    (void)snprintf(name, sizeof name, "keys/%s.key", kid);
    return base_path_join(store->dir, name, path, reterr);
}

/* Old keys stay, since they signed checkpoints as well. */
static base_status check_room(const key_store *store, base_error *reterr)
{
    return store->keyring.count < BUDGET_KEYRING_KEYS_MAX
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_LIMIT,
                           "%s/%s holds %d keys, and no more fit: keep a copy of it, for the "
                           "checkpoints that its first key, %s, has signed, and take that key out",
                           store->dir, BUDGET_FILE_KEYRING, BUDGET_KEYRING_KEYS_MAX,
                           store->keyring.keys[0].kid);
}

base_status key_store_make(key_store *store, const budget_passphrase *passphrase, int64_t now_s,
                           budget_secret_key **secret, base_error *reterr)
{
    char directory[BASE_PATH_BYTES];
    char path[BASE_PATH_BYTES];
    char kid[BUDGET_KID_BYTES];
    budget_secret_key *made = NULL;
    base_status status = check_room(store, reterr);
    if (status == BASE_OK) {
        status = base_path_join(store->dir, "keys", directory, reterr);
    }
    if (status == BASE_OK && mkdir(directory, 0700) != 0 && errno != EEXIST) {
        status = base_fail_errno(reterr, errno, "cannot make %s", directory);
    }
    if (status == BASE_OK) {
        status = budget_secret_key_make(&made, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    budget_paserk_pid(budget_secret_key_public(made), kid);
    status = key_path(store, kid, path, reterr);
    if (status == BASE_OK) {
        status = budget_secret_key_write(path, made, passphrase, reterr);
    }
    if (status == BASE_OK) {
        status = budget_keyring_add(&store->keyring, budget_secret_key_public(made), now_s, reterr);
    }
    if (status != BASE_OK) {
        budget_secret_key_free(made);
        return status;
    }
    *secret = made;
    return BASE_OK;
}

base_status key_store_open(const key_store *store, const budget_public_key *key,
                           const budget_passphrase *passphrase, budget_secret_key **secret,
                           base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    base_status status = key_path(store, key->kid, path, reterr);
    if (status == BASE_OK) {
        base_error why = {0};
        status = budget_secret_key_read(path, passphrase, secret, &why);
        if (status ==
            BASE_ERR_AUTH) { /* without the passphrase a new key goes on with the ledger */
            return base_fail(reterr, status,
                             "%s. If the passphrase is lost: budget-service key revoke %s, then "
                             "key rotate with a new one",
                             why.message, key->kid);
        }
        if (status != BASE_OK) {
            return base_fail(reterr, status, "%s", why.message);
        }
    }
    if (status == BASE_OK &&
        memcmp(budget_secret_key_public(*secret), key->key, sizeof key->key) != 0) {
        budget_secret_key_free(*secret);
        *secret = NULL;
        status = base_fail(reterr, BASE_ERR_AUTH, "%s holds another key", path);
    }
    return status;
}
