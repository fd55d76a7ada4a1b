/* Any frames are judged without harm; nobody gets in but with CURVE, a key of 32 bytes and a
 * domain. The input: for each frame a byte for its size, then its bytes. */
#include <string.h>

#include "base/assert.h"
#include "proto/zap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static bool admit(void *user, const char *domain, const uint8_t key[PROTO_KEY_BYTES],
                  char user_id[PROTO_ZAP_USER_BYTES])
{
    int *asked = user;
    BASE_ASSERT(domain[0] != '\0');
    BASE_ASSERT(strlen(domain) < PROTO_ZAP_FRAME_BYTES);
    memset(user_id, 'u', PROTO_ZAP_USER_BYTES - 1);
    user_id[PROTO_ZAP_USER_BYTES - 1] = '\0';
    *asked += 1;
    return (key[0] & 1) != 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static proto_zap_frame frames[PROTO_ZAP_FRAMES];
    char user_id[PROTO_ZAP_USER_BYTES];
    int asked = 0;
    int count = 0;
    const proto_zap_options options = {.admit = admit, .user = &asked};
    for (size_t at = 0; at < size_bytes; count++) {
        size_t frame_bytes = data[at++];
        frame_bytes = frame_bytes < size_bytes - at ? frame_bytes : size_bytes - at;
        if (count < PROTO_ZAP_FRAMES) {
            memcpy(frames[count].data, data + at, frame_bytes);
            frames[count].size_bytes = frame_bytes;
        }
        at += frame_bytes;
    }
    const bool admitted = proto_zap_check(frames, count, &options, user_id);
    BASE_ASSERT(asked <= 1);
    BASE_ASSERT(!admitted || asked == 1);
    BASE_ASSERT(!admitted || count == PROTO_ZAP_FRAMES);
    return 0;
}
