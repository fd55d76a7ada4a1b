/* The files of a service's directory, and two small ones in JSON: a client's key, and where the service
 * is. Blocking. */
#ifndef BUDGET_SERVICE_FILES_H
#define BUDGET_SERVICE_FILES_H

#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"
#include "budget/claims.h"
#include "proto/key.h"

/* In the directory, for base_path_join. */
#define BUDGET_FILE_KEYRING "keyring.json"
#define BUDGET_FILE_POLICY  "policy.json"
#define BUDGET_FILE_LEDGER  "ledger.db"
#define BUDGET_FILE_CURVE   "service.curve"
#define BUDGET_FILE_ADDRESS "service.json"
#define BUDGET_FILE_ALARMS  "alarms.json" /* of bills, that the hook has not heard */
#define BUDGET_FILE_LOCK    "run/lock"    /* held by the service that runs */

/* A client's key file: JSON, 0600, made with O_EXCL. Holds a secret: wipe it (proto_wipe). */
typedef struct budget_client_key {
    char name[BUDGET_NAME_BYTES];
    proto_keypair keys;
    uint8_t service_public_key[PROTO_KEY_BYTES]; /* whom it talks to, and nobody else */
} budget_client_key;

BASE_MUST_CHECK base_status budget_client_key_write(const char *path, const budget_client_key *key,
                                                    base_error *reterr);

/* Accepted: a regular file of ours or of root's that group and others cannot write, and, unless it
 * is root's (a mounted secret, symlinks included), that they cannot read. */
BASE_MUST_CHECK base_status budget_client_key_read(const char *path, budget_client_key *key,
                                                   base_error *reterr);

/* DIR/service.json: where the service is; nothing secret. Written by `serve`. */
typedef struct budget_service_address {
    char endpoint[BASE_PATH_BYTES];
    char redeem_endpoint[BASE_PATH_BYTES];
    uint8_t public_key[PROTO_KEY_BYTES];
} budget_service_address;

BASE_MUST_CHECK base_status budget_service_address_write(const char *dir,
                                                         const budget_service_address *address,
                                                         base_error *reterr);
BASE_MUST_CHECK base_status budget_service_address_read(const char *dir,
                                                        budget_service_address *address,
                                                        base_error *reterr);

#endif
