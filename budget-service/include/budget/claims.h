/* What an authorization allows: the claims of a token, as plain data and as JSON.
 *
 * Times are seconds since 1970 (UTC); money is int64 micro-dollars, prices per hour and instance.
 * Texts are printable ASCII without quotes and backslashes (budget_claims_check). Pure. */
#ifndef BUDGET_CLAIMS_H
#define BUDGET_CLAIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    BUDGET_NAME_BYTES = 64,     /* mode, vendor, instance type, tier, a client's name; with NUL */
    BUDGET_LABEL_BYTES = 128,   /* a label; with NUL */
    BUDGET_ACCOUNT_BYTES = 128, /* "phase35/lab02"; with NUL */
    BUDGET_ACCOUNT_DEPTH_MAX = 8,
    BUDGET_INSTANCES_MAX = 64,              /* of one reservation: evidence describes no more */
    BUDGET_JTI_BYTES = 33,                  /* 16 random bytes in lower-case hex; with NUL */
    BUDGET_DIGEST_BYTES = 32,               /* BLAKE2b-256 */
    BUDGET_CLAIMS_JSON_BYTES = 4096,        /* longest payload of a token; with NUL */
    BUDGET_REQUEST_ID_BYTES = 65,           /* 1 to 64 letters, digits, . _ -; with NUL */
    BUDGET_EVIDENCE_BYTES_MAX = 512 * 1024, /* a file of evidence */
};

/* The vendor of an authorization that costs something, where nobody has said which. */
#define BUDGET_VENDOR_ANY "cloud"

#define BUDGET_ISSUER   "ringfence/budget-service"
#define BUDGET_AUDIENCE "ringfence/rank"

typedef struct budget_claims {
    char issuer[BUDGET_NAME_BYTES];   /* iss: BUDGET_ISSUER */
    char audience[BUDGET_NAME_BYTES]; /* aud: BUDGET_AUDIENCE */
    char subject[BUDGET_LABEL_BYTES]; /* sub: the name of the client that asked */
    char jti[BUDGET_JTI_BYTES];
    int64_t issued_at;
    int64_t not_before;
    int64_t expires_at; /* the first redemption must come before */
    char account[BUDGET_ACCOUNT_BYTES];
    char label[BUDGET_LABEL_BYTES];
    char mode[BUDGET_NAME_BYTES];
    int64_t world_size;
    uint8_t job_blake2b256[BUDGET_DIGEST_BYTES]; /* of JOB.json's bytes */
    char vendor[BUDGET_NAME_BYTES];              /* "local", "runpod", "vast", … */
    char instance_type[BUDGET_NAME_BYTES];
    int64_t instances;
    int64_t gpus; /* per instance */
    char tier[BUDGET_NAME_BYTES];
    char machine_id[BUDGET_NAME_BYTES]; /* vendor local: the machine it is bound to; else empty */
    int64_t max_usd_micro;
    int64_t max_price_usd_micro_per_hour; /* per instance */
    bool price_derived;                   /* nobody named a price: it is what the amount pays for */
    int64_t max_seconds;
    int64_t max_attempts;
    uint64_t ledger_sequence; /* ledger_seq: the row that reserved it */
    uint8_t ledger_head[BUDGET_DIGEST_BYTES];
} budget_claims;

/* Every text is within its alphabet and not empty (tier, instance type and machine id may be),
 * every number in its range, nbf ≤ exp, jti is hex. The message names the claim. */
BASE_MUST_CHECK base_status budget_claims_check(const budget_claims *claims, base_error *reterr);

/* The payload: compact JSON, keys sorted, times as RFC 3339 strings, digests in lower-case hex.
 * Checks first. text is NUL-terminated; *text_bytes does not count that. */
BASE_MUST_CHECK base_status budget_claims_write(const budget_claims *claims,
                                                char text[BUDGET_CLAIMS_JSON_BYTES],
                                                size_t *text_bytes, base_error *reterr);

/* Strict: any order and spacing, but unknown, missing and duplicate keys, wrong types and values
 * out of range are refused by name. machine_id, ledger_head and price_derived alone may be absent. claims is
 * untouched on failure. */
BASE_MUST_CHECK base_status budget_claims_parse(const void *text, size_t text_bytes,
                                                budget_claims *claims, base_error *reterr);

/* A label, a client's name: 1 to size_bytes - 1 characters of A–Z a–z 0–9 . _ - + @ : and, where
 * slash is true, / between them (no empty part, at most BUDGET_ACCOUNT_DEPTH_MAX parts). */
bool budget_name_ok(const char *name, size_t size_bytes, bool slash);

#endif
