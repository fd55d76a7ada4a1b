/* Checks and copies UTF-8. Called wherever texts come from outside: data files, messages,
 * records. */
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

static const char REPLACEMENT[] = "\xef\xbf\xbd";

size_t base_utf8_length(const char *text, size_t size_bytes)
{
    const uint8_t *byte = (const uint8_t *)text;
    if (size_bytes == 0 || byte[0] < 0x80) {
        return size_bytes > 0 && byte[0] != 0;
    }
    const size_t length = byte[0] >= 0xf0 ? 4 : byte[0] >= 0xe0 ? 3 : 2;
    if (byte[0] < 0xc2 || byte[0] > 0xf4 || length > size_bytes) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((byte[i] & 0xc0) != 0x80) { /* true for a NUL as well */
            return 0;
        }
    }
    const bool overlong =
        (byte[0] == 0xe0 && byte[1] < 0xa0) || (byte[0] == 0xf0 && byte[1] < 0x90);
    const bool surrogate = byte[0] == 0xed && byte[1] > 0x9f;
    const bool too_high = byte[0] == 0xf4 && byte[1] > 0x8f;
    return overlong || surrogate || too_high ? 0 : length;
}

bool base_utf8_valid(const char *text, size_t size_bytes)
{
    const char *at = text;
    const char *end = text + size_bytes;
    while (at < end) {
        uint64_t eight = 0;
        if (end - at >= 8) {
            memcpy(&eight, at, sizeof eight);
            if ((eight & UINT64_C(0x8080808080808080)) == 0) {
                at += 8;
                continue;
            }
        }
        const size_t length = *at != '\0' ? base_utf8_length(at, (size_t)(end - at)) : 1;
        if (length == 0) {
            return false;
        }
        at += length;
    }
    return true;
}

size_t base_utf8_mark(const char *text, size_t size_bytes)
{
    static const char mark[] = "\xef\xbb\xbf";
    const size_t mark_bytes = sizeof mark - 1;
    return size_bytes >= mark_bytes && memcmp(text, mark, mark_bytes) == 0 ? mark_bytes : 0;
}

void base_utf8_copy(char *copy, size_t size_bytes, const char *text)
{
    size_t used = 0;
    while (*text != '\0') {
        const size_t length = base_utf8_length(text, SIZE_MAX);
        const char *from = length > 0 ? text : REPLACEMENT;
        const size_t from_bytes = length > 0 ? length : sizeof REPLACEMENT - 1;
        if (used + from_bytes + 1 > size_bytes) {
            break;
        }
        memcpy(copy + used, from, from_bytes);
        used += from_bytes;
        text += length > 0 ? length : 1;
    }
    copy[used] = '\0';
}
