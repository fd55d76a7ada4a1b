/* What a rank of a mode that may cost money needs at its gate: the token, and the receipt which says
 * that it was redeemed for this rank and attempt.
 *
 * The launcher passes it through an inherited memfd, like the key file. The rank trusts only what
 * is signed in it. Pure except for the descriptor. */
#ifndef PROTO_LEASE_H
#define PROTO_LEASE_H

#include "base/limits.h"
#include "base/status.h"

enum {
    PROTO_LEASE_TOKEN_BYTES = 6144, /* a token or a receipt, with the final NUL */
    PROTO_LEASE_FILE_BYTES_MAX = 32 * 1024,
    PROTO_ATTEMPTS_MAX = 1 << 20,
};

typedef struct proto_lease {
    char token[PROTO_LEASE_TOKEN_BYTES];
    char receipt[PROTO_LEASE_TOKEN_BYTES];
    int attempt;                   /* from 1 */
    char keyring[BASE_PATH_BYTES]; /* the file of verifying keys */
} proto_lease;

/* Makes a memfd with the lease, close-on-exec, at its start. The caller closes *fd. */
BASE_MUST_CHECK base_status proto_lease_write(const proto_lease *lease, int *fd,
                                              base_error *reterr);

/* Reads the lease and checks its form, then overwrites the descriptor's content. The descriptor
 * stays open. BASE_ERR_AUTH if it is not a lease. */
BASE_MUST_CHECK base_status proto_lease_read(int fd, proto_lease *lease, base_error *reterr);

#endif
