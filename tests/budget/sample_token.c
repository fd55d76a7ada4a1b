/* Sample claims, a key and a signed token. Used by the tests of claims and tokens. */
#include "sample_token.h"

#include <sodium.h>
#include <string.h>

#include "proto/digest.h"
#include "support.h"

const char sample_job[] = "{\"mode\":\"ddp-nccl\",\"world_size\":2}";

budget_claims sample_claims(void)
{
    budget_claims claims = {
        .issuer = BUDGET_ISSUER,
        .audience = BUDGET_AUDIENCE,
        .subject = "laptop",
        .jti = "00112233445566778899aabbccddeeff",
        .issued_at = SAMPLE_NOW - 60,
        .not_before = SAMPLE_NOW - 120,
        .expires_at = SAMPLE_NOW + 3600,
        .account = "phase35/lab02",
        .label = "lab02-run1",
        .mode = "ddp-nccl",
        .world_size = 2,
        .vendor = "runpod",
        .instance_type = "RTX 4090",
        .instances = 2,
        .gpus = 1,
        .tier = "community",
        .max_usd_micro = 2000000,
        .max_price_usd_micro_per_hour = 690000,
        .max_seconds = 3600,
        .max_attempts = 3,
        .ledger_sequence = 17,
    };
    proto_blake2b256(sample_job, strlen(sample_job), claims.job_blake2b256);
    memset(claims.ledger_head, 0xAB, sizeof claims.ledger_head);
    return claims;
}

void sample_key(uint8_t seed, uint8_t secret[BUDGET_SECRET_KEY_BYTES], budget_keyring *keyring)
{
    const uint8_t bytes[crypto_sign_SEEDBYTES] = {seed};
    uint8_t key[BUDGET_PUBLIC_KEY_BYTES];
    base_error error = {0};
    assert_ok(budget_crypto_init(&error), &error);
    assert_int_equal(crypto_sign_seed_keypair(key, secret, bytes), 0);
    if (keyring != NULL) {
        assert_ok(budget_keyring_add(keyring, key, SAMPLE_NOW - 86400, &error), &error);
    }
}

void sample_token(char token[BUDGET_TOKEN_BYTES])
{
    uint8_t secret[BUDGET_SECRET_KEY_BYTES];
    const budget_claims claims = sample_claims();
    base_error error = {0};
    sample_key(1, secret, NULL);
    assert_ok(budget_token_sign(&claims, secret, token, &error), &error);
}
