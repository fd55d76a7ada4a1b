/* Reads, writes and searches the keyring file of public keys. Called by the service, the launcher
 * and the ranks' gate to find the key of a token. */
#include "budget/keyring.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fields_json.h"
#include "base/file.h"
#include "budget/codings.h"
#include "budget/secret_file.h"

enum { KEYRING_VERSION = 1 };

/* A key as it stands in the file. */
typedef struct key_row {
    char kid[BUDGET_KID_BYTES];
    char key[BUDGET_PASERK_PUBLIC_BYTES];
    int64_t created_at;
    int64_t retired_at;
    int64_t not_after;
    int64_t revoked_at;
} key_row;

#define TEXT(member)                                                                               \
    {                                                                                              \
        .key = #member, BASE_TEXT(key_row, member), .filled = true                                 \
    }
#define TIME(member)                                                                               \
    {                                                                                              \
        .key = #member, BASE_CODED(key_row, member), .coding = &budget_time_coding,                \
        .optional = true                                                                           \
    }

static const base_field rows[] = {
    TIME(created_at), TEXT(key), TEXT(kid), TIME(not_after), TIME(retired_at), TIME(revoked_at),
};
static const base_fields table = {rows, sizeof rows / sizeof rows[0], "key"};

const budget_public_key *budget_keyring_find(const budget_keyring *keyring, const char *kid)
{
    for (int i = 0; i < keyring->count; i++) {
        if (strcmp(keyring->keys[i].kid, kid) == 0) {
            return &keyring->keys[i];
        }
    }
    return NULL;
}

base_status budget_keyring_add(budget_keyring *keyring, const uint8_t key[BUDGET_PUBLIC_KEY_BYTES],
                               int64_t now_s, base_error *reterr)
{
    budget_public_key added = {.created_at = now_s};
    if (crypto_core_ed25519_is_valid_point(key) != 1) {
        return base_fail(reterr, BASE_ERR_INVALID, "not a usable Ed25519 public key");
    }
    memcpy(added.key, key, sizeof added.key);
    budget_paserk_pid(key, added.kid);
    if (budget_keyring_find(keyring, added.kid) != NULL) {
        return base_fail(reterr, BASE_ERR_STATE, "the keyring has %s already", added.kid);
    }
    if (keyring->count == BUDGET_KEYRING_KEYS_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "the keyring holds %d keys and no more",
                         BUDGET_KEYRING_KEYS_MAX);
    }
    keyring->keys[keyring->count++] = added;
    return BASE_OK;
}

static base_status parse_key(const json_t *json, budget_keyring *keyring, base_error *reterr)
{
    key_row row = {0};
    uint8_t key[BUDGET_PUBLIC_KEY_BYTES];
    base_status status = base_fields_from_json(&table, json, &row, reterr);
    if (status == BASE_OK) {
        status = budget_paserk_public_parse(row.key, strlen(row.key), key, reterr);
    }
    if (status == BASE_OK) {
        status = budget_keyring_add(keyring, key, row.created_at, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    budget_public_key *added = &keyring->keys[keyring->count - 1];
    if (strcmp(added->kid, row.kid) != 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "kid %s is not that of its key (%s)", row.kid,
                         added->kid);
    }
    added->retired_at = row.retired_at;
    added->not_after = row.not_after;
    added->revoked_at = row.revoked_at;
    return BASE_OK;
}

static base_status parse_keyring(const json_t *json, budget_keyring *keyring, base_error *reterr)
{
    const json_t *keys = json_object_get(json, "keys");
    const json_t *version = json_object_get(json, "version");
    /* before the rest, which another version may have otherwise */
    if (json_is_integer(version) && json_integer_value(version) != KEYRING_VERSION) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                         "it has version %" JSON_INTEGER_FORMAT
                         ", and this program reads version %d",
                         json_integer_value(version), KEYRING_VERSION);
    }
    if (!json_is_array(keys) || !json_is_integer(version) || json_object_size(json) != 2) {
        return base_fail(reterr, BASE_ERR_INVALID, "must be {\"keys\":[…],\"version\":%d}",
                         KEYRING_VERSION);
    }
    for (size_t i = 0; i < json_array_size(keys); i++) {
        const base_status status = parse_key(json_array_get(keys, i), keyring, reterr);
        if (status != BASE_OK) {
            return base_error_prepend(reterr, status, "key %zu", i + 1);
        }
    }
    return keyring->count > 0 ? BASE_OK : base_fail(reterr, BASE_ERR_INVALID, "it has no key");
}

