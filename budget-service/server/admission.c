/* Decides which CURVE keys may connect. Called on the ZAP thread of proto/src/zap.c; sockets.c
 * replaces the list when clients change. */
#include "admission.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "budget/wire.h"

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

base_status service_admission_set(service_admission *admission,
                                  const uint8_t (*keys)[PROTO_KEY_BYTES], size_t count,
                                  base_error *reterr)
{
    uint8_t(*copy)[PROTO_KEY_BYTES] = calloc(count + 1, sizeof copy[0]);
    if (copy == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the list of clients");
    }
    memcpy(copy, keys, count * sizeof copy[0]);
    qsort(copy, count, sizeof copy[0], compare);
    (void)pthread_mutex_lock(&admission->lock);
    uint8_t(*old)[PROTO_KEY_BYTES] = admission->keys;
    admission->keys = copy;
    admission->count = count;
    (void)pthread_mutex_unlock(&admission->lock);
    free(old);
    return BASE_OK;
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
    (void)sodium_bin2hex(user_id, PROTO_ZAP_USER_BYTES, key, PROTO_KEY_BYTES);
    return admitted;
}

bool service_admission_key(const char *user_id, uint8_t key[PROTO_KEY_BYTES])
{
    size_t key_bytes = 0;
    return user_id != NULL && strlen(user_id) == PROTO_ZAP_USER_BYTES - 1 &&
           sodium_hex2bin(key, PROTO_KEY_BYTES, user_id, PROTO_ZAP_USER_BYTES - 1, NULL, &key_bytes,
                          NULL) == 0 &&
           key_bytes == PROTO_KEY_BYTES;
}
