/* Signing keys in locked memory, and their password-wrapped form on disk (PASERK k4.secret-pw).
 * Called by cli/key_store.c, and by the commands that start or make a service (cli/service.c). */
#include "budget/secret_key.h"

#include <sodium.h>

#include "base/assert.h"
#include "budget/secret_file.h"
#include "paserk.h"

#define SECRET_PW_HEADER "k4.secret-pw."

enum {
    SALT_BYTES = 16,
    NONCE_BYTES = 24,
    TAG_BYTES = 32,
    DERIVED_BYTES = 32,
    /* salt, memory, passes, parallelism, nonce, encrypted key, tag */
    PARAMETERS_BYTES = SALT_BYTES + 8 + 4 + 4,
    SEALED_BYTES = PARAMETERS_BYTES + NONCE_BYTES + BUDGET_SECRET_KEY_BYTES,
    WRAPPED_BYTES = SEALED_BYTES + TAG_BYTES,
};
_Static_assert((int)crypto_stream_xchacha20_NONCEBYTES == (int)NONCE_BYTES, "XChaCha20");
_Static_assert((int)crypto_pwhash_SALTBYTES == (int)SALT_BYTES, "Argon2id");

struct budget_secret_key {
    uint8_t secret[BUDGET_SECRET_KEY_BYTES];
};

/* What the passphrase becomes. Wiped by its user. */
typedef struct derived_keys {
    uint8_t encryption[DERIVED_BYTES];
    uint8_t authentication[DERIVED_BYTES];
} derived_keys;

static base_status make_locked(budget_secret_key **key, base_error *reterr)
{
    budget_secret_key *made = sodium_malloc(sizeof *made);
    if (made == NULL || sodium_mlock(made, sizeof *made) != 0) {
        sodium_free(made);
        return base_fail(
            reterr, BASE_ERR_MEMORY,
            "cannot lock memory for the signing key: raise RLIMIT_MEMLOCK (ulimit -l)");
    }
    *key = made;
    return BASE_OK;
}

base_status budget_secret_key_make(budget_secret_key **key, base_error *reterr)
{
    uint8_t public_key[BUDGET_PUBLIC_KEY_BYTES];
    const base_status status = make_locked(key, reterr);
    if (status == BASE_OK) {
        (void)crypto_sign_keypair(public_key, (*key)->secret);
        (void)sodium_mprotect_readonly(*key);
    }
    return status;
}

void budget_secret_key_free(budget_secret_key *key)
{
    sodium_free(key); /* wipes, even what is read-only, and unlocks */
}

const uint8_t *budget_secret_key_bytes(const budget_secret_key *key)
{
    return key->secret;
}

const uint8_t *budget_secret_key_public(const budget_secret_key *key)
{
    return key->secret + BUDGET_SECRET_KEY_BYTES - BUDGET_PUBLIC_KEY_BYTES;
}

/* The second half must be the public key of the first: another one would leak the first by what it
 * signs. */
static bool halves_agree(const uint8_t secret[BUDGET_SECRET_KEY_BYTES])
{
    uint8_t public_key[BUDGET_PUBLIC_KEY_BYTES];
    uint8_t again[BUDGET_SECRET_KEY_BYTES];
    (void)crypto_sign_seed_keypair(public_key, again, secret);
    const bool agree = sodium_memcmp(again, secret, sizeof again) == 0;
    sodium_memzero(again, sizeof again);
    return agree;
}

static void put_big_endian(uint8_t *at, uint64_t value, int size_bytes)
{
    for (int i = 0; i < size_bytes; i++) {
        at[i] = (uint8_t)(value >> (8 * (size_bytes - 1 - i)));
    }
}

static uint64_t get_big_endian(const uint8_t *at, int size_bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < size_bytes; i++) {
        value = value << 8 | at[i];
    }
    return value;
}

