/* Claims, a key and a keyring that the tests of tokens start from. */
#ifndef TEST_SAMPLE_TOKEN_H
#define TEST_SAMPLE_TOKEN_H

#include "budget/keyring.h"
#include "budget/token.h"

enum { SAMPLE_NOW = 1795264800 }; /* 2026-11-21T12:40:00Z: within the sample's time */

extern const char sample_job[]; /* stands for JOB.json */

/* Good claims for sample_job, mode ddp-nccl, 2 ranks. */
budget_claims sample_claims(void);

/* A key from a seed of this byte; the keyring (may be NULL) gets its public half. */
void sample_key(uint8_t seed, uint8_t secret[BUDGET_SECRET_KEY_BYTES], budget_keyring *keyring);

/* sample_claims, signed by sample_key(1). */
void sample_token(char token[BUDGET_TOKEN_BYTES]);

#endif
