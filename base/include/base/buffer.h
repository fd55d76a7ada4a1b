/* A growing text, in which a whole file is built before it is written.
 *
 * If memory runs out, `failed` is set, and all later calls do nothing. So the caller checks it
 * once, at the end. One thread. */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct base_buffer {
    char *data; /* NUL-terminated once something was put */
    size_t length_bytes;
    size_t capacity_bytes;
    bool failed;
} base_buffer;

void base_buffer_put(base_buffer *text, const char *string);
void base_buffer_printf(base_buffer *text, const char *format, ...) BASE_PRINTF(2, 3);

/* Puts a string as HTML text or attribute value: & < > " ' are escaped. Control characters and
 * bytes that are not UTF-8 become U+FFFD. */
void base_buffer_html(base_buffer *text, const char *string);

/* Puts the argument as a POSIX shell needs it: unchanged if it is plain, else in '…'. */
void base_buffer_shell(base_buffer *text, const char *argument);

/* Puts a count with thin spaces between thousands, "470 528" (U+202F). */
void base_buffer_count(base_buffer *text, unsigned long long count);

/* Puts the value with that many decimals, or an en dash if the value is not finite. */
void base_buffer_number(base_buffer *text, double value, int decimals);

/* Writes the text to directory/name, completely or not at all. An error if memory had run out. */
BASE_MUST_CHECK base_status base_buffer_save(const base_buffer *text, const char *directory,
                                             const char *name, base_error *reterr);
void base_buffer_fini(base_buffer *text);

#endif
