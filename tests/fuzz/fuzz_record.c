/* Any bytes are a line of a data file or refused; where the quick parser decides, it gives what jansson
 * gives. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "data/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static bool same(const rank_record_string *a, const rank_record_string *b)
{
    return (a->data == NULL) == (b->data == NULL) && a->bytes == b->bytes &&
           (a->data == NULL || memcmp(a->data, b->data, a->bytes) == 0);
}

static void check(const rank_record *record)
{
    const size_t text_bytes = rank_record_text_bytes(record);
    char *text = malloc(text_bytes + 1);
    BASE_ASSERT(text != NULL);
    BASE_ASSERT(text_bytes > 0);
    rank_record_text(record, text);
    BASE_ASSERT(text[text_bytes] == '\0');
    BASE_ASSERT(rank_record_asked_bytes(record) <= text_bytes);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    const char *line = (const char *)data;
    base_error error = {.message = ""};
    rank_record quick;
    rank_record slow;
    const bool decided = rank_record_read_quick(line, size_bytes, &quick);
    const base_status status = rank_record_read_slow(line, size_bytes, &slow, &error);
    BASE_ASSERT((status == BASE_OK) == (error.message[0] == '\0'));
    if (status == BASE_OK) {
        check(&slow);
    }
    if (decided) {
        BASE_ASSERT(status == BASE_OK);
        BASE_ASSERT(same(&quick.text, &slow.text));
        BASE_ASSERT(same(&quick.wrong, &slow.wrong));
        BASE_ASSERT(same(&quick.right, &slow.right));
        check(&quick);
    }
    rank_record_clear(&quick);
    rank_record_clear(&slow);
    return 0;
}
