/* The service itself: what `budget-service serve` runs, and the keys that `init` makes for it.
 *
 * One thread takes requests from two ROUTER sockets, asks the ledger, commits, signs and answers;
 * an answer goes out only after its commit. Beside it run ZeroMQ's I/O thread, the thread that
 * admits keys (ZAP), and a process for the policy's hook, forked before any secret is read. Any of
 * them failing ends the service: what is not certain is not granted. */
#ifndef BUDGET_SERVER_H
#define BUDGET_SERVER_H

#include <stdbool.h>

#include "base/status.h"

/* Gives the secret signing key once the service is ready for it (the hook's process is forked, the
 * process hardened): 64 bytes that live, locked, until release is called. */
typedef struct budget_signer {
    base_status (*unlock)(void *user, const unsigned char **secret, base_error *reterr);
    void (*release)(void *user);
    /* The 64 bytes of the key with this id, the active one or a retired one that is still kept, to
     * sign again what was signed before a rotation; NULL: it is not there. May be NULL. */
    const unsigned char *(*find)(void *user, const char *kid);
    void *user;
} budget_signer;

typedef struct budget_serve_options {
    const char *dir;           /* the service's directory, 0700: made by budget_service_init */
    const char *listen;        /* "ipc://PATH" or "tcp://ADDRESS:PORT"; NULL: ipc in DIR/run */
    const char *listen_redeem; /* NULL: beside listen (ipc: redeem.sock; tcp: a port of its own) */
    const char
        *accept_checkpoint;   /* the digest of a checkpoint that does not fit, and that an admin
                                    * has looked at; NULL: none */
    const char *accept_audit; /* the digest of findings that an admin has looked at: go on with
                                * these, and no others; NULL: none */
    budget_signer signer;
    void (*ready)(void *user, const char *endpoint, const char *redeem_endpoint);
    void *ready_user;
} budget_serve_options;

/* Makes what the service needs beside the signing key: DIR (0700), the ledger with the clients
 * "admin" and "request", their key files in DIR/clients, and, last, its CURVE key. secret is the
 * signing key (64 bytes): the ledger's first checkpoint is signed with it, so it must be safe on
 * disk before. BASE_ERR_STATE when DIR has a ledger, be it a half-made one: remove the
 * directory. */
BASE_MUST_CHECK base_status budget_service_init(const char *dir, const unsigned char *secret,
                                                base_error *reterr);

/* Serves until SIGTERM or SIGINT (BASE_OK, all answers sent); SIGHUP is logged, and ends nothing.
 * BASE_ERR_BUSY: another service has the directory; BASE_ERR_MISMATCH: the ledger does not fit its checkpoint, or does not audit;
 * BASE_ERR_LIMIT: a path is too long for a socket; BASE_ERR_AUTH: a file's owner or
 * mode is wrong, or a key is not one. Never returns after a failed fsync: the process ends, since
 * nobody can say what is on disk. */
BASE_MUST_CHECK base_status budget_serve(const budget_serve_options *options, base_error *reterr);

/* Runs the policy's hook (program and arguments, then NULL) once, as the service does at an alarm: json
 * is on its standard input. A forked process does it, and ends all that the hook leaves behind; other
 * children of the caller go on. text says how it ended, and *exit_code with what: 128 and the signal's
 * number if one ended it. Blocks until then. BASE_ERR_INVALID: it cannot be run. BASE_ERR_TIMEOUT: it
 * took too long. */
BASE_MUST_CHECK base_status budget_hook_try(const char *const *command, const char *json,
                                            int *exit_code, char text[BASE_ERROR_MESSAGE_BYTES],
                                            base_error *reterr);

#endif