static void derive_one(uint8_t purpose, const uint8_t pre_key[DERIVED_BYTES],
                       uint8_t key[DERIVED_BYTES])
{
    crypto_generichash_state state;
    (void)crypto_generichash_init(&state, NULL, 0, DERIVED_BYTES);
    (void)crypto_generichash_update(&state, &purpose, 1);
    (void)crypto_generichash_update(&state, pre_key, DERIVED_BYTES);
    (void)crypto_generichash_final(&state, key, DERIVED_BYTES);
    sodium_memzero(&state, sizeof state);
}

static base_status derive(const budget_passphrase *passphrase, const uint8_t salt[SALT_BYTES],
                          const budget_key_cost *cost, derived_keys *keys, base_error *reterr)
{
    uint8_t pre_key[DERIVED_BYTES];
    if (crypto_pwhash(pre_key, sizeof pre_key, passphrase->text, passphrase->size_bytes, salt,
                      cost->passes, (size_t)cost->memory_bytes,
                      crypto_pwhash_ALG_ARGON2ID13) != 0) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no %llu MB of memory for the passphrase",
                         (unsigned long long)(cost->memory_bytes >> 20));
    }
    derive_one(0xFF, pre_key, keys->encryption);
    derive_one(0xFE, pre_key, keys->authentication);
    sodium_memzero(pre_key, sizeof pre_key);
    return BASE_OK;
}

static void authenticate(const uint8_t key[DERIVED_BYTES], const uint8_t sealed[SEALED_BYTES],
                         uint8_t tag[TAG_BYTES])
{
    crypto_generichash_state state;
    (void)crypto_generichash_init(&state, key, DERIVED_BYTES, TAG_BYTES);
    (void)crypto_generichash_update(&state, (const uint8_t *)SECRET_PW_HEADER,
                                    sizeof SECRET_PW_HEADER - 1);
    (void)crypto_generichash_update(&state, sealed, SEALED_BYTES);
    (void)crypto_generichash_final(&state, tag, TAG_BYTES);
    sodium_memzero(&state, sizeof state);
}

static bool cost_ok(const budget_key_cost *cost)
{
    return cost->memory_bytes % 1024 == 0 && cost->memory_bytes >= crypto_pwhash_MEMLIMIT_MIN &&
           cost->memory_bytes <= BUDGET_KEY_MEMORY_BYTES_MAX && cost->passes >= 1 &&
           cost->passes <= BUDGET_KEY_PASSES_MAX;
}

base_status budget_secret_key_wrap(const budget_secret_key *key,
                                   const budget_passphrase *passphrase, const budget_key_cost *cost,
                                   char text[BUDGET_PASERK_SECRET_PW_BYTES], base_error *reterr)
{
    uint8_t wrapped[WRAPPED_BYTES];
    uint8_t *nonce = wrapped + PARAMETERS_BYTES;
    derived_keys keys;
    BASE_ASSERT(cost_ok(cost));
    randombytes_buf(wrapped, SALT_BYTES);
    put_big_endian(wrapped + SALT_BYTES, cost->memory_bytes, 8);
    put_big_endian(wrapped + SALT_BYTES + 8, cost->passes, 4);
    put_big_endian(wrapped + SALT_BYTES + 12, 1, 4);
    randombytes_buf(nonce, NONCE_BYTES);
    const base_status status = derive(passphrase, wrapped, cost, &keys, reterr);
    if (status == BASE_OK) {
        (void)crypto_stream_xchacha20_xor(nonce + NONCE_BYTES, key->secret, sizeof key->secret,
                                          nonce, keys.encryption);
        authenticate(keys.authentication, wrapped, wrapped + SEALED_BYTES);
        const bool fits = budget_paserk_encode(SECRET_PW_HEADER, wrapped, sizeof wrapped, text,
                                               BUDGET_PASERK_SECRET_PW_BYTES);
        BASE_ASSERT(fits);
    }
    sodium_memzero(&keys, sizeof keys);
    return status;
}

