/* The signing key: in locked memory while it is used, as PASERK k4.secret-pw while it rests.
 *
 * k4.secret-pw: Argon2id makes a key of the passphrase, XChaCha20 encrypts, keyed BLAKE2b
 * authenticates. Source: PASERK, operations/PBKW and types/secret-pw. */
#ifndef BUDGET_SECRET_KEY_H
#define BUDGET_SECRET_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "budget/passphrase.h"

enum {
    BUDGET_PASERK_SECRET_PW_BYTES = 217, /* "k4.secret-pw." and 203 characters; with NUL */
    BUDGET_KEY_MEMORY_BYTES = 64 << 20,  /* Argon2id's, so that the service stays below 100 MB */
    BUDGET_KEY_PASSES = 3,
    BUDGET_KEY_MEMORY_BYTES_MAX = 256 << 20, /* what a file may ask for */
    BUDGET_KEY_PASSES_MAX = 16,
};

/* Locked, guarded by pages that cannot be touched, left out of core dumps. */
typedef struct budget_secret_key budget_secret_key;

/* How dear a guess of the passphrase is. */
typedef struct budget_key_cost {
    uint64_t memory_bytes; /* a multiple of 1024, from 8192 to BUDGET_KEY_MEMORY_BYTES_MAX */
    uint32_t passes;       /* 1 … BUDGET_KEY_PASSES_MAX */
} budget_key_cost;

/* A fresh key. BASE_ERR_MEMORY also when memory cannot be locked (RLIMIT_MEMLOCK). */
BASE_MUST_CHECK base_status budget_secret_key_make(budget_secret_key **key, base_error *reterr);

/* Wipes and frees; NULL is fine. */
void budget_secret_key_free(budget_secret_key *key);

/* For budget_token_sign; lives as long as the key. The second half is the public key. */
const uint8_t *budget_secret_key_bytes(const budget_secret_key *key);
const uint8_t *budget_secret_key_public(const budget_secret_key *key);

/* k4.secret-pw under a passphrase, with fresh salt and nonce. Takes cost's memory for a moment. */
BASE_MUST_CHECK base_status budget_secret_key_wrap(const budget_secret_key *key,
                                                   const budget_passphrase *passphrase,
                                                   const budget_key_cost *cost,
                                                   char text[BUDGET_PASERK_SECRET_PW_BYTES],
                                                   base_error *reterr);

/* The other way round. BASE_ERR_INVALID: not a k4.secret-pw, or its cost is out of range (nothing
 * has been computed then); BASE_ERR_AUTH: another passphrase, or a changed text. */
BASE_MUST_CHECK base_status budget_secret_key_unwrap(const char *text, size_t text_bytes,
                                                     const budget_passphrase *passphrase,
                                                     budget_secret_key **key, base_error *reterr);

/* The same from and to a file of one line (budget/secret_file.h). */
BASE_MUST_CHECK base_status budget_secret_key_write(const char *path, const budget_secret_key *key,
                                                    const budget_passphrase *passphrase,
                                                    base_error *reterr);
BASE_MUST_CHECK base_status budget_secret_key_read(const char *path,
                                                   const budget_passphrase *passphrase,
                                                   budget_secret_key **key, base_error *reterr);

#endif
