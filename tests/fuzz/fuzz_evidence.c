/* Any bytes are evidence or not; whatever passes names the jti and the vendor. */

#include "base/assert.h"
#include "evidence.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    const evidence_expected expected = {
        .vendor = "runpod",
        .vendor_account = "user_2abc",
        .jti = "00000000000000000000000000000001",
        .instances_max = 1,
        .instance_count = 1,
        .instances = {"pod-1"},
        .after_s = 1795000000,
        .now_s = 1795000100,
    };
    base_error why = {0};
    const base_status status = evidence_check(data, size_bytes, &expected, &why);
    BASE_ASSERT((status == BASE_OK) == (why.message[0] == '\0'));
    if (status == BASE_OK) {
        BASE_ASSERT(size_bytes > 100);
    }
    return 0;
}
