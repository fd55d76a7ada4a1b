/* Any text is an answer with calls of tools or without; what is sent of it does not depend on how it is cut. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "serve/tools.h"

enum { ANSWER_BYTES_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

/* The calls of a text that comes in pieces of 1 to 8 bytes; *sent_bytes: of those that were sent before. */
static json_t *in_pieces(const json_t *list, const char *text, size_t bytes, size_t *sent_bytes)
{
    size_t begin = 0;
    size_t content_bytes = 0;
    for (size_t at = 0, piece = 1; at < bytes; piece = piece % 8 + 1) {
        at = bytes - at < piece ? bytes : at + piece;
        const size_t plain = launch_tools_plain(text + begin, at - begin, begin > 0);
        BASE_ASSERT(plain <= at - begin);
        begin += plain;
    }
    *sent_bytes = begin;
    return launch_tools_calls(list, text + begin, bytes - begin, begin > 0, 1, &content_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static json_t *list;
    char text[ANSWER_BYTES_MAX + 1];
    size_t content_bytes = 0;
    size_t sent_bytes = 0;
    const size_t bytes = size_bytes < ANSWER_BYTES_MAX ? size_bytes : ANSWER_BYTES_MAX;
    if (list == NULL) { /* it lasts as long as the program */
        list = json_loads("[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]", 0, NULL);
        BASE_ASSERT(list != NULL);
    }
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    for (size_t i = 0; i < bytes; i++) {
        text[i] = text[i] == '\0' ? ' ' : text[i]; /* no answer has one */
    }
    json_t *whole = launch_tools_calls(list, text, bytes, false, 1, &content_bytes);
    json_t *pieces = in_pieces(list, text, bytes, &sent_bytes);
    BASE_ASSERT((whole == NULL) == (pieces == NULL) &&
                (whole == NULL || json_equal(whole, pieces)));
    BASE_ASSERT(whole == NULL || (content_bytes <= bytes && json_array_size(whole) > 0));
    json_decref(whole);
    json_decref(pieces);
    return 0;
}