base_status budget_keyring_parse(const void *text, size_t text_bytes, budget_keyring *keyring,
                                 base_error *reterr)
{
    json_error_t json_error;
    budget_keyring parsed = {0};
    if (text_bytes > BUDGET_KEYRING_BYTES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "keyring: more than %d bytes",
                         BUDGET_KEYRING_BYTES_MAX);
    }
    json_t *json = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, &json_error);
    if (json == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "keyring: line %d: %s", json_error.line,
                         json_error.text);
    }
    const base_status status = parse_keyring(json, &parsed, reterr);
    json_decref(json);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "keyring");
    }
    *keyring = parsed;
    return BASE_OK;
}

base_status budget_keyring_format(const budget_keyring *keyring, char **text, size_t *text_bytes,
                                  base_error *reterr)
{
    json_t *keys = json_array();
    for (int i = 0; i < keyring->count; i++) {
        const budget_public_key *key = &keyring->keys[i];
        key_row row = {.created_at = key->created_at,
                       .retired_at = key->retired_at,
                       .not_after = key->not_after,
                       .revoked_at = key->revoked_at};
        memcpy(row.kid, key->kid, sizeof row.kid);
        budget_paserk_public(key->key, row.key);
        (void)json_array_append_new(keys, base_fields_to_json(&table, &row));
    }
    json_t *json = json_pack("{s:o,s:i}", "keys", keys, "version", KEYRING_VERSION);
    char *dump = json == NULL || json_array_size(keys) != (size_t)keyring->count
                     ? NULL
                     : json_dumps(json, JSON_INDENT(2) | JSON_SORT_KEYS);
    json_decref(json);
    if (dump == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a keyring");
    }
    *text = dump;
    *text_bytes = strlen(dump);
    return BASE_OK;
}

base_status budget_keyring_read(const char *path, budget_keyring *keyring, base_error *reterr)
{
    void *text = NULL;
    size_t text_bytes = 0;
    base_status status = BASE_OK;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return errno == ENOENT ? base_fail(reterr, BASE_ERR_NOTFOUND, "%s is not there", path)
                               : base_fail_errno(reterr, errno, "cannot open %s", path);
    }
    status = budget_trusted_file_check(path, fd, reterr);
    if (status == BASE_OK) {
        status = base_fd_read(fd, path, BUDGET_KEYRING_BYTES_MAX, &text, &text_bytes, reterr);
    }
    (void)close(fd);
    if (status == BASE_OK) {
        status = budget_keyring_parse(text, text_bytes, keyring, reterr);
        if (status != BASE_OK) {
            status = base_error_prepend(reterr, status, "%s", path);
        }
    }
    free(text);
    return status;
}

const char *budget_keyring_choose(const char *named)
{
    struct stat file;
    /* One that cannot be looked at, or a link to nowhere, is there: reading it says why it
     * fails. */
    const bool none = lstat(BUDGET_KEYRING_ANCHOR, &file) != 0 && errno == ENOENT;
    return none ? named : BUDGET_KEYRING_ANCHOR;
}

base_status budget_keyring_write(const char *path, const budget_keyring *keyring,
                                 base_error *reterr)
{
    char *text = NULL;
    size_t text_bytes = 0;
    base_status status = budget_keyring_format(keyring, &text, &text_bytes, reterr);
    if (status == BASE_OK) {
        text[text_bytes] = '\n'; /* in the place of the NUL */
        status = base_file_write_as(path, &(base_file_kind){.mode_max = 0644, .durable = true},
                                    text, text_bytes + 1, reterr);
    }
    free(text);
    return status;
}
