/* Finds the texts that end a completion. Called by completion_body.c, and by events.c for each piece
 * of text. */
#include "serve/stop_texts.h"

#include <jansson.h>
#include <string.h>

static base_status add(const json_t *value, launch_stop_texts *stops, base_error *reterr)
{
    const size_t bytes = json_string_length(value);
    if (json_is_string(value) && bytes == 0) {
        return BASE_OK;
    }
    if (bytes == 0 || bytes > LAUNCH_STOP_BYTES_MAX || stops->count == LAUNCH_STOPS_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "stop: must be a text of at most %d bytes, or a list of at most %d",
                         LAUNCH_STOP_BYTES_MAX, LAUNCH_STOPS_MAX);
    }
    memcpy(stops->texts[stops->count], json_string_value(value), bytes);
    stops->bytes[stops->count++] = bytes;
    return BASE_OK;
}

base_status launch_stop_texts_read(const json_t *value, launch_stop_texts *stops,
                                   base_error *reterr)
{
    size_t index = 0;
    json_t *one = NULL;
    base_status status = BASE_OK;
    stops->count = 0;
    if (!json_is_array(value)) {
        return add(value, stops, reterr);
    }
    json_array_foreach(value, index, one)
    {
        status = status == BASE_OK ? add(one, stops, reterr) : status;
    }
    return status;
}

/* How many bytes the longest stop has that ends where `bytes` of the text do; 0: none does. */
static size_t ends_there(const launch_stop_texts *stops, const char *text, size_t bytes)
{
    size_t longest = 0;
    for (int i = 0; i < stops->count; i++) {
        const size_t stop = stops->bytes[i];
        if (stop > longest && stop <= bytes &&
            memcmp(text + bytes - stop, stops->texts[i], stop) == 0) {
            longest = stop;
        }
    }
    return longest;
}

/* Whether a stop begins with all of the text. */
static bool may_begin(const launch_stop_texts *stops, const char *text, size_t bytes)
{
    for (int i = 0; i < stops->count; i++) {
        if (bytes < stops->bytes[i] && memcmp(text, stops->texts[i], bytes) == 0) {
            return true;
        }
    }
    return false;
}

bool launch_stop_texts_find(const launch_stop_texts *stops, const char *text, size_t text_bytes,
                            size_t *settled, size_t *end)
{
    for (size_t at = 1; stops->count > 0 && at <= text_bytes; at++) {
        const size_t stop = ends_there(stops, text, at);
        if (stop > 0) {
            *settled = at - stop;
            *end = at;
            return true;
        }
    }
    size_t begin = text_bytes > LAUNCH_STOP_BYTES_MAX ? text_bytes - LAUNCH_STOP_BYTES_MAX : 0;
    while (begin < text_bytes && !may_begin(stops, text + begin, text_bytes - begin)) {
        begin++;
    }
    *settled = begin;
    return false;
}
