/* A paper service: signs tokens and receipts with a key of its own, so that tests can make every
 * kind of wrong one. Failing calls fail the test. */
#ifndef TEST_MINT_H
#define TEST_MINT_H

#include "budget/receipt.h"
#include "budget/token.h"
#include "proto/key.h"
#include "support.h"

typedef struct mint {
    test_directory directory; /* keyring.json, job.json, token, receipts/ */
    uint8_t secret[BUDGET_SECRET_KEY_BYTES];
    proto_keypair job_key;
    void *job; /* JOB.json's bytes */
    size_t job_bytes;
} mint;

/* Makes a key, its keyring, and JOB.json of a gate-check of two ranks. */
void mint_open(mint *at);
void mint_close(mint *at);

/* Claims for that job: an hour of vendor "test", one attempt. */
budget_claims mint_claims(const mint *at);

/* Of rank and attempt 1, an hour from now, for the job's key. */
budget_receipt mint_receipt(const mint *at, const budget_claims *claims, int rank);

/* Writes DIRECTORY/token, DIRECTORY/receipts/rank-N.receipt, DIRECTORY/receipts/job.key. */
void mint_write_token(const mint *at, const budget_claims *claims);
void mint_write_receipt(const mint *at, const budget_receipt *receipt, int file_rank);
void mint_write_job_key(const mint *at);

/* All of it, as it should be. */
void mint_write_all(const mint *at, const budget_claims *claims);

#endif
