/* What a rank of a cloud-touching mode needs at its gate: the token, and how to redeem it.
 *
 * The launcher hands it over through an inherited memfd, as it does the key file; the rank trusts
 * nothing in it that is not signed. Holds a secret where the rank is to redeem by itself: wipe it.
 * Pure but for the descriptor. */
#ifndef PROTO_LEASE_H
#define PROTO_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"
#include "proto/key.h"

enum {
    PROTO_LEASE_TOKEN_BYTES = 6144, /* a token or a receipt, with the final NUL */
    PROTO_LEASE_FILE_BYTES_MAX = 32 * 1024,
};

typedef struct proto_lease {
    char token[PROTO_LEASE_TOKEN_BYTES];
    char receipt[PROTO_LEASE_TOKEN_BYTES]; /* empty: the rank redeems by itself */
    int attempt;                           /* from 1 */
    char keyring[BASE_PATH_BYTES];         /* where the verifying keys are */
    /* only where the receipt is empty */
    char redeem_endpoint[BASE_PATH_BYTES];
    uint8_t service_public_key[PROTO_KEY_BYTES];
    proto_keypair job_key;
} proto_lease;

/* A memfd with it, close-on-exec, at its start; the caller closes *fd. */
BASE_MUST_CHECK base_status proto_lease_write(const proto_lease *lease, int *fd,
                                              base_error *reterr);

/* Reads and checks the form, then overwrites what the descriptor holds. The descriptor stays open.
 * BASE_ERR_AUTH when it is none. */
BASE_MUST_CHECK base_status proto_lease_read(int fd, proto_lease *lease, base_error *reterr);

#endif
