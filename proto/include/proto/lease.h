/* What a rank of a mode that may cost money needs at its gate: the token, and how to redeem it.
 *
 * The launcher passes it through an inherited memfd, like the key file. The rank trusts only what
 * is signed in it. If the rank is to redeem the token itself, the lease has a secret: wipe it. Pure
 * except for the descriptor. */
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
    PROTO_ATTEMPTS_MAX = 1 << 20,
};

typedef struct proto_lease {
    char token[PROTO_LEASE_TOKEN_BYTES];
    char receipt[PROTO_LEASE_TOKEN_BYTES]; /* empty: the rank redeems the token itself */
    int attempt;                           /* from 1 */
    char keyring[BASE_PATH_BYTES];         /* the file of verifying keys */
    /* only if the receipt is empty */
    char redeem_endpoint[BASE_PATH_BYTES];
    uint8_t service_public_key[PROTO_KEY_BYTES];
    proto_keypair job_key;
} proto_lease;

/* Makes a memfd with the lease, close-on-exec, at its start. The caller closes *fd. */
BASE_MUST_CHECK base_status proto_lease_write(const proto_lease *lease, int *fd,
                                              base_error *reterr);

/* Reads the lease and checks its form, then overwrites the descriptor's content. The descriptor
 * stays open. BASE_ERR_AUTH if it is not a lease. */
BASE_MUST_CHECK base_status proto_lease_read(int fd, proto_lease *lease, base_error *reterr);

#endif
