/* Any record is refused as a peer's identity, or gives text that ends and that can be printed. */
#include <string.h>

#include "base/assert.h"
#include "core/identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    uint8_t record[COLL_IDENTITY_BYTES] = {0};
    coll_identity identity;
    coll_error error;
    memcpy(record, data, size_bytes < sizeof record ? size_bytes : sizeof record);
    if (coll_identity_decode(record, &identity, &error) != COLL_OK) {
        BASE_ASSERT(strnlen(error.message, sizeof error.message) < sizeof error.message);
        return 0;
    }
    BASE_ASSERT(strnlen(identity.host, sizeof identity.host) < sizeof identity.host);
    BASE_ASSERT(strnlen(identity.boot_id, sizeof identity.boot_id) < sizeof identity.boot_id);
    for (const char *at = identity.host; *at != '\0'; at++) {
        BASE_ASSERT(*at >= ' ');
        BASE_ASSERT(*at <= '~');
    }
    BASE_ASSERT(coll_identity_cpus(&identity, 1, &identity) >= 1);
    return 0;
}
