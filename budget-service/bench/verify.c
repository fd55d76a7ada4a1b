/* Times a whole offline verification of a token, as a rank does it: form, key, signature, claims,
 * job. Called by main.c. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/exitcode.h"
#include "base/percentile.h"
#include "bench.h"
#include "budget/token.h"
#include "proto/digest.h"

enum { ROUNDS = 4000, WARM_UP = 200, JOB_BYTES = 1500, KEYS = 8 };

typedef struct verify_case {
    budget_keyring keyring;
    char token[BUDGET_TOKEN_BYTES];
    char job[JOB_BYTES];
} verify_case;

static base_status prepare(verify_case *c, base_error *reterr)
{
    uint8_t secret[BUDGET_SECRET_KEY_BYTES];
    uint8_t key[BUDGET_PUBLIC_KEY_BYTES];
    budget_claims claims = {.issuer = BUDGET_ISSUER,
                            .audience = BUDGET_AUDIENCE,
                            .subject = "laptop",
                            .expires_at = 2,
                            .account = "phase35/lab02",
                            .label = "lab02-run1",
                            .mode = "ddp-nccl",
                            .world_size = 8,
                            .vendor = "runpod",
                            .instance_type = "RTX 4090",
                            .instances = 2,
                            .gpus = 4,
                            .tier = "community",
                            .max_usd_micro = 2000000,
                            .max_price_usd_micro_per_hour = 690000,
                            .max_seconds = 3600,
                            .max_attempts = 3,
                            .ledger_sequence = 1000000};
    memset(c->job, 'x', sizeof c->job);
    proto_blake2b256(c->job, sizeof c->job, claims.job_blake2b256);
    memset(claims.ledger_head, 7, sizeof claims.ledger_head);
    budget_jti_make(claims.jti);
    for (int i = 0; i < KEYS; i++) { /* the last one signs */
        (void)crypto_sign_keypair(key, secret);
        const base_status status = budget_keyring_add(&c->keyring, key, 0, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    return budget_token_sign(&claims, secret, c->token, reterr);
}

static bool verify_once(const verify_case *c)
{
    budget_claims claims;
    return budget_token_verify(c->token, strlen(c->token), &c->keyring, 1, &claims, NULL) ==
               BUDGET_TOKEN_OK &&
           budget_token_check_job(&claims, c->job, sizeof c->job, "ddp-nccl", 8, NULL) ==
               BUDGET_TOKEN_OK;
}

int bench_verify(void)
{
    static verify_case c;
    static int64_t samples_ns[ROUNDS];
    base_error error = {0};
    if (prepare(&c, &error) != BASE_OK) {
        (void)fprintf(stderr, "budget-bench: %s\n", error.message);
        return BASE_EXIT_ERROR;
    }
    for (int i = -WARM_UP; i < ROUNDS; i++) {
        const int64_t begin_ns = base_now_ns();
        if (!verify_once(&c)) {
            (void)fputs("budget-bench: the token does not verify\n", stderr);
            return BASE_EXIT_ERROR;
        }
        samples_ns[i < 0 ? 0 : i] = base_now_ns() - begin_ns;
    }
    (void)printf("verify a token offline: p50 %.1f us, p99 %.1f us (%zu bytes, %d keys)\n",
                 base_percentile_int64(samples_ns, ROUNDS, 0.50) / 1000,
                 base_percentile_int64(samples_ns, ROUNDS, 0.99) / 1000, strlen(c.token), KEYS);
    return BASE_EXIT_DONE;
}
