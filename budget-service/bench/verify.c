/* Times a whole offline verification of a token, as a rank does it: form, key, signature, claims,
 * job. Called by main.c. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/exitcode.h"
#include "bench.h"
#include "budget/token.h"
#include "proto/digest.h"
#include "service_bench.h"

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
    budget_claims claims = bench_claims;
    (void)snprintf(claims.issuer, sizeof claims.issuer, "%s", BUDGET_ISSUER);
    (void)snprintf(claims.audience, sizeof claims.audience, "%s", BUDGET_AUDIENCE);
    (void)snprintf(claims.subject, sizeof claims.subject, "laptop");
    (void)snprintf(claims.label, sizeof claims.label, "lab02-run1");
    claims.expires_at = 2;
    claims.ledger_sequence = 1000000;
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
           budget_token_check_job(&claims, c->job, sizeof c->job, bench_claims.mode,
                                  bench_claims.world_size, NULL) == BUDGET_TOKEN_OK;
}

int bench_verify(void)
{
    static verify_case c;
    static double samples_ns[ROUNDS];
    base_error error = {0};
    if (prepare(&c, &error) != BASE_OK) {
        bench_die("prepare", &error);
    }
    for (int i = -WARM_UP; i < ROUNDS; i++) {
        const int64_t begin_ns = base_now_ns();
        if (!verify_once(&c)) {
            (void)base_fail(&error, BASE_ERR_STATE, "the token does not");
            bench_die("verify", &error);
        }
        samples_ns[i < 0 ? 0 : i] = (double)(base_now_ns() - begin_ns);
    }
    (void)printf("verify a token offline: p50 %.1f us, p99 %.1f us (%zu bytes, %d keys)\n",
                 bench_percentile_us(samples_ns, ROUNDS, 50),
                 bench_percentile_us(samples_ns, ROUNDS, 99), strlen(c.token), KEYS);
    return BASE_EXIT_DONE;
}
