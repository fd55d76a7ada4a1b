/* Any text is a chat template of a form that is known, or of none; what is known of it is a text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "data/chat_form.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    rank_chat_habits habits;
    char *text =
        malloc(size_bytes + 1); /* of its size, so that a sanitizer sees what is read behind it */
    BASE_ASSERT(text != NULL);
    if (size_bytes > 0) {
        memcpy(text, data, size_bytes);
    }
    text[size_bytes] = '\0';
    if (rank_chat_form_find(text, &habits) != NULL) {
        BASE_ASSERT(strnlen(habits.system, sizeof habits.system) < sizeof habits.system);
        BASE_ASSERT(strnlen(habits.preamble, sizeof habits.preamble) < sizeof habits.preamble);
        BASE_ASSERT(habits.adds_system || habits.system[0] == '\0');
    }
    free(text);
    return 0;
}
