/* The signing keys of a service's directory: DIR/keyring.json (public) and DIR/keys/KID.key (each
 * under the passphrase). One key signs: the one that is neither retired nor revoked. */
#ifndef BUDGET_CLI_KEY_STORE_H
#define BUDGET_CLI_KEY_STORE_H

#include "base/limits.h"
#include "base/status.h"
#include "budget/keyring.h"
#include "budget/secret_key.h"

typedef struct key_store {
    char dir[BASE_PATH_BYTES];
    budget_keyring keyring;
} key_store;

/* DIR/keyring.json. BASE_ERR_NOTFOUND: no keys yet. */
BASE_MUST_CHECK base_status key_store_read(key_store *store, const char *dir, base_error *reterr);
BASE_MUST_CHECK base_status key_store_write(const key_store *store, base_error *reterr);

/* Locks the directory against other changes of its keys, and waits for them. The caller ends that with
 * key_store_unlock in any case. */
BASE_MUST_CHECK base_status key_store_lock(const char *dir, int *lock, base_error *reterr);
void key_store_unlock(int lock);

/* Begins a change of the keyring: key_store_lock, and reads the keyring anew. Else a key that is revoked
 * meanwhile would be written back as a good one. */
BASE_MUST_CHECK base_status key_store_begin(key_store *store, int *lock, base_error *reterr);

/* The key that signs, or NULL. */
budget_public_key *key_store_active(key_store *store);

/* Makes a key, writes its file, adds it to the keyring in memory. BASE_ERR_LIMIT: the keyring is full, and
 * nothing was made. *secret is the caller's to free. */
BASE_MUST_CHECK base_status key_store_make(key_store *store, const budget_passphrase *passphrase,
                                           int64_t now_s, budget_secret_key **secret,
                                           base_error *reterr);

/* Opens the key's file. BASE_ERR_AUTH: the passphrase, or the file is another key's. */
BASE_MUST_CHECK base_status key_store_open(const key_store *store, const budget_public_key *key,
                                           const budget_passphrase *passphrase,
                                           budget_secret_key **secret, base_error *reterr);

#endif