/* The cost that the bytes ask for; false: out of range, nothing may be computed. */
static bool read_cost(const uint8_t wrapped[WRAPPED_BYTES], budget_key_cost *cost)
{
    cost->memory_bytes = get_big_endian(wrapped + SALT_BYTES, 8);
    cost->passes = (uint32_t)get_big_endian(wrapped + SALT_BYTES + 8, 4);
    return get_big_endian(wrapped + SALT_BYTES + 12, 4) == 1 && cost_ok(cost);
}

static base_status decrypt(const uint8_t wrapped[WRAPPED_BYTES], const derived_keys *keys,
                           budget_secret_key *key, base_error *reterr)
{
    uint8_t tag[TAG_BYTES];
    const uint8_t *nonce = wrapped + PARAMETERS_BYTES;
    authenticate(keys->authentication, wrapped, tag);
    if (sodium_memcmp(tag, wrapped + SEALED_BYTES, sizeof tag) != 0) {
        return base_fail(reterr, BASE_ERR_AUTH, "wrong passphrase, or the key's file was changed");
    }
    (void)crypto_stream_xchacha20_xor(key->secret, nonce + NONCE_BYTES, sizeof key->secret, nonce,
                                      keys->encryption);
    return halves_agree(key->secret)
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_AUTH, "the file holds no Ed25519 key");
}

base_status budget_secret_key_unwrap(const char *text, size_t text_bytes,
                                     const budget_passphrase *passphrase, budget_secret_key **key,
                                     base_error *reterr)
{
    uint8_t wrapped[WRAPPED_BYTES];
    budget_key_cost cost;
    derived_keys keys;
    budget_secret_key *opened = NULL;
    if (!budget_paserk_decode(SECRET_PW_HEADER, text, text_bytes, wrapped, sizeof wrapped)) {
        return base_fail(reterr, BASE_ERR_INVALID, "not a wrapped secret key (k4.secret-pw.…)");
    }
    if (!read_cost(wrapped, &cost)) {
        return base_fail(
            reterr, BASE_ERR_INVALID,
            "its Argon2id parameters are none that we take (%d MB, %d passes, one lane)",
            BUDGET_KEY_MEMORY_BYTES_MAX >> 20, BUDGET_KEY_PASSES_MAX);
    }
    base_status status = make_locked(&opened, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = derive(passphrase, wrapped, &cost, &keys, reterr);
    if (status == BASE_OK) {
        status = decrypt(wrapped, &keys, opened, reterr);
    }
    sodium_memzero(&keys, sizeof keys);
    if (status != BASE_OK) {
        budget_secret_key_free(opened);
        return status;
    }
    (void)sodium_mprotect_readonly(opened);
    *key = opened;
    return BASE_OK;
}

base_status budget_secret_key_write(const char *path, const budget_secret_key *key,
                                    const budget_passphrase *passphrase, base_error *reterr)
{
    static const budget_key_cost cost = {BUDGET_KEY_MEMORY_BYTES, BUDGET_KEY_PASSES};
    char text[BUDGET_PASERK_SECRET_PW_BYTES];
    const base_status status = budget_secret_key_wrap(key, passphrase, &cost, text, reterr);
    if (status != BASE_OK) {
        return status;
    }
    text[sizeof text - 1] = '\n'; /* in the place of the NUL */
    return budget_secret_file_create(path, text, sizeof text, reterr);
}

base_status budget_secret_key_read(const char *path, const budget_passphrase *passphrase,
                                   budget_secret_key **key, base_error *reterr)
{
    char text[BUDGET_PASERK_SECRET_PW_BYTES];
    size_t text_bytes = 0;
    base_status status = budget_secret_file_read(path, text, sizeof text, &text_bytes, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (text_bytes > 0 && text[text_bytes - 1] == '\n') {
        text_bytes--;
    }
    status = budget_secret_key_unwrap(text, text_bytes, passphrase, key, reterr);
    return status == BASE_OK ? status : base_error_prepend(reterr, status, "%s", path);
}
