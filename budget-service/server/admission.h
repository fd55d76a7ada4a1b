/* Which CURVE keys get in, asked on ZeroMQ's admission thread: at the service's endpoint those of
 * the ledger's clients that are not revoked, at the redeem endpoint any. Either way the key becomes
 * the name of the connection, by which every message is checked again. */
#ifndef BUDGET_SERVER_ADMISSION_H
#define BUDGET_SERVER_ADMISSION_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/key.h"
#include "proto/zap.h"

typedef struct service_admission {
    pthread_mutex_t lock;
    size_t count;
    uint8_t (*keys)[PROTO_KEY_BYTES]; /* (count), sorted */
} service_admission;

BASE_MUST_CHECK base_status service_admission_init(service_admission *admission,
                                                   base_error *reterr);
void service_admission_fini(service_admission *admission);

/* Replaces the list by keys (count), at once and for all later connections. It takes them over
 * (malloc'ed), and sorts them. */
void service_admission_set(service_admission *admission, uint8_t (*keys)[PROTO_KEY_BYTES],
                           size_t count);

/* A proto_zap_admit_fn; user is the service_admission. */
bool service_admission_admit(void *user, const char *domain, const uint8_t key[PROTO_KEY_BYTES],
                             char user_id[PROTO_ZAP_USER_BYTES]);

/* The key that a message came under, from its "User-Id"; false when it is none. */
bool service_admission_key(const char *user_id, uint8_t key[PROTO_KEY_BYTES]);

#endif
