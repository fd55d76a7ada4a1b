/* The public keys that tokens and receipts are verified with, as PASERK texts in one JSON file.
 *
 * A key is found by its id (k4.pid) alone; an id that is not there fails closed. A rotated key is
 * retired: it verifies what was signed before, until its last token has expired. A revoked key
 * verifies nothing. Whoever can replace this file decides what is accepted: docs/THREATS.md.
 * Plain data; pure but for the file functions.
 * Source: PASERK, github.com/paseto-standard/paserk. */
#ifndef BUDGET_KEYRING_H
#define BUDGET_KEYRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    BUDGET_PUBLIC_KEY_BYTES = 32,    /* Ed25519 */
    BUDGET_SECRET_KEY_BYTES = 64,    /* Ed25519 seed and public key, as libsodium has it */
    BUDGET_KID_BYTES = 52,           /* "k4.pid." and 44 characters; with NUL */
    BUDGET_PASERK_PUBLIC_BYTES = 54, /* "k4.public." and 43 characters; with NUL */
    BUDGET_KEYRING_KEYS_MAX = 64,
    BUDGET_KEYRING_BYTES_MAX = 64 * 1024, /* of the file */
};

typedef struct budget_public_key {
    uint8_t key[BUDGET_PUBLIC_KEY_BYTES];
    char kid[BUDGET_KID_BYTES]; /* always that of key */
    int64_t created_at;         /* seconds since 1970 */
    int64_t retired_at;         /* 0: it signs; else it signed nothing after this */
    int64_t not_after;          /* of a retired key: its last token's exp. It verifies nothing
                                 * afterwards, receipts included. 0: none */
    int64_t revoked_at;         /* 0: not revoked */
} budget_public_key;

typedef struct budget_keyring {
    int count;
    budget_public_key keys[BUDGET_KEYRING_KEYS_MAX];
} budget_keyring;

/* k4.public of a key, and back. Strict: BASE_ERR_INVALID for another header, padding, a wrong
 * length or trailing bits that are not zero. */
void budget_paserk_public(const uint8_t key[BUDGET_PUBLIC_KEY_BYTES],
                          char text[BUDGET_PASERK_PUBLIC_BYTES]);
BASE_MUST_CHECK base_status budget_paserk_public_parse(const char *text, size_t text_bytes,
                                                       uint8_t key[BUDGET_PUBLIC_KEY_BYTES],
                                                       base_error *reterr);

/* k4.pid of a public key: BLAKE2b-264 of its PASERK text. Source: PASERK, operations/ID. */
void budget_paserk_pid(const uint8_t key[BUDGET_PUBLIC_KEY_BYTES], char kid[BUDGET_KID_BYTES]);

/* The key with this id, or NULL; revoked ones are found too (look at revoked_at). */
const budget_public_key *budget_keyring_find(const budget_keyring *keyring, const char *kid);

/* Adds an active key. BASE_ERR_INVALID for a point that is no usable Ed25519 key (of small order,
 * not canonical, off the curve), BASE_ERR_LIMIT when full, BASE_ERR_STATE when it is there. */
BASE_MUST_CHECK base_status budget_keyring_add(budget_keyring *keyring,
                                               const uint8_t key[BUDGET_PUBLIC_KEY_BYTES],
                                               int64_t now_s, base_error *reterr);

/* JSON, strictly: {"keys":[{"kid":…,"key":"k4.public.…","created_at":…,"retired_at":…,
 * "not_after":…,"revoked_at":…}],"version":1}; the times are RFC 3339 and may be absent. A kid that
 * is not its key's, a duplicate key and an empty keyring are refused. untouched on failure. */
BASE_MUST_CHECK base_status budget_keyring_parse(const void *text, size_t text_bytes,
                                                 budget_keyring *keyring, base_error *reterr);

/* The file's text; malloc'ed, the caller frees it. */
BASE_MUST_CHECK base_status budget_keyring_format(const budget_keyring *keyring, char **text,
                                                  size_t *text_bytes, base_error *reterr);

/* Where a machine keeps the keyring that its ranks believe, whatever their launcher names. Root
 * puts it there (budget-service install-keyring). */
#define BUDGET_KEYRING_ANCHOR "/etc/ringfence/keyring.json"

/* The anchor where there is one, else named. */
const char *budget_keyring_choose(const char *named);

/* BASE_ERR_NOTFOUND; BASE_ERR_AUTH: somebody else may write it. */
BASE_MUST_CHECK base_status budget_keyring_read(const char *path, budget_keyring *keyring,
                                                base_error *reterr);

/* Replaces the file whole (mode 0644 less the umask: it holds nothing secret, and only we write
 * it). */
BASE_MUST_CHECK base_status budget_keyring_write(const char *path, const budget_keyring *keyring,
                                                 base_error *reterr);

#endif
