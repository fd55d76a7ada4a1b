/* Signs tokens and receipts with a key of its own. Used by test_gate.c. */
#include "mint.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "budget/secret_file.h"
#include "proto/digest.h"
#include "proto/job.h"

void mint_open(mint *at)
{
    base_error error;
    uint8_t public_key[BUDGET_PUBLIC_KEY_BYTES];
    budget_keyring keyring = {.count = 0};
    proto_job job;
    char *text = NULL;
    *at = (mint){.job_bytes = 0};
    assert_ok(budget_crypto_init(&error), &error);
    test_directory_make(&at->directory);
    assert_int_equal(mkdir(test_directory_path(&at->directory, "receipts"), 0700), 0);
    (void)crypto_sign_keypair(public_key, at->secret);
    proto_keypair_make(&at->job_key);
    assert_ok(budget_keyring_add(&keyring, public_key, (int64_t)time(NULL) - 60, &error), &error);
    assert_ok(
        budget_keyring_write(test_directory_path(&at->directory, "keyring.json"), &keyring, &error),
        &error);
    proto_job_defaults(&job);
    job.job.mode = PROTO_MODE_GATE_CHECK;
    assert_ok(proto_job_write(&job, "", &text, &at->job_bytes, &error), &error);
    at->job = text;
    assert_ok(base_file_write(test_directory_path(&at->directory, "job.json"), text, at->job_bytes,
                              &error),
              &error);
}

void mint_close(mint *at)
{
    free(at->job);
    test_directory_remove(&at->directory);
}

budget_claims mint_claims(const mint *at)
{
    const int64_t now_s = (int64_t)time(NULL);
    budget_claims claims = {
        .issuer = BUDGET_ISSUER,
        .audience = BUDGET_AUDIENCE,
        .subject = "tester",
        .issued_at = now_s - 1,
        .not_before = now_s - 1,
        .expires_at = now_s + 3600,
        .account = "tests",
        .label = "a-gate-check",
        .mode = "gate-check",
        .world_size = 2,
        .vendor = "test",
        .instance_type = "none",
        .instances = 1,
        .gpus = 1,
        .tier = "spot",
        .max_usd_micro = 1000000,
        .max_price_usd_micro_per_hour = 1000000,
        .max_seconds = 3600,
        .max_attempts = 1,
        .ledger_sequence = 1,
    };
    budget_jti_make(claims.jti);
    proto_blake2b256(at->job, at->job_bytes, claims.job_blake2b256);
    return claims;
}

budget_receipt mint_receipt(const mint *at, const budget_claims *claims, int rank)
{
    const int64_t now_s = (int64_t)time(NULL);
    budget_receipt receipt = {
        .rank = rank, .attempt = 1, .issued_at = now_s, .not_after = now_s + 3600};
    memcpy(receipt.jti, claims->jti, sizeof receipt.jti);
    memcpy(receipt.job_public_key, at->job_key.public_key, sizeof receipt.job_public_key);
    return receipt;
}

static void write_text(const char *path, const char *text)
{
    base_error error;
    assert_ok(base_file_write(path, text, strlen(text), &error), &error);
}

void mint_write_token(const mint *at, const budget_claims *claims)
{
    base_error error;
    char token[BUDGET_TOKEN_BYTES];
    assert_ok(budget_token_sign(claims, at->secret, token, &error), &error);
    write_text(test_directory_path(&at->directory, "token"), token);
}

void mint_write_receipt(const mint *at, const budget_receipt *receipt, int file_rank)
{
    base_error error;
    char name[64];
    char token[BUDGET_TOKEN_BYTES];
    (void)snprintf(name, sizeof name, "receipts/rank-%d.receipt", file_rank);
    assert_ok(budget_receipt_sign(receipt, at->secret, token, &error), &error);
    write_text(test_directory_path(&at->directory, name), token);
}

void mint_write_job_key(const mint *at)
{
    base_error error;
    char text[4 * PROTO_DIGEST_HEX_BYTES];
    char public_hex[PROTO_DIGEST_HEX_BYTES];
    char secret_hex[PROTO_DIGEST_HEX_BYTES];
    const char *path = test_directory_path(&at->directory, "receipts/job.key");
    (void)remove(path);
    proto_digest_hex(at->job_key.public_key, public_hex);
    proto_digest_hex(at->job_key.secret_key, secret_hex);
    const int length = snprintf(text, sizeof text, "%s\n%s\n", public_hex, secret_hex);
    assert_ok(budget_secret_file_create(path, text, (size_t)length, &error), &error);
}

void mint_write_all(const mint *at, const budget_claims *claims)
{
    mint_write_token(at, claims);
    mint_write_job_key(at);
    for (int rank = 0; rank < (int)claims->world_size; rank++) {
        const budget_receipt receipt = mint_receipt(at, claims, rank);
        mint_write_receipt(at, &receipt, rank);
    }
}
