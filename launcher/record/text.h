/* A growing text, in which manifests, plots and pages are built before they are written.
 *
 * If memory runs out, `failed` is set, and all later calls do nothing. So the caller checks it
 * once, at the end. One thread. */
#ifndef LAUNCH_TEXT_H
#define LAUNCH_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct launch_text {
    char *data; /* NUL-terminated once something was put */
    size_t length_bytes;
    size_t capacity_bytes;
    bool failed;
} launch_text;

void launch_text_put(launch_text *text, const char *string);
void launch_text_printf(launch_text *text, const char *format, ...) BASE_PRINTF(2, 3);

/* Puts a string as HTML text or attribute value: & < > " ' are escaped. Control characters and
 * bytes that are not UTF-8 become U+FFFD. */
void launch_text_html(launch_text *text, const char *string);

/* Puts the argument as a POSIX shell needs it: unchanged if it is plain, else in '…'. */
void launch_text_shell(launch_text *text, const char *argument);

/* Puts a count with thin spaces between thousands, "470 528" (U+202F). */
void launch_text_count(launch_text *text, unsigned long long count);

/* Puts the value with that many decimals, or an en dash if the value is not finite. */
void launch_text_number(launch_text *text, double value, int decimals);

/* Writes the text to directory/name, completely or not at all. An error if memory had run out. */
BASE_MUST_CHECK base_status launch_text_save(const launch_text *text, const char *directory,
                                             const char *name, base_error *reterr);
void launch_text_fini(launch_text *text);

#endif
