/* Any bytes are a tokenizer.json or refused; what is read encodes and decodes texts within what it
 * promises. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "rank/tokenizer.h"

enum { IDS_MAX = 128, BACK_BYTES = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

/* Words, numbers, spaces, a special token, characters of several bytes, some of them not in normal
 * form, and bytes that are no UTF-8. */
static const char text[] = "It's  17 abab,\r\n\n aaab\tb \xc3\xa9\xe2\x82\xac<|endoftext|>"
                           "e\xcc\x81\xcc\xa3\xf0\x9d\x85\xa0\xff\xc3(";

static void use(rank_tokenizer *tokenizer)
{
    int32_t at[IDS_MAX];
    char back[BACK_BYTES];
    base_error error = {.message = ""};
    size_t prefix_count = 0;
    rank_ids ids = {.at = at, .capacity = IDS_MAX};
    const int vocab_size = rank_tokenizer_vocab_size(tokenizer);
    const int32_t *prefix = rank_tokenizer_prefix(tokenizer, &prefix_count);
    const base_status status =
        rank_tokenizer_encode(tokenizer, text, sizeof text - 1, &ids, &error);
    BASE_ASSERT(vocab_size > 0);
    BASE_ASSERT(rank_tokenizer_end_id(tokenizer) < vocab_size);
    for (size_t i = 0; i < prefix_count; i++) {
        BASE_ASSERT(prefix[i] >= 0 && prefix[i] < vocab_size);
    }
    if (status != BASE_OK) {
        BASE_ASSERT(error.message[0] != '\0');
        return;
    }
    for (size_t i = 0; i < ids.count; i++) {
        BASE_ASSERT(at[i] >= 0 && at[i] < vocab_size);
    }
    const size_t needed = rank_tokenizer_decode(tokenizer, at, ids.count, back, sizeof back);
    BASE_ASSERT(needed >= sizeof back || strlen(back) <= needed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    char path[64];
    rank_tokenizer *tokenizer = NULL;
    base_error error = {.message = ""};
    const int fd = memfd_create("tokenizer.json", MFD_CLOEXEC);
    BASE_ASSERT(fd >= 0);
    BASE_ASSERT(write(fd, data, size_bytes) == (ssize_t)size_bytes);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const base_status status = rank_tokenizer_load(path, &tokenizer, &error);
    BASE_ASSERT((status == BASE_OK) == (tokenizer != NULL));
    BASE_ASSERT(status == BASE_OK || error.message[0] != '\0');
    if (tokenizer != NULL) {
        use(tokenizer);
        rank_tokenizer_allow_special(tokenizer);
        use(tokenizer);
    }
    rank_tokenizer_destroy(tokenizer);
    (void)close(fd);
    return 0;
}
