/* Decides which CURVE keys may connect. Called on the ZAP thread of proto/src/zap.c; sockets.c
 * replaces the list when clients change. */
#include "admission.h"

#include <stdlib.h>
#include <string.h>

#include "budget/wire.h"
#include "proto/digest.h"

base_status service_admission_init(service_admission *admission, base_error *reterr)
{
    *admission = (service_admission){0};
    const int failed = pthread_mutex_init(&admission->lock, NULL);
    return failed == 0 ? BASE_OK : base_fail_errno(reterr, failed, "cannot make a lock");
}

void service_admission_fini(service_admission *admission)
{
    free(admission->keys);
    (void)pthread_mutex_destroy(&admission->lock);
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, PROTO_KEY_BYTES);
}

void service_admission_set(service_admission *admission, uint8_t (*keys)[PROTO_KEY_BYTES],
                           size_t count)
{
    qsort(keys, count, sizeof keys[0], compare);
    (void)pthread_mutex_lock(&admission->lock);
    uint8_t(*old)[PROTO_KEY_BYTES] = admission->keys;
    admission->keys = keys;
    admission->count = count;
    (void)pthread_mutex_unlock(&admission->lock);
    free(old);
}

bool service_admission_admit(void *user, const char *domain, const uint8_t key[PROTO_KEY_BYTES],
                             char user_id[PROTO_ZAP_USER_BYTES])
{
    service_admission *admission = user;
    bool admitted = strcmp(domain, BUDGET_ZAP_DOMAIN_REDEEM) == 0;
    if (strcmp(domain, BUDGET_ZAP_DOMAIN) == 0) {
        (void)pthread_mutex_lock(&admission->lock);
        admitted = admission->count > 0 && bsearch(key, admission->keys, admission->count,
                                                   PROTO_KEY_BYTES, compare) != NULL;
        (void)pthread_mutex_unlock(&admission->lock);
    }
    proto_digest_hex(key, user_id);
    return admitted;
}

bool service_admission_key(const char *user_id, uint8_t key[PROTO_KEY_BYTES])
{
    return user_id != NULL && proto_digest_parse(user_id, key);
}
