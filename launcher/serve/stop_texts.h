/* Texts that end a completion. Found as the text comes, in pieces of any size: the result does not
 * depend on how it is cut. Pure; the caller locks. */
#ifndef LAUNCH_STOP_TEXTS_H
#define LAUNCH_STOP_TEXTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct json_t;

enum { LAUNCH_STOPS_MAX = 4, LAUNCH_STOP_BYTES_MAX = 128 };

typedef struct launch_stop_texts {
    int count;
    size_t bytes[LAUNCH_STOPS_MAX];
    char texts[LAUNCH_STOPS_MAX][LAUNCH_STOP_BYTES_MAX];
} launch_stop_texts;

/* Reads a text or a list of texts. BASE_ERR_INVALID: it is neither, or over a limit. An empty text or
 * list is none. */
BASE_MUST_CHECK base_status launch_stop_texts_read(const struct json_t *value,
                                                   launch_stop_texts *stops, base_error *reterr);

/* Looks for the stop that is whole first; of several that are whole at the same byte, the longest.
 * text: all that is not settled yet. True: *settled bytes stand before the stop, *end up to its end. False: no stop can
 * begin in the first *settled bytes any more; what follows comes again with the next piece. */
bool launch_stop_texts_find(const launch_stop_texts *stops, const char *text, size_t text_bytes,
                            size_t *settled, size_t *end);

#endif
